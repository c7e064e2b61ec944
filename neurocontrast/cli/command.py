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

__all__ = ["Configured", "Evaluated", "Given", "ImagesRoot", "Overwrite", "Participants", "Table", "command"]

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run of this command wrote.")]
Table = Annotated[Path, typer.Argument(metavar="PARTICIPANTS.tsv", help="Table with one row a scan.")]
Participants = Annotated[Path, typer.Option(metavar="PARTICIPANTS.tsv", help="Table with one row a scan.")]
ImagesRoot = Annotated[
    Path | None, typer.Option(help="Folder that relative image paths start from (default: the table's).")
]
Evaluated = Annotated[Path, typer.Argument(metavar="EVAL", help="Evaluation directory of `evaluate`.")]


@dataclass(frozen=True)
class Given:
    """The options of every command."""

    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress: errors and the result only.")] = False

    @property
    def progress(self) -> Progress:
        """A progress for a terminal, a log, or nowhere."""
        return console_progress(quiet=self.quiet)


@dataclass(frozen=True)
class Configured(Given):
    """The options of every command, and those of a configuration."""

    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="YAML configuration; unused sections are ignored.")
    ] = None
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override one key, e.g. training.epochs=10; may be repeated."),
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
        if result.has_failed:
            raise typer.Exit(2)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = inspect.Signature([*own.values(), *shared.values()])  # type: ignore[attr-defined]
    return run
