"""``neurocontrast predict``: the probe of an evaluation, applied to other embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import OverwriteOption, QuietOption
from neurocontrast.cli.progress import console_progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("predict")(predict)


def predict(
    probe: Annotated[
        Path, typer.Argument(metavar="EVAL", help="Evaluation directory of `evaluate`, or its folder `probe`.")
    ],
    embeddings: Annotated[Path, typer.Argument(metavar="EMB.parquet", help="Embeddings by the same run.")],
    out: Annotated[Path, typer.Option("--out", help="Table to write, ending in .tsv.")],
    outside_percentile: Annotated[
        float,
        typer.Option(
            "--outside-percentile",
            help="Scans further out than this percentile of the training scans are called outside.",
        ),
    ] = 97.5,
    overwrite: OverwriteOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict with the probe that an evaluation has fitted on all of its scans."""
    from neurocontrast import stages

    written = stages.predict(
        probe,
        embeddings,
        out=out,
        outside_percentile=outside_percentile,
        overwrite=overwrite,
        progress=console_progress(quiet=quiet),
    )
    typer.echo(written)
