"""``neurocontrast embed``: the frozen encoder's features of every scan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import ConfigOption, OverwriteOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("embed")(embed)


def embed(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory of `pretrain`.")],
    participants: Annotated[
        Path, typer.Option("--participants", metavar="PARTICIPANTS.tsv", help="Table with one row a scan.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="EMB.parquet", help="Embeddings table to write.")],
    images_root: Annotated[
        Path | None,
        typer.Option("--images-root", help="Folder that relative image paths start from (default: the table's)."),
    ] = None,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Embed scans with a frozen encoder, preprocessed exactly as the run's own scans were."""
    from neurocontrast import stages
    from neurocontrast.training.launched import launched

    flags = {"data.images_root": None if images_root is None else str(images_root)}
    settings = resolve(config, overrides, flags)
    written = stages.embed(
        run,
        participants=participants,
        out=out,
        config=settings,
        overwrite=overwrite,
        progress=console_progress(quiet=quiet),
    )
    if launched().rank == 0:
        typer.echo(written)
