"""Pages that can be mailed, printed and archived: the report of an evaluation, and the comparison of several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.evaluation.comparison import (
    Evaluated,
    compare_models,
    load_evaluated,
    tradeoff_table,
    unseen_columns,
)
from neurocontrast.evaluation.schema import LearningCurve
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import (
    atomic_folder,
    atomic_path,
    check_output_folder,
    check_writable,
    write_json,
    write_table,
    write_text,
)
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.reporting import (
    SECTIONS,
    ComparisonFiles,
    Picture,
    build_comparison,
    list_pictures,
    read_evaluation,
    render_comparison,
    render_page,
)

__all__ = ["compare", "report"]

PRIMARY = {"binary": "auc", "multiclass": "balanced_accuracy", "continuous": "mae"}
"""The metric that is set against the site, by kind of target."""
_TEST_OVER_FOLDS = (
    "corrected resampled t-test over folds (Nadeau and Bengio, 2003), adjusted by Holm within each metric"
)
_TEST_OF_IMAGES = (
    "McNemar's exact test of the same test images (DeLong's for the AUC of two classes), adjusted by Holm within each "
    "metric; it is about these fitted models, not about others that another seed would have trained"
)


def report(
    evaluation: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    show_ids: bool = False,
    figures_dir: str | os.PathLike[str] | None = None,
    figures: bool = True,
    progress: Progress = SILENT,
) -> Path:
    """Write one self-contained HTML report of an evaluation, and return its path.

    Parameters
    ----------
    evaluation : path
        Folder written by `evaluate`.
    out : path, optional
        Page to write; ``report.html`` in the evaluation folder by default.
    show_ids : bool, default=False
        Whether identifiers of participants may appear in the page.
    figures_dir : path, optional
        Folder for every figure as SVG and PNG, and its numbers as a table; by default ``figures`` beside
        ``report.html``, ``NAME_figures`` beside a page ``NAME.html``.
    figures : bool, default=True
        Whether the figures are written as files too.
    progress : Progress
        Receives progress messages.
    """
    files = read_evaluation(evaluation, show_ids=show_ids)
    page = files.folder / "report.html" if out is None else Path(out)
    if page.is_dir():
        raise ConfigError(f"out: must be a file, but '{page}' is a folder. Give for instance '{page / 'report.html'}'.")
    if page.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"out: must end in .html, got '{page}'. Give for instance '{page.with_suffix('.html')}'.")
    check_writable(page)
    beside = page.with_name("figures" if page.stem == "report" else f"{page.stem}_figures")
    folder = beside if figures_dir is None else Path(figures_dir)
    if figures:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"figures_dir: must be a folder, but '{folder}' is a file. Give another.")
        check_writable(folder, parameter="figures_dir")
    sections = []
    with progress.task("Building the report", len(SECTIONS), "section") as task:
        for build in SECTIONS:
            section = build(files, SECTIONS)
            sections += [] if section is None else [section]
            task.advance()
    write_text(page, render_page(files, sections))
    if figures:
        _write_figures(folder, list_pictures(sections), progress=progress)
    return page


def _write_figures(folder: Path, pictures: Sequence[Picture], *, progress: Progress) -> None:
    """Write each figure as ``name.svg`` and ``name.png``, its numbers as ``name.tsv``; list them in ``figures.tsv``."""
    with progress.task("Writing figures", len(pictures), "figure") as task:
        for picture in pictures:
            for file_format in ("svg", "png"):
                with atomic_path(folder / f"{picture.name}.{file_format}") as temporary:
                    temporary.write_bytes(picture.encode(file_format))
            if picture.numbers is not None:
                write_table(folder / f"{picture.name}.tsv", picture.numbers)
            task.advance()
    listed = [(each.name, each.caption, each.alt) for each in pictures]
    write_table(folder / "figures.tsv", pd.DataFrame(listed, columns=["name", "caption", "alt"]))


def compare(
    evaluations: Sequence[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str],
    names: Sequence[str] | None = None,
    n_bootstraps: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Compare evaluations of the same scans in the same folds, and return the folder of the comparison.

    Parameters
    ----------
    evaluations : sequence of path
        Folders written by `evaluate`; the first is the reference, whose ``splits.tsv`` the others use.
    out : path
        Folder to write: ``comparison.html``, its tables and figures, and ``comparison.json``.
    names : sequence of str, optional
        Names of the models; those of the folders by default.
    n_bootstraps, confidence_level, seed
        Resamples, coverage and seed of the intervals.
    overwrite : bool, default=False
        Whether a comparison already at `out` is replaced.
    progress : Progress
        Receives progress messages.
    """
    folder = Path(out)
    check_output_folder(folder, overwrite=overwrite, marker="comparison.json", what="a comparison")
    if n_bootstraps < 1 or not 0 < confidence_level < 1:
        found = f"got {n_bootstraps} and {confidence_level}"
        raise ConfigError(f"n_bootstraps must be 1 or more and confidence_level between 0 and 1; {found}.")
    if names is not None and len(names) != len(evaluations):
        raise ConfigError(f"names: one for each of the {len(evaluations)} evaluations is needed, got {len(names)}.")
    names = names or [Path(each).name for each in evaluations]
    loaded = [load_evaluated(each, name=name) for each, name in zip(evaluations, names, strict=True)]
    progress.message(f"Comparing {len(loaded)} evaluations")
    how: dict[str, Any] = {"n_bootstraps": n_bootstraps, "level": confidence_level, "seed": seed}
    models, differences = compare_models(loaded, **how)
    by_name = {each.name: each for each in loaded}
    unseen = [unseen_columns(by_name[row["model"]], row["metric"]) for row in models.to_dict("records")]
    tables = {
        "models": pd.concat([models, pd.DataFrame(unseen, index=models.index)], axis=1),
        "differences": differences,
        "learning_curves": _learning_curves(loaded),
        "tradeoff": tradeoff_table(loaded, models, metric=PRIMARY[loaded[0].evaluation.kind]),
    }
    about = {"n_bootstraps": n_bootstraps, "interval_method": "BCa", "confidence_level": confidence_level, "seed": seed}
    with atomic_folder(folder) as new:
        for name, table in tables.items():
            if len(table):
                write_table(new / f"{name}.tsv", table)
        summary = {**_describe(loaded), **about}
        write_json(new / "comparison.json", summary)
        files = ComparisonFiles(summary, **{name: table.fillna(np.nan) for name, table in tables.items()})
        sections = build_comparison(files)
        write_text(new / "comparison.html", render_comparison(files, sections))
        _write_figures(new / "figures", list_pictures(sections), progress=progress)
    return folder


