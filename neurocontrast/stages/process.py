"""One process of several, as `neurocontrast.stages.processes` has it started: ``python -m … FOLDER``.

``job.json`` in the folder says what to do; how it goes is reported in lines of JSON through the folder's pipe ``told``.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neurocontrast.exceptions import NeurocontrastError, OtherProcessEnded
from neurocontrast.progress import Task
from neurocontrast.training.launched import launched

__all__ = ["main"]

Report = Callable[..., None]


class _Reporter:
    """A progress whose reader is the process that had this one started."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._numbers = itertools.count()

    @contextmanager
    def task(self, description: str, total: int | None, unit: str) -> Iterator[Task]:
        number = next(self._numbers)
        self._report("open", number=number, description=description, total=total, unit=unit)
        try:
            yield _ReporterTask(self._report, number)
        finally:
            self._report("close", number=number)

    def message(self, text: str) -> None:
        self._report("message", text=text)

    def warning(self, text: str) -> None:
        self._report("warning", text=text)


class _ReporterTask:
    def __init__(self, report: Report, number: int) -> None:
        self._report, self._number = report, number

    def advance(self, n: int = 1, **shown: float | str) -> None:
        self._report("advance", number=self._number, n=n, shown=shown)


def main(folder: Path) -> int:
    """Run a stage as one of several processes, and return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.dup2(2, 1)  # standard output is the caller's: what libraries print goes to standard error
    threading.Thread(target=_end_with_launcher, args=(folder / "alive",), daemon=True).start()
    job, report = json.loads((folder / "job.json").read_text()), _open_report(folder)
    try:
        from neurocontrast import stages

        getattr(stages, job["stage"])(**job["arguments"], progress=_Reporter(report))
    except BaseException as error:
        if os.environ.get("NEUROCONTRAST_TRACEBACK"):
            traceback.print_exception(error)
        code = error.exit_code if isinstance(error, NeurocontrastError) else None
        number = error.errno if isinstance(error, OSError) else None
        text = error.strerror if isinstance(error, OSError) and number is not None else str(error)
        name = None if number is None else getattr(error, "filename", None)
        kind, rank = type(error).__name__, launched().rank
        report("error", rank=rank, name=kind, text=text, exit_code=code, errno=number, filename=name)
        # A process that ends because another has ended has not failed: the launcher must not end the others for it.
        return 0 if isinstance(error, OtherProcessEnded) else code or 1
    return 0


def _open_report(folder: Path) -> Report:
    pipe = os.open(folder / "told", os.O_WRONLY)
    turn = os.open(folder / "job.json", os.O_RDONLY)
    lock = threading.Lock()

    def report(kind: str, **content: Any) -> None:
        line = memoryview((json.dumps({"kind": kind, **content}, default=str) + "\n").encode())
        with lock:
            fcntl.flock(turn, fcntl.LOCK_EX)  # lines of several processes must not mix
            while line:
                line = line[os.write(pipe, line) :]
            fcntl.flock(turn, fcntl.LOCK_UN)

    return report


def _end_with_launcher(path: Path) -> None:
    """End at once when the process that had this one started has ended, however it ended: the pipe closes."""
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # not to wait for a launcher that has ended already
    os.set_blocking(pipe, True)
    os.read(pipe, 1)
    os._exit(1)


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stderr.flush()
    # Not by way of the interpreter's end: collectives of a process group whose others are gone would wait there.
    os._exit(code)
