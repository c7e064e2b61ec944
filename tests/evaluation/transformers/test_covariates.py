from __future__ import annotations

import numpy as np
import pandas as pd

from neurocontrast.evaluation import covariate_encoder

TABLE = pd.DataFrame(
    {"age": [20.0, 40.0, np.nan, 90.0], "sex": ["F", "M", None, "F"], "group": [True, False, True, True]}
)


def test_means_and_values_are_those_of_the_rows_it_was_fitted_on():
    encoder = covariate_encoder().fit(TABLE[:3])
    # age, age missing | F, M, sex missing | False, True
    np.testing.assert_array_equal(encoder.transform(TABLE)[2:], [[30, 1, 0, 0, 1, 0, 1], [90, 0, 1, 0, 0, 0, 1]])
    np.testing.assert_array_equal(encoder.transform(TABLE.assign(age=np.inf))[:, :2], [[30, 1]] * 4)
    new = TABLE.assign(sex=["X", "n/a", "M", "F"])
    np.testing.assert_array_equal(encoder.transform(new)[:, 2:5], [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]])


def test_columns_without_a_single_value_give_numbers():
    empty = pd.DataFrame({"age": [np.nan] * 3, "sex": [None] * 3})
    assert covariate_encoder().fit_transform(empty).tolist() == [[0, 1, 1]] * 3
