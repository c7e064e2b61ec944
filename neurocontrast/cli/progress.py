"""What long work looks like: a Rich bar on a terminal, plain lines in a log file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TaskID,
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
_SECONDS_OF_SPEED = 3600.0


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


class _Display(RichBar):
    """Bars, and below them each task's figures on a line of their own, so that a narrow terminal cuts none off."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if task.fields["shown"] and not task.finished:
                yield Text(f"  {task.fields['shown']}", style="dim")


class _Bars(_Messages):
    """A bar for each task, with speed, time left and the task's figures."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._display: RichBar | None = None

    @contextmanager
    def task(self, description: str, total: int | None, unit: str) -> Iterator[Task]:
        if self._display is not None:  # a task within a task: one display shows both
            identifier = self._display.add_task(description, total=total, unit=unit, shown="")
            try:
                yield _BarTask(self._display, identifier)
            finally:
                self._display.remove_task(identifier)
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TextColumn("left", style="dim"),
            TimeRemainingColumn(),
        )
        # Over an hour, not Rich's 30 seconds: one large batch can take longer than that.
        period = _SECONDS_OF_SPEED
        with _Display(*columns, console=self._console, expand=True, speed_estimate_period=period) as display:
            self._display = display
            try:
                yield _BarTask(display, display.add_task(description, total=total, unit=unit, shown=""))
            finally:
                self._display = None


class _BarTask:
    def __init__(self, display: RichBar, identifier: TaskID) -> None:
        self._display, self._id = display, identifier

    def advance(self, n: int = 1, **shown: float | str) -> None:
        if shown:
            self._display.update(self._id, advance=n, shown=_shown(shown))
        else:
            self._display.update(self._id, advance=n)


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
