"""Subjects dealt to folds like cards, so that every fold holds about the same kinds of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["deal_ordered", "deal_subjects", "subject_values"]

Rows = npt.NDArray[np.intp]


def deal_subjects(keys: Sequence[npt.NDArray[np.generic]], n_folds: int, generator: np.random.Generator) -> Rows:
    """Return a fold for each subject: dealt in turn, in order of the keys, then of chance."""
    n = len(keys[0])
    order = np.lexsort((generator.random(n), *reversed(keys)))
    fold_of = np.empty(n, dtype=np.intp)
    fold_of[order] = (np.arange(n) + generator.integers(n_folds)) % n_folds
    return generator.permutation(n_folds)[fold_of]


def deal_ordered(
    value_of: npt.NDArray[np.float64], site_of: npt.NDArray[np.float64], n_folds: int, generator: np.random.Generator
) -> Rows:
    """Return a fold for each subject: within site in order of value, each run of `n_folds` neighbours by chance."""
    n = len(value_of)
    order = np.lexsort((generator.random(n), value_of, site_of))
    hands = [generator.permutation(n_folds) for _ in range(-(-n // n_folds))]
    fold_of = np.empty(n, dtype=np.intp)
    fold_of[order] = np.concatenate(hands)[:n]
    return fold_of


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
