"""``neurocontrast evaluate``: cross-validated probes on frozen embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import ConfigOption, OverwriteOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("evaluate")(evaluate)


def evaluate(
    embeddings: Annotated[Path, typer.Argument(metavar="EMB.parquet", help="Embeddings table of `embed`.")],
    out: Annotated[Path, typer.Option("--out", help="Evaluation directory to write.")],
    target: Annotated[
        str | None, typer.Option("--target", help="Column to predict: diagnosis, age, sex, site ...")
    ] = None,
    splits: Annotated[
        str | None, typer.Option("--splits", metavar="stratified|leave-site-out", help="How folds are made.")
    ] = None,
    n_folds: Annotated[int | None, typer.Option("--n-folds", help="Number of folds of stratified splits.")] = None,
    n_repeats: Annotated[
        int | None, typer.Option("--n-repeats", help="How often stratified splits are drawn anew.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of splits and bootstrap.")] = None,
    positive: Annotated[str | None, typer.Option("--positive", help="Class that counts as positive.")] = None,
    split_file: Annotated[
        Path | None, typer.Option("--split-file", help="Folds to use again: the splits.tsv of another evaluation.")
    ] = None,
    n_permutations: Annotated[
        int | None, typer.Option("--n-permutations", help="Test against labels permuted within site, so many times.")
    ] = None,
    allow_overlap: Annotated[
        bool,
        typer.Option(
            "--allow-overlap", help="Evaluate participants of the pretraining cohort too (said in the report)."
        ),
    ] = False,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Predict a column from frozen embeddings by cross-validation, beside age, sex and site alone."""
    from neurocontrast import stages

    flags = {
        "evaluation.target": target,
        "evaluation.splits": splits,
        "evaluation.n_folds": n_folds,
        "evaluation.n_repeats": n_repeats,
        "evaluation.seed": seed,
        "evaluation.positive": positive,
        "evaluation.split_file": None if split_file is None else str(split_file),
        "evaluation.n_permutations": n_permutations,
        "evaluation.allow_overlap": True if allow_overlap else None,
    }
    settings = resolve(config, overrides, flags).evaluation
    written = stages.evaluate(
        embeddings, settings=settings, out=out, overwrite=overwrite, progress=console_progress(quiet=quiet)
    )
    typer.echo(written)
