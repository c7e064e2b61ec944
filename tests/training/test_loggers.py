"""Where the figures of each epoch go."""

import socket

import pytest
from lightning_fabric.loggers import Logger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny import run

from neurocontrast.training.loggers import open_loggers

ROWS = [{"epoch": number, "train_loss": 1 / number, "val_loss": None, "probe_Größe_r2": 0.1} for number in (1, 2, 3)]
FACTS = {"seed": 3, "training": {"epochs": 3}}


def _log(names, folder, rows=ROWS, **options):
    with open_loggers(names, folder, **options) as log:
        for row in rows:
            log(row)


def _scalars(folder, tag):
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {each.step: each.value for each in events.Scalars(tag)}


def test_the_defaults_write_a_table_and_tensorboard(tmp_path):
    _log(("csv", "tensorboard"), tmp_path)
    assert (tmp_path / "metrics.csv").read_text().splitlines()[0] == "epoch,train_loss,val_loss,probe_Größe_r2"
    assert _scalars(tmp_path, "train_loss") == pytest.approx({1: 1, 2: 0.5, 3: 1 / 3})
    assert _scalars(tmp_path, "probe_Größe_r2")[3] == pytest.approx(0.1)


def test_event_files_name_no_host(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "radiology-7")
    _log(("tensorboard",), tmp_path)
    (file,) = (tmp_path / "tensorboard").iterdir()
    assert "radiology-7" not in file.name
    assert b"radiology-7" not in file.read_bytes()


def test_a_continued_run_replaces_the_epochs_after_its_checkpoint(tmp_path):
    _log(("csv", "tensorboard"), tmp_path)
    again = [{"epoch": 3, "train_loss": 9.0}]
    _log(("csv", "tensorboard"), tmp_path, again, history=ROWS[:2])
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2
    assert _scalars(tmp_path, "train_loss") == pytest.approx({1: 1, 2: 0.5, 3: 9})
    assert [line.split(",")[1] for line in (tmp_path / "metrics.csv").read_text().splitlines()[1:]] == [
        "1.0",
        "0.5",
        "9.0",
    ]


def test_an_epoch_whose_figures_a_kill_has_cut_off_after_its_checkpoint_is_told_by_the_next_process(tmp_path):
    _log(("tensorboard",), tmp_path, ROWS[:1])
    _log(("tensorboard",), tmp_path, ROWS[2:], history=ROWS[:2])
    assert _scalars(tmp_path, "train_loss") == pytest.approx({1: 1, 2: 0.5, 3: 1 / 3})


def test_no_logger_writes_nothing(tmp_path):
    _log((), tmp_path)
    assert not list(tmp_path.iterdir())


class Own(Logger):
    """A logger of a user's, with Fabric's interface."""

    name, version = "own", 0

    def __init__(self):
        self.calls = []

    def log_hyperparams(self, params):
        self.calls.append(params)

    def log_metrics(self, metrics, step):
        self.calls.append((step, metrics))

    def finalize(self, status):
        self.calls.append(status)


def test_a_logger_of_the_user_s_gets_the_facts_the_figures_and_the_end(tmp_path):
    own = Own()
    _log(("csv",), tmp_path, ROWS[2:], facts=FACTS, history=ROWS[:2], own=[own])
    assert own.calls == [FACTS, (3, {"train_loss": 1 / 3, "probe_Größe_r2": 0.1}), "success"]


def test_a_logger_of_the_user_s_is_told_of_an_interruption(tmp_path):
    own = Own()
    with pytest.raises(KeyboardInterrupt), open_loggers((), tmp_path, own=[own]):
        raise KeyboardInterrupt
    assert own.calls == [{}, "failed"]


def test_a_run_logs_its_epochs_to_the_user_s_loggers(tmp_path):
    own = Own()
    _, result = run(tmp_path, loggers=[], own=[own], epochs=2)
    assert [step for step, _ in own.calls[1:-1]] == [1, 2]
    assert own.calls[1][1]["train_loss"] == result.metrics[0]["train_loss"]
    assert not (tmp_path / "metrics.csv").exists()
