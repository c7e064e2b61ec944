"""Options that every command takes, and how they become one configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from neurocontrast.config import Config

__all__ = ["ConfigOption", "OverwriteOption", "QuietOption", "SetOption", "resolve"]

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="YAML configuration; sections that this command does not use are ignored."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one key, e.g. training.epochs=10; may be repeated."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show errors only.")]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace what an earlier run of this command wrote.")
]


def resolve(config: Path | None, overrides: list[str] | None, flags: Mapping[str, Any]) -> Config:
    """Return the configuration: the file, then ``--set``, then the command's own flags.

    Parameters
    ----------
    config : Path or None
        YAML file; None for the defaults.
    overrides : list of str or None
        ``dotted.key=value`` as given to ``--set``.
    flags : mapping of str to value
        Dotted key of each of the command's own options; None means not given.
    """
    from neurocontrast.config import load_config

    given = [f"{key}={json.dumps(value)}" for key, value in flags.items() if value is not None]
    return load_config(config, [*(overrides or ()), *given])
