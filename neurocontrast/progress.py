"""Progress of long work, reported without printing: the caller decides what is shown."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Task(Protocol):
    """One piece of long work, for instance an epoch or the preprocessing of a cohort."""

    def advance(self, n: int = 1, **shown: float | str) -> None:
        """Count `n` more units as done; `shown` are figures to show next to the bar."""


class Progress(Protocol):
    """What a stage reports to; the command line implements it with Rich."""

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


SILENT: Progress = _Silent()
"""A progress that shows nothing: the default of the Python API."""
