"""Ctrl-C, SIGTERM and SIGUSR1 as a request: finish the batch, save, then end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from neurocontrast.exceptions import TrainingSuspended

__all__ = ["StopRequest", "Stopped", "suspending", "suspending_where_blocked"]

_NOTHING_TO_SAVE = "stopped by SIGUSR1 with nothing to save; the same command with --resume goes on."
_SECONDS_TO_RETURN = 5


class Stopped(Exception):
    """Training was asked to stop by `signal`; raised only where its state is whole."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)


class StopRequest:
    """Notes the first SIGINT, SIGTERM or SIGUSR1 for `check` to act on; a second one acts at once.

    Given this process's signal, or 0, `agree` returns the one that all processes act on. Outside the main thread
    signals stay as they are.
    """

    def __init__(self, agree: Callable[[int], int] = lambda number: number) -> None:
        self._agree = agree
        self._signal = 0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if _in_main_thread():
            for which in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
                self._previous[which] = signal.signal(which, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for which, handler in self._previous.items():
            signal.signal(which, handler)
        self._previous = {}

    def check(self) -> None:
        """Raise `Stopped` if a signal has come since entering, to this process or to another of the run."""
        number = self._agree(self._signal)
        if number:
            raise Stopped(number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signal = number
        self.__exit__()


@contextlib.contextmanager
def suspending() -> Iterator[None]:
    """Let SIGUSR1, which would kill, end the process as one to be started again, where there is nothing to save."""
    if not _in_main_thread():
        yield
        return
    before = signal.signal(signal.SIGUSR1, _suspend)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def _suspend(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise TrainingSuspended(_NOTHING_TO_SAVE)


@contextlib.contextmanager
def suspending_where_blocked(*, is_first: bool) -> Iterator[None]:
    """Let SIGUSR1 end a process that waits for others in compiled code, which runs no handler of Python's.

    The first process prints why.
    """
    if not _in_main_thread():
        yield
        return
    left, (numbers, written) = threading.Event(), os.pipe()
    os.set_blocking(written, False)

    def watch() -> None:
        while number := os.read(numbers, 1):
            if number[0] == signal.SIGUSR1 and not left.wait(_SECONDS_TO_RETURN):
                if is_first:
                    os.write(2, f"error: {_NOTHING_TO_SAVE}\n".encode())
                os._exit(TrainingSuspended.exit_code)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        left.set()
        os.close(written)
        watching.join()
        os.close(numbers)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
