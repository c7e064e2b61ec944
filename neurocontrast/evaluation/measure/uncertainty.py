"""Bootstrap intervals of pooled metrics, BCa (Efron, 1987), by subjects or sites."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
from scipy.stats import norm
from sklearn.utils import gen_batches

from neurocontrast.documents.figures import Estimate
from neurocontrast.evaluation.fit.out_of_fold import OutOfFold
from neurocontrast.evaluation.metrics import RANKED, compute_metrics
from neurocontrast.evaluation.rows import Floats, Labels, Rows, Texts
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_generator

MAX_LEFT_OUT = 200
"""More units than this are left out in groups."""
MAX_RANKED = 300_000
"""With more classes × scans, figures that rank scans are not resampled: too slow."""
MAX_RESAMPLED = 50_000_000
ENOUGH_RESAMPLES = 500
"""Most scans × resamples, and the fewest resamples when that cuts them.

Intervals of very many scans are nearly normal, and need fewer resamples.
"""
_CHUNK_VALUES = 4_000_000
MAX_UNDEFINED_SHARE = 0.05
"""An interval is withheld where more resamples than this leave the metric undefined."""


@dataclass(frozen=True, eq=False)
class Resamples:
    """A figure of all units, without some units, and of every resample.

    Two figures of the same resamples are paired.
    """

    value: float
    left_out: Floats
    drawn: Floats

    def combine(self, other: Resamples, function: Callable[[Floats, Floats], Floats]) -> Resamples:
        """Return a function of this figure and another one of the same resamples."""
        value = float(function(np.array(self.value), np.array(other.value)))
        return Resamples(
            value, function(self.left_out, other.left_out), function(self.drawn, other.drawn)
        )

    def __sub__(self, other: Resamples) -> Resamples:
        """Return the difference of two figures."""
        return self.combine(other, np.subtract)

    def interval(self, *, level: float) -> tuple[float, float] | None:
        """Return the bias-corrected and accelerated interval.

        Undefined resamples are left out. None where these are more than 5 %, where the value is not
        defined, and where all resamples are equal: an AUC of 1 among ten people is 1 in every
        resample, which does not make it certain.

        Examples
        --------
        >>> draws = np.random.default_rng(0).normal(size=2000)
        >>> low, high = Resamples(0.0, np.linspace(-0.1, 0.1, 50), draws).interval(level=0.95)
        >>> round(low, 1), round(high, 1)
        (-1.9, 2.0)
        """
        defined = self.drawn[np.isfinite(self.drawn)]
        enough = len(defined) >= max(1.0, (1 - MAX_UNDEFINED_SHARE) * len(self.drawn))
        # A resample equal to the value lies half below it; rounding must not decide.
        slack = 1e-12 * max(1.0, abs(self.value))
        if not enough or not np.isfinite(self.value) or np.ptp(defined) <= slack:
            return None
        below = (defined < self.value - slack).sum() + 0.5 * (
            np.abs(defined - self.value) <= slack
        ).sum()
        bias = norm.ppf(
            np.clip(below / len(defined), 1 / (len(defined) + 1), len(defined) / (len(defined) + 1))
        )
        shifted = bias + norm.ppf([(1 - level) / 2, (1 + level) / 2])
        stretch = 1 - self._acceleration() * shifted
        places = np.where(
            stretch > 0, norm.cdf(bias + shifted / np.where(stretch > 0, stretch, 1.0)), shifted > 0
        )
        low, high = np.quantile(defined, places)
        return float(low), float(high)

    def figure(self, *, level: float) -> Estimate:
        """Return the value with its interval; None where undefined or without resamples."""
        value = None
        interval = None
        if np.isfinite(self.value):
            value = float(self.value)
            interval = self.interval(level=level)
        low = None
        high = None
        if interval is not None:
            low, high = interval
        # Named even where None, so that files say that there is no interval.
        return Estimate(value=value, low=low, high=high)

    def _acceleration(self) -> float:
        known = self.left_out[np.isfinite(self.left_out)]
        if not len(known):
            return 0.0
        influence = known.mean() - known
        squares = float((influence**2).sum())
        return (
            float((influence**3).sum()) / (6 * squares**1.5)
            if squares > 1e-24 * max(1.0, self.value**2)
            else 0.0
        )


def pooled_metrics(
    target: Target,
    predictions: OutOfFold,
    *,
    rows: Rows | None = None,
    weights: Floats | None = None,
    names: Collection[str] | None = None,
) -> dict[str, Floats]:
    """Return metrics of the pooled out-of-fold predictions of `rows`, averaged over repeats.

    All metrics, or those that are named.
    """
    chosen = np.arange(len(target.values)) if rows is None else rows
    per_repeat = []
    for scores, decisions, folds in zip(
        predictions.scores, predictions.decisions, predictions.folds, strict=True
    ):
        tested = folds[chosen] >= 0
        part = chosen[tested]
        if len(part):
            counted = None if weights is None else weights[:, tested]
            found = compute_metrics(
                target.kind,
                target.values[part],
                scores[part],
                decisions=decisions[part],
                folds=folds[part],
                weights=counted,
                names=names,
            )
            per_repeat.append(found)
    return {
        name: np.mean([values[name] for values in per_repeat], axis=0) for name in per_repeat[0]
    }


def bootstrap_metrics(
    target: Target,
    models: dict[str, OutOfFold],
    units: Texts,
    *,
    n_bootstraps: int,
    seed: int,
    rows: Rows | None = None,
    names: Collection[str] | None = None,
    plain: Collection[str] = (),
    advance: Callable[[int], None] = lambda _: None,
) -> dict[str, dict[str, Resamples]]:
    """Return every metric of every model on each resample of units: subjects, or whole sites.

    Metrics in `plain`, and those that rank very many scans within each of several classes, are not
    resampled.
    """
    chosen = np.arange(len(target.values)) if rows is None else rows
    asked = target.metric_names if names is None else names
    if target.kind == "multiclass" and len(target.classes) * len(chosen) > MAX_RANKED:
        plain = (*plain, *RANKED)
    resampled = [name for name in asked if name not in plain]
    collected: dict[str, dict[str, list[Floats]]] = {name: {} for name in models}
    blocks: Iterable[tuple[Floats, Collection[str]]] = [(np.ones((1, len(chosen))), asked)]
    if n_bootstraps and resampled:
        drawn = resample_counts(units[chosen], n_bootstraps=n_bootstraps, seed=seed)
        blocks = chain(
            blocks, ((weights, resampled) for weights in chain(leave_out(units[chosen]), drawn))
        )
    for weights, wanted in blocks:
        for name, predictions in models.items():
            found = pooled_metrics(target, predictions, rows=chosen, weights=weights, names=wanted)
            for metric, values in found.items():
                collected[name].setdefault(metric, []).append(values)
        advance(len(weights))

    def resamples(parts: list[Floats]) -> Resamples:
        values = np.concatenate(parts)
        first = max(1, len(values) - n_bootstraps)
        return Resamples(float(values[0]), values[1:first], values[first:])

    return {
        name: {key: resamples(parts) for key, parts in metrics.items()}
        for name, metrics in collected.items()
    }


def count_resamples(n_bootstraps: int, n_rows: int) -> int:
    """Return the number of resamples of `n_rows` scans: fewer than `asked` for very many scans."""
    return min(n_bootstraps, max(ENOUGH_RESAMPLES, MAX_RESAMPLED // max(1, n_rows)))


def leave_out(units: Labels) -> Iterator[Floats]:
    """Yield blocks of weights (groups, scans) that leave out each unit or group of units.

    There are at most `MAX_LEFT_OUT` groups.
    """
    codes = np.unique(units, return_inverse=True)[1] % MAX_LEFT_OUT
    groups = np.unique(codes)[:, None]
    for part in gen_batches(len(groups), max(1, _CHUNK_VALUES // len(units))):
        yield (codes != groups[part]).astype(float)


def resample_counts(units: Labels, *, n_bootstraps: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of weights (resamples, scans): how often each scan's unit was drawn."""
    codes = np.unique(units, return_inverse=True)[1]
    n_units = int(codes.max()) + 1
    generator = derive_generator("bootstrap", seed)
    for part in gen_batches(n_bootstraps, max(1, _CHUNK_VALUES // len(units))):
        size = part.stop - part.start
        counts = generator.multinomial(n_units, np.full(n_units, 1 / n_units), size=size)
        yield counts[:, codes].astype(float)
