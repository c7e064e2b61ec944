"""``neurocontrast explain``: where in the brain the encoder and the probe look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import ConfigOption, OverwriteOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("explain")(explain)


def explain(
    evaluation: Annotated[Path, typer.Argument(metavar="EVAL", help="Evaluation directory of `evaluate`.")],
    run: Annotated[Path, typer.Option("--run", metavar="RUN", help="Run directory whose embeddings were evaluated.")],
    participants: Annotated[
        Path, typer.Option("--participants", metavar="PARTICIPANTS.tsv", help="Table of the evaluated scans.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write (default: EVAL/explanation, where `report` looks).")
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", metavar="occlusion|gradient", help="How the map is made.")
    ] = None,
    n_subjects: Annotated[int | None, typer.Option("--n-subjects", help="Subjects to average over, at most.")] = None,
    patch_mm: Annotated[float | None, typer.Option("--patch-mm", help="Side of the occluded cubes.")] = None,
    positive: Annotated[str | None, typer.Option("--positive", help="Of several classes, the one to explain.")] = None,
    images_root: Annotated[
        Path | None,
        typer.Option("--images-root", help="Folder that relative image paths start from (default: the table's)."),
    ] = None,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Map where in the brain a change of the scan changes what the probe says, for `report` to show."""
    from neurocontrast import stages
    from neurocontrast.training.launched import launched

    flags = {
        "explanation.method": method,
        "explanation.n_subjects": n_subjects,
        "explanation.patch_mm": patch_mm,
        "explanation.positive": positive,
        "data.images_root": None if images_root is None else str(images_root),
    }
    written = stages.explain(
        evaluation,
        run=run,
        participants=participants,
        out=out,
        config=resolve(config, overrides, flags),
        overwrite=overwrite,
        progress=console_progress(quiet=quiet),
    )
    if launched().rank == 0:
        typer.echo(written)
