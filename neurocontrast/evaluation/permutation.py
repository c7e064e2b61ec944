"""Permutation test of the whole nested procedure.

Labels are exchanged between subjects of the same site, and folds are dealt anew for them: an exact test of "given the
site, labels say nothing of the features". Folds that were given stay, and labels then stay in their fold, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from neurocontrast.evaluation.fitting import OutOfFold
from neurocontrast.evaluation.metrics import DESCRIPTIVE, LOWER_IS_BETTER
from neurocontrast.evaluation.models import Model, cross_validate
from neurocontrast.evaluation.rows import Labels, Texts
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import pooled_metrics
from neurocontrast.parallel.workers import map_files
from neurocontrast.seeds import derive_generator


class PermutationTest(NamedTuple):
    """The result of a permutation test."""

    within_fold: bool
    share_moved: float
    """Mean share of the scans that have another label after a permutation."""
    observed: dict[str, float]
    p_values: dict[str, float | None]


def permutation_test(
    model: Model,
    target: Target,
    splits: Sequence[Split],
    predictions: OutOfFold,
    *,
    sites: Texts,
    subjects: Texts,
    settings: EvaluationSettings,
    redeal: Callable[[Target, int], Sequence[Split]] | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> PermutationTest:
    """Compare the pooled metrics of the first repeat with those of permuted labels.

    `redeal` deals the folds of permuted labels by the number of the permutation; None: the folds stay.
    """
    first, n = [split for split in splits if split.repeat == 0], settings.n_permutations
    places = _places(first, sites) if redeal is None else sites
    labels = permuted_labels(target, places, subjects, n_permutations=n, seed=settings.seed)
    targets = [replace(target, values=values) for values in labels.T]
    given = {
        "subjects": subjects,
        "sites": sites,
        "settings": settings.model_copy(update={"n_jobs": 1}),
    }
    tasks = [
        (model, permuted, first if redeal is None else redeal(permuted, number), given)
        for number, permuted in enumerate(targets)
    ]
    once = replace(
        predictions, scores=predictions.scores[:1], decisions=predictions.decisions[:1], folds=predictions.folds[:1]
    )
    observed = _figures(target, once)
    as_good = dict.fromkeys(observed, 0)
    for found in map_files(_permuted_figures, tasks, n_workers=settings.n_jobs, option="evaluation.n_jobs"):
        for name, value in observed.items():
            sign = -1 if name in LOWER_IS_BETTER else 1
            # Ties must count; the slack keeps rounding from breaking them.
            as_good[name] += not sign * found[name] < sign * value - 1e-12
        advance(len(first))
    p_values = {name: (1 + as_good[name]) / (1 + n) if np.isfinite(observed[name]) else None for name in observed}
    moved = float((labels != target.values[:, None]).mean())
    return PermutationTest(redeal is None, moved, observed, p_values)


def permuted_labels(
    target: Target, places: Sequence[str] | Texts, subjects: Texts, *, n_permutations: int, seed: int
) -> Labels:
    """Return label vectors (n, permutations), exchanged between subjects of the same place."""
    strata, vectors = _strata(places, subjects), np.tile(target.values[:, None], n_permutations)
    for number, vector in enumerate(vectors.T):
        generator = derive_generator("permutation", seed, number)
        for members in strata:
            drawn = [members[source] for source in generator.permutation(len(members))]
            vector[np.concatenate(members)] = target.values[np.concatenate(drawn)]
    return vectors


def _places(splits: Sequence[Split], sites: Texts) -> list[str]:
    folds = np.full(len(sites), -1)
    for split in splits:
        folds[split.test] = split.fold
    return [f"{site}\x1f{fold}" for site, fold in zip(sites, folds, strict=True)]


def _strata(places: Sequence[str] | Texts, subjects: Texts) -> list[list[list[int]]]:
    """Return groups of subjects that can be exchanged: for each subject its rows, in order of place."""
    rows_of: dict[str, list[int]] = {}
    for row, subject in enumerate(subjects):
        rows_of.setdefault(str(subject), []).append(row)
    strata: dict[tuple[str, ...], list[list[int]]] = {}
    for subject in sorted(rows_of):
        rows = sorted(rows_of[subject], key=lambda row: str(places[row]))
        strata.setdefault(tuple(str(places[row]) for row in rows), []).append(rows)
    return [strata[key] for key in sorted(strata)]


def _permuted_figures(model: Model, target: Target, splits: Sequence[Split], given: dict[str, Any]) -> dict[str, float]:
    return _figures(target, cross_validate(model, target, splits, **given))


def _figures(target: Target, model: OutOfFold) -> dict[str, float]:
    """Return the pooled metrics that have a better direction."""
    names = [name for name in target.metric_names if name not in DESCRIPTIVE]
    found = pooled_metrics(target, model, rows=model.tested, names=names)
    return {name: float(found[name][0]) for name in names}
