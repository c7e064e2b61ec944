"""A stage in several processes of this machine: start them, share the work, and report once.

PyTorch's launcher starts and ends the processes, which are fresh interpreters (``python -m
neurocontrast.stages.processes FOLDER``). ``job.json`` in the folder says what to do. The first process writes its
progress to the named pipe ``progress`` there, as JSON lines; a process that fails leaves ``error-RANK.json``.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

from neurocontrast import exceptions
from neurocontrast.collectives import Processes
from neurocontrast.exceptions import NeurocontrastError, OtherProcessEnded, TrainingError, TrainingSuspended
from neurocontrast.machine import usable_accelerator
from neurocontrast.progress import SILENT, Progress, Task
from neurocontrast.training.launched import launched

__all__ = ["after_first", "is_run_elsewhere", "sharing", "speaking_once"]

_SECONDS_TO_SAVE = 24 * 60 * 60
"""How long processes that were signalled may take to finish their batch; a scheduler's patience is shorter."""
_LOST = (
    "another process of this run has ended, and this one cannot go on alone. If it has not said why, it was killed, "
    "perhaps for lack of memory. The last checkpoint, if there is one, stands: continue with --resume."
)

Made = TypeVar("Made")
Errors = dict[int, dict[str, Any]]
"""What each failed process wrote of its error, by its number."""


def is_run_elsewhere(stage: str, arguments: Mapping[str, Any], *, n_processes: int, progress: Progress) -> bool:
    """Run a stage in processes of their own where that is asked for and not done yet; say whether it was run.

    `stage` is the name of a function of `neurocontrast.stages`; `arguments` are JSON-ready, without `progress`. A
    signal to this process goes to all of them. What the first process to fail has raised is raised here.
    """
    if n_processes == 1 or launched().by is not None:
        return False
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    failed, stopped_by = {}, None
    with tempfile.TemporaryDirectory(prefix="neurocontrast-") as name:
        folder = Path(name)
        job = {"stage": stage, "arguments": arguments, "launcher": os.getpid()}
        (folder / "job.json").write_text(json.dumps(job, default=str))
        with _relayed(folder / "progress", progress) as failures, _quiet_launcher():
            try:
                elastic_launch(_launcher(n_processes, folder), sys.executable)("-m", __name__, name)
            except ChildFailedError as error:
                failed = {rank: failure.exitcode for rank, failure in error.failures.items()}
                first = error.get_first_failure()[0]
                failed = {first: failed.pop(first), **failed}
            except SignalException as error:
                stopped_by = error.sigval
        written = sorted(folder.glob("error-*.json"))
        errors = {int(path.stem.removeprefix("error-")): json.loads(path.read_text()) for path in written}
    _raise_failure(errors, failures, failed, stopped_by, n_processes)
    return True


@contextmanager
def sharing(accelerator: str, *, section: str) -> Iterator[tuple[torch.device, Processes]]:
    """Join the other processes of this stage, if there are any; give this one's device, and all processes."""
    if launched().n_processes == 1:
        yield torch.device(usable_accelerator(accelerator, section=section)), Processes()
        return
    from neurocontrast.training.distributed import launch_sharing, leave

    device, processes = launch_sharing(accelerator, section=section)
    with speaking_once(processes):
        yield device, processes
        leave(processes)


@contextmanager
def speaking_once(processes: Processes) -> Iterator[None]:
    """Leave it to the first process to report an error of all; report a lost connection as another process's end."""
    from neurocontrast.training.distributed import is_lost_connection

    try:
        yield
    except RuntimeError as error:
        if processes.size == 1 or not is_lost_connection(error):
            raise
        raise OtherProcessEnded(_LOST) from error
    except TrainingError as error:
        if processes.is_first:
            raise
        raise OtherProcessEnded(str(error), error.exit_code) from error


def after_first(
    processes: Processes, first: Callable[[], tuple[Made, Any]], follow: Callable[[Any], Made] | None = None
) -> Made:
    """Make something in the first process, which checks and caches, and when that has gone well in the others.

    `first` returns what is made, and what the others must know, JSON-ready. Given that, `follow` makes the same in the
    others; by default they call `first`.
    """
    if not processes.is_first:
        received = processes.from_first(None)
        if "exit_code" in received:
            raise OtherProcessEnded("the first process of this run has ended, and says why.", received["exit_code"])
        return first()[0] if follow is None else follow(received["known"])
    try:
        made, known = first()
    except NeurocontrastError as error:
        processes.from_first({"exit_code": error.exit_code})
        raise
    processes.from_first({"known": known})
    return made


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


@contextmanager
def _quiet_launcher() -> Iterator[None]:
    """Keep what the launcher logs of failures to itself, and put back what it changes in this process."""
    logger, silent = logging.getLogger("torch.distributed.elastic"), logging.NullHandler()
    propagates, variable = logger.propagate, "TORCHELASTIC_SIGNALS_TO_HANDLE"
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    environment = os.environ.get(variable)
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
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextmanager
def _relayed(path: Path, progress: Progress) -> Iterator[list[Exception]]:
    """Pass what is written to a pipe to the caller's progress, from a thread; give the errors of that progress."""
    failures: list[Exception] = []
    os.mkfifo(path, 0o600)
    pipe = os.open(path, os.O_RDWR)  # for both: opening waits for nobody
    thread = threading.Thread(target=_listen, args=(pipe, progress, failures), daemon=True)
    thread.start()
    try:
        yield failures
    finally:
        os.write(pipe, b"\nend\n")
        thread.join()
        os.close(pipe)


