"""Make inner folds of training rows, on which the strength of a probe's penalty is chosen."""

from collections.abc import Sequence

import numpy as np

from neurocontrast.evaluation.rows import Labels, Rows, Texts
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits.splitters import (
    deal_subjects,
    group_sites,
    stratified,
    subject_values,
)
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_generator

Pairs = Sequence[tuple[Rows, Rows]]
"""Pairs of parts of the training rows: rows to fit on, and rows to try a penalty on."""

MIN_INNER_SITES = 2
MAX_INNER_SITES = 10
"""Fewest and most inner folds that leave sites out."""
MIN_LEFT_OUT_SUBJECTS = 10
"""Fewest subjects of a site, or of a group of sites, that an inner fold leaves out. The loss of
fewer subjects says little."""
PARTS_OF_TRAIN = 5
"""Number of parts of the training rows, one of which is validation if a split column has none."""
FEW_PER_INNER_FOLD = 5
"""Fewest subjects of the smallest class, per inner fold, with which folds are made at random; with
fewer, each class is spread evenly over the inner folds."""


def penalty_folds(
    target: Target,
    train: Rows,
    subjects: Texts,
    *,
    settings: EvaluationSettings,
    seed: int,
    sites: Texts | None = None,
    validation: Rows | None = None,
) -> list[tuple[Rows, Rows]]:
    """Return pairs of parts of `train`, as positions: rows to fit, and rows to try a penalty on.

    If `validation` holds rows, there is one pair: all other rows of `train`, and `validation`. If
    it is empty, there is at most one pair, whose rows to try are about a fifth of `train`. If it is
    None, the pairs are inner folds. For a large table only the first inner fold is returned, but
    all of them if inner folds leave sites out: a single fold would tell of the sites in that fold
    only.
    """
    if validation is not None and len(validation):
        return [(np.setdiff1d(train, validation, assume_unique=True), validation)]
    if validation is not None:
        return inner_folds(target, train, subjects, n_folds=PARTS_OF_TRAIN, seed=seed)[:1]
    held_out = sites if settings.inner_splits == "leave-site-out" else None
    folds = inner_folds(
        target, train, subjects, n_folds=settings.n_inner_folds, seed=seed, sites=held_out
    )
    return folds[:1] if held_out is None and len(train) > settings.large_table else folds


def validation_split(
    target: Target,
    train: Rows,
    subjects: Texts,
    *,
    sites: Texts,
    settings: EvaluationSettings,
    seed: int,
) -> tuple[Rows, Rows]:
    """Return training rows to fit, and others to stop early by: one part in ``n_inner_folds``.

    Subjects stay together. The part has about the same shares of classes (or numbers) and sites. If
    inner folds leave sites out, the part is the group of sites whose share of the rows is nearest
    to one in ``n_inner_folds``. The part is empty if a class has one subject.
    """
    share = 1 / settings.n_inner_folds
    by_site = (
        site_inner_folds(target, train, subjects, sites)
        if settings.inner_splits == "leave-site-out"
        else []
    )
    if by_site:
        return min(by_site, key=lambda pair: abs(len(pair[1]) / len(train) - share))
    owners = subjects[train]
    values = subject_values(target.values[train], owners, average=target.kind == "continuous")
    n_folds = min(
        settings.n_inner_folds,
        len(values) if target.kind == "continuous" else _smallest_class(values),
    )
    if n_folds < 2:
        return train, train[:0]
    dealt = stratified(
        target.subset(train), sites[train], owners, n_folds=n_folds, n_repeats=1, seed=seed
    )[0]
    return train[dealt.train], train[dealt.test]


def inner_folds(
    target: Target,
    train: Rows,
    subjects: Texts,
    *,
    n_folds: int,
    seed: int,
    sites: Texts | None = None,
) -> list[tuple[Rows, Rows]]:
    """Return inner folds of `train`, made by subject at random: rows to fit, and rows to try.

    If `sites` are given and `site_inner_folds` finds folds, these leave sites out and are returned.
    Else, if the smallest class has fewer than five subjects a fold, each class is spread evenly
    over the folds; and there are at most as many folds as that class has subjects. Inner folds
    whose rows to fit lack a class are left out.
    """
    by_site = [] if sites is None else site_inner_folds(target, train, subjects, sites)
    if by_site:
        return by_site
    owners = subjects[train]
    value_of = subject_values(target.values[train], owners, average=target.kind == "continuous")
    generator = derive_generator("inner-folds", seed)
    if target.kind != "continuous" and _smallest_class(value_of) < FEW_PER_INNER_FOLD * n_folds:
        keys = [value_of]
        n_folds = min(n_folds, _smallest_class(value_of))
    else:
        keys = [np.zeros(len(value_of))]
        n_folds = min(n_folds, len(value_of))
    if n_folds < 2:
        return []
    fold_of = deal_subjects(keys, n_folds, generator)[np.unique(owners, return_inverse=True)[1]]
    return _teachable(
        target, train, [(train[fold_of != fold], train[fold_of == fold]) for fold in range(n_folds)]
    )


def site_inner_folds(
    target: Target, train: Rows, subjects: Texts, sites: Texts
) -> list[tuple[Rows, Rows]]:
    """Return inner folds of `train` that each try the penalty on sites without scans to fit.

    A fold is a pair: rows to fit, and rows to try. A subject who was scanned at a site to try is
    not among the rows to fit, and the subject's scans at other sites are in neither part. The list
    is empty if fewer than `MIN_INNER_SITES` folds have all classes to fit on, and enough subjects
    to try the penalty on.
    """
    places = sites[train].astype(str)
    owners = subjects[train].astype(str)
    pairs = list[tuple[Rows, Rows]]()
    for group in group_sites(places, MAX_INNER_SITES):
        tried = np.isin(places, group)
        if len(set(owners[tried])) < MIN_LEFT_OUT_SUBJECTS:
            continue
        pairs.append((train[~tried & ~np.isin(owners, owners[tried])], train[tried]))
    pairs = _teachable(target, train, pairs)
    return pairs if len(pairs) >= MIN_INNER_SITES else []


def _teachable(
    target: Target, train: Rows, pairs: list[tuple[Rows, Rows]]
) -> list[tuple[Rows, Rows]]:
    """Return the inner folds in `pairs` on whose rows to fit a probe can learn the target.

    A pair has rows to fit, and rows to try a penalty on. It is kept if its rows to fit have a scan
    of every class that occurs in the training rows `train`; for a continuous target, if they have
    two different values.
    """
    needed = 2 if target.kind == "continuous" else len(np.unique(target.values[train]))
    return [pair for pair in pairs if len(np.unique(target.values[pair[0]])) >= needed]


def _smallest_class(values: Labels) -> int:
    """Return the number of subjects in the smallest class; `values` has each subject's class."""
    return int(np.unique(values, return_counts=True)[1].min())
