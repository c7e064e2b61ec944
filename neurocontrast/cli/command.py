"""Shared parts of commands: options, a function as a command, and printing of results.

Errors go to standard error, the result of a command to standard output.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import re
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
from typer.models import OptionInfo

from neurocontrast.display import console_progress, sign_of_life
from neurocontrast.exceptions import NeurocontrastError
from neurocontrast.files import place_on_disk
from neurocontrast.parallel.devices import launched

if TYPE_CHECKING:
    import pandas as pd

    from neurocontrast.config import Config
    from neurocontrast.progress import Progress


def option(help: str, *names: str, metavar: str | None = None) -> Any:
    """Return Typer's description of an option."""
    return typer.Option(*names, help=help, metavar=metavar)


def argument(metavar: str, help: str) -> Any:
    """Return Typer's description of an argument."""
    return typer.Argument(help=help, metavar=metavar)


_SECTIONS = {
    "evaluate": "evaluation",
    "finetune": "evaluation",
    "compare": "evaluation",
    "explain": "explanation",
    "embed": "embedding",
}
"""The section of the configuration whose keys a command's messages name without it."""
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
class Given:
    """The options of every command."""

    as_json: Annotated[bool, option("Print the result as JSON, for programs.", "--json")] = False
    quiet: Annotated[
        bool, option("Show no progress: errors and the result only.", "--quiet", "-q")
    ] = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """The command's own options by name: the arguments of the function of Python that does its work."""

    @property
    def progress(self) -> Progress:
        """A progress for a terminal, a log, or nowhere."""
        return console_progress(quiet=self.quiet)


@dataclass(frozen=True)
class Configured(Given):
    """Options of every command, and options of commands with a configuration."""

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
        """Return the configuration: the file, then ``--set``, then the command's own options.

        Each section has the values of its keys as Typer gives them; None is an option that was not
        given.
        """
        from neurocontrast.config import load_config

        return load_config(
            self.config, self.overrides or (), sections=sections, check_objective=check_objective
        )


@dataclass(frozen=True)
class Evaluating(Configured):
    """Options of commands that evaluate: the target and the folds."""

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
        """Return the configuration with keys of its section ``evaluation`` set by options."""
        own = (
            set(Evaluating.__dataclass_fields__)
            - set(Configured.__dataclass_fields__)
            - {"overwrite"}
        )
        return self.resolve(evaluation={name: getattr(self, name) for name in own} | others)


def command(function: Callable[..., Result]) -> Callable[..., None]:
    """Return a command that has the options of `function` and of its argument `given`, and prints its result."""
    own = dict(inspect.signature(function, eval_str=True).parameters)
    kind = own.pop("given").annotation
    shared = dict(inspect.signature(kind, eval_str=True).parameters)
    del shared["options"]
    last = Configured.__dataclass_fields__

    def run(**options: Any) -> None:
        for name, value in options.items():
            options[name] = _on_disk(value)
        given = kind(**{name: options.pop(name) for name in shared}, options=options)
        try:
            with nullcontext() if given.quiet or launched().rank else sign_of_life():
                result = function(given, **options)
        except NeurocontrastError as error:
            error.args = (
                in_flags(str(error), own | shared, _SECTIONS.get(function.__name__, "")),
                *error.args[1:],
            )
            raise
        show_result(result, as_json=given.as_json)
        if result.exit_code:
            raise typer.Exit(result.exit_code)

    run.__name__ = function.__name__
    run.__doc__ = function.__doc__
    options = [*own.values(), *sorted(shared.values(), key=lambda each: each.name in last)]
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return run


def _on_disk(value: Any) -> Any:
    """Return paths among an argument's values in the form of Unicode that the disk has."""
    if isinstance(value, Path):
        return place_on_disk(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_on_disk, value))
    return value


