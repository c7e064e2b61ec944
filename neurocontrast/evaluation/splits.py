"""Folds in which no subject stands on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.table import NO_SITE
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, LeakageError, one_of
from neurocontrast.seeds import derive_generator

__all__ = [
    "Split",
    "check_class_sizes",
    "check_splits",
    "deal_subjects",
    "leave_site_out",
    "parts_of",
    "stratified",
    "subject_values",
]

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to test on.

    Attributes
    ----------
    repeat, fold : int
        Numbered from 0.
    train, test : array of int
        Row positions.
    held_out_site : str or None
        The site that only `test` holds.
    validation : array of int or None
        Those of `train` on which alone the penalty is chosen (an empty array: a fifth of `train`, drawn at random);
        None for inner folds of all of them.
    """

    repeat: int
    fold: int
    train: Rows
    test: Rows
    held_out_site: str | None = None
    validation: Rows | None = None


def parts_of(split: Split) -> dict[str, Rows]:
    """Return the rows of train, validation and test."""
    validation = np.empty(0, dtype=np.intp) if split.validation is None else split.validation
    train = np.setdiff1d(split.train, validation, assume_unique=True)
    return {"train": train, "validation": validation, "test": split.test}


def stratified(
    target: Target, sites: Sequence[str | None], subjects: npt.ArrayLike, *, n_folds: int, n_repeats: int, seed: int
) -> list[Split]:
    """Split by subject so that classes and sites are spread evenly over the folds.

    Subjects are put in order of class, then site, then chance, and dealt to the folds like
    cards. So the numbers of subjects of each class, and of each class at each site, differ by
    at most one between folds; strata smaller than the number of folds need no merging. A
    continuous target is dealt within site in order of its value, chance deciding inside each
    run of `n_folds` neighbours. A subject whose sessions differ counts as the rarest of its
    classes (continuous: their mean) and of its sites; scans without a site form a site of their own.
    """
    owners = np.asarray(subjects, dtype=object)
    places = np.array([NO_SITE if site is None else site for site in sites], dtype=object)
    by_site = target.name == "site"
    site_of = subject_values(np.zeros(len(owners)) if by_site else np.unique(places, return_inverse=True)[1], owners)
    value_of = subject_values(target.values, owners, average=target.kind == "continuous")
    splits = []
    for repeat in range(n_repeats):
        generator = derive_generator("folds", seed, repeat)
        if target.kind == "continuous":
            fold_of = _deal_ordered(value_of, site_of, n_folds, generator)
        else:
            fold_of = deal_subjects([value_of, site_of], n_folds, generator)
        fold_of_row = fold_of[np.unique(owners, return_inverse=True)[1]]
        for fold in range(n_folds):
            splits.append(Split(repeat, fold, np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)))
    return splits


def leave_site_out(sites: Sequence[str | None], subjects: npt.ArrayLike, *, names: Sequence[str]) -> list[Split]:
    """Hold out one site after the other, in alphabetical order.

    A subject scanned at several sites is tested at each, and none of its scans is trained on
    meanwhile.

    Raises
    ------
    DataError
        If a scan has no site (it could belong to the one held out), or there is one site only.
    """
    unknown = [row for row, site in enumerate(sites) if site is None]
    if unknown:
        shown = ", ".join(names[row] for row in unknown[:5]) + (" …" if len(unknown) > 5 else "")
        raise DataError(
            f"splits 'leave-site-out': site is missing for {len(unknown)} of {len(sites)} scans ({shown}), and any of "
            "them could belong to the site held out. Fill in their site, drop them with where, or use "
            "splits=stratified."
        )
    places = np.array(sites, dtype=object)
    found = sorted(set(sites), key=str)
    if len(found) < 2:
        raise DataError(
            f"splits 'leave-site-out': needs at least two sites, found {one_of(map(str, found))}. "
            "Use splits=stratified."
        )
    owners = np.asarray(subjects, dtype=object)
    splits = []
    for fold, site in enumerate(found):
        test = places == site
        train = ~test & ~np.isin(owners.astype(str), owners[test].astype(str))
        splits.append(Split(0, fold, np.flatnonzero(train), np.flatnonzero(test), str(site)))
    return splits


def check_splits(splits: Sequence[Split], target: Target, subjects: npt.ArrayLike) -> None:
    """Refuse splits that share a subject, or whose training rows cannot teach the target.

    Raises
    ------
    LeakageError
        If a subject stands on both sides of a split.
    ConfigError, DataError
        If a training fold is left with one class, or with one subject of a class.
    """
    owners = np.asarray(subjects, dtype=object).astype(str)
    for split in splits:
        shared = sorted(set(owners[split.train]) & set(owners[split.test]))
        if shared:
            raise LeakageError(
                f"repeat {split.repeat}, fold {split.fold}: {len(shared)} subjects stand on both sides "
                f"({', '.join(shared[:5])}). Put all scans of a subject into one fold."
            )
        if target.kind == "continuous":
            _check_values(split, target)
        else:
            _check_classes(split, target, owners)


