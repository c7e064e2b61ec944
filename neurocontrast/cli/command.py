"""Options that commands share, commands made from functions, and the printing of results.

Errors go to standard error, the result of a command to standard output.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from neurocontrast.cli.flags import Flags
from neurocontrast.display import console_progress, sign_of_life
from neurocontrast.exceptions import NeurocontrastError
from neurocontrast.files import place_on_disk
from neurocontrast.parallel.devices import launched

if TYPE_CHECKING:
    import pandas as pd

    from neurocontrast.config import Config
    from neurocontrast.progress import Progress


def option(help: str, *names: str, metavar: str | None = None) -> Any:
    """Return Typer's description of an option: help, names, and placeholder of the value.

    Without `names`, the option has the name of the parameter: ``--out`` for ``out``. `metavar` is
    the placeholder in the help.
    """
    return typer.Option(..., *names, help=help, metavar=metavar)


def argument(metavar: str, help: str) -> Any:
    """Return Typer's description of a positional argument: placeholder of the value, and help."""
    return typer.Argument(help=help, metavar=metavar)


Overwrite = Annotated[
    bool, option("Replace what an earlier call of this command wrote.", "--overwrite")
]
Table = Annotated[Path, argument("PARTICIPANTS.tsv", "Table with one row per scan.")]
Participants = Annotated[Path, option("Table with one row per scan.", metavar="PARTICIPANTS.tsv")]
ImagesRoot = Annotated[
    Path | None, option("Folder that relative image paths start from (default: of the table).")
]
Evaluated = Annotated[Path, argument("EVAL", "Evaluation directory of `evaluate`.")]


