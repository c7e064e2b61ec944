"""How much of sensitive variables an embedding tells: the error of numbers predicted from it, larger is fairer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.estimators import built_in_features
from neurocontrast.evaluation.intervals import Resamples
from neurocontrast.evaluation.probe_kinds import fit_model
from neurocontrast.evaluation.probes import Design, penalty_folds
from neurocontrast.evaluation.table import IDENTIFIERS, cell_texts, is_number, row_names
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import leave_out, resample_counts
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.progress import Progress
from neurocontrast.seeds import derive_seed

if TYPE_CHECKING:  # planning asks which columns there are
    from neurocontrast.evaluation.planning import Study

__all__ = ["SensitiveReading", "choose_sensitive", "error_resamples", "read_sensitive"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class SensitiveReading:
    """``sensitive`` of evaluation.json and the predictions behind it; None where no column is asked for."""

    summary: dict[str, Any] | None = None
    table: pd.DataFrame | None = None


def choose_sensitive(table: pd.DataFrame, names: Sequence[str], *, target: str) -> tuple[str, ...]:
    """Return the columns that names and patterns (``background_*``) mean.

    Raises
    ------
    ConfigError
        For a name that no column has, an identifier, a text, and the target.
    DataError
        For a column with missing values, or one value only.
    """
    chosen: dict[str, None] = {}
    columns = [
        str(name)
        for name in table.columns
        if name not in IDENTIFIERS and is_number(table[name]) and not table[name].isna().all()
    ]
    for name in names:
        found = [column for column in columns if fnmatchcase(column, name) and column != target]
        if not found:
            raise ConfigError(f"sensitive: '{name}' {_why_none(table, name, target)}{suggestion(name, columns)} "
                              f"Columns of numbers: {one_of(columns[:30]) or 'none'}.")  # fmt: skip
        chosen |= dict.fromkeys(found)
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
    return tuple(chosen)


def read_sensitive(study: Study, design: Design, progress: Progress) -> SensitiveReading:
    """Predict the sensitive columns of a study from its features by ridge regression, on the rows its probe gets.

    The penalty of each column is chosen like that of the probe: on validation rows, or on inner folds. Of repeated
    folds the first repeat is used.

    Parameters
    ----------
    study : Study
        As `plan_study` returned it.
    design : callable
        Its features, as the probe of the target gets them.
    progress : Progress
        Told how far the work is.
    """
    names, settings = study.sensitive, study.settings
    if not names:
        return SensitiveReading()
    values = study.table[list(names)].to_numpy(dtype=float)
    predicted, constant = np.full((2, *values.shape), np.nan)
    folds = np.full(len(values), -1, dtype=np.intp)
    splits = [split for split in study.splits if split.repeat == 0]
    strengths, ridge = [], settings.model_copy(update={"probe": "ridge", "clip": False})
    with progress.task("Reading sensitive variables", len(splits), "fold") as task:
        for split in splits:
            seed = derive_seed("sensitive", settings.seed, split.fold)
            pairs = penalty_folds(
                study.target, split.train, study.subjects, settings=settings, seed=seed, sites=study.sites,
                validation=split.validation,
            )  # fmt: skip
            chosen, features = [], built_in_features("ridge", design)
            for place, column in enumerate(values.T):
                fitted = fit_model(
                    design, Target("sensitive", "continuous", column), split.train, split.test, pairs=pairs, seed=seed,
                    subjects=study.subjects, settings=ridge, features=features,
                )[0].fit  # fmt: skip
                predicted[split.test, place] = fitted.scores
                chosen.append(fitted.strength)
            folds[split.test] = split.fold
            constant[split.test] = values[split.train].mean(axis=0)
            strengths.append(chosen)
            task.advance()
    rows = np.flatnonzero(folds >= 0)
    summary = _summary(study, values[rows], predicted[rows], constant[rows], rows)
    alphas = np.median(strengths, axis=0)
    summary["alpha"] = {name: float(alpha) for name, alpha in zip(names, alphas, strict=True)}
    return SensitiveReading(summary, _table(study, rows, folds, values, predicted))


def error_resamples(
    squares: Floats, units: npt.NDArray[np.generic], *, n_bootstraps: int, seed: int
) -> list[Resamples]:
    """Return the mean of each column of squared errors (n, b) on all rows, without some, and on resamples of units."""
    blocks = chain(leave_out(units), resample_counts(units, n_bootstraps=n_bootstraps, seed=seed))
    parts = [(weights @ squares) / weights.sum(axis=1, keepdims=True) for weights in blocks]
    means = np.concatenate(parts) if parts else np.empty((0, squares.shape[1]))
    n_left_out = len(means) - n_bootstraps
    return [
        Resamples(float(squares[:, column].mean()), means[:n_left_out, column], means[n_left_out:, column])
        for column in range(squares.shape[1])
    ]


def _summary(study: Study, truth: Floats, predicted: Floats, constant: Floats, rows: Rows) -> dict[str, Any]:
    settings = study.settings
    errors, usual = ((truth - guess) ** 2 for guess in (predicted, constant))
    both = np.column_stack([errors, errors.mean(axis=1), usual, usual.mean(axis=1)])
    drawn = error_resamples(
        both,
        study.units.labels[rows],
        n_bootstraps=settings.n_bootstraps,
        seed=derive_seed("sensitive-intervals", settings.seed),
    )
    n = errors.shape[1] + 1
    figures = [_figures(*pair, level=settings.confidence_level) for pair in zip(drawn[:n], drawn[n:], strict=True)]
    whole = figures[-1]
    return {
        "columns": dict(zip(study.sensitive, figures, strict=False)),
        "mse": {"value": whole["mse"], "low": whole["low"], "high": whole["high"]},
        "constant_mse": whole["constant_mse"],
        "r2": {"value": whole["r2"], "low": whole["r2_low"], "high": whole["r2_high"]},
        "n": len(rows),
        "probe": "ridge",
        "unit": "squared units of the columns",
        "design": "fixed" if study.fixed else "folds",
    }


def _figures(error: Resamples, usual: Resamples, *, level: float) -> dict[str, float | None]:
    """Return an error and its share of the constant's, both with intervals; those of r² have the same rows in both."""
    share = error.combine(usual, lambda one, other: 1 - one / other)
    low, high = _ends(error, level)
    r2_low, r2_high = _ends(share, level)
    return {
        "mse": error.value,
        "low": low,
        "high": high,
        "constant_mse": usual.value,
        "r2": share.value,
        "r2_low": r2_low,
        "r2_high": r2_high,
    }


def _ends(figure: Resamples, level: float) -> tuple[float | None, float | None]:
    return (figure.interval(level=level) if len(figure.drawn) else None) or (None, None)


def _table(study: Study, rows: Rows, folds: Rows, values: Floats, predicted: Floats) -> pd.DataFrame:
    table = study.table.loc[rows, ["participant_id", "session"]].reset_index(drop=True)
    table["fold"] = folds[rows]
    for place, name in enumerate(study.sensitive):
        table[f"true_{name}"], table[f"predicted_{name}"] = values[rows, place], predicted[rows, place]
    return table


def _why_none(table: pd.DataFrame, name: str, target: str) -> str:
    if name == target:
        return "is the target: what it is told by is the accuracy."
    if name in IDENTIFIERS:
        return "identifies rows and is no variable."
    if name not in table:
        return "is no column of the table, nor a pattern that fits one."
    texts = [text for text in cell_texts(table[name]) if text is not None]
    return f"holds text ('{texts[0]}'), and a squared error is of numbers." if texts else "has no value."
