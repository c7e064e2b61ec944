"""Side columns: sites and covariates in the same table as the features that they adjust."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_string_dtype
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_array, check_is_fitted, validate_data

from neurocontrast.evaluation.transformers.covariates import CovariateEncoder
from neurocontrast.exceptions import suggestion

__all__ = ["Column", "SideColumnTransformer", "group_names"]

Floats = npt.NDArray[np.float64]
Column = str | int
"""A name in a DataFrame, or a position in an array of numbers."""


class SideColumnTransformer(TransformerMixin, BaseEstimator):
    """Adjust the feature columns of a table by its side columns.

    Every column that no parameter names is a feature. The output holds the adjusted features, then the columns of
    `passthrough`.
    """

    passthrough: Sequence[Column]

    def side_columns(self) -> tuple[Column, ...]:
        """Return the columns that the adjustment reads."""
        raise NotImplementedError

    def encode(self, side: pd.DataFrame, *, learn: bool) -> tuple[Any, ...]:
        """Return side columns as `estimate` and `adjust` take them; `learn` fits the encoder first."""
        raise NotImplementedError

    def estimate(self, x: Floats, *encoded: Any) -> None:
        """Learn the adjustment from features (n, p) and encoded side columns."""
        raise NotImplementedError

    def adjust(self, x: Floats, *encoded: Any) -> Floats:
        """Return adjusted features (n, p)."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Any:  # noqa: ARG002
        """Estimate on the rows of `X`.

        Parameters
        ----------
        X : DataFrame or array (n, p)
            Features and side columns.
        y : ignored

        Returns
        -------
        self
        """
        self._validate_params()
        x, side = self._read(X, reset=True)
        self.estimate(x, *self.encode(side, learn=True))
        return self

    def transform(self, X: Any) -> Any:
        """Return adjusted features.

        Parameters
        ----------
        X : DataFrame or array (n, p)
            Features and side columns, as in `fit`.

        Returns
        -------
        array (n, n features), or DataFrame where `X` is one and `passthrough` names columns
        """
        check_is_fitted(self, "n_features_in_")
        x, side = self._read(X, reset=False)
        adjusted = self.adjust(x, *self.encode(side, learn=False))
        if not len(self.passthrough):
            return adjusted
        if not isinstance(X, pd.DataFrame):
            return np.column_stack([adjusted, np.asarray(X)[:, np.array(self.passthrough, dtype=int)]])
        features = pd.DataFrame(adjusted, columns=X.columns[self._are_features(X.columns)], index=X.index)
        return pd.concat([features, X[list(self.passthrough)]], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the features, then those of `passthrough`.

        Parameters
        ----------
        input_features : array of str, optional
            Names of the columns of `X`; those seen in `fit` by default.
        """
        check_is_fitted(self, "n_features_in_")
        names = np.asarray(_check_feature_names_in(self, input_features), dtype=object)
        keys = pd.Index(names if hasattr(self, "feature_names_in_") else range(len(names)))
        chosen = [*np.flatnonzero(self._are_features(keys)), *keys.get_indexer(pd.Index(list(self.passthrough)))]
        return np.asarray(names[chosen], dtype=object)

    def _encode_covariates(
        self, side: pd.DataFrame, columns: Sequence[Column], *, learn: bool, add_indicator: bool = True
    ) -> Floats:
        """Return some of the side columns as numbers, by an encoder that `learn` fits first."""
        kept = side[[str(column) for column in columns]]
        if learn:
            self.encoder_ = CovariateEncoder(add_indicator=add_indicator).fit(kept)
        return self.encoder_.transform(kept)

    def _are_features(self, columns: pd.Index) -> npt.NDArray[np.bool_]:
        return ~columns.isin([*self.side_columns(), *self.passthrough])

    def _read(self, X: Any, *, reset: bool) -> tuple[Floats, pd.DataFrame]:
        """Return the features, and the table of side columns under names that are text."""
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            table = X
        else:
            table = pd.DataFrame(validate_data(self, X, dtype=np.float64, reset=reset))
        name, n = type(self).__name__, table.shape[1]
        lacking = [column for column in (*self.side_columns(), *self.passthrough) if column not in table]
        if lacking:
            near = suggestion(str(lacking[0]), [str(column) for column in table.columns])
            raise ValueError(f"{name}: X has no column {lacking[0]!r} (n_features={n}).{near}")
        features = table.loc[:, self._are_features(table.columns)]
        if not features.shape[1]:
            raise ValueError(
                f"{name}: X has n_features={n}, all of them named by parameters; at least one other column is needed, "
                "to be adjusted."
            )
        text = [
            column for column, values in features.select_dtypes(exclude="number").items() if is_string_dtype(values)
        ]
        if text:
            raise ValueError(
                f"{name}: column {text[0]!r} holds text, and every column that no parameter names is a feature. Name "
                "it in passthrough, or leave it out of X."
            )
        numbers = features.to_numpy(dtype=np.float64, na_value=np.nan)  # check_array would look at column after column
        x = check_array(numbers, order="C", estimator=self, input_name="X")
        side = table[list(dict.fromkeys(self.side_columns()))]
        return x, side.set_axis(side.columns.astype(str), axis=1)


def group_names(side: pd.DataFrame, column: Column, *, owner: object) -> npt.NDArray[np.str_]:
    """Return the site or subject of each row as text; a missing one is refused."""
    values = side[str(column)]
    missing = int(values.isna().sum())
    if missing:
        raise ValueError(
            f"{type(owner).__name__}: column {column!r} is missing in {missing} of {len(values)} rows, and each "
            "row needs a value. Fill it in, or leave these rows out."
        )
    return values.to_numpy(dtype=object).astype(str)
