"""Where the figures of each epoch go."""

import pytest
from lightning_fabric.loggers import Logger
from tiny import run

from neurocontrast.training.loop import open_loggers

ROWS = [{"epoch": number, "train_loss": 1 / number, "val_loss": None, "probe_Größe_r2": 0.1} for number in (1, 2, 3)]
FACTS = {"seed": 3, "training": {"epochs": 3}}


def _log(folder, rows=ROWS, loggers=(), **options):
    with open_loggers(folder, loggers, **options) as log:
        for row in rows:
            log(row)


def test_a_continued_run_replaces_the_epochs_after_its_checkpoint(tmp_path):
    _log(tmp_path)
    _log(tmp_path, [{"epoch": 3, "train_loss": 9.0}], history=ROWS[:2])
    first, *rows = (tmp_path / "metrics.csv").read_text().splitlines()
    assert first == "epoch,train_loss,val_loss,probe_Größe_r2"
    assert [line.split(",")[1] for line in rows] == ["1.0", "0.5", "9.0"]


def test_a_process_that_is_not_the_first_writes_and_tells_nothing(tmp_path):
    own = Own()
    _log(None, loggers=[own])
    assert not own.calls


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
    _log(tmp_path, ROWS[2:], [own], facts=FACTS, history=ROWS[:2])
    assert own.calls == [FACTS, (3, {"train_loss": 1 / 3, "probe_Größe_r2": 0.1}), "success"]


def test_a_logger_of_the_user_s_is_told_of_an_interruption(tmp_path):
    own = Own()
    with pytest.raises(KeyboardInterrupt), open_loggers(tmp_path, [own]):
        raise KeyboardInterrupt
    assert own.calls == [{}, "failed"]


def test_a_run_logs_its_epochs_to_the_user_s_loggers(tmp_path):
    own = Own()
    _, result = run(tmp_path, own=[own], epochs=2)
    assert [step for step, _ in own.calls[1:-1]] == [1, 2]
    assert own.calls[1][1]["train_loss"] == result.metrics[0]["train_loss"]
