"""Show progress on standard error: bars on a terminal, lines in a log."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from rich import progress as rich_progress
from rich.console import Console, RenderableType
from rich.text import Text

from neurocontrast.progress import ONLY_WARNINGS, SILENT, Progress, Task, warn_caller

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_OF_SILENCE = 5.0
_SECONDS_OF_SPEED = 3600.0
"""Seconds over which the speed of a progress bar is averaged: one large batch can take longer than
Rich's 30 seconds."""


class _Silence:
    """Clock time, `ends`, at which `sign_of_life` writes its next line on standard error.

    The module has one instance. Any other output postpones the time; while `n_bars` bars move on
    the terminal, nothing is written.
    """

    n_bars = 0

    def __init__(self) -> None:
        self.ends = time.monotonic() + _SECONDS_OF_SILENCE

    def begin_anew(self) -> None:
        self.ends = time.monotonic() + _SECONDS_BETWEEN_LINES


_SILENCE = _Silence()


def as_progress(given: Progress | bool | None) -> Progress:
    """Return the display of progress that a Python function's argument ``progress`` asks for.

    A `Progress` is returned unchanged. None, the default, shows lines on standard error in a
    terminal or a notebook and nothing elsewhere; warnings are issued by Python's `warnings`. True
    shows the bars or lines of the command line. False shows nothing, and hides warnings, too.
    """
    if given is None:
        if is_watched():
            return _WatchedLines(_console())
        return ONLY_WARNINGS
    if isinstance(given, bool):
        return console_progress(quiet=not given)
    return given


def is_watched() -> bool:
    """Tell whether standard error is a terminal, or the program runs in a notebook or IPython."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return sys.stderr.isatty() or (shell is not None and shell() is not None)


def _console() -> Console:
    return Console(stderr=True, highlight=False)


def console_progress(*, quiet: bool = False) -> Progress:
    """Return bars for a terminal, lines for a log, or, if `quiet`, a display that shows nothing."""
    if quiet:
        return SILENT
    console = _console()
    if console.is_terminal:
        return _Bars(console)
    return _Lines(console)


@contextmanager
def sign_of_life() -> Iterator[None]:
    """Write "Working …" on standard error after 5 s without other output, and again every 10 s.

    A thread writes until the context ends.
    """
    over = threading.Event()

    def speak() -> None:
        while not over.wait(max(0.0, _SILENCE.ends - time.monotonic())):
            if time.monotonic() >= _SILENCE.ends:
                if not _SILENCE.n_bars:
                    _console().print("Working …")
                _SILENCE.begin_anew()

    threading.Thread(target=speak, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _shown(figures: Mapping[str, float | str]) -> str:
    """Return a task's metrics, `figures` by name, as one line: ``loss 1.2, accuracy 0.91``."""
    words = []
    for name, figure in figures.items():
        if not isinstance(figure, str):
            figure = f"{figure:.4g}"
        words.append(f"{name.replace('_', ' ')} {figure}")
    return ", ".join(words)


class _Messages:
    def __init__(self, console: Console) -> None:
        self._console = console

    def message(self, text: str) -> None:
        _SILENCE.begin_anew()
        self._console.print(text, markup=False, soft_wrap=True)

    def warning(self, text: str) -> None:
        _SILENCE.begin_anew()
        self._console.print(Text("warning: ", style="bold yellow") + Text(text), soft_wrap=True)


class _Rate(rich_progress.ProgressColumn):
    def render(self, task: rich_progress.Task) -> Text:
        speed = task.finished_speed or task.speed
        if speed is None:
            return Text("", style="cyan")
        return Text(f"{speed:.3g} {task.fields['unit']}/s", style="cyan")


class _Display(rich_progress.Progress):
    """Rich's progress bars, with the metrics of each task on a line below the task's bar.

    So a narrow terminal has room for bar and metrics.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.BarColumn(bar_width=None),
            rich_progress.MofNCompleteColumn(),
            _Rate(),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TextColumn("left", style="dim"),
            rich_progress.TimeRemainingColumn(),
            console=console,
            expand=True,
            speed_estimate_period=_SECONDS_OF_SPEED,
        )

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if task.fields["shown"] and not task.finished:
                yield Text(f"  {task.fields['shown']}", style="dim")


@dataclass(frozen=True)
class _Task:
    advance: Callable[..., None]


class _Bars(_Messages):
    """`Progress` for a terminal: shows a bar for each task, with speed, time left and metrics.

    A task that begins within another task adds its bar to the same display.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._display = _Display(console)

    @contextmanager
    def task(self, description: str, total: int | None, unit: str) -> Iterator[Task]:
        display = self._display
        is_outer = not self._display.tasks
        bar = display.add_task(description, total=total, unit=unit, shown="")

        def advance(n: int = 1, **figures: float | str) -> None:
            if figures:
                display.update(bar, shown=_shown(figures))
            display.update(bar, advance=n)

        if is_outer:
            display.start()
        _SILENCE.n_bars += 1
        try:
            yield _Task(advance)
        finally:
            _SILENCE.n_bars -= 1
            _SILENCE.begin_anew()
            if is_outer:
                display.stop()
            display.remove_task(bar)


class _Lines(_Messages):
    """`Progress` for a log: writes lines of text in place of bars.

    Lines tell the begin of the first task, progress at most every 10 s, and the end of each task.
    """

    _has_begun = False

    @contextmanager
    def task(self, description: str, total: int | None, unit: str) -> Iterator[Task]:
        _SILENCE.begin_anew()
        if not self._has_begun and total != 0:
            self._console.print(f"{description} …", markup=False, soft_wrap=True)
            self._has_begun = True
        start = last_line = time.monotonic()
        done = 0
        last_done = 0 if total == 0 else -1
        figures: dict[str, float | str] = {}

        def tell() -> None:
            nonlocal last_line, last_done
            _SILENCE.begin_anew()
            last_line = time.monotonic()
            last_done = done
            speed = done / max(last_line - start, 1e-9)
            phrases = [f"{description}: {_count(done, total)} {unit}", f"{speed:.3g}/s"]
            if total is not None and 0 < done < total:
                phrases.append(f"{timedelta(seconds=round((total - done) / speed))} left")
            if figures:
                phrases.append(_shown(figures))
            self._console.print(", ".join(phrases), markup=False, soft_wrap=True)

        def advance(n: int = 1, **shown: float | str) -> None:
            nonlocal done
            done += n
            figures.update(shown)
            if time.monotonic() - last_line >= _SECONDS_BETWEEN_LINES:
                tell()

        yield _Task(advance)
        if done != last_done:
            tell()


def _count(done: int, total: int | None) -> str:
    """Return how many units of a task are done: ``3/10``, or ``3`` if the total is unknown."""
    if total is None:
        return str(done)
    return f"{done}/{total}"


class _WatchedLines(_Lines):
    """`Progress` for a person at a terminal or notebook: progress as lines, warnings as Python's.

    Progress and messages are written to standard error as by `_Lines`. A warning is issued by
    Python's `warnings`, at the line of the user's program, and is not written as such a line.
    """

    def warning(self, text: str) -> None:
        _SILENCE.begin_anew()
        warn_caller(text)
