"""Where the figures of each epoch go."""

import os
import socket
import sys
import types

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from neurocontrast.exceptions import ConfigError, MissingDependencyError
from neurocontrast.training.loggers import check_loggers, open_loggers

ROWS = [{"epoch": number, "train_loss": 1 / number, "val_loss": None, "probe_Größe_r2": 0.1} for number in (1, 2, 3)]
FACTS = {"seed": 3, "training": {"epochs": 3}}


class Told:
    """A progress that remembers."""

    def __init__(self):
        self.warnings = []

    def warning(self, text):
        self.warnings.append(text)


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


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_package_that_is_not_installed_is_told_with_the_line_that_installs_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=rf"pip install 'neurocontrast\[{name}\]'"):
        check_loggers(("csv", name))


@pytest.fixture
def mlflow(monkeypatch):
    """What is used of MLflow, remembered; the real one was tried by hand."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    module = types.ModuleType("mlflow")
    module.calls = []

    class Client:
        def __init__(self, tracking_uri=None):
            module.calls.append(("client", tracking_uri))

        def get_experiment_by_name(self, name):
            return None

        def create_experiment(self, name, artifact_location=None):
            module.calls.append(("experiment", name, artifact_location))
            return "1"

        def create_run(self, experiment_id, run_name=None):
            return types.SimpleNamespace(info=types.SimpleNamespace(run_id="abc"))

        def __getattr__(self, name):
            return lambda *given, **options: module.calls.append((name, given, options))

    module.MlflowClient = Client
    module.entities = types.SimpleNamespace(Metric=lambda *of: of, Param=lambda *of: of)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return module


def test_mlflow_is_kept_below_the_run_and_continued(tmp_path, mlflow):
    _log(("mlflow",), tmp_path, ROWS[:2], facts=FACTS)
    _log(("mlflow",), tmp_path, ROWS[2:], facts=FACTS, history=ROWS[:2])
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    places = [call[1] for call in mlflow.calls if call[0] == "client"]
    assert places == [f"sqlite:///{tmp_path}/mlflow/mlflow.db"] * 2
    assert ("experiment", "neurocontrast", (tmp_path / "mlflow" / "artifacts").as_uri()) in mlflow.calls
    batches = [call for call in mlflow.calls if call[0] == "log_batch"]
    assert {call[1] for call in batches} == {("abc",)}
    assert batches[0][2]["params"] == [("seed", "3"), ("training.epochs", "3")]
    logged = [[(name, value, step) for name, value, _, step in call[2]["metrics"]] for call in batches[1:]]
    assert logged == [[("train_loss", 1 / step, step), ("probe_Gr__e_r2", 0.1, step)] for step in (1, 2, 3)]
    assert mlflow.calls[-1] == ("set_terminated", ("abc", "FINISHED"), {})


def test_mlflow_s_own_environment_decides_where_it_logs(tmp_path, mlflow, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://mlflow.hospital.example")
    _log(("mlflow",), tmp_path)
    assert mlflow.calls[0] == ("client", None)


@pytest.fixture
def wandb(monkeypatch):
    """What is used of Weights & Biases, remembered; the real one was tried by hand."""
    monkeypatch.delenv("WANDB_MODE", raising=False)
    module = types.ModuleType("wandb")
    module.begun, module.logged, module.ended = [], [], []

    class Run:
        def log(self, figures, *, step):
            module.logged.append((step, figures))

        def finish(self, *, exit_code):
            module.ended.append(exit_code)

    def init(**options):
        module.begun.append(options)
        return Run()

    module.init, module.Settings = init, lambda **options: options
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_weights_and_biases_is_offline_below_the_run_and_continued(tmp_path, wandb):
    _log(("wandb",), tmp_path, ROWS[:2], facts=FACTS)
    _log(("wandb",), tmp_path, ROWS[2:], facts=FACTS, history=ROWS[:2])
    first, second = wandb.begun
    assert (first["mode"], first["dir"]) == ("offline", str(tmp_path))
    assert first["config"] == {"seed": 3, "training.epochs": 3}
    assert first["id"] == second["id"]
    assert first["settings"]["x_disable_meta"]
    assert [step for step, _ in wandb.logged] == [1, 2, 3]
    assert wandb.logged[0][1] == {"train_loss": 1.0, "probe_Größe_r2": 0.1}
    assert wandb.ended == [0, 0]


def test_a_logger_that_fails_is_left_out_and_training_goes_on(tmp_path, wandb, monkeypatch):
    told = Told()
    monkeypatch.setattr(wandb, "init", lambda **_: types.SimpleNamespace(log=lambda *_, **__: 1 / 0))
    _log(("wandb", "csv"), tmp_path, progress=told)
    (warning,) = told.warnings
    assert "wandb failed in epoch 1 (division by zero)" in warning
    assert len((tmp_path / "metrics.csv").read_text().splitlines()) == 4


def test_a_logger_that_cannot_begin_is_refused_by_name(tmp_path, wandb, monkeypatch):
    def refuse(**_):
        raise OSError("no route to host")

    monkeypatch.setattr(wandb, "init", refuse)
    with pytest.raises(ConfigError, match=r"training\.loggers: 'wandb' cannot begin \(OSError: no route to host\)"):
        _log(("wandb",), tmp_path)


def test_an_interrupted_run_is_closed_as_such(tmp_path, wandb, mlflow):
    with pytest.raises(KeyboardInterrupt), open_loggers(("wandb", "mlflow"), tmp_path):
        raise KeyboardInterrupt
    assert wandb.ended == [1]
    assert mlflow.calls[-1] == ("set_terminated", ("abc", "KILLED"), {})
