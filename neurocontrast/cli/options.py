"""Options that several commands share, and how a command's options become one configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from neurocontrast.config import Config

__all__ = [
    "ConfigOption",
    "Evaluated",
    "ImagesRoot",
    "JsonOption",
    "OverwriteOption",
    "ParticipantsOption",
    "QuietOption",
    "RunSettings",
    "SetOption",
    "resolve",
]

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="YAML configuration; unused sections are ignored.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one key, e.g. training.epochs=10; may be repeated."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress: errors and the result only.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace what an earlier run of this command wrote.")
]
ParticipantsOption = Annotated[Path, typer.Option(metavar="PARTICIPANTS.tsv", help="Table with one row a scan.")]
RunSettings = Annotated[
    Path | None,
    typer.Option("--participants", metavar="PARTICIPANTS.tsv", help="Same as --set data.participants=..."),
]
ImagesRoot = Annotated[
    Path | None, typer.Option(help="Folder that relative image paths start from (default: the table's).")
]
Evaluated = Annotated[Path, typer.Argument(metavar="EVAL", help="Evaluation directory of `evaluate`.")]


def resolve(
    config: Path | None,
    overrides: list[str] | None,
    section: str | None = None,
    given: Mapping[str, Any] | None = None,
    *,
    check_objective: bool = False,
) -> Config:
    """Return the configuration: the file, then ``--set``, then the command's own options.

    Of the arguments `given` to the command, those that are not None and keys of `section` belong to this section.
    """
    from neurocontrast.config import Config, load_config

    given = given or {}
    # A section of two kinds, such as data, has no fields of its own: all that is given belongs to it.
    fields = getattr(Config.model_fields[section].annotation, "model_fields", given) if section else ()
    flags = [
        f"{section}.{name}={json.dumps(value, default=str)}"
        for name, value in given.items()
        if value is not None and name in fields
    ]
    return load_config(config, [*(overrides or ()), *flags], check_objective=check_objective)
