"""Intervals of pooled metrics, by resampling of subjects or of sites."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.intervals import Resamples
from neurocontrast.evaluation.metrics import RANKED, compute_metrics
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_generator

__all__ = ["MAX_RANKED", "bootstrap_metrics", "leave_out", "pooled_metrics", "resample_counts", "resampled_names"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

MAX_LEFT_OUT = 200
"""More units than this are left out in groups."""

MAX_RANKED = 300_000
"""With more classes × tested images, figures that rank them within each class are not resampled: it takes too long."""

_CHUNK_VALUES = 4_000_000


def resampled_names(target: Target, rows: Rows, *, fixed: bool) -> tuple[str, ...]:
    """Return the metrics that have an interval: all, but of many images of many classes none that ranks them.

    Of 10,000 test images of 100 classes, 2,000 resamples of these three would take a quarter of an hour.
    """
    if not fixed or len(target.classes) * len(rows) <= MAX_RANKED:
        return target.metric_names
    return tuple(name for name in target.metric_names if name not in RANKED)


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
) -> dict[str, dict[str, Resamples]]:
    """Return every metric of every model on each resample of units: subjects, or whole sites.

    All models see the same resamples, so differences between them are paired. What varies is
    who was tested; the fitted probes stay as they are.
    """
    chosen = np.arange(len(target.values)) if rows is None else rows
    collected: dict[str, dict[str, list[Floats]]] = {name: {} for name in models}
    blocks: Iterable[Floats] = [np.ones((1, len(chosen)))]
    if n_bootstraps:
        drawn = resample_counts(units[chosen], n_bootstraps=n_bootstraps, seed=seed)
        blocks = chain(blocks, leave_out(units[chosen]), drawn)
    for weights in blocks:
        for name, predictions in models.items():
            found = pooled_metrics(target, predictions, rows=chosen, weights=weights, names=names)
            for metric, values in found.items():
                collected[name].setdefault(metric, []).append(values)
    return {
        name: {metric: _resamples(np.concatenate(parts), n_bootstraps) for metric, parts in metrics.items()}
        for name, metrics in collected.items()
    }


def _resamples(values: Floats, n_bootstraps: int) -> Resamples:
    n_others = len(values) - n_bootstraps
    return Resamples(float(values[0]), values[1:n_others], values[n_others:])


def leave_out(units: npt.NDArray[np.generic]) -> Iterator[Floats]:
    """Yield blocks of weights (groups, scans) that leave out each unit, or each of `MAX_LEFT_OUT` groups of units."""
    codes = np.unique(units, return_inverse=True)[1] % MAX_LEFT_OUT
    n_groups = int(codes.max()) + 1
    block = max(1, _CHUNK_VALUES // len(units))
    for start in range(0, n_groups, block):
        groups = np.arange(start, min(start + block, n_groups))
        yield (codes != groups[:, None]).astype(float)


def resample_counts(units: npt.NDArray[np.generic], *, n_bootstraps: int, seed: int) -> Iterator[Floats]:
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
