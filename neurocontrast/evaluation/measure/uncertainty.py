"""Bootstrap intervals of pooled metrics, BCa (Efron, 1987), by subjects or sites."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
"""Most jackknife samples: more units than this are left out in groups."""
MAX_RANKED = 300_000
"""Largest product of classes and scans for which metrics that rank scans are resampled. A larger
product would take too long."""
MAX_RESAMPLED = 50_000_000
ENOUGH_RESAMPLES = 500
"""Fewest resamples of very many scans.

With more than `MAX_RESAMPLED` scans × resamples, resamples are cut, down to this number at most.
Intervals of very many scans are nearly normal, and need fewer resamples.
"""
_CHUNK_VALUES = 4_000_000
MAX_UNDEFINED_SHARE = 0.05
"""Share of resamples with an undefined metric above which no interval is given."""


@dataclass(frozen=True, eq=False)
class Resamples:
    """Values of one metric: of all scans, of jackknife samples, and of bootstrap resamples.

    `value` is of all scans; `left_out` holds a value for each jackknife sample, `drawn` for each
    bootstrap resample. Two metrics computed on the same resamples are paired, and can be
    subtracted.
    """

    value: float
    left_out: Floats
    drawn: Floats

    def combine(self, other: Resamples, function: Callable[[Floats, Floats], Floats]) -> Resamples:
        """Return the resamples of a metric that is a function of this metric and another.

        `function`, such as a ratio, takes arrays of values of this metric and of `other`, and
        returns the new values. It is applied to the values of all scans, to the values in each
        jackknife sample, and to the values in each bootstrap resample. This metric and `other` must
        therefore have been computed on the same jackknife samples and bootstrap resamples, in the
        same order.
        """
        value = float(function(np.array(self.value), np.array(other.value)))
        return Resamples(
            value, function(self.left_out, other.left_out), function(self.drawn, other.drawn)
        )

    def __sub__(self, other: Resamples) -> Resamples:
        """Return the resamples of this metric minus another on the same resamples."""
        return self.combine(other, np.subtract)

    def interval(self, *, level: float) -> tuple[float, float] | None:
        """Return the metric's bias-corrected and accelerated (BCa) bootstrap interval.

        Resamples that leave the metric undefined are left out. There is no interval (None) if more
        than 5 % are left out, if the value itself is undefined, or if all resamples are equal: an
        AUC of 1 among ten people is 1 in every resample, and still uncertain.

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
        """Return the metric's value, None if undefined, and its interval as an `Estimate`.

        `level` is that of the interval; its ends are None without bootstrap resamples.
        """
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
        """Return the BCa interval's acceleration, from the jackknife samples; 0 if undefined."""
        defined = self.left_out[np.isfinite(self.left_out)]
        if not len(defined):
            return 0.0
        influence = defined.mean() - defined
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
    """Compute metrics of `rows` from all folds' predictions together, averaged over repeats.

    All metrics of the target are computed, or with `names` only the metrics that `names` lists. The
    result is name of a metric → values, one for each row of `weights` (n, n_rows), or a single one
    without weights.
    """
    chosen = np.arange(len(target.values)) if rows is None else rows
    per_repeat = []
    for scores, decisions, folds in zip(
        predictions.scores, predictions.decisions, predictions.folds, strict=True
    ):
        is_tested = folds[chosen] >= 0
        tested = chosen[is_tested]
        if not len(tested):
            continue
        weights_of_tested = None
        if weights is not None:
            weights_of_tested = weights[:, is_tested]
        metrics = compute_metrics(
            target.kind,
            target.values[tested],
            scores[tested],
            decisions=decisions[tested],
            folds=folds[tested],
            weights=weights_of_tested,
            names=names,
        )
        per_repeat.append(metrics)
    pooled = {}
    for name in per_repeat[0]:
        pooled[name] = np.mean([metrics[name] for metrics in per_repeat], axis=0)
    return pooled


@dataclass(frozen=True, eq=False)
class Resampling:
    """Draws, with replacement, of subjects or sites (units), each with all its scans."""

    units: Texts
    """Label of the unit of each scan of the target."""
    n_resamples: int
    """Number of bootstrap resamples; with 0, metrics get a value and no interval."""
    seed: int
    """Draws with the same units and seed are the same for every model."""

    def weigh(self, rows: Rows) -> Iterator[Floats]:
        """Yield arrays of weights (n, scans), which together have a row for each sample.

        Jackknife samples come first, then bootstrap resamples. A weight says how often a sample
        holds a scan; the columns are the scans `rows`.
        """
        units = self.units[rows]
        yield from leave_out(units)
        yield from resample_counts(units, n_bootstraps=self.n_resamples, seed=self.seed)


