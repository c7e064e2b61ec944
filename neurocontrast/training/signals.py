"""Signals that ask a training to stop, which it does where its state is whole."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from neurocontrast.exceptions import TrainingSuspended

CheckStop = Callable[[], None]
"""Raises `Stopped` where a signal has asked to stop."""


class Stopped(Exception):
    """Training was asked to stop by `signal`; raised only where its state is whole."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)


def _own(number: int) -> int:
    """Return the signal of this process, on which a single process acts."""
    return number


@contextlib.contextmanager
def stop_requests(agree: Callable[[int], int] = _own) -> Iterator[CheckStop]:
    """Note the first SIGINT, SIGTERM or SIGUSR1, and give a function that raises `Stopped` for it.

    A second signal acts at once. Given this process's signal, or 0, `agree` returns the one that
    all processes act on. Outside the main thread signals stay as they are.
    """
    noted = 0
    previous = dict[signal.Signals, "signal._HANDLER"]()

    def put_back() -> None:
        while previous:
            signal.signal(*previous.popitem())

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        del frame
        noted = number
        put_back()

    def check() -> None:
        number = agree(noted)
        if number:
            raise Stopped(number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            previous[number] = signal.signal(number, note)
    try:
        yield check
    finally:
        put_back()


@contextlib.contextmanager
def suspending() -> Iterator[None]:
    """Let SIGUSR1, which would kill, end the process as one to be started again, where there is nothing to save."""

    def suspend(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TrainingSuspended(
            "stopped by SIGUSR1 with nothing to save; the same command with --resume goes on."
        )

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGUSR1, suspend)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
