"""Stop a training on a signal, such as Ctrl-C, when the state of the training can be saved."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from neurocontrast.exceptions import TrainingSuspended

CheckStop = Callable[[], None]
"""Function that a training calls between steps; raises `Stopped` after a signal to stop."""


class Stopped(Exception):
    """Raised between training steps after a signal to stop; its catcher saves the training."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)


def _own(number: int) -> int:
    """Return the signal `number` that this process received, or 0 for none, unchanged.

    It is the default of `agree` in `stop_requests`, for a training of one process, which has no
    other process with which to agree.
    """
    return number


@contextlib.contextmanager
def stop_requests(agree: Callable[[int], int] = _own) -> Iterator[CheckStop]:
    """Catch the first SIGINT, SIGTERM or SIGUSR1; yield a function to ask whether to stop.

    The function takes no argument, and raises `Stopped` once a signal was caught. A second signal
    has its usual effect at once. Outside the main thread, signals are not caught.

    Parameters
    ----------
    agree : function
        Function from this process's signal, or 0 for none, to the signal on which all processes
        act.
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
    """Raise `TrainingSuspended` on SIGUSR1 until the context ends.

    A training loop within the context replaces this handling of the signal by its own
    (`stop_requests`), to save a checkpoint first.
    """

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
