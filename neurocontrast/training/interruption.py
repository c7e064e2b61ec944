"""Ctrl-C, SIGTERM and SIGUSR1 as a request: finish the batch, save, then end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
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
    """While entered, the first SIGINT, SIGTERM or SIGUSR1 is noted and acted on by `check`.

    A second one acts at once, as it would without this. Outside the main thread signals
    cannot be taken over, and stay as they are.

    Parameters
    ----------
    agree : callable
        Given this process's signal, or 0, returns the one that all processes act on: a signal to any
        of them stops all, at the same `check`.
    """

    def __init__(self, agree: Callable[[int], int] = lambda number: number) -> None:
        self._agree = agree
        self._signal = 0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for which in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
                self._previous[which] = signal.signal(which, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def check(self) -> None:
        """Raise `Stopped` if a signal has come since entering, to this process or to another of the run."""
        number = self._agree(self._signal)
        if number:
            raise Stopped(number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signal = number
        self._restore()

    def _restore(self) -> None:
        for which, handler in self._previous.items():
            signal.signal(which, handler)
        self._previous = {}


@contextlib.contextmanager
def suspending() -> Iterator[None]:
    """Where there is nothing to save, before training, let SIGUSR1 end the process as one to be started again.

    Without this, SIGUSR1 kills.
    """
    if threading.current_thread() is not threading.main_thread():
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

    Parameters
    ----------
    is_first : bool
        Whether this is the process that says so.
    """
    if threading.current_thread() is not threading.main_thread():
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
