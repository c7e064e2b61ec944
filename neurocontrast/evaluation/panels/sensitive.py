"""Errors of sensitive numbers that are predicted from an embedding; a larger error is fairer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.fitting import fit_probe
from neurocontrast.evaluation.fold_features import built_in_features
from neurocontrast.evaluation.panels import Findings, Panel, PanelInputs
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.probes import get_probe
from neurocontrast.evaluation.rows import choose_numbers, row_names
from neurocontrast.evaluation.splits.inner import penalty_folds
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import Resamples, leave_out, resample_counts
from neurocontrast.exceptions import DataError
from neurocontrast.seeds import derive_seed

__all__ = ["PANEL", "choose_sensitive", "error_resamples"]

Floats = npt.NDArray[np.float64]


def choose_sensitive(table: pd.DataFrame, names: Sequence[str], *, target: str) -> tuple[str, ...]:
    """Return the columns of numbers that names and patterns (``background_*``) mean; refuse missing values."""
    chosen = choose_numbers(table, names, option="sensitive", target=target)
    for name in chosen:
        values = table[name].to_numpy(dtype=float)
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            raise DataError(
                f"sensitive: column '{name}' has no number in {len(wrong)} of {len(table)} rows "
                f"({', '.join(row_names(table, wrong[:5]))}). Leave these out with where, or fill them in."
            )
        if np.ptp(values) == 0:
            raise DataError(f"sensitive: column '{name}' is {values[0]:g} in every row: there is nothing to tell.")
    return chosen


def _columns(study: Study) -> tuple[str, ...]:
    return choose_sensitive(study.table, study.settings.sensitive, target=study.target.name)


def measure_sensitive(inputs: PanelInputs) -> Findings:
    """Predict the sensitive columns of a study from its features by ridge regression, on the rows of its probe.

    The penalty of each column is chosen like that of the probe: on validation rows, or on inner folds. Of repeated
    folds the first repeat is used.
    """
    study, names = inputs.study, _columns(inputs.study)
    if not names:
        return Findings({"sensitive": None})
    values, design = study.table[list(names)].to_numpy(dtype=float), study.design()
    splits = [split for split in study.splits if split.repeat == 0]
    settings = study.settings.model_copy(update={"probe": "ridge", "clip": False})
    predicted, constant = np.full((2, *values.shape), np.nan)
    folds, alphas = np.full(len(values), -1, dtype=np.intp), np.empty((len(splits), len(names)))
    with inputs.progress.task("Reading sensitive variables", len(splits), "fold") as task:
        for number, split in enumerate(splits):
            seed = derive_seed("sensitive", settings.seed, split.fold)
            features = built_in_features(get_probe("ridge"), design)
            pairs = penalty_folds(
                study.target, split.train, study.subjects, settings=settings, seed=seed, sites=study.sites,
                validation=split.validation,
            )  # fmt: skip
            for place, column in enumerate(values.T):
                fitted = fit_probe(
                    design, Target("sensitive", "continuous", column), split.train, split.test, pairs=pairs, seed=seed,
                    subjects=study.subjects, settings=settings, features=[features],
                )[0]  # fmt: skip
                predicted[split.test, place], alphas[number, place] = fitted.scores, fitted.strength
            folds[split.test], constant[split.test] = split.fold, values[split.train].mean(axis=0)
            task.advance()
    rows = np.flatnonzero(folds >= 0)
    truth, predicted = values[rows], predicted[rows]
    summary = _summary(study, names, (truth - predicted) ** 2, (truth - constant[rows]) ** 2, study.units.labels[rows])
    summary["alpha"] = dict(zip(names, np.median(alphas, axis=0).tolist(), strict=True))
    table = study.table.loc[rows, ["participant_id", "session"]].reset_index(drop=True).assign(fold=folds[rows])
    for place, name in enumerate(names):
        table[f"true_{name}"], table[f"predicted_{name}"] = truth[:, place], predicted[:, place]
    return Findings({"sensitive": summary}, {"sensitive_predictions": table})


def error_resamples(
    squares: Floats, units: npt.NDArray[np.generic], *, n_bootstraps: int, seed: int
) -> list[Resamples]:
    """Return the mean of each column of squared errors (n, b) on all rows, without some, and on resamples of units."""
    blocks = chain(leave_out(units), resample_counts(units, n_bootstraps=n_bootstraps, seed=seed))
    means = np.concatenate([(weights @ squares) / weights.sum(axis=1, keepdims=True) for weights in blocks])
    n_left_out = len(means) - n_bootstraps
    whole = squares.mean(axis=0).tolist()
    return [Resamples(each, *np.split(means[:, place], [n_left_out])) for place, each in enumerate(whole)]


def _summary(
    study: Study, names: Sequence[str], errors: Floats, usual: Floats, units: npt.NDArray[np.object_]
) -> dict[str, Any]:
    """Return errors of the columns and of their mean, and R² against a constant, from the same resamples."""
    both = np.column_stack([errors, errors.mean(axis=1), usual, usual.mean(axis=1)])
    seed, level = derive_seed("sensitive-intervals", study.settings.seed), study.settings.confidence_level
    drawn = error_resamples(both, units, n_bootstraps=study.settings.n_bootstraps, seed=seed)
    n, columns, whole = len(names) + 1, {}, dict[str, Any]()
    for name, error, constant in zip([*names, None], drawn[:n], drawn[n:], strict=True):
        mse, r2 = (each.figure(level=level) for each in (error, error.combine(constant, lambda a, b: 1 - a / b)))
        if name is None:
            whole = {"mse": mse, "constant_mse": constant.value, "r2": r2}
        else:
            columns[name] = {"mse": mse["value"], "low": mse["low"], "high": mse["high"]}
            columns[name] |= {"constant_mse": constant.value, "r2": r2["value"]}
            columns[name] |= {"r2_low": r2["low"], "r2_high": r2["high"]}
    design = "fixed" if study.fixed else "folds"
    about = {"n": len(errors), "probe": "ridge", "unit": "squared units of the columns", "design": design}
    return {"columns": columns, **whole, **about}


PANEL = Panel(order=10, run=measure_sensitive, check=_columns)
