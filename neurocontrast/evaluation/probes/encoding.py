"""Encode covariates as a matrix of numbers, with a column for each category of training."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from neurocontrast.data.levels import (
    UnseenLevelError,
    check_sexes,
    inferred,
    level_column,
    numbers_of,
    unseen_levels,
)
from neurocontrast.evaluation.rows import Floats, is_number
from neurocontrast.exceptions import NeurocontrastWarning
from neurocontrast.progress import warn_caller


def covariate_encoder(*, handle_unknown: str = "error") -> ColumnTransformer:
    """Return a transformer that encodes columns such as age, sex and site as a matrix of numbers.

    A column of numbers stays one column, missing and infinite values filled with the training mean,
    and gets another one that marks them, if there are any in training (`SimpleImputer`). Any other
    column becomes one column for each level seen in training (`OneHotEncoder`). Columns of numbers
    come first. Columns called ``sex``, ``site`` and ``diagnosis`` hold levels also where they are
    numbers, and ``age`` holds numbers also where it is text. A level has one spelling: 1, 1.0 and
    "1.0" are one, and so are F, female and 2 for a sex.

    Parameters
    ----------
    handle_unknown : {"error", "ignore"}, default="error"
        What to do with a level that was not seen in training: refuse it by name, or make all its
        columns zero and warn.

    Examples
    --------
    >>> import pandas as pd
    >>> from neurocontrast.evaluation import covariate_encoder
    >>> table = pd.DataFrame({"age": [20.0, 40.0, None], "sex": ["F", "M", "F"]})
    >>> encoder = covariate_encoder().fit(table)
    >>> encoder.transform(table)
    array([[20.,  0.,  1.,  0.],
           [40.,  0.,  0.,  1.],
           [30.,  1.,  1.,  0.]])
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'missingindicator_age', 'sex_F', 'sex_M']
    """
    numbers = make_pipeline(
        FunctionTransformer(_finite, feature_names_out="one-to-one"),
        SimpleImputer(add_indicator=True, keep_empty_features=True),
    )
    levels = _LevelEncoder(handle_unknown=handle_unknown, sparse_output=False)
    parts = [
        ("numbers", numbers, partial(_columns_in, numbers=True)),
        ("texts", levels, partial(_columns_in, numbers=False)),
    ]
    return ColumnTransformer(parts, verbose_feature_names_out=False)


class _LevelEncoder(OneHotEncoder):
    """One-hot encoder that counts spellings of a category as one: 1, 1.0 and "1.0", F and female.

    Its error or warning about a category that training lacks names the category and the rows.
    """

    def fit(self, X: pd.DataFrame, y: Any = None) -> Any:
        """Learn the categories of each column of a table; return the encoder.

        Spellings of one category, such as 1, 1.0 and "1.0", are counted as one.
        """
        for name in X:
            check_sexes(str(name), X[name], names=list(X.index))
        return super().fit(X.apply(lambda cells: level_column(str(cells.name), cells)), y)

    def transform(self, X: pd.DataFrame) -> Floats:
        """Return the one-hot columns of a table (n, number of categories).

        A category that `fit` has not seen is refused with ``handle_unknown="error"``; with
        ``"ignore"`` all columns of the cell are 0, and a warning names the category.
        """
        columns: dict[Any, pd.Series] = {}
        for name, categories in zip(X, self.categories_, strict=True):
            learned = set(categories)
            columns[name] = level_column(str(name), X[name], learned=learned)
            unseen = unseen_levels(str(name), columns[name].tolist(), learned, names=list(X.index))
            if unseen and self.handle_unknown == "error":
                raise UnseenLevelError(f"{unseen.text()} {_REMEDY}")
            if unseen:
                message = f"{unseen.text()} Their effect is not known and counts as none."
                warn_caller(message)
        # A missing cell where training had none has no column, and is no unknown level.
        lenient = copy(self).set_params(handle_unknown="ignore")
        spelled = pd.DataFrame(columns, index=X.index)
        return np.asarray(super(_LevelEncoder, lenient).transform(spelled))


_REMEDY = (
    "Write the levels alike in both tables, leave these rows or the column out, or set "
    "handle_unknown='ignore'."
)
_LEVELS = ("sex", "site", "diagnosis")
"""Columns of categories, also where these are written as numbers."""


def _holds_numbers(values: pd.Series) -> bool:
    """Tell whether a covariate is encoded as a number; ``sex`` and ``site`` never are."""
    column = str(values.name).strip().lower()
    if column in _LEVELS:
        return False
    if column == "age":
        return True
    return is_number(inferred(values))


def _columns_in(table: pd.DataFrame, *, numbers: bool) -> list[Any]:
    """Return the names of a table's columns that hold numbers; without `numbers`, of all others."""
    names = []
    for name, values in table.items():
        if _holds_numbers(values) == numbers:
            names.append(name)
    return names


def _finite(table: pd.DataFrame) -> Floats:
    """Return a table of covariates as numbers (n, p), with NaN for missing and infinite cells.

    Text is read cell by cell.
    """
    if not all(map(is_numeric_dtype, table.dtypes)):
        scans = list(table.index)
        table = table.apply(lambda cells: numbers_of(str(cells.name), cells, names=scans))
    numbers = table.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


@contextmanager
def new_levels_allowed() -> Iterator[None]:
    """Silence, within a ``with`` block, warnings of categories that the training rows lack.

    For folds of one table: a category that is rare in the table may be in test rows alone, and is
    no mistake. Other warnings of this package are silent in the block too.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NeurocontrastWarning)
        yield
