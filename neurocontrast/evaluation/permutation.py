"""Could the result be chance? The whole nested procedure, repeated on permuted labels.

Labels are exchanged between subjects of the same site *and fold*, and the folds stay. That is an exact test
of "given the site, labels say nothing of the features", although folds were dealt by label: an exchange within site and
fold changes neither who is in which fold nor how many of each class are, so the dealt folds are
as probable for the exchanged labels as for the true ones (a restricted permutation test, conditional on the folds).
And since all permutations then share their training sets, they share standardisation, axes and
matrix products, which is what makes a thousand of them cheap.

Where sites are too small for that (few labels would move), folds are dealt anew for labels
exchanged within site: exact as well, and slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from neurocontrast.data.parallel import map_files
from neurocontrast.evaluation.crossval import OutOfFold, cross_validate
from neurocontrast.evaluation.linear import fit_label_vectors
from neurocontrast.evaluation.metrics import DESCRIPTIVE, LOWER_IS_BETTER, decide
from neurocontrast.evaluation.probe_kinds import probe_name
from neurocontrast.evaluation.probes import Design, classes_decide_inner_folds, inner_folds
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.threads import one_thread
from neurocontrast.evaluation.thresholds import choose_threshold, needs_inner_predictions
from neurocontrast.evaluation.uncertainty import pooled_metrics
from neurocontrast.seeds import derive_generator, derive_seed

__all__ = ["PermutationTest", "permutation_test", "permute_labels"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.generic]

ENOUGH_MOVED = 0.75
"""Folds stay where at least this share of the labels that move within site also move within site and fold."""
_BLOCK_VALUES = 2_000_000
_BLOCK = (16, 250)
"""Permutations fitted together: as many as keep scans × permutations × classes below a bound, within these limits."""


@dataclass(frozen=True)
class PermutationTest:
    """What a permutation test found.

    Attributes
    ----------
    p_values : dict of str to float or None
        (1 + permutations at least as good) / (1 + permutations), so never 0; permutations that leave a
        metric undefined count as good. None where the metric is not defined on the true labels.
    observed : dict of str to float
        The metrics that were compared: pooled, of the first repeat; those that have a better and a worse.
    within_fold : bool
        Whether labels were exchanged within site and fold, or within site and folds dealt anew.
    share_moved : float
        Expected share of scans whose label a permutation changes.
    """

    p_values: dict[str, float | None]
    observed: dict[str, float]
    within_fold: bool
    share_moved: float


def permutation_test(
    design: Design,
    target: Target,
    splits: Sequence[Split],
    model: OutOfFold,
    *,
    sites: Sequence[str | None],
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
    estimator: BaseEstimator | None = None,
    redeal: Callable[[Target, int], Sequence[Split]] | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> PermutationTest:
    """Compare the pooled metrics of the first repeat with those of permuted labels.

    Every permutation goes through the whole nested procedure: penalties are chosen and probes fitted
    anew. One repeat is enough for an exact test, and each permutation costs as much as one.

    Parameters
    ----------
    splits : sequence of Split
        The folds; those of the first repeat are used.
    model : OutOfFold
        Predictions on the true labels.
    estimator : estimator, optional
        The user's own, which is fitted plainly for every permutation, as the built-in ones are that are not linear.
        Logistic and ridge regression are fitted by `fit_label_vectors`, many permutations together.
    redeal : callable, optional
        Deals folds for a permuted target and the number of the permutation, where folds may change.
    advance : callable
        Told how many folds of permutations are done: in all, permutations × folds.
    """
    first = [split for split in splits if split.repeat == 0]
    places = _places(first, sites)
    moved, moved_in_site = (_expected_moves(target, part, subjects) for part in (places, list(sites)))
    within_fold = bool(redeal is None or moved >= ENOUGH_MOVED * moved_in_site)
    labels = _permuted_labels(target, places if within_fold else list(sites), subjects, settings)
    run = partial(_found, design, target, first, labels, subjects=subjects, settings=settings, advance=advance)
    run = partial(run, sites=np.array(sites, dtype=object), estimator=estimator)
    model = _repeat(model, 0)
    observed = _figures(target, model)
    as_good = dict.fromkeys(observed, 0)
    for found in run(redeal=None if within_fold else redeal):
        for name, value in observed.items():
            sign = -1 if name in LOWER_IS_BETTER else 1
            # Ties must count; the slack keeps rounding from breaking them.
            as_good[name] += not sign * found[name] < sign * value - 1e-12
    n = settings.n_permutations
    p_values = {name: (1 + as_good[name]) / (1 + n) if np.isfinite(observed[name]) else None for name in observed}
    share = (moved if within_fold else moved_in_site) / len(target.values)
    return PermutationTest(p_values, observed, within_fold, share)


def permute_labels(
    target: Target, places: Sequence[str | None], subjects: npt.NDArray[np.object_], generator: np.random.Generator
) -> Target:
    """Exchange labels between subjects of the same place, so that what the place says of the label stays.

    A subject's labels move together; where subjects have several scans, they are exchanged among
    those with equally many (at the same places).
    """
    return replace(target, values=_exchange(target.values, _strata(places, subjects), generator))


def _exchange(values: Labels, strata: Sequence[list[list[int]]], generator: np.random.Generator) -> Labels:
    exchanged = values.copy()
    for members in strata:
        drawn = [members[source] for source in generator.permutation(len(members))]
        exchanged[np.concatenate(members)] = values[np.concatenate(drawn)]
    return exchanged


def _places(splits: Sequence[Split], sites: Sequence[str | None]) -> list[str]:
    folds = np.full(len(sites), -1)
    for split in splits:
        folds[split.test] = split.fold
    return [f"{site}\x1f{fold}" for site, fold in zip(sites, folds, strict=True)]


def _strata(places: Sequence[str | None], subjects: npt.NDArray[np.object_]) -> list[list[list[int]]]:
    """Return groups of subjects that can be exchanged: for each subject its rows, in order of place."""
    rows_of: dict[str, list[int]] = {}
    for row, subject in enumerate(subjects):
        rows_of.setdefault(str(subject), []).append(row)
    strata: dict[tuple[str, ...], list[list[int]]] = {}
    for subject in sorted(rows_of):
        rows = sorted(rows_of[subject], key=lambda row: str(places[row]))
        strata.setdefault(tuple(str(places[row]) for row in rows), []).append(rows)
    return [strata[key] for key in sorted(strata)]


def _expected_moves(target: Target, places: Sequence[str | None], subjects: npt.NDArray[np.object_]) -> float:
    """Return how many scans are expected to have another label after a permutation."""
    moved = 0.0
    for members in _strata(places, subjects):
        for columns in zip(*(target.values[rows] for rows in members), strict=True):
            counts = np.unique(np.asarray(columns), return_counts=True)[1]
            moved += len(members) - float((counts**2).sum()) / len(members)
    return moved


def _permuted_labels(
    target: Target, places: Sequence[str | None], subjects: npt.NDArray[np.object_], settings: EvaluationSettings
) -> Labels:
    """Return label vectors (n, permutations)."""
    strata, numbers = _strata(places, subjects), range(settings.n_permutations)
    generators = (derive_generator("permutation", settings.seed, number) for number in numbers)
    return np.stack([_exchange(target.values, strata, generator) for generator in generators], axis=1)


def _found(
    design: Design,
    target: Target,
    splits: Sequence[Split],
    labels: Labels,
    *,
    redeal: Callable[[Target, int], Sequence[Split]] | None,
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
    sites: npt.NDArray[np.object_],
    estimator: BaseEstimator | None,
    advance: Callable[[int], None],
) -> Iterator[dict[str, float]]:
    """Yield the pooled metrics of each permutation, in any order."""
    given = (design, target, splits, labels, subjects, settings)
    default = estimator is None and probe_name(settings, target.kind) in ("logistic", "ridge")
    if redeal is not None or not default or not _can_share(target, splits, subjects, settings):
        fit = partial(_fit_one, sites=sites, estimator=estimator, batched=default)
        yield from _one_by_one(*given, redeal, fit, advance)
    else:
        yield from _together(*given, advance)


def _can_share(
    target: Target, splits: Sequence[Split], subjects: npt.NDArray[np.object_], settings: EvaluationSettings
) -> bool:
    """Say whether all permutations have the same inner folds, and need nothing that depends on their labels besides."""
    if needs_inner_predictions(settings.threshold):
        return False
    if settings.inner_splits != "stratified" or settings.recentre != "none" or settings.clip:
        return False  # what depends on labels and sites is done anew for each permutation
    n_folds = settings.n_inner_folds
    return not any(classes_decide_inner_folds(target, split.train, subjects, n_folds=n_folds) for split in splits)


def _together(
    design: Design,
    target: Target,
    splits: Sequence[Split],
    labels: Labels,
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
    advance: Callable[[int], None],
) -> Iterator[dict[str, float]]:
    n, n_permutations = labels.shape
    size = int(np.clip(_BLOCK_VALUES // (n * max(1, len(target.classes) - 1)), *_BLOCK))
    starts = range(0, n_permutations, size)
    tasks = [
        (start, place, design, target, labels[:, start : start + size], split, subjects, settings)
        for start in starts
        for place, split in enumerate(splits)
    ]
    waiting: dict[int, dict[int, Floats]] = {}
    for start, place, scores in map_files(_fit_block, tasks, n_workers=settings.n_jobs, option="evaluation.n_jobs"):
        waiting.setdefault(start, {})[place] = scores
        advance(scores.shape[1])
        if len(waiting[start]) == len(splits):
            parts = [scores for _, scores in sorted(waiting.pop(start).items())]
            yield from _pooled(target, splits, labels[:, start : start + size], parts, settings)


def _fit_block(
    start: int,
    place: int,
    design: Design,
    target: Target,
    labels: Labels,
    split: Split,
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
) -> tuple[int, int, Floats]:
    seed = derive_seed("probe", settings.seed, split.repeat, split.fold)
    pairs = inner_folds(target, split.train, subjects, n_folds=settings.n_inner_folds, seed=seed)
    with one_thread():
        scores, _, _ = fit_label_vectors(
            design, target, labels, split.train, split.test, pairs=pairs, settings=settings
        )
    return start, place, scores


def _pooled(
    target: Target, splits: Sequence[Split], labels: Labels, parts: Sequence[Floats], settings: EvaluationSettings
) -> Iterator[dict[str, float]]:
    n, n_labels = labels.shape
    folds = np.full((1, n), -1, dtype=np.intp)
    scores = np.full((n_labels, n, *parts[0].shape[2:]), np.nan)
    decisions = np.zeros((n_labels, n), dtype=np.int64)
    for split, part in zip(splits, parts, strict=True):
        folds[0, split.test] = split.fold
        scores[:, split.test] = np.moveaxis(part, 1, 0)
        if target.kind != "continuous":
            for row in range(n_labels):
                decisions[row, split.test] = _decide(target, split, part[:, row], settings)
    for row in range(n_labels):
        model = OutOfFold(scores[row : row + 1], decisions[row : row + 1], folds, [], 0)
        yield _figures(replace(target, values=labels[:, row]), model)


def _decide(target: Target, split: Split, scores: Floats, settings: EvaluationSettings) -> npt.NDArray[np.int64]:
    # Labels are exchanged within folds, so the shares of the classes in training are those of the true labels.
    shares = np.bincount(target.values[split.train], minlength=len(target.classes)) / len(split.train)
    if target.kind == "binary":
        return (scores >= choose_threshold(settings.threshold, prevalence=float(shares[1]))).astype(np.int64)
    prevalence = np.tile(shares, (len(scores), 1)) if settings.threshold == "prevalence" else None
    return decide(target.kind, scores, prevalence=prevalence)


def _one_by_one(
    design: Design,
    target: Target,
    splits: Sequence[Split],
    labels: Labels,
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
    redeal: Callable[[Target, int], Sequence[Split]] | None,
    fit: Callable[..., dict[str, float]],
    advance: Callable[[int], None],
) -> Iterator[dict[str, float]]:
    alone = settings.model_copy(update={"n_jobs": 1})
    targets = [replace(target, values=values) for values in labels.T]
    tasks = [
        (design, one, splits if redeal is None else redeal(one, permutation), subjects, alone)
        for permutation, one in enumerate(targets)
    ]
    for found in map_files(fit, tasks, n_workers=settings.n_jobs, option="evaluation.n_jobs"):
        advance(len(splits))
        yield found


def _fit_one(
    design: Design,
    target: Target,
    splits: Sequence[Split],
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
    *,
    sites: npt.NDArray[np.object_],
    estimator: BaseEstimator | None,
    batched: bool,
) -> dict[str, float]:
    model = cross_validate(
        design, target, splits, subjects=subjects, settings=settings, sites=sites, estimator=estimator, batched=batched
    )
    return _figures(target, model)


def _figures(target: Target, model: OutOfFold) -> dict[str, float]:
    """Return the pooled metrics that have a better and a worse."""
    names = [name for name in target.metric_names if name not in DESCRIPTIVE]
    found = pooled_metrics(target, model, rows=model.tested, names=names)
    return {name: float(found[name][0]) for name in names}


def _repeat(model: OutOfFold, repeat: int) -> OutOfFold:
    rows = slice(repeat, repeat + 1)
    return replace(model, scores=model.scores[rows], decisions=model.decisions[rows], folds=model.folds[rows])
