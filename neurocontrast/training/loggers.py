"""Where the figures of each epoch are kept: CSV and TensorBoard, and on request MLflow and Weights & Biases.

None of them reaches the network by itself: MLflow and Weights & Biases write below the run
directory unless the user's own environment names a server.
"""

from __future__ import annotations

import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neurocontrast.exceptions import ConfigError, NeurocontrastError
from neurocontrast.files import write_text
from neurocontrast.lazy import require
from neurocontrast.progress import SILENT, Progress
from neurocontrast.training.metrics import write_metrics

__all__ = ["Logger", "check_loggers", "open_loggers"]

Row = Mapping[str, Any]

_EXTRAS = ("mlflow", "wandb")
_PROJECT = "neurocontrast"


class Logger(ABC):
    """One place where epochs are kept."""

    @abstractmethod
    def log(self, row: Row) -> None:
        """Keep the figures of the epoch ``row["epoch"]``; None is what was not measured."""

    def close(self, *, finished: bool) -> None:
        """Write what is left; `finished` says whether the run came to its end."""
        del finished


def check_loggers(names: Sequence[str]) -> None:
    """Import what the loggers need, so that a missing package is an error before any work."""
    for name in names:
        if name in _EXTRAS:
            _import(name)


@contextmanager
def open_loggers(
    names: Sequence[str],
    folder: Path,
    *,
    history: Sequence[Row] = (),
    facts: Mapping[str, Any] | None = None,
    progress: Progress = SILENT,
) -> Iterator[Callable[[Row], None]]:
    """Open loggers in a run directory, and give the function that passes an epoch's figures to all of them.

    `history` are the epochs of a run that is continued: what was logged after them is taken back where that is
    possible. `facts` are for MLflow's parameters and Weights & Biases' configuration. Where one of these two fails,
    training goes on without it.
    """
    loggers = {name: _open(name, folder, history, facts or {}) for name in dict.fromkeys(names)}
    finished = False

    def log(row: Row) -> None:
        for name, logger in list(loggers.items()):
            try:
                logger.log(row)
            except Exception as error:
                if name not in _EXTRAS:
                    raise
                del loggers[name]
                progress.warning(
                    f"{name} failed in epoch {row['epoch']} ({error}); it is told no more of this run, and training "
                    "goes on."
                )

    try:
        yield log
        finished = True
    finally:
        for name, logger in loggers.items():
            try:
                logger.close(finished=finished)
            except Exception as error:
                progress.warning(f"{name} could not be closed ({error}).")


def _open(name: str, folder: Path, history: Sequence[Row], facts: Mapping[str, Any]) -> Logger:
    if name == "csv":
        return _Csv(folder / "metrics.csv", history)
    if name == "tensorboard":
        return _EventFile(folder / "tensorboard", history)
    module = _import(name)
    try:
        return _Mlflow(module, folder, facts) if name == "mlflow" else _WandB(module, folder, facts)
    except NeurocontrastError:
        raise
    except Exception as error:
        raise ConfigError(
            f"training.loggers: '{name}' cannot begin ({type(error).__name__}: {error}). Does the environment name a "
            "server that is not there? Leave it out to train without it."
        ) from error


def _import(name: str) -> Any:
    # Both packages send usage or errors home unless told not to; what the user has set stays.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    return require(name, extra=name, purpose=f"training.loggers: '{name}'")


class _Csv(Logger):
    """``metrics.csv``, whole after every epoch."""

    def __init__(self, path: Path, history: Sequence[Row]) -> None:
        self._path, self._rows = path, list(history)
        write_metrics(path, self._rows)

    def log(self, row: Row) -> None:
        self._rows.append(row)
        write_metrics(self._path, self._rows)


