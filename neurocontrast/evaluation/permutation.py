"""Permutation test of the whole nested procedure.

Labels are exchanged between subjects of the same site *and fold*, and the folds stay: an exact test of "given the site,
labels say nothing of the features", conditional on the folds, which are as probable for the exchanged labels as for the
true ones. All permutations then share training sets, standardisation and principal axes. Where sites are too small,
folds are dealt anew for labels exchanged within site: exact too, and slower.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.designs import Design
from neurocontrast.evaluation.fitting import OutOfFold, Prediction, fit_probe, gather
from neurocontrast.evaluation.fold_features import probe_features
from neurocontrast.evaluation.metrics import DESCRIPTIVE, LOWER_IS_BETTER
from neurocontrast.evaluation.models import ProbeModel, split_seed
from neurocontrast.evaluation.probes import PROBES
from neurocontrast.evaluation.settings import EvaluationSettings, probe_name
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import classes_decide_inner_folds
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import pooled_metrics
from neurocontrast.parallel.workers import map_files
from neurocontrast.seeds import derive_generator

__all__ = ["PermutationTest", "permutation_test", "permuted_labels"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.generic]
Subjects = npt.NDArray[np.object_]
Strata = list[list[list[int]]]

ENOUGH_MOVED = 0.75
"""Folds stay where at least this share of the labels that move within site also move within site and fold."""
_BLOCK = 50
"""Permutations that share one computation of the features of a fold."""


class PermutationTest(NamedTuple):
    """The result of a permutation test."""

    within_fold: bool
    share_moved: float
    observed: dict[str, float]
    p_values: dict[str, float | None]


def permutation_test(
    model: ProbeModel,
    target: Target,
    splits: Sequence[Split],
    predictions: OutOfFold,
    *,
    sites: Sequence[str | None],
    subjects: Subjects,
    settings: EvaluationSettings,
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
    groups: list[tuple[Labels, Sequence[Split]]]
    if within_fold or redeal is None:
        groups = [(labels[:, start : start + _BLOCK], first) for start in range(0, labels.shape[1], _BLOCK)]
    else:
        groups = [(one[:, None], redeal(replace(target, values=one), n)) for n, one in enumerate(labels.T)]
    given = {
        "subjects": subjects,
        "settings": settings,
        "sites": np.array(sites, dtype=object),
        "estimator": model.estimator,
    }
    figures = _permuted_figures(model.design, target, groups, given, advance)
    made = predictions
    once = OutOfFold(made.scores[:1], made.decisions[:1], made.folds[:1], made.strengths, made.n_not_converged)
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


def _permuted_figures(
    design: Design,
    target: Target,
    groups: Sequence[tuple[Labels, Sequence[Split]]],
    given: dict[str, Any],
    advance: Callable[[int], None],
) -> Iterator[dict[str, float]]:
    """Yield the metrics of each label vector of groups: label vectors (n, b), and the splits that these share."""
    tasks = [
        (number, place, design, target, split, labels, given)
        for number, (labels, splits) in enumerate(groups)
        for place, split in enumerate(splits)
    ]
    parts = defaultdict[int, dict[int, list[Prediction]]](dict)
    n_jobs = given["settings"].n_jobs
    for number, place, predicted in map_files(_fit_split, tasks, n_workers=n_jobs, option="evaluation.n_jobs"):
        advance(len(predicted))
        parts[number][place] = predicted
        labels, splits = groups[number]
        if len(parts[number]) == len(splits):
            found = parts.pop(number)
            for column, values in enumerate(labels.T):
                predictions = [found[place][column] for place in range(len(splits))]
                yield _figures(replace(target, values=values), gather(target, splits, predictions))


def _fit_split(
    number: int, place: int, design: Design, target: Target, split: Split, labels: Labels, given: dict[str, Any]
) -> tuple[int, int, list[Prediction]]:
    """Fit the probe of a split to each column of labels; features are computed once where all have the inner folds."""
    settings, n_folds = given["settings"], given["settings"].n_inner_folds
    features = None
    if given["estimator"] is None and not classes_decide_inner_folds(
        target, split.train, given["subjects"], n_folds=n_folds
    ):
        probe = PROBES[probe_name(settings, target.kind)]
        features = probe_features(probe, design, settings, n_train=len(split.train))
    seed = split_seed(settings.seed, split)
    targets = [replace(target, values=values) for values in labels.T]
    return (
        number,
        place,
        [
            fit_probe(design, each, split.train, split.test, seed=seed, features=features, **given)[0]
            for each in targets
        ],
    )


def _figures(target: Target, model: OutOfFold) -> dict[str, float]:
    """Return the pooled metrics that have a better and a worse."""
    names = [name for name in target.metric_names if name not in DESCRIPTIVE]
    found = pooled_metrics(target, model, rows=model.tested, names=names)
    return {name: float(found[name][0]) for name in names}
