"""Ctrl-C and SIGTERM as a request: finish the batch, save, then end."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["StopRequest", "Stopped"]


class Stopped(Exception):
    """Training was asked to stop; raised only where its state is whole."""


class StopRequest:
    """While entered, the first SIGINT or SIGTERM is noted and acted on by `check`.

    A second one acts at once, as it would without this. Outside the main thread signals
    cannot be taken over, and stay as they are.
    """

    def __init__(self) -> None:
        self._signal: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for which in (signal.SIGINT, signal.SIGTERM):
                self._previous[which] = signal.signal(which, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def check(self) -> None:
        """Raise `Stopped` if a signal has come since entering."""
        if self._signal is not None:
            raise Stopped(self._signal.name)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signal = signal.Signals(number)
        self._restore()

    def _restore(self) -> None:
        for which, handler in self._previous.items():
            signal.signal(which, handler)
        self._previous = {}
