"""Bands around ROC and precision–recall curves, by resampling of subjects or sites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["GRID", "curve_band"]

Floats = npt.NDArray[np.float64]

GRID: Floats = np.linspace(0.0, 1.0, 101)
"""Places along the horizontal axis at which a band is given."""

MAX_UNDEFINED_SHARE = 0.05
"""A band is withheld where more resamples than this hold one class only."""

_N_DRAWS, _FEWEST_DRAWS, _WORK = 500, 200, 20_000_000
_CHUNK_VALUES = 4_000_000


def curve_band(
    rows: pd.DataFrame,
    *,
    column: str,
    positive: str,
    curve: Literal["roc", "precision_recall"],
    unit: str = "subject",
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame | None:
    """Return pointwise percentiles of a pooled out-of-fold curve over resamples; None where there are none.

    Whole units are drawn with replacement, all their scans together, and the fitted models are held
    fixed, as for the intervals of the metrics. With repeats, a resample's curve is the mean over
    repeats.

    Parameters
    ----------
    rows : DataFrame
        Out-of-fold predictions: ``repeat``, ``y_true``, `column`, and the column of the unit.
    column : str
        The score.
    positive : str
        Name of the positive class.
    curve : {"roc", "precision_recall"}
        Sensitivity over 1 − specificity, or precision over recall.
    unit, level, seed : {"subject", "site"}, float, int
        What is drawn, the share of resamples within the band at each place, and the resamples' seed.

    Returns
    -------
    DataFrame or None
        ``x``, ``low``, ``high``, at the places of `GRID`.
    """
    if column not in rows:
        return None
    known = rows[rows[column].notna() & rows["y_true"].notna()]
    name = "site" if unit == "site" else next((key for key in ("subject_id", "participant_id") if key in known), None)
    truth = (known["y_true"] == positive).to_numpy()
    if name is None or not len(known) or truth.all() or not truth.any():
        return None
    codes, units = pd.factorize(known[name].fillna(""))
    draws = _draw(codes, len(units), _repeats(known), truth, known[column].to_numpy(float), _HEIGHTS[curve], seed)
    defined = draws[np.isfinite(draws).all(axis=1)]
    if len(units) < 2 or len(defined) < (1 - MAX_UNDEFINED_SHARE) * len(draws):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return pd.DataFrame({"x": GRID, "low": low, "high": high})


def _repeats(rows: pd.DataFrame) -> list[npt.NDArray[np.intp]]:
    repeats = rows["repeat"].to_numpy()
    return [np.flatnonzero(repeats == repeat) for repeat in np.unique(repeats)]


def _draw(
    codes: npt.NDArray[np.intp],
    n_units: int,
    repeats: list[npt.NDArray[np.intp]],
    truth: npt.NDArray[np.bool_],
    scores: Floats,
    heights: Callable[[Floats, Floats], Floats],
    seed: int,
) -> Floats:
    """Return the curve's heights over the grid in every resample (n draws, n places)."""
    n_draws = int(np.clip(_WORK // len(codes), _FEWEST_DRAWS, _N_DRAWS))
    generator = np.random.default_rng(seed)
    # The same people in every repeat: a resample is one set of subjects.
    counts = generator.multinomial(n_units, np.full(n_units, 1 / n_units), size=n_draws).astype(float)
    total = np.zeros((n_draws, len(GRID)))
    for members in repeats:
        order = members[np.argsort(-scores[members], kind="stable")]
        last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # one place a distinct score
        step = max(1, _CHUNK_VALUES // len(order))
        for start in range(0, n_draws, step):
            weights = counts[start : start + step][:, codes[order]]
            found = np.cumsum(weights * truth[order], axis=1)[:, last]
            called = np.cumsum(weights, axis=1)[:, last]
            total[start : start + step] += heights(found, called - found)
    return total / len(repeats)


def _roc_heights(found: Floats, false: Floats) -> Floats:
    heights = np.full((len(found), len(GRID)), np.nan)
    for row, (true_positives, false_positives) in enumerate(zip(found, false, strict=True)):
        if true_positives[-1] and false_positives[-1]:
            x = np.append(0.0, false_positives / false_positives[-1])
            heights[row] = np.interp(GRID, x, np.append(0.0, true_positives / true_positives[-1]))
    return heights


def _precision_heights(found: Floats, false: Floats) -> Floats:
    heights = np.full((len(found), len(GRID)), np.nan)
    for row, (true_positives, false_positives) in enumerate(zip(found, false, strict=True)):
        if true_positives[-1] and false_positives[-1]:
            called = true_positives + false_positives
            precision = np.divide(true_positives, called, out=np.ones_like(called), where=called > 0)
            # Precision at the first threshold that finds so many: it must not be interpolated.
            place = np.searchsorted(true_positives / true_positives[-1], np.maximum(GRID, 1e-9) - 1e-12)
            heights[row] = precision[place]
    return heights


_HEIGHTS = {"roc": _roc_heights, "precision_recall": _precision_heights}