@dataclass(frozen=True)
class CommonOptions:
    """Options that every command has, as typed for one call: ``--json`` and ``--quiet``."""

    as_json: Annotated[bool, option("Print the result as JSON, for programs.", "--json")] = False
    quiet: Annotated[
        bool, option("Show no progress: errors and the result only.", "--quiet", "-q")
    ] = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Values of the command's own options, by the parameters of the command's function."""

    @property
    def progress(self) -> Progress:
        """Progress bars on a terminal, lines in a log, or nothing under ``--quiet``."""
        return console_progress(quiet=self.quiet)


@dataclass(frozen=True)
class ConfigOptions(CommonOptions):
    """Options of the commands that read a configuration: its file, and values of single keys."""

    config: Annotated[
        Path | None,
        option("YAML file, or the name of a recipe (`config list`).", "--config", metavar="FILE"),
    ] = None
    overrides: Annotated[
        list[str] | None,
        option(
            "Override one key, e.g. training.epochs=10; may be repeated.",
            "--set",
            metavar="KEY=VALUE",
        ),
    ] = None

    def resolve(self, *, check_objective: bool = False, **sections: Mapping[str, object]) -> Config:
        """Return the configuration; own options override ``--set``, and ``--set`` the file.

        Own options are the flags of one command, such as ``--n-folds``.

        Parameters
        ----------
        check_objective : bool
            Whether the section ``objective`` is checked, for which PyTorch is imported.
        **sections : mapping
            Values of keys by section, as Typer reads them from flags; None is a flag that was not
            typed, and leaves the key as it is.
        """
        from neurocontrast.config import load_config

        return load_config(
            self.config, self.overrides or (), sections=sections, check_objective=check_objective
        )


@dataclass(frozen=True)
class EvaluationOptions(ConfigOptions):
    """Options of the commands that evaluate: the column to predict, and the folds."""

    target: Annotated[str | None, option("Column to predict: diagnosis, age, sex, site ...")] = None
    splits: Annotated[
        str | None, option("How folds are made.", metavar="stratified|leave-site-out")
    ] = None
    n_folds: Annotated[int | None, option("Number of folds of stratified splits.")] = None
    n_repeats: Annotated[
        int | None, option("Number of times that stratified splits are drawn.")
    ] = None
    seed: Annotated[int | None, option("Seed of splits and bootstrap.")] = None
    positive: Annotated[str | None, option("Class that counts as positive.")] = None
    split_file: Annotated[
        Path | None, option("Use the folds of another evaluation: its splits.tsv.")
    ] = None
    threshold: Annotated[
        str | None,
        option(
            "Score from which a scan is positive: half, prevalence, or a probability.",
            metavar="RULE",
        ),
    ] = None
    allow_overlap: Annotated[
        bool | None, option("Evaluate people of the pretraining too.", "--allow-overlap")
    ] = None
    overwrite: Overwrite = False

    def resolve_evaluation(self, **others: Any) -> Config:
        """Return the configuration, its section ``evaluation`` set by the evaluation's options.

        `others` are further keys of the section, which only one command has.
        """
        inherited = {*ConfigOptions.__dataclass_fields__, "overwrite"}
        keys = {}
        for name in EvaluationOptions.__dataclass_fields__:
            if name not in inherited:
                keys[name] = getattr(self, name)
        return self.resolve(evaluation=keys | others)


def command(function: Callable[..., Result]) -> Callable[..., None]:
    """Make a command from a function: parameters become options, and the result is printed.

    The options of the class of the function's parameter `common` are added. Return a function that
    Typer can register as a command.
    """
    parameters = dict(inspect.signature(function, eval_str=True).parameters)
    options: type[CommonOptions] = parameters.pop("common").annotation
    shared = dict(inspect.signature(options, eval_str=True).parameters)
    del shared["arguments"]
    flags = Flags.of(function.__name__, parameters | shared)

    def run(**arguments: Any) -> None:
        for name, value in arguments.items():
            arguments[name] = _on_disk(value)
        values = {name: arguments.pop(name) for name in shared}
        common = options(**values, arguments=arguments)
        try:
            with nullcontext() if common.quiet or launched().rank else sign_of_life():
                result = function(common, **arguments)
        except NeurocontrastError as error:
            error.args = (flags.translate(str(error)), *error.args[1:])
            raise
        show_result(result, as_json=common.as_json)
        if result.exit_code:
            raise typer.Exit(result.exit_code)

    run.__name__ = function.__name__
    run.__doc__ = _help_of(function)
    last = ConfigOptions.__dataclass_fields__
    of_class = sorted(shared.values(), key=lambda parameter: parameter.name in last)
    signature = inspect.Signature([*parameters.values(), *of_class])
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def _help_of(function: Callable[..., Result]) -> str:
    """Return a function's docstring as help text, with the first paragraph on one line.

    Lists of commands show the first paragraph alone.
    """
    first, *others = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join([first.replace("\n", " "), *others])


def _on_disk(value: Any) -> Any:
    """Return a value of an option, with paths spelled in the Unicode form that the disk has."""
    if isinstance(value, Path):
        return place_on_disk(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_on_disk, value))
    return value


_MOST_ROWS = 30
_WIDTH_OF_LINES = 400


@dataclass(frozen=True)
class Result:
    """Output of a command: text for people, values for programs, and the next command to suggest.

    The function of a command returns a `Result`, which `show_result` prints when the work is done.
    People read `title`, `table`, `notes`, the next command, and the path of the written file or
    folder; with ``--json``, programs read `facts`.
    """

    facts: Mapping[str, object] = field(default_factory=dict)
    """Values for programs, printed by ``--json``."""
    title: str = ""
    table: pd.DataFrame | None = None
    """Table of numbers for people; a float is shown with three significant digits."""
    notes: list[str] = field(default_factory=list)
    """Lines printed below `table`."""
    path: Path | None = None
    """File to open, or folder that was written."""
    exit_code: int = 0
    """1 if a part of the work failed, 2 if the input is bad."""
    next: Sequence[object] = ()
    """Words of the command to suggest next, without ``neurocontrast``."""

    def last_lines(self) -> list[str]:
        """Return the lines printed below `table`: notes, next command to suggest, and `path`."""
        lines = list(self.notes)
        if self.next:
            lines.append(f"Next: neurocontrast {shlex.join(map(format, self.next))}")
        if self.path is not None:
            lines.append(f"{self.path}")
        return lines


def accept_any_character() -> None:
    """Let standard output and standard error replace characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            # UTF-8 can write names of files that are no text, as the bytes that they are.
            errors = "replace"
            if _is_unicode(stream):
                errors = "surrogateescape"
            stream.reconfigure(errors=errors)


