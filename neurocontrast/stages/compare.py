"""Evaluations of several models on the same folds, side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neurocontrast.evaluation.comparison import Evaluated, compare_models, load_evaluated
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import atomic_folder, check_output_folder, write_json, write_text
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment

__all__ = ["compare"]


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
    """Compare evaluations of the same scans in the same folds with the first of them.

    Parameters
    ----------
    evaluations : sequence of path
        Folders written by `evaluate`; the first is the reference, whose ``splits.tsv`` the others use.
    out : path
        Folder to write: ``models.tsv``, ``differences.tsv`` and ``comparison.json``.
    names : sequence of str, optional
        What the models are called; the folders' names by default.
    n_bootstraps, confidence_level, seed : int, float, int
        Of the intervals.
    overwrite : bool, default=False
        Whether a comparison already at `out` is replaced.
    progress : Progress
        Told how far the work is.

    Returns
    -------
    Path
        The folder.
    """
    folder = Path(out)
    check_output_folder(folder, overwrite=overwrite, marker="comparison.json", what="a comparison")
    if n_bootstraps < 1 or not 0 < confidence_level < 1:
        raise ConfigError(
            f"n_bootstraps must be 1 or more and confidence_level between 0 and 1; got {n_bootstraps} and "
            f"{confidence_level}."
        )
    loaded = _load(evaluations, names)
    progress.message(f"Comparing {len(loaded)} evaluations")
    models, differences = compare_models(loaded, n_bootstraps=n_bootstraps, level=confidence_level, seed=seed)
    about = {"n_bootstraps": n_bootstraps, "confidence_level": confidence_level, "seed": seed}
    with atomic_folder(folder) as new:
        write_text(new / "models.tsv", models.to_csv(sep="\t", index=False))
        write_text(new / "differences.tsv", differences.to_csv(sep="\t", index=False))
        write_json(new / "comparison.json", {**_describe(loaded), **about})
    return folder


def _load(evaluations: Sequence[str | os.PathLike[str]], names: Sequence[str] | None) -> list[Evaluated]:
    if names is not None and len(names) != len(evaluations):
        raise ConfigError(f"names: one for each of the {len(evaluations)} evaluations is needed, got {len(names)}.")
    called = [Path(folder).name for folder in evaluations] if names is None else list(names)
    return [load_evaluated(folder, name=name) for folder, name in zip(evaluations, called, strict=True)]


def _describe(loaded: list[Evaluated]) -> dict[str, Any]:
    first = loaded[0].summary
    shared = ("target", "kind", "classes", "positive", "splits", "n_folds", "n_repeats")
    origins = ("run", "objective", "embeddings", "n_overlap", "simulated", "warnings")
    return {
        "format": 1,
        **{key: first.get(key) for key in shared},
        "reference": loaded[0].name,
        "models": [{"name": each.name, **{key: each.summary.get(key) for key in origins}} for each in loaded],
        "test": "corrected resampled t-test over folds (Nadeau and Bengio, 2003), adjusted by Holm within each metric",
        "environment": describe_environment(),
    }
