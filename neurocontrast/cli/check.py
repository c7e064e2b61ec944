"""``neurocontrast check``: is this table, and are these scans, fit to use?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import ConfigOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("check")(check)


def check(
    participants: Annotated[Path, typer.Argument(metavar="PARTICIPANTS.tsv", help="Table with one row a scan.")],
    images_root: Annotated[
        Path | None,
        typer.Option("--images-root", help="Folder that relative image paths start from (default: the table's)."),
    ] = None,
    table_only: Annotated[
        bool, typer.Option("--table-only", help="Check the table and that files exist; open no image.")
    ] = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Check a table of scans, or of images, and every one in it; list all problems at once (exit code 2 if any).

    With --config, or --set of what is done to scans (data.shape, data.normalise …), also whether each scan fits that.
    """
    from neurocontrast import stages
    from neurocontrast.config import DataSettings

    flags = {"data.images_root": None if images_root is None else str(images_root)}
    settings = resolve(config, overrides, flags).data
    given = {each.partition("=")[0].strip().removeprefix("data.") for each in overrides or ()}
    preprocessing = settings.preprocessing if isinstance(settings, DataSettings) else None
    if preprocessing is not None and config is None and given.isdisjoint(preprocessing.model_dump()):
        preprocessing = None
    found = stages.check(
        participants,
        images_root=settings.images_root,
        preprocessing=preprocessing,
        kind=settings.kind if config is not None or "kind" in given else None,
        n_workers=settings.n_workers,
        deep=not table_only,
        progress=console_progress(quiet=quiet),
    )
    typer.echo(found.to_text())
    if not found.passed:
        raise typer.Exit(2)