def bootstrap_metrics(
    target: Target,
    predictions: Mapping[str, OutOfFold],
    resampling: Resampling,
    *,
    rows: Rows | None = None,
    names: Collection[str] | None = None,
    plain: Collection[str] = (),
    advance: Callable[[int], None] = lambda _: None,
) -> dict[str, dict[str, Resamples]]:
    """Return every metric of every model on the same resamples of units: subjects, or whole sites.

    The result is name of a model → name of a metric → `Resamples`: the metric of all scans, and its
    value on each resample.

    Parameters
    ----------
    target, predictions : Target, dict of str to OutOfFold
        True values, and the predictions of each model.
    resampling : Resampling
        Units to draw, how often, and the seed.
    rows : array (n,), optional
        Scans to measure; all by default.
    names : collection of str, optional
        Metrics to compute; all of the target by default.
    plain : collection of str
        Metrics that are not resampled: only `Resamples.value` is computed, without an interval.
        Metrics that rank very many scans within each of several classes are not resampled either.
    advance : callable
        Called with the number of resamples after each block of them.
    """
    chosen = np.arange(len(target.values)) if rows is None else rows
    asked = target.metric_names if names is None else names
    if target.kind == "multiclass" and len(target.classes) * len(chosen) > MAX_RANKED:
        plain = (*plain, *RANKED)
    resampled = [name for name in asked if name not in plain]
    blocks: Iterable[Floats] = ()
    if resampling.n_resamples and resampled:
        blocks = resampling.weigh(chosen)
    collected: dict[str, dict[str, list[Floats]]] = {name: {} for name in predictions}
    wanted: Collection[str] = asked
    for weights in chain([np.ones((1, len(chosen)))], blocks):
        for name, of_model in predictions.items():
            metrics = pooled_metrics(target, of_model, rows=chosen, weights=weights, names=wanted)
            for metric, values in metrics.items():
                collected[name].setdefault(metric, []).append(values)
        advance(len(weights))
        wanted = resampled
    drawn: dict[str, dict[str, Resamples]] = {}
    for name, metrics_of_model in collected.items():
        drawn[name] = {}
        for metric, batches in metrics_of_model.items():
            drawn[name][metric] = _join_blocks(batches, resampling.n_resamples)
    return drawn


def _join_blocks(blocks: Sequence[Floats], n_resamples: int) -> Resamples:
    """Join arrays of one metric's values, `blocks`, into a `Resamples`.

    In the arrays, one after the other, the first value is of all scans, the last `n_resamples` are
    of bootstrap resamples, and the values between are of jackknife samples.
    """
    values = np.concatenate(blocks)
    first_resample = max(1, len(values) - n_resamples)
    return Resamples(float(values[0]), values[1:first_resample], values[first_resample:])


def count_resamples(n_bootstraps: int, n_rows: int) -> int:
    """Return the number of resamples of `n_rows` scans: `n_bootstraps`, or fewer for many scans."""
    return min(n_bootstraps, max(ENOUGH_RESAMPLES, MAX_RESAMPLED // max(1, n_rows)))


def leave_out(units: Labels) -> Iterator[Floats]:
    """Yield arrays of jackknife weights (samples, scans): 0 for scans left out, 1 for all others.

    A sample leaves out all scans of one of the `units`, subjects or sites. With more than
    `MAX_LEFT_OUT` units, a sample leaves out several, so that there are at most `MAX_LEFT_OUT`
    samples.
    """
    codes = np.unique(units, return_inverse=True)[1] % MAX_LEFT_OUT
    groups = np.unique(codes)[:, None]
    for batch in gen_batches(len(groups), max(1, _CHUNK_VALUES // len(units))):
        yield (codes != groups[batch]).astype(float)


def resample_counts(units: Labels, *, n_bootstraps: int, seed: int) -> Iterator[Floats]:
    """Yield arrays of bootstrap weights (resamples, scans): how often a scan's unit was drawn.

    `units` has the subject or site of each scan. The arrays together have `n_bootstraps` rows.
    """
    codes = np.unique(units, return_inverse=True)[1]
    n_units = int(codes.max()) + 1
    generator = derive_generator("bootstrap", seed)
    for batch in gen_batches(n_bootstraps, max(1, _CHUNK_VALUES // len(units))):
        size = batch.stop - batch.start
        counts = generator.multinomial(n_units, np.full(n_units, 1 / n_units), size=size)
        yield counts[:, codes].astype(float)
