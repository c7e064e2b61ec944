from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation import ComBat, Residualiser

FEATURES = [f"f{place}" for place in range(6)]


@pytest.fixture
def table() -> pd.DataFrame:
    """Three sites far apart; a label that moves features alike at each."""
    generator = np.random.default_rng(0)
    sites, label = np.repeat(["a", "b", "c"], 40), np.tile([0, 1], 60)
    x = generator.normal(size=(120, 6)) + 2 * label[:, None] * generator.normal(size=6)
    x += 10 * generator.normal(size=(3, 6))[np.repeat([0, 1, 2], 40)]
    made = pd.DataFrame(x, columns=FEATURES, index=pd.Index([f"sub-{row}" for row in range(120)]))
    return made.assign(site=sites, age=generator.uniform(20, 80, 120), sex=generator.choice(["F", "M"], 120), y=label)


def balanced_accuracy(first, table: pd.DataFrame) -> float:
    """Leave each site out once, in plain scikit-learn."""
    found = cross_validate(
        make_pipeline(first, StandardScaler(), LogisticRegression()),
        table.drop(columns="y"),
        table["y"],
        groups=table["site"],
        cv=LeaveOneGroupOut(),
        scoring="balanced_accuracy",
        error_score="raise",
    )
    return float(found["test_score"].mean())


def test_it_stands_in_a_pipeline_of_cross_validate_that_leaves_sites_out(table):
    untouched = make_column_transformer(("passthrough", FEATURES))
    assert balanced_accuracy(untouched, table) < 0.75
    assert balanced_accuracy(ComBat("site", preserve=["age", "sex"], handle_unknown="ignore"), table) < 0.75
    with pytest.raises(ValueError, match=r"ComBat: site 'a' has fewer than 3 rows in fit"):
        balanced_accuracy(ComBat("site", preserve=["age", "sex"]), table)


def test_its_parameters_are_searched_and_steps_follow_one_another(table):
    combat = ("combat", ComBat("site", preserve=["age"]), [*FEATURES, "site", "age"])
    kept = ("kept", "passthrough", ["age", "sex"])
    pipeline = make_pipeline(
        ColumnTransformer([combat, kept], verbose_feature_names_out=False).set_output(transform="pandas"),
        Residualiser(["age", "sex"]),
        StandardScaler(),
        LogisticRegression(),
    )
    grid = {"columntransformer__combat__handle_unknown": ["error", "ignore"], "logisticregression__C": [0.1, 10.0]}
    search = GridSearchCV(pipeline, grid, cv=StratifiedKFold(3, shuffle=True, random_state=0), error_score="raise")
    x = table.drop(columns="y")
    assert search.fit(x, table["y"]).best_score_ > 0.85
    assert search.best_estimator_[:-1].transform(x).shape == (120, 6)


def test_nothing_of_other_rows_gets_into_what_is_learned(table):
    x, rows = table.drop(columns=["y", "sex"]), np.arange(120) % 2 == 0
    for transformer in (ComBat("site", preserve=["age"]), Residualiser(["site", "age"])):
        fitted = clone(transformer).fit(x[rows])
        whole, one = fitted.transform(x[~rows]), fitted.transform(x[~rows].iloc[:1])
        np.testing.assert_allclose(whole[:1], one)
        np.testing.assert_allclose(fitted.transform(x[rows]), clone(transformer).fit_transform(x[rows]))


@pytest.mark.parametrize(
    ("transformer", "names"),
    [
        (ComBat("site", preserve=["age", "sex"]), FEATURES),
        (Residualiser(["age", "site", "sex"]), FEATURES),
    ],
)
def test_the_output_has_the_features_by_name(table, transformer, names):
    x = table.drop(columns="y")
    fitted = clone(transformer).fit(x)
    assert fitted.get_feature_names_out().tolist() == names
    assert fitted.n_features_in_ == 9
    found = clone(transformer).set_output(transform="pandas").fit_transform(x)
    assert found.columns.tolist() == names
    assert found.index.equals(x.index)
    assert isinstance(fitted.transform(x), np.ndarray)


@pytest.mark.parametrize(
    ("transformer", "change", "message"),
    [
        (ComBat("sites"), {}, "ComBat: X has no column 'sites'.*Did you mean 'site'"),
        (ComBat("site"), {"sex": "F"}, "ComBat: column 'sex' holds text.*Leave it out of X"),
        (ComBat("site", preserve="age"), {}, "The 'preserve' parameter of ComBat must be an array-like"),
        (ComBat("site", handle_unknown="skip"), {}, "The 'handle_unknown' parameter of ComBat must be a str among"),
        (ComBat("site", preserve=["sex"]), {"site": None}, "'site' is missing in 120 of 120 rows"),
        (Residualiser([*FEATURES, "site", "age", "sex"]), {}, "n_features=9, all of them named by parameters"),
        (Residualiser(["site", "sex"]), {"f1": np.nan}, "Input X contains NaN"),
    ],
)
def test_what_is_wrong_is_said_as_scikit_learn_does(table, transformer, change, message):
    with pytest.raises(ValueError, match=message):
        transformer.fit(table.drop(columns="y").assign(**change))
