"""Run a stage in several processes of this machine by PyTorch's launcher, and relay what the first of them reports.

The processes are fresh interpreters (`neurocontrast.stages.process`) that torchrun's agent starts and ends. Two named
pipes in a temporary folder join them to this process: ``told``, lines of JSON from them, and ``alive``, whose end they
take for the end of this process.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from neurocontrast import exceptions
from neurocontrast.exceptions import NeurocontrastError, TrainingError, TrainingSuspended
from neurocontrast.progress import Progress, Task

__all__ = ["run_in_processes"]

_SECONDS_TO_SAVE = 24 * 60 * 60
"""How long processes that were signalled may take to finish their batch; a scheduler's patience is shorter."""

Report = dict[str, Any]


def run_in_processes(stage: str, arguments: Mapping[str, Any], *, n_processes: int, progress: Progress) -> None:
    """Run a stage in several processes; each finds the others by `neurocontrast.training.launch`.

    A signal to this process goes to all of them; when one of them fails, the others end.

    Parameters
    ----------
    stage : str
        Name of a function of `neurocontrast.stages`.
    arguments : mapping
        Its arguments, JSON-ready, without `progress`.
    n_processes : int
        How many.
    progress : Progress
        Told what the first process reports, from a thread.

    Raises
    ------
    NeurocontrastError
        What the first process to fail has raised.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    failed, stopped_by = {}, None
    with tempfile.TemporaryDirectory(prefix="neurocontrast-") as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps({"stage": stage, "arguments": arguments}, default=str))
        stack.enter_context(_open_pipe(folder / "alive"))
        relay = stack.enter_context(_Relay(folder / "told", progress))
        stack.enter_context(_quiet_launcher())
        try:
            elastic_launch(_launcher(n_processes, folder), sys.executable)("-m", "neurocontrast.stages.process", name)
        except ChildFailedError as error:
            failed = {rank: failure.exitcode for rank, failure in error.failures.items()}
            first = error.get_first_failure()[0]
            failed = {first: failed.pop(first), **failed}
        except SignalException as error:
            stopped_by = error.sigval
    _raise_failure(relay, failed, stopped_by, n_processes)


def _launcher(n_processes: int, folder: Path) -> Any:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig

    # SIGUSR1 only where the caller has a use for it, as pretraining has; elsewhere it ends this process.
    suspends = signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=n_processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="127.0.0.1",
        max_restarts=0,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder)),
        signals_to_handle="SIGINT,SIGTERM,SIGUSR1" if suspends else "SIGINT,SIGTERM",
        shutdown_timeout=_SECONDS_TO_SAVE,
    )


@contextlib.contextmanager
def _open_pipe(path: Path) -> Iterator[int]:
    os.mkfifo(path, 0o600)
    pipe = os.open(path, os.O_RDWR)  # for both: opening waits for nobody
    try:
        yield pipe
    finally:
        os.close(pipe)


@contextlib.contextmanager
def _quiet_launcher() -> Iterator[None]:
    """Keep what the launcher logs of failures to itself, and put back what it changes in this process."""
    logger, silent = logging.getLogger("torch.distributed.elastic"), logging.NullHandler()
    propagates, variable = logger.propagate, "TORCHELASTIC_SIGNALS_TO_HANDLE"
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    handlers, environment = [signal.getsignal(number) for number in numbers], os.environ.get(variable)
    logger.addHandler(silent)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(silent)
        logger.propagate = propagates
        os.environ.pop(variable, None)
        if environment is not None:
            os.environ[variable] = environment
        if threading.current_thread() is threading.main_thread():
            for number, handler in zip(numbers, handlers, strict=True):
                signal.signal(number, handler)


class _Relay:
    """Reports of the processes, passed to the caller's progress: the first's work, and everybody's failure."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self.errors: dict[int, Report] = {}
        self.failure: Exception | None = None
        self._path, self._progress = path, progress
        self._tasks: dict[int, tuple[ExitStack, Task]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> _Relay:
        self._pipe = self._stack.enter_context(_open_pipe(self._path))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._pipe, b'\n{"kind": "end"}\n')
        self._thread.join()
        self._stack.close()

    def _listen(self) -> None:
        with open(self._pipe, encoding="utf-8", closefd=False) as reports:
            for line in reports:
                with contextlib.suppress(json.JSONDecodeError):  # a process that is killed may leave half a line
                    report = json.loads(line)
                    if report["kind"] == "end":
                        break
                    try:
                        self.receive(report)
                    except Exception as error:  # the caller's own progress fails: the pipe must be read all the same
                        self.failure = self.failure or error
        for number in list(self._tasks):
            self._close(number)

    def receive(self, report: Report) -> None:
        content = dict(report)
        kind = content.pop("kind")
        if kind == "error":
            self.errors[content.pop("rank")] = content
        elif kind == "open":
            number, stack = content.pop("number"), ExitStack()
            self._tasks[number] = stack, stack.enter_context(self._progress.task(**content))
        elif kind == "advance":
            self._tasks[content["number"]][1].advance(content["n"], **content["shown"])
        elif kind == "close":
            self._close(content["number"])
        elif kind == "warning":
            self._progress.warning(content["text"])
        else:
            self._progress.message(content["text"])

    def _close(self, number: int) -> None:
        self._tasks.pop(number)[0].close()


def _raise_failure(
    relay: _Relay, failed: Mapping[int, int], stopped_by: signal.Signals | None, n_processes: int
) -> None:
    """Raise the one error that says why: a cause before what it caused in the other processes."""
    reports = [relay.errors[rank] for rank in sorted(relay.errors)]
    causes = [report for report in reports if report["name"] not in ("OtherProcessEnded", "KeyboardInterrupt")]
    if causes:
        raise _error_of(causes[0])
    if relay.failure is not None:
        raise relay.failure
    if stopped_by == signal.SIGUSR1 or -signal.SIGUSR1 in failed.values():  # before it could be taken over
        raise TrainingSuspended("stopped by SIGUSR1 with nothing to save; the same command with --resume goes on.")
    if stopped_by is not None:
        raise KeyboardInterrupt
    for rank, code in failed.items():
        if rank not in relay.errors:
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            raise TrainingError(
                f"process {rank} of this run's {n_processes} was ended {how}, perhaps for lack of memory, and the "
                "others with it. The last checkpoint, if there is one, stands: continue with --resume."
            )
    if reports:
        raise _error_of(reports[0])


def _error_of(report: Report) -> BaseException:
    name, text = report["name"], report["text"]
    if name == "KeyboardInterrupt":
        return KeyboardInterrupt()
    if name == "MemoryError":
        return MemoryError()
    if report["errno"] is not None:
        return OSError(report["errno"], text, report["filename"])
    if report["exit_code"] is None:
        return RuntimeError(f"{name}: {text}")
    known = getattr(exceptions, name, NeurocontrastError)
    error: NeurocontrastError = known(text)
    error.exit_code = report["exit_code"]
    return error
