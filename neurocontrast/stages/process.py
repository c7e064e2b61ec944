"""One process of a run, as `neurocontrast.stages.processes` starts it: ``python -m neurocontrast.stages.process``.

It is told what to do in one line of JSON on standard input, and says how it goes in lines of JSON on standard output.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from neurocontrast.exceptions import NeurocontrastError
from neurocontrast.progress import Task
from neurocontrast.training.interruption import suspending

__all__ = ["main"]

Say = Callable[..., None]


class _Teller:
    """A progress whose reader is the process that started this one."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._numbers = itertools.count()

    @contextmanager
    def task(self, description: str, total: int | None, unit: str) -> Iterator[Task]:
        number = next(self._numbers)
        self._say("open", number=number, description=description, total=total, unit=unit)
        try:
            yield _TellerTask(self._say, number)
        finally:
            self._say("close", number=number)

    def message(self, text: str) -> None:
        self._say("message", text=text)

    def warning(self, text: str) -> None:
        self._say("warning", text=text)


class _TellerTask:
    def __init__(self, say: Say, number: int) -> None:
        self._say, self._number = say, number

    def advance(self, n: int = 1, **shown: float | str) -> None:
        self._say("advance", number=self._number, n=n, shown=shown)


def main() -> int:
    """Pretrain as one of several processes, and return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    say = _take_standard_output()
    try:
        job = json.loads(sys.stdin.readline())
        threading.Thread(target=_end_with_parent, daemon=True).start()
        with suspending():
            from neurocontrast.stages.pretrain import pretrain

            pretrain(job["config"], out=job["out"], resume=job["resume"], progress=_Teller(say))
    except BaseException as error:
        if os.environ.get("NEUROCONTRAST_TRACEBACK"):
            traceback.print_exception(error)
        code = error.exit_code if isinstance(error, NeurocontrastError) else None
        told = error.errno if isinstance(error, OSError) else None
        text = error.strerror if isinstance(error, OSError) and told is not None else str(error)
        name = None if told is None else getattr(error, "filename", None)
        say("error", name=type(error).__name__, text=text, exit_code=code, errno=told, filename=name)
        return code or 1
    return 0


def _take_standard_output() -> Say:
    """Keep standard output for what is said; what libraries print goes to standard error."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lock = threading.Lock()

    def say(kind: str, **content: Any) -> None:
        with lock:
            stream.write(json.dumps({"kind": kind, **content}, default=str) + "\n")
            stream.flush()

    return say


def _end_with_parent() -> None:
    """End at once when the process that started this one has ended, however it ended: its pipe closes."""
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Not by way of the interpreter's end: collectives of a process group whose others are gone would wait there.
    os._exit(code)