def _learning_curves(loaded: list[Evaluated]) -> pd.DataFrame:
    """Return the learning curves of all models, and those of what the first was compared with, as one table."""
    columns = ["model", "metric", "n_train", "mean", "sd", "n"]
    curves = {each.name: each.evaluation.learning_curve or LearningCurve() for each in loaded}
    parts = {name: curve.metrics for name, curve in curves.items()}
    first = curves[loaded[0].name]
    parts |= {"covariates only": first.baseline, "voxels": first.voxels, "regional measures": first.regional}
    rows = [
        {"model": name, "metric": metric, **point.model_dump()}
        for name, metrics in parts.items()
        for metric, points in metrics.items()
        for point in points
    ]
    return pd.DataFrame(rows).reindex(columns=columns)


def _describe(loaded: list[Evaluated]) -> dict[str, Any]:
    contents = [each.evaluation.content() for each in loaded]
    shared = ("target", "kind", "classes", "positive", "splits", "n_folds", "n_repeats")
    origins = ("run", "objective", "embeddings", "n_overlap", "simulated", "warnings")
    return {
        "format": 1,
        **{key: contents[0].get(key) for key in shared},
        "reference": loaded[0].name,
        "models": [
            {"name": each.name, **{key: content.get(key) for key in origins}}
            for each, content in zip(loaded, contents, strict=True)
        ],
        "test": _TEST_OF_IMAGES if contents[0]["splits"] == "fixed" else _TEST_OVER_FOLDS,
        "environment": describe_environment(),
    }