def check_class_sizes(target: Target, subjects: npt.ArrayLike, n_folds: int) -> None:
    """Refuse more folds than the smallest class, or a continuous target's cohort, has subjects."""
    owners = np.asarray(subjects, dtype=object).astype(str)
    if target.kind == "continuous":
        n = len(set(owners))
        if n < 2 * n_folds:
            raise ConfigError(
                f"n_folds: {n_folds} folds need at least {2 * n_folds} subjects with '{target.name}', found {n}. "
                + (f"Set n_folds={n // 2} (--n-folds {n // 2})." if n >= 4 else "Evaluate a larger cohort.")
            )
        return
    counts = {name: len(set(owners[target.values == code])) for code, name in enumerate(target.classes)}
    # Two subjects of each class must stay in training, one of them for the inner folds.
    short = {name: n for name, n in counts.items() if n < n_folds or n - -(-n // n_folds) < 2}
    if not short:
        return
    smallest = min(counts.values())
    fitting = next((k for k in range(min(smallest, n_folds), 1, -1) if smallest - -(-smallest // k) >= 2), None)
    few = ", ".join(f"'{name}' has {n}" for name, n in short.items())
    hint = f"Set n_folds={fitting} (--n-folds {fitting})" if fitting else "Evaluate more subjects"
    other = f", or leave the class out with where={{'{target.name}': [...]}}" if target.kind == "multiclass" else ""
    raise ConfigError(
        f"n_folds: every class of '{target.name}' needs at least as many subjects as the {n_folds} folds, and two in "
        f"every training fold; {few}. {hint}{other}."
    )


def deal_subjects(keys: Sequence[npt.NDArray[np.generic]], n_folds: int, generator: np.random.Generator) -> Rows:
    """Return a fold for each subject: dealt in turn, in order of the keys, then of chance."""
    n = len(keys[0])
    order = np.lexsort((generator.random(n), *reversed(keys)))
    fold_of = np.empty(n, dtype=np.intp)
    fold_of[order] = (np.arange(n) + generator.integers(n_folds)) % n_folds
    return generator.permutation(n_folds)[fold_of]


def subject_values(
    values: npt.NDArray[np.generic], owners: npt.NDArray[np.object_], *, average: bool = False
) -> npt.NDArray[np.float64]:
    """Return one value a subject, in sorted order of subjects: the mean, or of several the one fewest subjects have.

    A rare class that subjects have beside a common one, as converters do, is then spread over folds like any other.
    """
    codes = np.unique(owners, return_inverse=True)[1]
    if average:
        return np.bincount(codes, weights=values.astype(float)) / np.bincount(codes)
    kinds, kind_codes = np.unique(values, return_inverse=True)
    has = np.zeros((codes.max() + 1, len(kinds)), dtype=bool)
    has[codes, kind_codes] = True
    return np.where(has, has.sum(axis=0), np.inf).argmin(axis=1).astype(float)


def _deal_ordered(
    value_of: npt.NDArray[np.float64], site_of: npt.NDArray[np.float64], n_folds: int, generator: np.random.Generator
) -> Rows:
    n = len(value_of)
    order = np.lexsort((generator.random(n), value_of, site_of))
    hands = [generator.permutation(n_folds) for _ in range(-(-n // n_folds))]
    fold_of = np.empty(n, dtype=np.intp)
    fold_of[order] = np.concatenate(hands)[:n]
    return fold_of


def _check_values(split: Split, target: Target) -> None:
    if len(split.train) < 2 or np.ptp(target.values[split.train].astype(float)) == 0:
        where = f"site '{split.held_out_site}' is held out" if split.held_out_site else f"fold {split.fold} is tested"
        raise DataError(
            f"target '{target.name}': does not vary in the {len(split.train)} scans that remain when {where}. "
            "Use splits=stratified, or leave that site out with where."
        )


def _check_classes(split: Split, target: Target, owners: npt.NDArray[np.str_]) -> None:
    counts = {
        name: len(set(owners[split.train][target.values[split.train] == code]))
        for code, name in enumerate(target.classes)
    }
    present = [name for name, n in counts.items() if n]
    where = f"site '{split.held_out_site}' is held out" if split.held_out_site else f"fold {split.fold} is tested"
    if len(present) < 2:
        raise DataError(
            f"target '{target.name}': when {where} the training scans have {one_of(present) or 'no class'} only, "
            "so target and site cannot be told apart. Use splits=stratified, or leave that site out with where."
        )
    single = [name for name, n in counts.items() if n == 1]
    if single:
        raise DataError(
            f"target '{target.name}': when {where} only one subject of {one_of(single)} is left to train on; two are "
            "needed. Use splits=stratified, or leave the class out with where."
        )
