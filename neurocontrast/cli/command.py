"""What commands share: their options, and how a function that returns a result becomes a command."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neurocontrast.cli.output import Result, console_progress, show_result

if TYPE_CHECKING:
    from neurocontrast.config import Config
    from neurocontrast.progress import Progress

__all__ = [
    "Configured",
    "Evaluated",
    "Given",
    "ImagesRoot",
    "Overwrite",
    "Participants",
    "Table",
    "argument",
    "command",
    "option",
]


def option(help: str, *names: str, metavar: str | None = None) -> Any:
    """Return what Typer shows of an option."""
    return typer.Option(*names, help=help, metavar=metavar)


def argument(metavar: str, help: str) -> Any:
    """Return what Typer shows of an argument."""
    return typer.Argument(help=help, metavar=metavar)


Overwrite = Annotated[bool, option("Replace what an earlier run of this command wrote.", "--overwrite")]
Table = Annotated[Path, argument("PARTICIPANTS.tsv", "Table with one row a scan.")]
Participants = Annotated[Path, option("Table with one row a scan.", metavar="PARTICIPANTS.tsv")]
ImagesRoot = Annotated[Path | None, option("Folder that relative image paths start from (default: the table's).")]
Evaluated = Annotated[Path, argument("EVAL", "Evaluation directory of `evaluate`.")]


@dataclass(frozen=True)
class Given:
    """The options of every command."""

    as_json: Annotated[bool, option("Print the result as JSON, for programs.", "--json")] = False
    quiet: Annotated[bool, option("Show no progress: errors and the result only.", "--quiet", "-q")] = False

    @property
    def progress(self) -> Progress:
        """A progress for a terminal, a log, or nowhere."""
        return console_progress(quiet=self.quiet)


@dataclass(frozen=True)
class Configured(Given):
    """The options of every command, and those of a configuration."""

    config: Annotated[
        Path | None, option("YAML file, or the name of a recipe (`config list`).", "--config", metavar="FILE")
    ] = None
    overrides: Annotated[
        list[str] | None,
        option("Override one key, e.g. training.epochs=10; may be repeated.", "--set", metavar="KEY=VALUE"),
    ] = None

    def resolve(
        self, section: str | None = None, options: Mapping[str, Any] | None = None, *, check_objective: bool = False
    ) -> Config:
        """Return the configuration: the file, then ``--set``, then the command's own options.

        Of these `options`, those that are not None and are keys of `section` belong to that section.
        """
        from neurocontrast.config import Config, load_config

        options = options or {}
        # A section of two kinds, such as data, has no fields of its own: all options belong to it.
        fields = getattr(Config.model_fields[section].annotation, "model_fields", options) if section else ()
        flags = [
            f"{section}.{name}={json.dumps(value, default=str)}"
            for name, value in options.items()
            if value is not None and name in fields
        ]
        return load_config(self.config, [*(self.overrides or ()), *flags], check_objective=check_objective)


def command(function: Callable[..., Result]) -> Callable[..., None]:
    """Return a command that has the options of `function` and of its argument `given`, and prints its result."""
    own = dict(inspect.signature(function, eval_str=True).parameters)
    kind = own.pop("given").annotation
    shared = inspect.signature(kind, eval_str=True).parameters

    def run(**options: Any) -> None:
        given = kind(**{name: options.pop(name) for name in shared})
        result = function(given, **options)
        show_result(result, as_json=given.as_json)
        if result.exit_code:
            raise typer.Exit(result.exit_code)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = inspect.Signature([*own.values(), *shared.values()])  # type: ignore[attr-defined]
    return run
