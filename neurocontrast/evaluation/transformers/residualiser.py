"""Features without what covariates explain of them by least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.transformers.side_columns import Column, SideColumnTransformer

__all__ = ["Residualiser"]

Floats = npt.NDArray[np.float64]


class Residualiser(SideColumnTransformer):
    """Take the linear effect of covariates, as the training rows have it, out of features.

    The training mean of each feature stays. Without covariates the features stay as they are.

    Parameters
    ----------
    covariates : sequence of str or int, default=()
        Side columns whose effect is taken out: numbers, or text that becomes one column a value
        (`CovariateEncoder`). Never what is to be predicted.
    passthrough : sequence of str or int, default=()
        Columns that are no features and stand unchanged at the end of the output, for a later step.

    Attributes
    ----------
    encoder_ : CovariateEncoder
        Makes the covariates into numbers; absent without covariates.
    centre_, coef_ : array (q,), (q, n features)
        Training means of these numbers, and the change of each feature with each of them.

    Examples
    --------
    >>> import pandas as pd
    >>> from neurocontrast.evaluation import Residualiser
    >>> table = pd.DataFrame({"volume": [1.0, 2.0, 3.0, 5.0], "age": [20.0, 40.0, 60.0, 80.0]})
    >>> Residualiser(covariates=["age"]).fit_transform(table).round(2).ravel().tolist()
    [2.95, 2.65, 2.35, 3.05]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "covariates": ["array-like"],
        "passthrough": ["array-like"],
    }

    def __init__(self, covariates: Sequence[Column] = (), *, passthrough: Sequence[Column] = ()) -> None:
        self.covariates = covariates
        self.passthrough = passthrough

    def side_columns(self) -> tuple[Column, ...]:
        """Return the columns that the adjustment reads."""
        return tuple(self.covariates)

    def encode(self, side: pd.DataFrame, *, learn: bool) -> tuple[Any, ...]:
        """Return the covariates as numbers; nothing without covariates."""
        return (self._encode_covariates(side, self.covariates, learn=learn),) if len(self.covariates) else ()

    def estimate(self, x: Floats, *encoded: Any) -> None:
        """Fit the features on the covariates by least squares."""
        for covariates in encoded:
            self.centre_ = covariates.mean(axis=0)
            # LinearRegression gives the same up to its last bits, which differ from run to run.
            self.coef_ = np.linalg.lstsq(covariates - self.centre_, x - x.mean(axis=0), rcond=None)[0]

    def adjust(self, x: Floats, *encoded: Any) -> Floats:
        """Return the features without the effect of the covariates."""
        for covariates in encoded:
            x = x - (covariates - self.centre_) @ self.coef_
        return x
