"""``neurocontrast evaluate``: cross-validated probes on frozen embeddings."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from neurocontrast.cli.cohort import show_plan
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
    test: Annotated[
        Path | None,
        typer.Option("--test", metavar="EMB2.parquet", help="Other people, by the same run: tested once, at the end."),
    ] = None,
    probe: Annotated[
        str | None, typer.Option("--probe", metavar="auto|logistic|ridge|svm|knn", help="What is fitted.")
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="RULE",
            help="half, prevalence, youden, sensitivity=0.9, specificity=0.9, or a probability.",
        ),
    ] = None,
    train_sizes: Annotated[
        str | None,
        typer.Option("--train-sizes", metavar="100,200,...", help="Learning curve: numbers of training subjects."),
    ] = None,
    n_draws: Annotated[
        int | None, typer.Option("--n-draws", help="How often the subjects of each size are drawn in each fold.")
    ] = None,
    n_permutations: Annotated[
        int | None, typer.Option("--n-permutations", help="Test against labels permuted within site, so many times.")
    ] = None,
    n_jobs: Annotated[
        int | None, typer.Option("--n-jobs", help="Processes that fit probes; results are the same for any number.")
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
        "evaluation.test": None if test is None else str(test),
        "evaluation.probe": probe,
        "evaluation.threshold": threshold,
        "evaluation.train_sizes": None if train_sizes is None else _sizes(train_sizes),
        "evaluation.n_draws": n_draws,
        "evaluation.n_permutations": n_permutations,
        "evaluation.n_jobs": n_jobs,
        "evaluation.allow_overlap": True if allow_overlap else None,
    }
    settings = resolve(config, overrides, flags).evaluation
    console = Console(stderr=True, quiet=quiet, highlight=False)
    written = stages.evaluate(
        embeddings,
        settings=settings,
        out=out,
        overwrite=overwrite,
        on_plan=partial(show_plan, console=console),
        progress=console_progress(quiet=quiet),
    )
    typer.echo(written)


def _sizes(text: str) -> list[int | str]:
    # What is no number stays as it is: the settings say what is wrong with it.
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [int(part) if part.isdecimal() else part for part in parts]