def in_flags(message: str, parameters: Mapping[str, inspect.Parameter], section: str = "") -> str:
    """Return a message that names parameters as Python does, with the flags of a command in their place.

    ``out: …`` or ``out must …`` at the beginning of a line gets ``--out``, ``overwrite=True``
    becomes ``--overwrite``, and ``n_workers=1`` becomes ``--n-workers 1``. A key of the command's
    `section` of the configuration that has no flag, such as ``harmonise=none``, becomes ``--set
    evaluation.harmonise=none``. A flag that the message names already is left alone.
    """
    for name, parameter in parameters.items():
        options = [
            each
            for each in getattr(parameter.annotation, "__metadata__", ())
            if isinstance(each, OptionInfo)
        ]
        flag = [*(options[0].param_decls or () if options else ()), f"--{name.replace('_', '-')}"][
            0
        ].partition("/")[0]
        if options and flag not in message:
            # Without a file and --set, a value of the configuration was given by its flag.
            message = re.sub(
                rf"^(configuration: \w+\.)?{name}(\.\d+)?(?=: | must )",
                flag,
                message,
                flags=re.MULTILINE,
            )
            message = re.sub(rf"(?<![\w.]){name}=[Tt]rue\b", flag, message)
            message = re.sub(rf"(?<![\w.]){name}=[Ff]alse\b", f"--no-{flag[2:]}", message)
            message = re.sub(rf"(?<![\w.]){name}=(?=\w)", f"{flag} ", message)
    from neurocontrast.config import Config

    keys: set[str] = (
        set(getattr(Config.model_fields[section].annotation, "model_fields", ()))
        if section
        else set()
    )
    for name in keys - parameters.keys():
        message = re.sub(rf"(?<![\w.-]){name}=(?=[\w\[{{])", f"--set {section}.{name}=", message)
    return re.sub(r"\b([Ss])et (?=--)", lambda found: {"s": "use ", "S": "Use "}[found[1]], message)


_MOST_ROWS = 30
_WIDTH_OF_LINES = 400


@dataclass(frozen=True)
class Result:
    """Last lines of a command: its result, files and next step."""

    facts: Mapping[str, object] = field(default_factory=dict)  # for programs, JSON-ready
    title: str = ""
    table: pd.DataFrame | None = None  # for people; numbers are shown with three digits
    notes: list[str] = field(default_factory=list)
    path: Path | None = None  # the file to open, or the folder that was written
    exit_code: int = 0  # 1 where a part failed, 2 where the input is bad
    next: Sequence[object] = ()  # the words of the command that comes next, without the program

    def last_lines(self) -> list[str]:
        """Return notes, the next command and the path, which follow the table."""
        lines = list(self.notes)
        if self.next:
            lines.append(f"Next: neurocontrast {shlex.join(map(format, self.next))}")
        if self.path is not None:
            lines.append(f"{self.path}")
        return lines


def accept_any_character() -> None:
    """Let standard output and errors replace characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            # In UTF-8 names of files that are no text are written as the bytes that they are.
            errors = "replace"
            if _is_unicode(stream):
                errors = "surrogateescape"
            stream.reconfigure(errors=errors)


def _is_unicode(stream: Any) -> bool:
    """Tell whether a stream can hold every character."""
    return str(getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def as_json_text(content: object, *, indent: int | None = None) -> str:
    """Return JSON for standard output, with escapes where its encoding lacks characters."""
    is_escaped = not _is_unicode(sys.stdout)
    return json.dumps(content, indent=indent, ensure_ascii=is_escaped, default=str)


def print_line(content: Mapping[str, object]) -> None:
    """Print an object as one line of JSON, at once."""
    print(as_json_text(content), flush=True)


def show_result(result: Result, *, as_json: bool = False) -> None:
    """Print a result: a table on a terminal, plain lines in a pipe, or JSON; the next command and the path come last.

    Of several processes of a run the first prints.
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
    """Print the first rows of a table: with lines on a terminal, plain in a pipe."""
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
    return (
        console
        if console.is_terminal
        else Console(file=stream, highlight=False, width=_WIDTH_OF_LINES)
    )


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
