"""Report the progress of long work without printing: the caller decides how to show progress."""

import sys
import warnings
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Protocol

from neurocontrast.exceptions import NeurocontrastWarning

_BETWEEN = ("neurocontrast", "sklearn")
"""Packages whose code is passed over to find the user's line for a warning: this package, and
scikit-learn, which calls transformers of this package.
"""


class Task(Protocol):
    """Interface of a task whose progress is shown, such as an epoch; `Progress.task` begins one."""

    def advance(self, n: int = 1, **shown: float | str) -> None:
        """Count `n` more units as done; `shown` are metrics to show next to the bar, by name."""


class Progress(Protocol):
    """Interface by which long work shows tasks, messages and warnings.

    `neurocontrast.display` has the implementations for terminals, notebooks and logs.
    """

    def task(self, description: str, total: int | None, unit: str) -> AbstractContextManager[Task]:
        """Begin to show a task of `total` units (None if unknown), until the context ends."""

    def message(self, text: str) -> None:
        """Show one line of text."""

    def warning(self, text: str) -> None:
        """Show one line that the user must not overlook."""


class _Silent:
    def task(self, description: str, total: int | None, unit: str) -> AbstractContextManager[Task]:
        del description, total, unit
        return nullcontext(self)

    def advance(self, n: int = 1, **shown: float | str) -> None:
        del n, shown

    def message(self, text: str) -> None:
        del text

    def warning(self, text: str) -> None:
        del text


class _OnlyWarnings(_Silent):
    def warning(self, text: str) -> None:
        warn_caller(text)


SILENT: Progress = _Silent()
"""A `Progress` that shows nothing, warnings included."""

ONLY_WARNINGS: Progress = _OnlyWarnings()
"""A `Progress` that issues warnings by Python's `warnings`, and shows nothing else: the default
outside terminals."""


def warn_caller(text: str) -> None:
    """Issue a `NeurocontrastWarning` by Python's `warnings`, for the user's line of code.

    The line is the one in the user's program that called this package, directly or through
    scikit-learn. The program goes on unless a filter turns warnings into errors.
    """
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and _package_of(frame) in _BETWEEN:
        frame = frame.f_back
        level += 1
    warnings.warn(text, NeurocontrastWarning, stacklevel=level)


def _package_of(frame: FrameType) -> str:
    """Return the name of the top-level package whose code runs in a frame of the call stack."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