class _EventFile(Logger):
    """TensorBoard's scalars, without ``SummaryWriter``, which puts the host's name into the file's: runs travel."""

    def __init__(self, folder: Path, history: Sequence[Row]) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._events, self._summaries = event_pb2, summary_pb2
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{time.time_ns() // 10**9:010d}.{time.time_ns() % 10**9:09d}"
        self._stream = open(path, "xb")  # noqa: SIM115  open for as long as the run
        self._records = RecordWriter(self._stream)
        self._write(file_version="brain.Event:2")
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        # Readers drop what an earlier, killed process logged from this epoch on. The last one is written again: that
        # process may have ended between its checkpoint and its figures.
        last = history[-1:]
        self._write(step=len(history) + 1 - len(last), session_log=start)
        for row in last:
            self.log(row)

    def log(self, row: Row) -> None:
        value = self._summaries.Summary.Value
        values = [value(tag=name, simple_value=figure) for name, figure in _figures(row).items()]
        self._write(step=int(row["epoch"]), summary=self._summaries.Summary(value=values))

    def close(self, *, finished: bool) -> None:
        del finished
        self._stream.close()

    def _write(self, **content: Any) -> None:
        self._records.write(self._events.Event(wall_time=time.time(), **content).SerializeToString())
        self._stream.flush()


class _Mlflow(Logger):
    """One MLflow run, below the run directory unless ``MLFLOW_TRACKING_URI`` names a place."""

    def __init__(self, module: Any, folder: Path, facts: Mapping[str, Any]) -> None:
        own = folder.absolute() / "mlflow"
        # MLflow takes None for what the environment says.
        place = None if os.environ.get("MLFLOW_TRACKING_URI") else f"sqlite:///{own / 'mlflow.db'}"
        own.mkdir(parents=True, exist_ok=True)
        self._metric = module.entities.Metric
        self._client = module.MlflowClient(tracking_uri=place)
        noted = own / "run.txt"
        if noted.is_file():
            self._run = noted.read_text(encoding="utf-8").strip()
            self._client.update_run(self._run, status="RUNNING")
            return
        experiment = self._client.get_experiment_by_name(_PROJECT)
        artefacts = None if place is None else (own / "artifacts").as_uri()
        known = experiment.experiment_id if experiment else self._client.create_experiment(_PROJECT, artefacts)
        self._run = self._client.create_run(known, run_name=folder.resolve().name).info.run_id
        write_text(noted, self._run + "\n")
        parameters = [module.entities.Param(_plain(name), str(value)) for name, value in _flat(facts).items()]
        self._client.log_batch(self._run, params=parameters)

    def log(self, row: Row) -> None:
        now, step = int(time.time() * 1000), int(row["epoch"])
        metrics = [self._metric(_plain(name), figure, now, step) for name, figure in _figures(row).items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self, *, finished: bool) -> None:
        self._client.set_terminated(self._run, "FINISHED" if finished else "KILLED")


class _WandB(Logger):
    """One Weights & Biases run, offline and below the run directory unless ``WANDB_MODE`` says otherwise."""

    def __init__(self, module: Any, folder: Path, facts: Mapping[str, Any]) -> None:
        noted = folder / "wandb" / "run.txt"
        again = noted.is_file()
        identifier = noted.read_text(encoding="utf-8").strip() if again else os.urandom(6).hex()
        mode = os.environ.get("WANDB_MODE", "offline")
        self._run = module.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            name=folder.resolve().name,
            id=identifier,
            resume="allow" if mode == "online" else None,
            dir=str(folder),
            mode=mode,
            config=_flat(facts),
            # Figures and configuration only: no host, user, code, console or hardware.
            settings=module.Settings(
                x_disable_meta=True,
                x_disable_stats=True,
                disable_git=True,
                disable_code=True,
                console="off",
                silent=True,
                host="withheld",
                username="withheld",
            ),
        )
        write_text(noted, identifier + "\n")

    def log(self, row: Row) -> None:
        self._run.log(_figures(row), step=int(row["epoch"]))

    def close(self, *, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)


def _figures(row: Row) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if name != "epoch" and value is not None}


def _plain(name: str) -> str:
    return re.sub(r"[^\w./ -]", "_", name, flags=re.ASCII)[:250]


def _flat(facts: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
