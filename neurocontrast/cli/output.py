"""What the command line prints: errors on standard error, a command's result on standard output."""

from __future__ import annotations

import json
import os
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Result",
    "print_line",
    "show_error",
    "show_message",
    "show_result",
    "show_unexpected",
]

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
    next: Sequence[object] = ()  # the words of the command that comes next, without the program


def print_line(content: Mapping[str, Any]) -> None:
    """Print an object as one line of JSON, at once."""
    print(json.dumps(content, ensure_ascii=False), flush=True)


def show_result(result: Result, *, as_json: bool = False) -> None:
    """Print a result: a table on a terminal, plain lines in a pipe, or JSON; the next command and the path come last.

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
    following = [f"Next: neurocontrast {shlex.join(map(str, result.next))}"] if result.next else []
    for line in [*result.notes, *following, *([] if result.path is None else [str(result.path)])]:
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


def _console(stream: Any) -> Console:
    console = Console(file=stream, highlight=False)
    return console if console.is_terminal else Console(file=stream, highlight=False, width=_WIDTH_OF_LINES)


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
