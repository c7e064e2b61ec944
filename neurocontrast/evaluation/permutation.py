"""Permutation test of the whole nested procedure.

Labels are exchanged between subjects of the same site *and fold*, and the folds stay: an exact test of "given the site,
labels say nothing of the features", conditional on the folds, which are as probable for the exchanged labels as for the
true ones. All permutations then share their training sets, standardisation and axes, and are fitted side by side. Where
sites are too small, folds are dealt anew for labels exchanged within site: exact too, and slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from neurocontrast.data.parallel import map_files
from neurocontrast.evaluation.designs import Design, one_thread
from neurocontrast.evaluation.fitting import (
    OutOfFold,
    Prediction,
    cross_validate,
    decide_scores,
    gather,
    needs_inner_predictions,
    split_seed,
)
from neurocontrast.evaluation.label_vectors import fit_label_vectors
from neurocontrast.evaluation.metrics import DESCRIPTIVE, LOWER_IS_BETTER
from neurocontrast.evaluation.settings import EvaluationSettings, probe_name
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import classes_decide_inner_folds, inner_folds
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import pooled_metrics
from neurocontrast.seeds import derive_generator

__all__ = ["PermutationTest", "permutation_test", "permuted_labels"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.generic]
Subjects = npt.NDArray[np.object_]
Strata = list[list[list[int]]]

ENOUGH_MOVED = 0.75
"""Folds stay where at least this share of the labels that move within site also move within site and fold."""
_BLOCK_VALUES = 2_000_000
_BLOCK = (16, 250)
"""Permutations fitted together: as many as keep scans × permutations × classes below a bound, within these limits."""


class PermutationTest(NamedTuple):
    """The result of a permutation test."""

    within_fold: bool
    share_moved: float
    observed: dict[str, float]
    p_values: dict[str, float | None]


def permutation_test(
    design: Design,
    target: Target,
    splits: Sequence[Split],
    model: OutOfFold,
    *,
    sites: Sequence[str | None],
    subjects: Subjects,
    settings: EvaluationSettings,
    estimator: BaseEstimator | None = None,
    redeal: Callable[[Target, int], Sequence[Split]] | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> PermutationTest:
    """Compare the pooled metrics of the first repeat with those of permuted labels."""
    first = [split for split in splits if split.repeat == 0]
    places = _places(first, sites)
    moved, moved_in_site = (_expected_moves(target, part, subjects) for part in (places, sites))
    within_fold = bool(redeal is None or moved >= ENOUGH_MOVED * moved_in_site)
    labels = permuted_labels(
        target, places if within_fold else sites, subjects, n_permutations=settings.n_permutations, seed=settings.seed
    )
    if within_fold and estimator is None and _can_share(target, first, subjects, settings):
        figures = _together(design, target, first, labels, subjects, settings, advance)
    else:
        alone = settings.model_copy(update={"n_jobs": 1})
        given = {"subjects": subjects, "settings": alone, "sites": np.array(sites, dtype=object)}
        targets = [replace(target, values=values) for values in labels.T]
        dealt = [first if within_fold or redeal is None else redeal(one, n) for n, one in enumerate(targets)]
        tasks = [(design, one, folds, {**given, "estimator": estimator})
                 for one, folds in zip(targets, dealt, strict=True)]  # fmt: skip
        figures = _one_by_one(tasks, settings, advance)
    once = OutOfFold(model.scores[:1], model.decisions[:1], model.folds[:1], model.strengths, model.n_not_converged)
    observed = _figures(target, once)
    as_good = dict.fromkeys(observed, 0)
    for found in figures:
        for name, value in observed.items():
            sign = -1 if name in LOWER_IS_BETTER else 1
            # Ties must count; the slack keeps rounding from breaking them.
            as_good[name] += not sign * found[name] < sign * value - 1e-12
    n = settings.n_permutations
    p_values = {name: (1 + as_good[name]) / (1 + n) if np.isfinite(observed[name]) else None for name in observed}
    share = (moved if within_fold else moved_in_site) / len(target.values)
    return PermutationTest(within_fold, share, observed, p_values)


def permuted_labels(
    target: Target, places: Sequence[str | None], subjects: Subjects, *, n_permutations: int, seed: int
) -> Labels:
    """Return label vectors (n, permutations), exchanged between subjects of the same place."""
    strata, vectors = _strata(places, subjects), np.tile(target.values[:, None], n_permutations)
    for number, vector in enumerate(vectors.T):
        generator = derive_generator("permutation", seed, number)
        for members in strata:
            drawn = [members[source] for source in generator.permutation(len(members))]
            vector[np.concatenate(members)] = target.values[np.concatenate(drawn)]
    return vectors


def _places(splits: Sequence[Split], sites: Sequence[str | None]) -> list[str]:
    folds = np.full(len(sites), -1)
    for split in splits:
        folds[split.test] = split.fold
    return [f"{site}\x1f{fold}" for site, fold in zip(sites, folds, strict=True)]


def _strata(places: Sequence[str | None], subjects: Subjects) -> Strata:
    """Return groups of subjects that can be exchanged: for each subject its rows, in order of place."""
    rows_of: dict[str, list[int]] = {}
    for row, subject in enumerate(subjects):
        rows_of.setdefault(str(subject), []).append(row)
    strata: dict[tuple[str, ...], list[list[int]]] = {}
    for subject in sorted(rows_of):
        rows = sorted(rows_of[subject], key=lambda row: str(places[row]))
        strata.setdefault(tuple(str(places[row]) for row in rows), []).append(rows)
    return [strata[key] for key in sorted(strata)]


def _expected_moves(target: Target, places: Sequence[str | None], subjects: Subjects) -> float:
    """Return how many scans are expected to have another label after a permutation."""
    moved = 0.0
    for members in _strata(places, subjects):
        for columns in zip(*(target.values[rows] for rows in members), strict=True):
            counts = np.unique(np.asarray(columns), return_counts=True)[1]
            moved += len(members) - float((counts**2).sum()) / len(members)
    return moved


def _can_share(target: Target, splits: Sequence[Split], subjects: Subjects, settings: EvaluationSettings) -> bool:
    """Say whether all permutations have the same inner folds, and need nothing that depends on their labels besides."""
    if probe_name(settings, target.kind) not in ("logistic", "ridge") or needs_inner_predictions(settings.threshold):
        return False
    if settings.inner_splits != "stratified" or settings.recentre != "none" or settings.clip:
        return False
    n_folds = settings.n_inner_folds
    return not any(classes_decide_inner_folds(target, split.train, subjects, n_folds=n_folds) for split in splits)


def _together(
    design: Design,
    target: Target,
    splits: Sequence[Split],
    labels: Labels,
    subjects: Subjects,
    settings: EvaluationSettings,
    advance: Callable[[int], None],
) -> Iterator[dict[str, float]]:
    """Yield the metrics of permutations that are fitted side by side, block after block."""
    n, n_permutations = labels.shape
    size = int(np.clip(_BLOCK_VALUES // (n * max(1, len(target.classes) - 1)), *_BLOCK))
    for start in range(0, n_permutations, size):
        block, parts = labels[:, start : start + size], []
        for split in splits:
            seed = split_seed(settings.seed, split)
            pairs = inner_folds(target, split.train, subjects, n_folds=settings.n_inner_folds, seed=seed)
            with one_thread():
                found = fit_label_vectors(
                    design, target, block, split.train, split.test, pairs=pairs, settings=settings
                )
            parts.append(found[0])
            advance(block.shape[1])
        for row, values in enumerate(block.T):
            predictions = [
                Prediction(part[:, row], decide_scores(part[:, row], target, split.train, settings)[1])
                for split, part in zip(splits, parts, strict=True)
            ]
            yield _figures(replace(target, values=values), gather(target, splits, predictions))


def _one_by_one(
    tasks: Sequence[tuple[object, ...]], settings: EvaluationSettings, advance: Callable[[int], None]
) -> Iterator[dict[str, float]]:
    """Yield the metrics of permutations that are each fitted as the study is."""
    for n_folds, found in map_files(_fit_one, tasks, n_workers=settings.n_jobs, option="evaluation.n_jobs"):
        advance(n_folds)
        yield found


def _fit_one(
    design: Design, target: Target, splits: Sequence[Split], given: dict[str, object]
) -> tuple[int, dict[str, float]]:
    return len(splits), _figures(target, cross_validate(design, target, splits, **given))  # type: ignore[arg-type]


def _figures(target: Target, model: OutOfFold) -> dict[str, float]:
    """Return the pooled metrics that have a better and a worse."""
    names = [name for name in target.metric_names if name not in DESCRIPTIVE]
    found = pooled_metrics(target, model, rows=model.tested, names=names)
    return {name: float(found[name][0]) for name in names}
