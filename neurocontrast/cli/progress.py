"""What long work looks like: a Rich bar on a terminal, plain lines in a log file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichBar
from rich.progress import Task as RichTask
from rich.text import Text

from neurocontrast.progress import Progress, Task

__all__ = ["console_progress"]

_SECONDS_BETWEEN_LINES = 15.0


def console_progress(*, quiet: bool = False) -> Progress:
    """Return the progress that fits where standard error goes: a terminal, a log, or nowhere."""
    console = Console(stderr=True, quiet=quiet, highlight=False)
    return _Bars(console) if console.is_terminal and not quiet else _Lines(console)


def _shown(figures: dict[str, float | str]) -> str:
    parts = []
    for name, value in figures.items():
        text = value if isinstance(value, str) else f"{value:.4g}"
        parts.append(f"{name.replace('_', ' ')} {text}")
    return ", ".join(parts)


class _Messages:
    def __init__(self, console: Console) -> None:
        self._console = console

    def message(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def warning(self, text: str) -> None:
        self._console.print(Text("warning: ", style="bold yellow") + Text(text), soft_wrap=True)


class _Rate(ProgressColumn):
    """Units done a second since the task began."""

    def render(self, task: RichTask) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.3g} {task.fields['unit']}/s", style="cyan")


class _Bars(_Messages):
    """A bar for each task, with speed, time left and the task's figures."""

    @contextmanager
    def task(self, description: str, total: int | None, unit: str) -> Iterator[Task]:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[shown]}", markup=False, style="dim"),
        )
        with RichBar(*columns, console=self._console) as bar:
            yield _BarTask(bar, description, total, unit)


class _BarTask:
    def __init__(self, bar: RichBar, description: str, total: int | None, unit: str) -> None:
        self._bar = bar
        self._id = bar.add_task(description, total=total, unit=unit, shown="")

    def advance(self, n: int = 1, **shown: float | str) -> None:
        if shown:
            self._bar.update(self._id, advance=n, shown=_shown(shown))
        else:
            self._bar.update(self._id, advance=n)


class _Lines(_Messages):
    """A line now and then, so that a log stays readable."""

    @contextmanager
    def task(self, description: str, total: int | None, unit: str) -> Iterator[Task]:
        task = _LineTask(self._console, description, total, unit)
        yield task
        task.finish()


class _LineTask:
    def __init__(self, console: Console, description: str, total: int | None, unit: str) -> None:
        self._console, self._description, self._total, self._unit = console, description, total, unit
        self._done, self._start = 0, time.monotonic()
        self._last_line, self._last_done = self._start, -1
        self._figures: dict[str, float | str] = {}

    def advance(self, n: int = 1, **shown: float | str) -> None:
        self._done += n
        self._figures.update(shown)
        if time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._write()

    def finish(self) -> None:
        if self._done != self._last_done:
            self._write()

    def _write(self) -> None:
        now = time.monotonic()
        self._last_line, self._last_done = now, self._done
        elapsed = max(now - self._start, 1e-9)
        speed = self._done / elapsed
        of_total = f"{self._done}" if self._total is None else f"{self._done}/{self._total}"
        parts = [f"{self._description}: {of_total} {self._unit}", f"{speed:.3g}/s"]
        if self._total is not None and 0 < self._done < self._total:
            parts.append(f"{_duration((self._total - self._done) / speed)} left")
        if self._figures:
            parts.append(_shown(self._figures))
        self._console.print(", ".join(parts), markup=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