def _is_unicode(stream: Any) -> bool:
    """Tell whether an output stream has a Unicode encoding, which can write every character."""
    return str(getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def as_json_text(content: object, *, indent: int | None = None) -> str:
    """Return JSON for standard output, with escapes where its encoding lacks characters."""
    is_escaped = not _is_unicode(sys.stdout)
    return json.dumps(content, indent=indent, ensure_ascii=is_escaped, default=str)


def print_line(content: Mapping[str, object]) -> None:
    """Print an object as one line of JSON at once, for a program that reads scan by scan."""
    print(as_json_text(content), flush=True)


def show_result(result: Result, *, as_json: bool = False) -> None:
    """Print the result of a command for people, or as JSON; only the first process of a run prints.

    People read a title, a table and notes; the next command and the path to open come last.
    """
    if launched().rank:
        return
    if as_json:
        facts = dict(result.facts)
        if result.path is not None:
            facts["path"] = f"{result.path}"
        print(as_json_text(facts, indent=2))
        return
    console = _console(sys.stdout)
    if result.title or result.table is not None:
        console.print(Text(result.title, style="bold"), soft_wrap=True)
    if result.table is not None:
        _show_table(result.table, console)
    for line in result.last_lines():
        console.print(Text(line), soft_wrap=True)


def _show_table(table: pd.DataFrame, console: Console) -> None:
    """Print the first rows of a command's table: ruled on a terminal, without rules in a pipe."""
    box = None
    if console.is_terminal:
        box = SIMPLE_HEAD
    shown = RichTable(box=box, pad_edge=console.is_terminal)
    justify: Literal["left", "right"] = "left"
    for name in table.columns:
        shown.add_column(Text(str(name)), justify=justify, no_wrap=not console.is_terminal)
        justify = "right"
    for row in table.head(_MOST_ROWS).itertuples(index=False):
        shown.add_row(*map(Text, map(_cell, row)))
    with console.capture() as captured:
        console.print(shown)
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)
    if len(table) > _MOST_ROWS:
        console.print(f"… {len(table) - _MOST_ROWS} more rows")


def show_error(message: str) -> None:
    """Print the message of an error on standard error."""
    _console(sys.stderr).print(Text("error: ", style="bold red") + Text(message), soft_wrap=True)


def show_message(message: str) -> None:
    """Print one line on standard error, such as ``interrupted``."""
    _console(sys.stderr).print(message)


def show_unexpected(error: Exception) -> None:
    """Print an error that is a defect of the package, and ask for a report.

    With the environment variable ``NEUROCONTRAST_TRACEBACK`` the traceback is printed too.
    """
    if os.environ.get("NEUROCONTRAST_TRACEBACK"):
        traceback.print_exception(error)
    show_error(
        f"unexpected {type(error).__name__}: {error}\n"
        "This is a defect of neurocontrast. Please report it with the traceback, which "
        "NEUROCONTRAST_TRACEBACK=1 before the command shows."
    )


def _console(stream: Any) -> Console:
    """Return Rich's console for a stream; a pipe is wide, so that no table is cut to a screen."""
    console = Console(file=stream, highlight=False)
    if console.is_terminal:
        return console
    return Console(file=stream, highlight=False, width=_WIDTH_OF_LINES)


def _cell(value: Any) -> str:
    """Return the value of a cell as text: three significant digits for a float, "" if missing.

    A float of 1000 or more is rounded to a whole number. Integers and words stay as they are.
    """
    if value is None or value != value:
        return ""
    if not isinstance(value, float):
        return str(value)
    if abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}"
