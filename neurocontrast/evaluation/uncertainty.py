"""Intervals of pooled metrics, by resampling of subjects or of sites."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.metrics import compute_metrics
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_generator

__all__ = ["bootstrap_metrics", "percentile_interval", "pooled_metrics", "resample_counts"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

MAX_UNDEFINED_SHARE = 0.05
"""An interval is withheld where more resamples than this leave the metric undefined."""

_CHUNK_VALUES = 4_000_000


def pooled_metrics(
    target: Target,
    predictions: OutOfFold,
    *,
    rows: Rows | None = None,
    weights: Floats | None = None,
    names: Collection[str] | None = None,
) -> dict[str, Floats]:
    """Return metrics of the pooled out-of-fold predictions, averaged over repeats: all, or those named.

    Within a repeat every tested scan counts once (or as often as its weight), whatever its fold.
    `rows` must hold a tested scan.
    """
    chosen = np.arange(len(target.values)) if rows is None else rows
    per_repeat = []
    for scores, decisions, folds in zip(predictions.scores, predictions.decisions, predictions.folds, strict=True):
        tested = folds[chosen] >= 0
        part = chosen[tested]
        if not len(part):
            continue
        per_repeat.append(
            compute_metrics(
                target.kind,
                target.values[part],
                scores[part],
                decisions=decisions[part],
                folds=folds[part],
                weights=None if weights is None else weights[:, tested],
                names=names,
            )
        )
    return {name: np.mean([values[name] for values in per_repeat], axis=0) for name in per_repeat[0]}


def bootstrap_metrics(
    target: Target,
    models: dict[str, OutOfFold],
    units: npt.NDArray[np.object_],
    *,
    n_bootstraps: int,
    seed: int,
    rows: Rows | None = None,
    names: Collection[str] | None = None,
) -> dict[str, dict[str, Floats]]:
    """Return every metric of every model on each resample of units: subjects, or whole sites.

    All models see the same resamples, so differences between them are paired. What varies is
    who was tested; the fitted probes stay as they are.
    """
    chosen = np.arange(len(target.values)) if rows is None else rows
    collected: dict[str, dict[str, list[Floats]]] = {name: {} for name in models}
    for weights in resample_counts(units[chosen], n_bootstraps=n_bootstraps, seed=seed):
        for name, predictions in models.items():
            found = pooled_metrics(target, predictions, rows=chosen, weights=weights, names=names)
            for metric, values in found.items():
                collected[name].setdefault(metric, []).append(values)
    return {
        name: {metric: np.concatenate(parts) for metric, parts in metrics.items()}
        for name, metrics in collected.items()
    }


def resample_counts(units: npt.NDArray[np.object_], *, n_bootstraps: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of weights (resamples, scans): how often each scan's unit was drawn.

    As many units as there are are drawn with replacement, each with all of its scans.
    """
    codes = np.unique(units, return_inverse=True)[1]
    n_units = int(codes.max()) + 1
    generator = derive_generator("bootstrap", seed)
    block = max(1, _CHUNK_VALUES // len(units))
    for start in range(0, n_bootstraps, block):
        size = min(block, n_bootstraps - start)
        counts = generator.multinomial(n_units, np.full(n_units, 1 / n_units), size=size)
        yield counts[:, codes].astype(float)


def percentile_interval(values: Floats, *, level: float) -> tuple[float, float] | None:
    """Return the central share `level` of resampled values.

    Undefined resamples are left out; None where they are more than 5 %, or all there is.
    """
    defined = values[np.isfinite(values)]
    if not len(defined) or len(defined) < (1 - MAX_UNDEFINED_SHARE) * len(values):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
