"""How alike the classes are in the embedding: mean cosines of pairs of classes, and of nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from neurocontrast.progress import Progress

if TYPE_CHECKING:  # planning calls the check below
    from neurocontrast.evaluation.planning import Study

__all__ = ["Similarity", "check_similarity", "class_cosines", "measure_similarity", "nearest_cosines", "unit_rows"]

Floats = npt.NDArray[np.floating]
Codes = npt.NDArray[np.integer]

N_BINS = 400
"""Bins of the histograms, between cosines of -1 and 1: the same for every embedding, so that they can be compared."""
BLOCK = 512
"""Tested rows whose cosines with all training rows are in memory at once: 100 MiB with 50,000 of these."""


@dataclass(frozen=True)
class Similarity:
    """``similarity`` of evaluation.json and its tables; None where it was not asked for."""

    summary: dict[str, Any] | None
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)


def check_similarity(target: Target, settings: EvaluationSettings) -> None:
    """Refuse a question that has no answer: numbers are of no class."""
    if settings.similarity and target.kind == "continuous":
        raise ConfigError(
            f"similarity: compares classes, and {target.name} is continuous. Leave it out, or give kind=categorical."
        )


def measure_similarity(study: Study, progress: Progress) -> Similarity:
    """Compare every tested row with the training rows of its fold, by the cosine of their features.

    For each tested row the largest cosine with a training row of its own class (target) and with one of another
    class (noise) is taken: where both meet, nearest neighbours cannot tell the classes (Feeney & Hughes 2023, fig. 3).
    Beside, the mean cosine of each class with each (fig. 2). Of repeated folds the first repeat is used.

    Parameters
    ----------
    study : Study
        As `plan_study` returned it; ``settings.similarity`` says whether anything is measured.
    progress : Progress
        Told how far the work is.
    """
    if not study.settings.similarity:
        return Similarity(None)
    splits = [split for split in study.splits if split.repeat == 0]
    codes, classes = study.target.values.astype(np.intp), study.target.classes
    units = unit_rows(study.features)
    sums, pairs, nearest = np.zeros((2, len(classes), len(classes))), np.zeros((len(classes),) * 2), []
    with progress.task("Comparing classes", len(splits), "fold") as task:
        for split in splits:
            part = units[split.test], codes[split.test], units[split.train], codes[split.train]
            mean, n = class_cosines(*part, n_classes=len(classes))
            sums[0] += np.nan_to_num(mean) * n
            pairs += n
            nearest.append(nearest_cosines(*part, n_classes=len(classes)))
            task.advance()
    means = np.where(pairs > 0, sums[0] / np.where(pairs > 0, pairs, 1.0), np.nan)
    target, noise = np.concatenate([each[0] for each in nearest]), np.concatenate([each[1] for each in nearest])
    tables = {"similarity": _pair_table(means, pairs, classes), "cosines": _histogram_table(target, noise)}
    return Similarity(_summarise(means, target, noise, splits), tables)


def unit_rows(features: Floats) -> npt.NDArray[np.float32]:
    """Return each row divided by its length, in float32; a row of zeros stays one, and has a cosine of 0 with all."""
    rows = np.asarray(features, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def class_cosines(
    tested: Floats, tested_codes: Codes, trained: Floats, trained_codes: Codes, *, n_classes: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the mean cosine of each class's tested rows with each class's training rows, and the number of pairs.

    Parameters
    ----------
    tested, trained : array (n, p), (m, p)
        Rows of unit length.
    tested_codes, trained_codes : array of int
        Their classes, 0 to `n_classes` - 1.
    n_classes : int
        Number of classes.

    Returns
    -------
    tuple of array (n_classes, n_classes)
        NaN, and 0, where there is no pair. The mean over pairs is the product of the classes' mean vectors, so
        that no matrix of pairs is needed.
    """
    sums, counts = [], []
    for rows, codes in ((tested, tested_codes), (trained, trained_codes)):
        sums.append(np.stack([rows[codes == code].sum(axis=0, dtype=np.float64) for code in range(n_classes)]))
        counts.append(np.bincount(codes, minlength=n_classes).astype(np.float64))
    pairs = np.outer(counts[0], counts[1])
    return np.where(pairs > 0, sums[0] @ sums[1].T / np.where(pairs > 0, pairs, 1.0), np.nan), pairs


def nearest_cosines(
    tested: Floats, tested_codes: Codes, trained: Floats, trained_codes: Codes, *, n_classes: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return each tested row's largest cosine with a training row of its own class, and of any other class.

    Parameters
    ----------
    tested, tested_codes, trained, trained_codes, n_classes
        As for `class_cosines`.

    Returns
    -------
    tuple of array (n,)
        NaN where the training rows have no such class.
    """
    order = np.argsort(trained_codes, kind="stable")
    ordered, present = trained[order], np.unique(trained_codes)
    starts = np.searchsorted(trained_codes[order], present)
    best = np.full((len(tested), n_classes), np.nan, dtype=np.float32)
    for start in range(0, len(tested), BLOCK):
        cosines = tested[start : start + BLOCK] @ ordered.T
        best[start : start + BLOCK, present] = np.maximum.reduceat(cosines, starts, axis=1)
    rows = np.arange(len(tested))
    target = best[rows, tested_codes]
    best[rows, tested_codes] = np.nan
    known = ~np.isnan(best).all(axis=1)
    noise = np.full(len(tested), np.nan, dtype=np.float32)
    noise[known] = np.nanmax(best[known], axis=1)
    return target, noise


def _pair_table(means: npt.NDArray[np.float64], pairs: Floats, classes: Sequence[str]) -> pd.DataFrame:
    rows = [
        {"class": name, "reference": other, "cosine": means[row, column], "n_pairs": int(pairs[row, column])}
        for row, name in enumerate(classes)
        for column, other in enumerate(classes)
    ]
    return pd.DataFrame(rows)


def _histogram_table(target: Floats, noise: Floats) -> pd.DataFrame:
    edges = np.linspace(-1.0, 1.0, N_BINS + 1)
    parts = []
    for name, values in (("target", target), ("noise", noise)):
        # Rounding gives cosines of 1.0000001, which are in the last bin.
        counts, _ = np.histogram(np.clip(values[np.isfinite(values)], -1.0, 1.0), edges)
        parts.append(pd.DataFrame({"neighbour": name, "low": edges[:-1], "high": edges[1:], "n": counts}))
    return pd.concat(parts, ignore_index=True)


def _summarise(
    means: npt.NDArray[np.float64], target: Floats, noise: Floats, splits: Sequence[Split]
) -> dict[str, Any]:
    both = np.isfinite(target) & np.isfinite(noise)
    same = np.eye(len(means), dtype=bool)
    return {
        "n": int(both.sum()),
        "n_reference": round(float(np.mean([len(split.train) for split in splits]))),
        "n_folds": len(splits),
        "target": _middle(target[both]),
        "noise": _middle(noise[both]),
        "difference": _middle(target[both] - noise[both]),
        "own_class_nearest": float((target[both] > noise[both]).mean()) if both.any() else None,
        "within": _mean(means[same]),
        "between": _mean(means[~same]),
    }


def _middle(values: Floats) -> dict[str, float | None]:
    return {"mean": _mean(values), "median": float(np.median(values)) if len(values) else None}


def _mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean(dtype=np.float64)) if len(known) else None
