"""What the command line prints: progress and errors on standard error, a command's result on standard output."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import progress as rich_progress
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from neurocontrast.progress import SILENT, Progress, Task

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Result",
    "console_progress",
    "print_line",
    "show_error",
    "show_message",
    "show_result",
    "show_unexpected",
]

_SECONDS_BETWEEN_LINES = 15.0
_SECONDS_OF_SPEED = 3600.0
_MOST_ROWS = 30
_WIDTH_OF_LINES = 400


@dataclass(frozen=True)
class Result:
    """What a command ends with."""

    facts: Mapping[str, Any] = field(default_factory=dict)  # for programs, JSON-ready
    title: str = ""
    table: pd.DataFrame | None = None  # for people; numbers are shown with three digits
    notes: list[str] = field(default_factory=list)
    path: Path | None = None  # the file to open, or the folder that was written
    exit_code: int = 0  # 1 where a part failed, 2 where the input is bad


def print_line(content: Mapping[str, Any]) -> None:
    """Print an object as one line of JSON, at once."""
    print(json.dumps(content, ensure_ascii=False), flush=True)


def show_result(result: Result, *, as_json: bool = False) -> None:
    """Print a result: a table on a terminal, plain lines in a pipe, or JSON; the path comes last.

    Of several processes of a run the first prints.
    """
    from neurocontrast.parallel.devices import launched

    if launched().rank:
        return
    if as_json:
        path = {} if result.path is None else {"path": str(result.path)}
        print(json.dumps({**result.facts, **path}, indent=2, ensure_ascii=False, default=str))
        return
    console = _console(sys.stdout)
    if result.table is not None:
        _show_table(result.table, title=result.title, console=console)
    elif result.title:
        console.print(Text(result.title, style="bold"), soft_wrap=True)
    for line in [*result.notes, *([] if result.path is None else [str(result.path)])]:
        console.print(Text(line), soft_wrap=True)


def _show_table(table: pd.DataFrame, *, title: str, console: Console) -> None:
    """Print a table below its title, at most 30 rows."""
    console.print(Text(title, style="bold"), soft_wrap=True)
    shown = Table(box=SIMPLE_HEAD if console.is_terminal else None, pad_edge=console.is_terminal)
    for number, name in enumerate(table.columns):
        shown.add_column(Text(str(name)), justify="right" if number else "left", no_wrap=not console.is_terminal)
    for row in table.head(_MOST_ROWS).itertuples(index=False):
        shown.add_row(*(Text(_cell(value)) for value in row))
    with console.capture() as captured:
        console.print(shown)
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)
    if len(table) > _MOST_ROWS:
        console.print(f"… {len(table) - _MOST_ROWS} more rows")


def show_error(message: str) -> None:
    """Print one error."""
    _console(sys.stderr).print(Text("error: ", style="bold red") + Text(message), soft_wrap=True)


def show_message(message: str) -> None:
    """Print one line on standard error."""
    _console(sys.stderr).print(message)


def show_unexpected(error: Exception) -> None:
    """Print a defect of the package, with its traceback where the environment asks for one."""
    if os.environ.get("NEUROCONTRAST_TRACEBACK"):
        traceback.print_exception(error)
    show_error(
        f"unexpected {type(error).__name__}: {error}\nThis is a defect of neurocontrast. Please report it with the "
        "traceback, which NEUROCONTRAST_TRACEBACK=1 before the command shows."
    )


def console_progress(*, quiet: bool = False) -> Progress:
    """Return the progress that fits where standard error goes: a terminal, a log, or nowhere."""
    if quiet:
        return SILENT
    console = Console(stderr=True, highlight=False)
    return _Bars(console) if console.is_terminal else _Lines(console)


def _console(stream: Any) -> Console:
    console = Console(file=stream, highlight=False)
    return console if console.is_terminal else Console(file=stream, highlight=False, width=_WIDTH_OF_LINES)


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _shown(figures: Mapping[str, float | str]) -> str:
    texts = {name: value if isinstance(value, str) else f"{value:.4g}" for name, value in figures.items()}
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in texts.items())


class _Messages:
    def __init__(self, console: Console) -> None:
        self._console = console

    def message(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def warning(self, text: str) -> None:
        self._console.print(Text("warning: ", style="bold yellow") + Text(text), soft_wrap=True)


class _Rate(rich_progress.ProgressColumn):
    def render(self, task: rich_progress.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.3g} {task.fields['unit']}/s", style="cyan")


class _Display(rich_progress.Progress):
    """Bars, and below them each task's figures on a line of their own: a narrow terminal cuts none off."""

    def __init__(self, console: Console) -> None:
        text = rich_progress.TextColumn
        columns = (text("{task.description}", markup=False), rich_progress.BarColumn(bar_width=None))
        times = (_Rate(), rich_progress.TimeElapsedColumn(), text("left", style="dim"))
        # Speed over an hour, not Rich's 30 seconds: one large batch can take longer than that.
        super().__init__(
            *(*columns, rich_progress.MofNCompleteColumn(), *times, rich_progress.TimeRemainingColumn()),
            console=console,
            expand=True,
            speed_estimate_period=_SECONDS_OF_SPEED,
        )

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if task.fields["shown"] and not task.finished:
                yield Text(f"  {task.fields['shown']}", style="dim")


class _Bars(_Messages):
    """A bar for each task, with speed, time left and the task's figures; a task within a task shares its display."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._display = _Display(console)

    @contextmanager
    def task(self, description: str, total: int | None, unit: str) -> Iterator[Task]:
        is_outer = not self._display.tasks
        task = _BarTask(self._display, description, total, unit)
        if is_outer:
            self._display.start()
        try:
            yield task
        finally:
            if is_outer:
                self._display.stop()
            self._display.remove_task(task.identifier)


class _BarTask:
    def __init__(self, display: _Display, description: str, total: int | None, unit: str) -> None:
        self._display = display
        self.identifier = display.add_task(description, total=total, unit=unit, shown="")

    def advance(self, n: int = 1, **shown: float | str) -> None:
        changes: dict[str, Any] = {"shown": _shown(shown)} if shown else {}
        self._display.update(self.identifier, advance=n, **changes)


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
        self._done, self._last_done, self._start = 0, -1, time.monotonic()
        self._last_line = self._start
        self._figures: dict[str, float | str] = {}

    def advance(self, n: int = 1, **shown: float | str) -> None:
        self._done += n
        self._figures.update(shown)
        if time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self.finish()

    def finish(self) -> None:
        """Write a line, unless nothing was done since the last one."""
        if self._done == self._last_done:
            return
        self._last_line, self._last_done = time.monotonic(), self._done
        speed = self._done / max(self._last_line - self._start, 1e-9)
        of_total = f"{self._done}" if self._total is None else f"{self._done}/{self._total}"
        parts = [f"{self._description}: {of_total} {self._unit}", f"{speed:.3g}/s"]
        if self._total is not None and 0 < self._done < self._total:
            parts.append(f"{timedelta(seconds=round((self._total - self._done) / speed))} left")
        parts += [_shown(self._figures)] if self._figures else []
        self._console.print(", ".join(parts), markup=False, soft_wrap=True)
