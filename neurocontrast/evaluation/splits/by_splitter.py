"""Folds by anybody's splitter: asked as scikit-learn asks it, and checked as a split file is."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.metadata_routing import get_routing_for_object

from neurocontrast.evaluation.splits.split import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, LeakageError

__all__ = ["describe_splitter", "splits_from_cv"]

Rows = npt.NDArray[np.intp]


def describe_splitter(cv: Any) -> str:
    """Return what evaluation.json calls a splitter: its repr, or its class where that would name an address."""
    if not hasattr(cv, "split"):
        return "pairs of training and test rows"
    text = repr(cv)
    return type(cv).__name__ if " at 0x" in text else text


def splits_from_cv(
    cv: Any, *, features: npt.NDArray[np.floating], target: Target, subjects: npt.NDArray[np.object_], sites: pd.Series
) -> list[Split]:
    """Return the splits of a splitter, or of an iterable of index pairs, numbered by repeat and fold.

    A splitter is called with X, y and, where it takes them, `groups` (the subject of each scan) and `sites`. A repeat
    ends where a scan would be tested in it for the second time. Where every split tests all scans of one site that it
    does not train on, the sites are held out, as by `LeaveSiteOut`.
    """
    given = _pairs(cv, features, target, subjects, sites)
    pairs = [_checked(number, pair, len(subjects)) for number, pair in enumerate(given)]
    if len(pairs) < 2:
        raise DataError(f"cv: at least two splits are needed, and {describe_splitter(cv)} makes {len(pairs)}.")
    tested = np.zeros(len(subjects), dtype=bool)
    splits: list[Split] = []
    repeat = fold = 0
    for train, test in pairs:
        if tested[test].any():
            repeat, fold = repeat + 1, 0
            tested[:] = False
        tested[test] = True
        splits.append(Split(repeat, fold, train, test))
        fold += 1
    held_out = [_held_out(split, sites.to_numpy(dtype=object)) for split in splits]
    if all(site is not None for site in held_out):
        return [replace(split, held_out_site=site) for split, site in zip(splits, held_out, strict=True)]
    return splits


def _pairs(
    cv: Any, features: npt.NDArray[np.floating], target: Target, subjects: npt.NDArray[np.object_], sites: pd.Series
) -> list[Any]:
    if isinstance(cv, str) or not hasattr(cv, "split"):
        if isinstance(cv, str) or not isinstance(cv, Iterable):
            raise ConfigError(
                "cv: must be a splitter of scikit-learn's kind (with split and get_n_splits) or pairs of training and "
                f"test rows, got {cv!r:.80}. For a number of folds use n_folds."
            )
        return list(cv)
    given = {"groups": subjects, "sites": sites.to_numpy(dtype=object)}
    names = [name for name in given if _takes(cv, name)]
    try:
        return list(cv.split(features, target.values, **{name: given[name] for name in names}))
    except (TypeError, ValueError) as error:
        passed = ", ".join(["X (features)", f"y ({target.name})", *names])
        raise DataError(f"cv: {describe_splitter(cv)} refused these scans; it was given {passed}: {error}") from error


def _takes(cv: Any, name: str) -> bool:
    """Say whether `split` wants an argument: by the metadata it requests, or, where it requests none, by its name."""
    if hasattr(cv, "get_metadata_routing"):
        return name in get_routing_for_object(cv).consumes("split", [name])
    return name in inspect.signature(cv.split).parameters


def _checked(number: int, pair: Any, n_rows: int) -> tuple[Rows, Rows]:
    try:
        train, test = (np.asarray(rows) for rows in pair)
    except (TypeError, ValueError) as error:
        raise DataError(f"cv: split {number} must be a pair of training and test rows ({error}).") from error
    train, test = (np.flatnonzero(rows) if rows.dtype == bool else rows for rows in (train, test))
    for name, rows in (("training", train), ("test", test)):
        if rows.ndim != 1 or not len(rows):
            raise DataError(f"cv: split {number} has no {name} rows. Every split needs scans to train on and to test.")
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n_rows or len(set(rows)) != len(rows):
            raise DataError(
                f"cv: the {name} rows of split {number} must be different whole numbers from 0 to {n_rows - 1}, the "
                f"rows of the {n_rows} scans that are evaluated; found {_shown(rows)}."
            )
    both = np.intersect1d(train, test)
    if len(both):
        raise LeakageError(f"cv: split {number} trains on {len(both)} rows that it tests too ({_shown(both)}).")
    return np.sort(train).astype(np.intp), np.sort(test).astype(np.intp)


def _shown(rows: npt.NDArray[Any]) -> str:
    return ", ".join(map(str, rows[:5])) + (" …" if len(rows) > 5 else "")


def _held_out(split: Split, sites: npt.NDArray[np.object_]) -> str | None:
    found = set(sites[split.test])
    site = next(iter(found))
    if len(found) > 1 or site is None or (sites[split.train] == site).any():
        return None
    return str(site) if len(split.test) == (sites == site).sum() else None
