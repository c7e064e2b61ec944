"""``neurocontrast evaluate``: cross-validated probes on frozen embeddings."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from neurocontrast.cli.cohort import show_plan
from neurocontrast.cli.new_site import show_new_site
from neurocontrast.cli.options import ConfigOption, OverwriteOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress

__all__ = ["register"]


TargetOption = Annotated[str | None, typer.Option("--target", help="Column to predict: diagnosis, age, sex, site ...")]
SplitsOption = Annotated[
    str | None, typer.Option("--splits", metavar="stratified|leave-site-out", help="How folds are made.")
]
FoldsOption = Annotated[int | None, typer.Option("--n-folds", help="Number of folds of stratified splits.")]
RepeatsOption = Annotated[int | None, typer.Option("--n-repeats", help="How often stratified splits are drawn anew.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Seed of splits and bootstrap.")]
PositiveOption = Annotated[str | None, typer.Option("--positive", help="Class that counts as positive.")]
SplitFileOption = Annotated[
    Path | None, typer.Option("--split-file", help="Folds to use again: the splits.tsv of another evaluation.")
]
TestOption = Annotated[
    Path | None,
    typer.Option("--test", metavar="EMB2.parquet", help="Other people, by the same run: tested once, at the end."),
]
ScansOption = Annotated[
    Path | None,
    typer.Option("--scans", metavar="TABLE", help="Table of the same scans, for the baseline of their voxels."),
]
ProbeOption = Annotated[
    str | None,
    typer.Option(
        "--probe", metavar="auto|logistic|ridge|svm|knn|sgd|MODULE:OBJECT", help="What is fitted, by scikit-learn."
    ),
]
ThresholdOption = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        metavar="RULE",
        help="When a scan is positive: half, prevalence, youden, sensitivity=0.9, specificity=0.9, or a probability.",
    ),
]
SizesOption = Annotated[
    str | None,
    typer.Option("--train-sizes", metavar="100,200,...", help="Learning curve: numbers of training subjects."),
]
DrawsOption = Annotated[
    int | None, typer.Option("--n-draws", help="How often the subjects of each size are drawn in each fold.")
]
PermutationsOption = Annotated[
    int | None, typer.Option("--n-permutations", help="Test against labels permuted within site, so many times.")
]
JobsOption = Annotated[
    int | None, typer.Option("--n-jobs", help="Processes that fit probes; results are the same for any number.")
]
OverlapOption = Annotated[
    bool,
    typer.Option("--allow-overlap", help="Evaluate participants of the pretraining cohort too (said in the report)."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("evaluate")(evaluate)


def evaluate(
    embeddings: Annotated[Path, typer.Argument(metavar="EMB.parquet", help="Embeddings table of `embed`.")],
    out: Annotated[Path, typer.Option("--out", help="Evaluation directory to write.")],
    target: TargetOption = None,
    splits: SplitsOption = None,
    n_folds: FoldsOption = None,
    n_repeats: RepeatsOption = None,
    seed: SeedOption = None,
    positive: PositiveOption = None,
    split_file: SplitFileOption = None,
    test: TestOption = None,
    scans: ScansOption = None,
    probe: ProbeOption = None,
    threshold: ThresholdOption = None,
    train_sizes: SizesOption = None,
    n_draws: DrawsOption = None,
    n_permutations: PermutationsOption = None,
    n_jobs: JobsOption = None,
    allow_overlap: OverlapOption = False,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Predict a column from frozen embeddings by cross-validation, beside age, sex and site alone."""
    from neurocontrast import stages

    flags = {
        "target": target, "splits": splits, "n_folds": n_folds, "n_repeats": n_repeats, "seed": seed,
        "positive": positive, "split_file": _text(split_file), "test": _text(test), "scans": _text(scans),
        "probe": probe, "threshold": threshold, "train_sizes": _sizes(train_sizes), "n_draws": n_draws,
        "n_permutations": n_permutations, "n_jobs": n_jobs, "allow_overlap": allow_overlap or None,
    }  # fmt: skip
    settings = resolve(config, overrides, {f"evaluation.{key}": value for key, value in flags.items()}).evaluation
    console = Console(stderr=True, quiet=quiet, highlight=False)
    written = stages.evaluate(
        embeddings,
        settings=settings,
        out=out,
        overwrite=overwrite,
        on_plan=partial(show_plan, console=console),
        progress=console_progress(quiet=quiet),
    )
    show_new_site(written, console=console)
    typer.echo(written)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _sizes(text: str | None) -> list[int | str] | None:
    if text is None:
        return None
    # What is no number stays as it is: the settings say what is wrong with it.
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [int(part) if part.isdecimal() else part for part in parts]
