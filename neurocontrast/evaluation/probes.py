"""Linear probes on frozen features: logistic regression for classes, ridge for numbers.

The penalty is chosen on inner folds of the training rows, subjects kept together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.linear import (
    Fold,
    choose_alpha,
    choose_c,
    logistic_scores,
    ridge_scores,
    rotate,
    standardise,
)
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import deal_subjects, subject_values
from neurocontrast.evaluation.table import NO_SITE
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_generator

__all__ = [
    "Design",
    "ProbeFit",
    "classes_decide_inner_folds",
    "fit_label_vectors",
    "fit_probe",
    "inner_folds",
    "penalty_folds",
    "predict_with",
    "rotate",
    "site_inner_folds",
    "standardise",
]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Pairs = Sequence[tuple[Rows, Rows]]
Design = Callable[[Rows, Rows], tuple[Floats, Floats]]
"""Gives the matrices of training and test rows; whatever it estimates, it estimates on the training rows."""

MIN_INNER_SITES, MAX_INNER_SITES = 3, 10
"""Of how many sites, or groups of sites, inner folds that leave sites out are made."""
PARTS_OF_TRAIN = 5
"""Where validation rows are wanted and there are none, one of so many parts of the training rows takes their place."""
FEW_PER_INNER_FOLD = 5
"""Classes with fewer subjects an inner fold than this are spread over the inner folds evenly, not by chance."""


@dataclass(frozen=True)
class ProbeFit:
    """What a probe said of its test rows.

    Attributes
    ----------
    scores : array (n_test,) or (n_test, n_classes)
        Probability of the positive class, of each class, or the predicted value.
    strength : float
        The chosen C or alpha.
    n_not_converged : int
        Fits that stopped before the solver was satisfied.
    """

    scores: Floats
    strength: float
    n_not_converged: int = 0


def fit_probe(
    design: Design,
    target: Target,
    train: Rows,
    test: Rows,
    *,
    pairs: Pairs,
    settings: EvaluationSettings,
) -> ProbeFit:
    """Choose the penalty on the inner folds `pairs`, fit on all training rows, and predict the test rows.

    The penalty is the one of least mean log-loss (logistic) or squared error (ridge) over the
    inner folds; of equals, the strongest. Values of C are tried from strong to weak penalty,
    until the loss has risen three times in a row.
    """
    scores, strengths, failed = fit_label_vectors(
        design, target, target.values[:, None], train, test, pairs=pairs, settings=settings
    )
    return ProbeFit(scores[:, 0], float(strengths[0]), failed)


def fit_label_vectors(
    design: Design,
    target: Target,
    labels: npt.NDArray[np.generic],
    train: Rows,
    test: Rows,
    *,
    pairs: Pairs,
    settings: EvaluationSettings,
) -> tuple[Floats, Floats, int]:
    """Do what `fit_probe` does for each column of `labels` (n, b), with the same inner folds.

    Every column must have the classes of the target in the training rows. Returns scores
    (n test, b) or (n test, b, classes), the chosen strengths (b,), and how many fits did not converge.
    """
    folds = [_fold(design, *pair) for pair in pairs]
    if target.kind == "continuous":
        strengths, failed = choose_alpha(folds, labels.astype(float), settings.alpha), 0
    else:
        classes = np.unique(target.values[train])
        codes = np.searchsorted(classes, labels)
        strengths, failed = choose_c(folds, codes, settings.C, n_classes=len(classes))
    del folds  # as large as the features, several times over
    scores, failed_last = _predict(_fold(design, train, test), target, labels, strengths)
    return scores, strengths, failed + failed_last


def predict_with(
    design: Design, target: Target, train: Rows, test: Rows, *, strength: float, n_not_converged: int = 0
) -> ProbeFit:
    """Fit the training rows with a penalty that is given, and predict the test rows."""
    fold = _fold(design, train, test)
    scores, failed = _predict(fold, target, target.values[:, None], np.array([strength]))
    return ProbeFit(scores[:, 0], strength, n_not_converged + failed)


def classes_decide_inner_folds(target: Target, train: Rows, subjects: npt.NDArray[np.object_], *, n_folds: int) -> bool:
    """Say whether a class is so small that inner folds must spread it evenly.

    Larger classes are spread well enough by chance, and inner folds that do not look at labels
    stay as they are when labels are permuted.
    """
    if target.kind == "continuous":
        return False
    return _smallest_class(subject_values(target.values[train], subjects[train])) < FEW_PER_INNER_FOLD * n_folds


def penalty_folds(
    target: Target,
    train: Rows,
    subjects: npt.NDArray[np.object_],
    *,
    settings: EvaluationSettings,
    seed: int,
    sites: npt.NDArray[np.object_] | None = None,
    validation: Rows | None = None,
) -> list[tuple[Rows, Rows]]:
    """Return the training rows to fit, and those to try a penalty on: inner folds as the settings say.

    `validation` rows, of `train`, take their place where they are given; where they are given and empty, a fifth of
    `train` does.
    """
    if validation is not None and len(validation):
        return [(np.setdiff1d(train, validation, assume_unique=True), validation)]
    if validation is not None:
        return inner_folds(target, train, subjects, n_folds=PARTS_OF_TRAIN, seed=seed)[:1]
    held_out = sites if settings.inner_splits == "leave-site-out" else None
    return inner_folds(target, train, subjects, n_folds=settings.n_inner_folds, seed=seed, sites=held_out)


def inner_folds(
    target: Target,
    train: Rows,
    subjects: npt.NDArray[np.object_],
    *,
    n_folds: int,
    seed: int,
    sites: npt.NDArray[np.object_] | None = None,
) -> list[tuple[Rows, Rows]]:
    """Split training rows by subject, at random; or, given their sites, so that each fold leaves sites out.

    Where a class has fewer than five subjects a fold, classes are spread evenly, over fewer folds if
    it has fewer subjects than folds. Inner folds whose training rows lack a class are left out. Too few sites
    to leave out (`site_inner_folds`) are as none given.
    """
    by_site = [] if sites is None else site_inner_folds(target, train, subjects, sites)
    if by_site:
        return by_site
    owners = subjects[train]
    value_of = subject_values(target.values[train], owners, average=target.kind == "continuous")
    generator = derive_generator("inner-folds", seed)
    if classes_decide_inner_folds(target, train, subjects, n_folds=n_folds):
        keys, n_folds = [value_of], min(n_folds, _smallest_class(value_of))
    else:
        keys, n_folds = [np.zeros(len(value_of))], min(n_folds, len(value_of))
    if n_folds < 2:
        return []
    fold_of = deal_subjects(keys, n_folds, generator)[np.unique(owners, return_inverse=True)[1]]
    return _teachable(target, train, [(train[fold_of != fold], train[fold_of == fold]) for fold in range(n_folds)])


def site_inner_folds(
    target: Target, train: Rows, subjects: npt.NDArray[np.object_], sites: npt.NDArray[np.object_]
) -> list[tuple[Rows, Rows]]:
    """Split training rows so that each fold tries the penalty on sites that it has not fitted; none from too few.

    Ten groups of sites where there are more. A subject that was at a site of the group too is not fitted on. From
    fewer than `MIN_INNER_SITES` sites whose fold has all classes to fit on, the list is empty.
    """
    places = np.array([NO_SITE if site is None else str(site) for site in sites[train]])
    names, sizes = np.unique(places, return_counts=True)
    group_of, filled = {}, np.zeros(min(MAX_INNER_SITES, len(names)))
    for place in np.lexsort((names, -sizes)):
        group_of[str(names[place])] = int(filled.argmin())
        filled[filled.argmin()] += sizes[place]
    groups, owners = np.array([group_of[place] for place in places]), subjects[train].astype(str)
    pairs = []
    for group in range(len(filled)):
        tried = groups == group
        pairs.append((train[~tried & ~np.isin(owners, owners[tried])], train[tried]))
    pairs = _teachable(target, train, pairs)
    return pairs if len(pairs) >= MIN_INNER_SITES else []


def _teachable(target: Target, train: Rows, pairs: list[tuple[Rows, Rows]]) -> list[tuple[Rows, Rows]]:
    needed = 2 if target.kind == "continuous" else len(np.unique(target.values[train]))
    return [pair for pair in pairs if len(np.unique(target.values[pair[0]])) >= needed]


def _fold(design: Design, train: Rows, test: Rows) -> Fold:
    return Fold(train, test, *standardise(*design(train, test)))


def _predict(fold: Fold, target: Target, labels: npt.NDArray[np.generic], strengths: Floats) -> tuple[Floats, int]:
    if target.kind == "continuous":
        return ridge_scores(fold, labels.astype(float), strengths), 0
    classes = np.unique(target.values[fold.train])
    found, failed = logistic_scores(fold, np.searchsorted(classes, labels), strengths, n_classes=len(classes))
    scores = np.zeros((*found.shape[:2], len(target.classes)))
    scores[:, :, classes] = found
    return (scores[:, :, 1] if target.kind == "binary" else scores), failed


def _smallest_class(values: npt.NDArray[np.generic]) -> int:
    return int(np.unique(values, return_counts=True)[1].min())
