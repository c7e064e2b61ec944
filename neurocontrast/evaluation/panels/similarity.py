"""Similarity of classes in the embedding: mean cosines of pairs of classes, and of nearest neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.panels import Findings, Panel, PanelInputs
from neurocontrast.evaluation.planning import Study
from neurocontrast.exceptions import ConfigError

__all__ = ["PANEL", "class_cosines", "nearest_cosines", "unit_rows"]

Floats = npt.NDArray[np.floating]
Codes = npt.NDArray[np.integer]

N_BINS = 400
"""Bins of the histograms, between cosines of -1 and 1: the same for every embedding, so that they can be compared."""


def _check(study: Study) -> None:
    if study.settings.similarity and study.target.kind == "continuous":
        raise ConfigError(
            f"similarity: compares classes, and {study.target.name} is continuous. Leave it out, or give "
            "kind=categorical."
        )


def measure_similarity(inputs: PanelInputs) -> Findings:
    """Compare every tested row with the training rows of its fold, by the cosine of their features.

    The largest cosine with a training row of the own class (target) and of another class (noise), and mean cosines of
    classes (Feeney & Hughes 2023, figures 3 and 2). Of repeated folds the first repeat is used.
    """
    study = inputs.study
    if not study.settings.similarity:
        return Findings()
    splits = [split for split in study.splits if split.repeat == 0]
    codes, classes = study.target.values.astype(np.intp), study.target.classes
    n, units, nearest = len(classes), unit_rows(study.features), []
    sums, pairs = np.zeros((2, n, n))
    with inputs.progress.task("Comparing classes", len(splits), "fold") as task:
        for split in splits:
            part = units[split.test], codes[split.test], units[split.train], codes[split.train]
            mean, counts = class_cosines(*part, n_classes=n)
            sums += np.nan_to_num(mean) * counts
            pairs += counts
            nearest.append(nearest_cosines(*part, n_classes=n))
            task.advance()
    means = np.where(pairs > 0, sums / np.where(pairs > 0, pairs, 1.0), np.nan)
    target, noise = (np.concatenate(each) for each in zip(*nearest, strict=True))
    names = np.array(classes, dtype=object)
    columns = {"class": names.repeat(n), "reference": np.tile(names, n), "cosine": means.ravel()}
    tables = {
        "similarity": pd.DataFrame(columns).assign(n_pairs=pairs.ravel().astype(int)),
        "cosines": pd.concat([_histogram("target", target), _histogram("noise", noise)], ignore_index=True),
    }
    n_reference = round(float(np.mean([len(split.train) for split in splits])))
    about = {"n_reference": n_reference, "n_folds": len(splits)}
    return Findings({"similarity": about | _summarise(means, target, noise)}, tables)


def unit_rows(features: Floats) -> npt.NDArray[np.float32]:
    """Return each row divided by its length, in float32; a row of zeros stays, and has a cosine of 0 with all rows."""
    rows = np.asarray(features, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def class_cosines(
    tested: Floats, tested_codes: Codes, trained: Floats, trained_codes: Codes, *, n_classes: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the mean cosine of tested and training rows of each pair of classes (NaN without a pair), and pairs."""
    one, other = (np.eye(n_classes)[codes] for codes in (tested_codes, trained_codes))
    pairs = np.outer(one.sum(axis=0), other.sum(axis=0))
    sums = (one.T @ tested.astype(np.float64)) @ (other.T @ trained.astype(np.float64)).T
    return np.where(pairs > 0, sums / np.where(pairs > 0, pairs, 1.0), np.nan), pairs


def nearest_cosines(
    tested: Floats, tested_codes: Codes, trained: Floats, trained_codes: Codes, *, n_classes: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the largest cosine of each tested row with a training row of its own class, and of any other class."""
    best = np.full((len(tested), n_classes), np.nan, dtype=np.float32)
    for code in np.unique(trained_codes):  # class by class, to hold fewer cosines in memory
        best[:, code] = (tested @ trained[trained_codes == code].T).max(axis=1)
    rows = np.arange(len(tested))
    target = best[rows, tested_codes]
    best[rows, tested_codes] = np.nan
    return target, np.fmax.reduce(best, axis=1)


def _histogram(name: str, values: Floats) -> pd.DataFrame:
    edges = np.linspace(-1.0, 1.0, N_BINS + 1)
    # Rounding gives cosines of 1.0000001, which are in the last bin.
    counts, _ = np.histogram(np.clip(values[np.isfinite(values)], -1.0, 1.0), edges)
    return pd.DataFrame({"neighbour": name, "low": edges[:-1], "high": edges[1:], "n": counts})


def _summarise(means: npt.NDArray[np.float64], target: Floats, noise: Floats) -> dict[str, Any]:
    both = np.isfinite(target) & np.isfinite(noise)
    target, noise, same = target[both], noise[both], np.eye(len(means), dtype=bool)
    middles = {"target": target, "noise": noise, "difference": target - noise}
    return {
        "n": len(target),
        **{
            name: {"mean": _mean(values), "median": float(np.median(values)) if len(values) else None}
            for name, values in middles.items()
        },
        "own_class_nearest": float((target > noise).mean()) if len(target) else None,
        "within": _mean(means[same]),
        "between": _mean(means[~same]),
    }


def _mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean(dtype=np.float64)) if len(known) else None


PANEL = Panel(order=50, run=measure_similarity, check=_check)
