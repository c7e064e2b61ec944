"""Tests of two fitted models on the same test images, and what each tells of sensitive variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.intervals import Resamples
from neurocontrast.evaluation.metrics import top_hits
from neurocontrast.evaluation.panels.sensitive import error_resamples
from neurocontrast.evaluation.significance import delong_test, mcnemar_test
from neurocontrast.evaluation.target import Target

__all__ = ["paired_test", "sensitive_comparison"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

ALL = "all"
"""What the mean over the sensitive columns is called where columns are listed."""


def paired_test(
    target: Target, metric: str, model: OutOfFold, reference: OutOfFold, units: npt.NDArray[np.generic]
) -> dict[str, Any]:
    """Return the p-value of a difference on one test set, and of which test it is; None where there is none.

    McNemar's exact test for shares of images (accuracies, sensitivity, specificity), DeLong's for the AUC of two
    classes. Both take images for independent draws: there is none where units hold several.

    Parameters
    ----------
    target : Target
        Of all rows.
    metric : str
        Which difference.
    model, reference : OutOfFold
        One repeat each, on the same rows.
    units : array (n,)
        What a bootstrap resamples.
    """
    rows = model.tested
    nothing = {"n_folds": 1, "p_value": None, "test": None}
    if len(set(units[rows])) < len(rows):
        return nothing
    if metric == "auc" and target.kind == "binary":
        truth = target.values[rows]
        if np.bincount(truth.astype(int), minlength=2).min() < 2:
            return nothing
        p_value = delong_test(truth, model.scores[0, rows], reference.scores[0, rows]).p_value
        return {"n_folds": 1, "p_value": p_value if np.isfinite(p_value) else None, "test": "delong"}
    hits = [_hits(target, metric, each, rows) for each in (model, reference)]
    if hits[0] is None or hits[1] is None:
        return nothing
    return {"n_folds": 1, "p_value": mcnemar_test(hits[0], hits[1]).p_value, "test": "mcnemar"}


def sensitive_comparison(
    predictions: Mapping[str, pd.DataFrame | None],
    constants: Mapping[str, Mapping[str, float]],
    *,
    n_bootstraps: int,
    level: float,
    seed: int,
) -> pd.DataFrame:
    """Return, for each model and sensitive column, its error and the paired difference from the first model.

    Empty unless all models have the same columns of the same images. The column ``all`` is their mean.

    Parameters
    ----------
    predictions : dict
        ``sensitive_predictions.tsv`` of each model, the reference first.
    constants : dict
        For each model, the error of the training mean for each column.
    n_bootstraps, level, seed
        Of the intervals; all models share the resamples.
    """
    tables = {name: None if table is None else table.sort_values(_KEYS) for name, table in predictions.items()}
    squares = _shared_errors(tables)
    if squares is None:
        return pd.DataFrame()
    names, errors = squares
    joined = np.column_stack([errors[model] for model in errors])
    drawn = error_resamples(joined, np.arange(len(joined)), n_bootstraps=n_bootstraps, seed=seed)
    rows = []
    for place, (model, name) in enumerate((model, name) for model in errors for name in names):
        first, own = drawn[place % len(names)], drawn[place]
        known = constants[model]
        usual = known.get(name) if name != ALL else float(np.mean(list(known.values())))
        row = {"model": model, "column": name, "mse": own.value, **_ends("", own, level), "constant_mse": usual}
        gain: Resamples | None = None if place < len(names) else own - first
        row |= {"difference": None if gain is None else gain.value, **_ends("difference_", gain, level)}
        rows.append(row)
    return pd.DataFrame(rows)


_KEYS = ["participant_id", "session"]


def _shared_errors(tables: Mapping[str, pd.DataFrame | None]) -> tuple[list[str], dict[str, Floats]] | None:
    """Return the columns and the squared errors (n, columns, their mean last) of each model; None if they differ."""
    first = next(iter(tables.values()))
    if first is None:
        return None
    names = [str(name).removeprefix("true_") for name in first.columns if str(name).startswith("true_")]
    errors: dict[str, Floats] = {}
    for model, table in tables.items():
        truths, guesses = ([f"{prefix}_{name}" for name in names] for prefix in ("true", "predicted"))
        if table is None or not {*truths, *guesses} <= set(table):
            return None
        same = table[_KEYS].to_numpy(dtype=object).tolist() == first[_KEYS].to_numpy(dtype=object).tolist()
        if not same or not np.allclose(table[truths].to_numpy(dtype=float), first[truths].to_numpy(dtype=float)):
            return None
        found = (table[truths].to_numpy(dtype=float) - table[guesses].to_numpy(dtype=float)) ** 2
        errors[model] = np.column_stack([found, found.mean(axis=1)])
    return [*names, ALL], errors


def _ends(prefix: str, drawn: Resamples | None, level: float) -> dict[str, float | None]:
    low, high = (None if drawn is None else drawn.interval(level=level)) or (None, None)
    return {f"{prefix}low": low, f"{prefix}high": high}


def _hits(target: Target, metric: str, model: OutOfFold, rows: Rows) -> npt.NDArray[np.bool_] | None:
    """Return which images a metric counts as right; None for what is no share of images."""
    truth = target.values[rows]
    right = model.decisions[0, rows] == truth
    if metric == "accuracy":
        return right
    if metric == "top5_accuracy":
        return top_hits(truth, model.scores[0, rows]) >= 0.5
    if target.kind == "binary" and metric in ("sensitivity", "specificity"):
        return right[truth == (metric == "sensitivity")]
    return None
