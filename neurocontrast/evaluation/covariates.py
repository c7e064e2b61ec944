"""The baseline: what age, sex and site, and head size where it is given, alone say about the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.table import cell_texts
from neurocontrast.evaluation.transformers.covariates import CovariateEncoder
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
    """Matrices of covariates, everything in them estimated on the training rows (`CovariateEncoder`).

    Without covariates, one constant column is left, and a probe predicts the training rows' average.
    """

    table: pd.DataFrame
    names: tuple[str, ...]

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the matrices of training and test rows."""
        if not self.names:
            return np.zeros((len(train), 1)), np.zeros((len(test), 1))
        table = self.table[list(self.names)]
        encoder = CovariateEncoder()
        return encoder.fit_transform(table.iloc[train]), encoder.transform(table.iloc[test])
