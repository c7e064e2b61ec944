"""Covariates as a matrix of numbers, everything in it estimated on the training rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from neurocontrast.evaluation.rows import cell_texts, is_number

__all__ = ["CovariateEncoder"]


class CovariateEncoder(TransformerMixin, BaseEstimator):
    """Encode age, sex, site and other covariates as a matrix of numbers.

    A column of numbers stays one column, missing and infinite values filled with the training mean (`SimpleImputer`).
    Any other column becomes one column for each value seen in training (`OneHotEncoder`), all zero for a value not
    seen. Columns of numbers come first. This is scikit-learn's `ColumnTransformer` of both, without its cost in every
    fold.

    Parameters
    ----------
    add_indicator : bool, default=True
        Whether a column with missing values in training gets another one that marks them. Without, a missing number is
        at the training mean, and missing text has no value.

    Attributes
    ----------
    numbers_, texts_ : list
        Columns of numbers, and the others.
    imputer_, one_hot_ : SimpleImputer, OneHotEncoder
        Of the columns of numbers, and of the others.

    Examples
    --------
    >>> import pandas as pd
    >>> from neurocontrast.evaluation import CovariateEncoder
    >>> table = pd.DataFrame({"age": [20.0, 40.0, None], "sex": ["F", "M", "F"]})
    >>> encoder = CovariateEncoder().fit(table)
    >>> encoder.transform(table)
    array([[20.,  0.,  1.,  0.],
           [40.,  0.,  0.,  1.],
           [30.,  1.,  1.,  0.]])
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'missingindicator_age', 'sex_F', 'sex_M']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"add_indicator": ["boolean"]}

    def __init__(self, *, add_indicator: bool = True) -> None:
        self.add_indicator = add_indicator

    def fit(self, X: Any, y: Any = None) -> CovariateEncoder:  # noqa: ARG002
        """Learn the means and the values of the columns.

        Parameters
        ----------
        X : DataFrame or array (n, q)
            Covariates.
        y : ignored

        Returns
        -------
        self
        """
        self._validate_params()
        table = self._read(X, reset=True)
        self._columns = list(table)
        self.numbers_ = [name for name in table if is_number(table[name])]
        texts = {name: cell_texts(table[name]) for name in table if name not in self.numbers_}
        levels = {name: sorted({text for text in found if text is not None}) for name, found in texts.items()}
        self.texts_ = [name for name in texts if self.add_indicator or levels[name]]
        self.imputer_ = SimpleImputer(add_indicator=self.add_indicator, keep_empty_features=True)
        known = "auto" if self.add_indicator else [np.array(levels[name], dtype=object) for name in self.texts_]
        self.one_hot_ = OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False)
        for encoder, values in self._parts(table):
            encoder.fit(values)
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the covariates as numbers.

        Parameters
        ----------
        X : DataFrame or array (n, q)
            Covariates, as in `fit`.

        Returns
        -------
        array (n, n columns)
        """
        check_is_fitted(self)
        table = self._read(X, reset=False)
        encoded = [encoder.transform(values) for encoder, values in self._parts(table)]
        return np.hstack([np.zeros((len(table), 0)), *encoded])

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return a name for each column of the matrix.

        Parameters
        ----------
        input_features : array of str, optional
            Names of the columns of `X`; those seen in `fit` by default.
        """
        check_is_fitted(self)
        name_of = dict(zip(self._columns, _check_feature_names_in(self, input_features), strict=True))
        parts = [(self.imputer_, self.numbers_), (self.one_hot_, self.texts_)]
        found = [encoder.get_feature_names_out([name_of[name] for name in names]) for encoder, names in parts if names]
        return np.concatenate([np.array([], dtype=object), *found])

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know: text and missing values are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def _read(self, X: Any, *, reset: bool) -> pd.DataFrame:
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        array = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=reset)
        return pd.DataFrame(array).infer_objects()

    def _parts(self, table: pd.DataFrame) -> Iterator[tuple[Any, npt.NDArray[Any]]]:
        """Yield each encoder with the values of its columns; no encoder without columns."""
        if self.numbers_:
            numbers = table[self.numbers_].to_numpy(dtype=np.float64, na_value=np.nan)
            yield self.imputer_, np.where(np.isfinite(numbers), numbers, np.nan)
        if self.texts_:
            texts = np.array([cell_texts(table[name]) for name in self.texts_], dtype=object)
            yield self.one_hot_, texts.T.reshape(len(table), len(self.texts_))
