"""``neurocontrast compare``: evaluations of several models on the same folds, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import ConfigOption, OverwriteOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("compare")(compare)


def compare(
    evaluations: Annotated[
        list[Path],
        typer.Argument(metavar="EVAL1 EVAL2 ...", help="Evaluation directories; the first is the reference."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Comparison directory to write.")],
    names: Annotated[
        str | None, typer.Option("--names", help="What the models are called, with commas between (default: folders).")
    ] = None,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Compare evaluations of the same scans in the same folds, with tests that know that folds overlap."""
    from neurocontrast import stages

    settings = resolve(config, overrides, {}).evaluation
    written = stages.compare(
        evaluations,
        out=out,
        names=None if names is None else [name.strip() for name in names.split(",")],
        n_bootstraps=settings.n_bootstraps,
        confidence_level=settings.confidence_level,
        seed=settings.seed,
        overwrite=overwrite,
        progress=console_progress(quiet=quiet),
    )
    typer.echo((written / "differences.tsv").read_text(encoding="utf-8"), nl=False)
    typer.echo(written / "comparison.html")
