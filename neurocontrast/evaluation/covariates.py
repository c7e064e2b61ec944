"""The baseline: what age, sex and site, and head size where it is given, alone say about the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.table import cell_texts, is_number
from neurocontrast.exceptions import suggestion

__all__ = ["CovariateDesign", "choose_covariates"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

OPTIONAL = ("tiv",)
"""Asked for by default, and no word lost where a table does not have it."""


def choose_covariates(
    table: pd.DataFrame, names: Sequence[str], *, target: str, sites_held_out: bool
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the covariates that can be used, and why the others cannot.

    Left out: the target itself, columns that are absent (of `OPTIONAL`, without a word) or have
    fewer than two values, and the site where sites are held out, since a site that was never seen
    has no coefficient.
    """
    used, dropped = [], {}
    for name in dict.fromkeys(names):
        if name == target:
            dropped[name] = "is the target"
        elif name == "site" and sites_held_out:
            dropped[name] = "is held out"
        elif name not in table:
            if name not in OPTIONAL:
                near = suggestion(name, table.columns).strip()
                dropped[name] = "is not in the table" + (f" ({near})" if near else "")
        elif len({text for text in cell_texts(table[name]) if text is not None}) < 2:
            dropped[name] = "has fewer than two values"
        else:
            used.append(name)
    return tuple(used), dropped


@dataclass(frozen=True)
class CovariateDesign:
    """Matrices of covariates, everything in them estimated on the training rows.

    A number stays one column, its missing values filled with the mean of the training rows;
    text becomes one column a value seen in training, all zero for a value not seen. Either
    gets a column that marks missing values where training has any. Without covariates, one
    constant column is left, and a probe predicts the training rows' average.
    """

    table: pd.DataFrame
    names: tuple[str, ...]

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the matrices of training and test rows."""
        columns: list[tuple[Floats, Floats]] = []
        for name in self.names:
            values = self.table[name]
            if is_number(values):
                columns += _number(values.to_numpy(dtype=float), train, test)
            else:
                columns += _text(np.array(cell_texts(values), dtype=object), train, test)
        if not columns:
            return np.zeros((len(train), 1)), np.zeros((len(test), 1))
        return np.column_stack([pair[0] for pair in columns]), np.column_stack([pair[1] for pair in columns])


def _number(values: Floats, train: Rows, test: Rows) -> list[tuple[Floats, Floats]]:
    missing = ~np.isfinite(values)
    known = values[train][~missing[train]]
    filled = np.where(missing, known.mean() if len(known) else 0.0, values)
    columns = [(filled[train], filled[test])]
    return columns + _indicator(missing, train, test)


def _text(values: npt.NDArray[np.object_], train: Rows, test: Rows) -> list[tuple[Floats, Floats]]:
    missing = np.array([value is None for value in values])
    levels = sorted({value for value in values[train] if value is not None})
    columns = [((values[train] == level).astype(float), (values[test] == level).astype(float)) for level in levels]
    return columns + _indicator(missing, train, test)


def _indicator(missing: npt.NDArray[np.bool_], train: Rows, test: Rows) -> list[tuple[Floats, Floats]]:
    return [(missing[train].astype(float), missing[test].astype(float))] if missing[train].any() else []
