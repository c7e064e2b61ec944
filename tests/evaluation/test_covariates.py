from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from neurocontrast.evaluation.adjustment import choose_covariates
from neurocontrast.evaluation.models.covariates import CovariateDesign
from neurocontrast.evaluation.rows import tidy_table
from neurocontrast.exceptions import DataError

TABLE = pd.DataFrame(
    {
        "age": [20.0, 40.0, np.nan, 90.0],
        "sex": ["F", "M", None, "F"],
        "site": ["a", "b", "a", "c"],
        "scanner": ["x", "x", "x", "x"],
    }
)
TRAIN, TEST = np.array([0, 1, 2]), np.array([3])


def test_everything_is_estimated_on_the_training_rows():
    train, test = CovariateDesign(TABLE, ("age", "sex", "site"))(TRAIN, TEST)
    # age, age missing | F, M, sex missing | a, b  (c was never seen)
    np.testing.assert_array_equal(train, [[20, 0, 1, 0, 0, 1, 0], [40, 0, 0, 1, 0, 0, 1], [30, 1, 0, 0, 1, 1, 0]])
    np.testing.assert_array_equal(test, [[90, 0, 1, 0, 0, 0, 0]])


def test_without_covariates_one_constant_column_is_left():
    train, test = CovariateDesign(TABLE, ())(TRAIN, TEST)
    assert train.tolist() == [[0.0]] * 3
    assert test.tolist() == [[0.0]]


def test_what_cannot_be_a_covariate_is_left_out_and_said():
    names = ("age", "sex", "site", "scanner", "education", "tiv")
    used, dropped = choose_covariates(TABLE, names, target="age", sites_held_out=True)
    assert used == ("sex",)
    assert dropped == {
        "age": "is the target",
        "site": "is held out",
        "scanner": "has fewer than two values",
        "education": "is not in the table",  # tiv, which the default asks for, is left out without a word
    }
    assert choose_covariates(TABLE, names, target="diagnosis", sites_held_out=False)[0] == ("age", "sex", "site")


@pytest.mark.parametrize(
    ("name", "column"), [("age", ["31", "90+", "n/a", "45.5"]), ("TIV", [1500.0, np.inf, None, "big"])]
)
def test_a_number_that_is_none_is_refused_by_name_and_not_taken_for_missing(name, column):
    """Ages are often published as "90+": the oldest must not vanish from the cohort unseen."""
    table = pd.DataFrame({"participant_id": ["a", "b", "c", "d"], name: column})
    with pytest.raises(DataError, match=rf"column '{name}' must hold finite numbers.*b: '(90\+|inf)'"):
        tidy_table(table)
    known = tidy_table(table.iloc[[0, 2]])[name.lower()]
    assert known.iloc[0] == float(column[0])
    assert np.isnan(known.iloc[1])
