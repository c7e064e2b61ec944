"""The commands that need no network: `evaluate`, `predict`, `report`, `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import (
    ConfigOption,
    Evaluated,
    JsonOption,
    OverwriteOption,
    QuietOption,
    SetOption,
    resolve,
)
from neurocontrast.cli.output import Result, console_progress, show_result
from neurocontrast.cli.results import comparison_result, evaluation_result, prediction_result, show_plan
from neurocontrast.exceptions import ConfigError

__all__ = ["compare", "evaluate", "predict", "report"]

_PROBES = "auto|logistic|ridge|svm|knn|sgd|MODULE:OBJECT"
_RULES = "half, prevalence, youden, sensitivity=0.9, specificity=0.9, or a probability"

Sizes = Annotated[str | None, typer.Option(metavar="100,200,...", help="Learning curve: numbers of training subjects.")]
Overlap = Annotated[
    bool | None, typer.Option("--allow-overlap", help="Evaluate participants of the pretraining cohort too.")
]
Jobs = Annotated[int | None, typer.Option(help="Processes that fit probes; results are the same for any number.")]


def evaluate(
    embeddings: Annotated[Path, typer.Argument(metavar="EMB.parquet", help="Embeddings table of `embed`.")],
    out: Annotated[Path, typer.Option(help="Evaluation directory to write.")],
    target: Annotated[str | None, typer.Option(help="Column to predict: diagnosis, age, sex, site ...")] = None,
    splits: Annotated[str | None, typer.Option(metavar="stratified|leave-site-out", help="How folds are made.")] = None,
    n_folds: Annotated[int | None, typer.Option(help="Number of folds of stratified splits.")] = None,
    n_repeats: Annotated[int | None, typer.Option(help="How often stratified splits are drawn anew.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of splits and bootstrap.")] = None,
    positive: Annotated[str | None, typer.Option(help="Class that counts as positive.")] = None,
    split_file: Annotated[
        Path | None, typer.Option(help="Folds to use again: the splits.tsv of another evaluation.")
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(metavar="EMB2.parquet", help="Other people, by the same run: tested once, at the end"),
    ] = None,
    scans: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Table of the same scans, for the baseline of their voxels.")
    ] = None,
    probe: Annotated[str | None, typer.Option(metavar=_PROBES, help="What is fitted, by scikit-learn.")] = None,
    threshold: Annotated[str | None, typer.Option(metavar="RULE", help=f"When a scan is positive: {_RULES}.")] = None,
    train_sizes: Sizes = None,
    n_draws: Annotated[
        int | None, typer.Option(help="How often the subjects of each size are drawn in each fold.")
    ] = None,
    n_permutations: Annotated[
        int | None, typer.Option(help="Test against labels permuted within site, so many times.")
    ] = None,
    n_jobs: Jobs = None,
    allow_overlap: Overlap = None,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict a column from frozen embeddings by cross-validation, beside age, sex and site alone."""
    from neurocontrast import stages

    given = {**locals(), "train_sizes": _sizes(train_sizes)}
    written = stages.evaluate(
        embeddings,
        settings=resolve(config, overrides, "evaluation", given).evaluation,
        out=out,
        overwrite=overwrite,
        on_plan=(lambda _study, _external: None) if quiet else show_plan,
        progress=console_progress(quiet=quiet),
    )
    show_result(evaluation_result(written), as_json=as_json)


def _sizes(text: str | None) -> list[int | str] | None:
    # What is no number stays as it is: the settings say what is wrong with it.
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    return None if text is None else [int(part) if part.isdecimal() else part for part in parts]


def predict(
    probe: Annotated[
        Path, typer.Argument(metavar="EVAL", help="Evaluation directory of `evaluate`, or its folder `probe`.")
    ],
    embeddings: Annotated[Path, typer.Argument(metavar="EMB.parquet", help="Embeddings by the same run.")],
    out: Annotated[Path, typer.Option(help="Table to write, ending in .tsv.")],
    outside_percentile: Annotated[
        float, typer.Option(help="Scans further out than this percentile of the training scans are called outside.")
    ] = 97.5,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
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
    show_result(prediction_result(written), as_json=as_json)


def report(
    evaluation: Evaluated,
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write (default: report.html in the directory).")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for every figure as SVG, PNG and TSV (default: beside the page).")
    ] = None,
    no_figures: Annotated[bool, typer.Option("--no-figures", help="Write the page alone.")] = False,
    show_ids: Annotated[
        bool | None, typer.Option("--show-ids/--hide-ids", help="Show participant identifiers.")
    ] = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make one self-contained HTML report of an evaluation."""
    from neurocontrast import stages

    if no_figures and figures is not None:
        raise ConfigError("--figures and --no-figures exclude each other. Give one of them.")
    written = stages.report(
        evaluation,
        out=out,
        show_ids=resolve(config, overrides, "report", {"show_ids": show_ids}).report.show_ids,
        figures_dir=figures,
        figures=not no_figures,
        progress=console_progress(quiet=quiet),
    )
    show_result(Result(path=written), as_json=as_json)


def compare(
    evaluations: Annotated[
        list[Path],
        typer.Argument(metavar="EVAL1 EVAL2 ...", help="Evaluation folders; the first is the reference."),
    ],
    out: Annotated[Path, typer.Option(help="Comparison directory to write.")],
    names: Annotated[
        str | None, typer.Option(help="What the models are called, with commas between (default: folders).")
    ] = None,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare evaluations of the same scans in the same folds, with tests that know that folds overlap."""
    from neurocontrast import stages

    settings = resolve(config, overrides).evaluation
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
    show_result(comparison_result(written), as_json=as_json)