def _listen(pipe: int, progress: Progress, failures: list[Exception]) -> None:
    tasks: dict[int, tuple[ExitStack, Task]] = {}
    with open(pipe, encoding="utf-8", closefd=False) as lines, ExitStack() as unfinished:
        for line in itertools.takewhile(lambda line: line != "end\n", lines):
            try:
                kind, *content = json.loads(line)
                if kind == "open":
                    stack = unfinished.enter_context(ExitStack())
                    tasks[content[0]] = stack, stack.enter_context(progress.task(*content[1:]))
                elif kind == "advance":
                    tasks[content[0]][1].advance(content[1], **content[2])
                elif kind == "close":
                    tasks.pop(content[0])[0].close()
                else:
                    getattr(progress, kind)(content[0])
            except json.JSONDecodeError:  # a process that is killed may leave half a line
                continue
            except Exception as error:  # the caller's own progress fails: the pipe must be read all the same
                failures.append(error)


def _raise_failure(
    errors: Errors,
    failures: list[Exception],
    failed: Mapping[int, int],
    stopped_by: signal.Signals | None,
    n_processes: int,
) -> None:
    """Raise the one error that says why: a cause before what it caused in the other processes."""
    reports = [errors[rank] for rank in sorted(errors)]
    causes = [report for report in reports if report["name"] not in ("OtherProcessEnded", "KeyboardInterrupt")]
    if causes:
        raise _error_of(causes[0])
    if failures:
        raise failures[0]
    if stopped_by == signal.SIGUSR1 or -signal.SIGUSR1 in failed.values():  # before it could be taken over
        raise TrainingSuspended("stopped by SIGUSR1 with nothing to save; the same command with --resume goes on.")
    if stopped_by is not None:
        raise KeyboardInterrupt
    for rank, code in failed.items():
        if rank not in errors:
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            raise TrainingError(
                f"process {rank} of this run's {n_processes} was ended {how}, perhaps for lack of memory, and the "
                "others with it. The last checkpoint, if there is one, stands: continue with --resume."
            )
    if reports:
        raise _error_of(reports[0])


def _error_of(report: dict[str, Any]) -> BaseException:
    name, text = report["name"], report["text"]
    if name in ("KeyboardInterrupt", "MemoryError"):
        return KeyboardInterrupt() if name == "KeyboardInterrupt" else MemoryError()
    if report["errno"] is not None:
        return OSError(report["errno"], text, report["filename"])
    if report["exit_code"] is None:
        return RuntimeError(f"{name}: {text}")
    error: NeurocontrastError = getattr(exceptions, name, NeurocontrastError)(text)
    error.exit_code = report["exit_code"]
    return error


class _Reporter:
    """A progress that writes to the pipe of the process that had this one started."""

    def __init__(self, path: Path) -> None:
        self._pipe = os.open(path, os.O_WRONLY)
        self._numbers = itertools.count()

    def write(self, *content: Any) -> None:
        line = memoryview((json.dumps(content, default=str) + "\n").encode())
        while line:
            line = line[os.write(self._pipe, line) :]

    @contextmanager
    def task(self, description: str, total: int | None, unit: str) -> Iterator[Task]:
        task = _ReporterTask(self, next(self._numbers))
        self.write("open", task.number, description, total, unit)
        try:
            yield task
        finally:
            self.write("close", task.number)

    def message(self, text: str) -> None:
        self.write("message", text)

    def warning(self, text: str) -> None:
        self.write("warning", text)


class _ReporterTask:
    def __init__(self, reporter: _Reporter, number: int) -> None:
        self._reporter, self.number = reporter, number

    def advance(self, n: int = 1, **shown: float | str) -> None:
        self._reporter.write("advance", self.number, n, shown)


def _main(folder: Path) -> int:
    """Run a stage as one of several processes, and return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.dup2(2, 1)  # standard output is the caller's: what libraries print goes to standard error
    job = json.loads((folder / "job.json").read_text())
    threading.Thread(target=_end_with, args=(job["launcher"],), daemon=True).start()
    rank = launched().rank
    try:
        from neurocontrast import stages

        progress = SILENT if rank else _Reporter(folder / "progress")
        getattr(stages, job["stage"])(**job["arguments"], progress=progress)
    except BaseException as error:
        if os.environ.get("NEUROCONTRAST_TRACEBACK"):
            traceback.print_exception(error)
        code = error.exit_code if isinstance(error, NeurocontrastError) else None
        number = error.errno if isinstance(error, OSError) else None
        report = {"name": type(error).__name__, "text": str(error), "exit_code": code, "errno": number}
        if isinstance(error, OSError) and number is not None:
            report |= {"text": error.strerror, "filename": error.filename}
        with contextlib.suppress(OSError):  # the launcher has ended
            (folder / f"error-{rank}.json").write_text(json.dumps(report, default=str))
        # A process that ends because another has ended has not failed: the launcher must not end the others for it.
        return 0 if isinstance(error, OtherProcessEnded) else code or 1
    return 0


def _end_with(launcher: int) -> None:
    """End at once when the process that had this one started has ended, however it ended."""
    while os.getppid() == launcher:
        time.sleep(0.2)
    os._exit(1)


if __name__ == "__main__":
    exit_code = _main(Path(sys.argv[1]))
    sys.stderr.flush()
    # Not by way of the interpreter's end: collectives of a process group whose others are gone would wait there.
    os._exit(exit_code)
