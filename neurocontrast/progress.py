"""Report the progress of long work without printing: the caller decides how to show progress."""

import sys
import warnings
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Protocol

from neurocontrast.exceptions import NeurocontrastWarning

_BETWEEN = ("neurocontrast", "sklearn")
"""Packages whose lines are none of the user's program; scikit-learn calls our transformers."""


class Task(Protocol):
    """Piece of long work, for instance an epoch or the preprocessing of a cohort."""

    def advance(self, n: int = 1, **shown: float | str) -> None:
        """Count `n` more units as done; `shown` are figures to show next to the bar."""


class Progress(Protocol):
    """Receiver of a stage's tasks, messages and warnings; `neurocontrast.display` uses Rich."""

    def task(self, description: str, total: int | None, unit: str) -> AbstractContextManager[Task]:
        """Open a task of `total` units (None if unknown)."""

    def message(self, text: str) -> None:
        """Show one line."""

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
"""A progress that shows nothing, warnings included."""

ONLY_WARNINGS: Progress = _OnlyWarnings()
"""A progress that shows nothing and raises Python's warnings: the default outside terminals."""


def warn_caller(text: str) -> None:
    """Raise a `NeurocontrastWarning` at the line of the user's program that called the package."""
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and _package_of(frame) in _BETWEEN:
        frame = frame.f_back
        level += 1
    warnings.warn(text, NeurocontrastWarning, stacklevel=level)


def _package_of(frame: FrameType) -> str:
    """Return the top-level package of the code that runs in a frame."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
