"""Transformers that know sites and covariates, in scikit-learn's hands: ComBat, residuals, coded covariates."""

import inspect
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from neurocontrast import evaluation
from neurocontrast.evaluation import ComBat, Residualiser, covariate_encoder
from neurocontrast.exceptions import NeurocontrastWarning

PUBLIC = [getattr(evaluation, name) for name in evaluation.__all__]
ESTIMATORS = [each for each in PUBLIC if inspect.isclass(each) and issubclass(each, BaseEstimator)]
ORACLE = Path(__file__).parents[1] / "oracles" / "combat.json"
FEATURES = [f"f{place}" for place in range(6)]


@pytest.mark.parametrize(
    "estimator",
    [*(each() for each in ESTIMATORS), ComBat(0, handle_unknown="ignore"), Residualiser([0])],
    ids=repr,
)
def test_scikit_learn_takes_it_for_its_own(estimator):
    assert {ComBat, Residualiser} <= set(ESTIMATORS)
    assert len(check_estimator(estimator, on_skip=None)) > 30


def frame(x, sites, **covariates) -> pd.DataFrame:
    return pd.DataFrame(x).add_prefix("f").assign(site=sites, **covariates)


def harmonise(table, learned_from=None):
    """Apply the ComBat of a table, by default of the same; what is no feature is a covariate."""
    preserve = [name for name in table if name[0] != "f" and name != "site"]
    combat = ComBat("site", preserve=preserve, handle_unknown="ignore")
    return combat.fit(table if learned_from is None else learned_from).transform(table)


@pytest.mark.parametrize(("rule", "tolerance"), [("tightened", 1e-6), ("as_released", 1e-4)])
@pytest.mark.parametrize("preserved", ["alone", "age_sex"])
def test_it_is_neuroharmonize_on_the_scans_it_learned_from_and_on_others(
    rule, tolerance, preserved
):
    made = json.loads(ORACLE.read_text(encoding="utf-8"))
    names = ["age", "sex"] if preserved == "age_sex" else []
    x = np.array(made["x"])
    train = np.array(made["train"])
    table = frame(x, made["sites"], **{name: made[name] for name in names})
    combat = ComBat("site", preserve=names).fit(table[train])
    for part, rows in (("train", train), ("test", ~train)):
        found = combat.transform(table[rows])
        np.testing.assert_allclose(
            found, made["harmonised"][rule][preserved][part], atol=tolerance, rtol=0
        )
        assert np.abs(found - x[rows]).max() > 1


@pytest.fixture(scope="module")
def shifted():
    generator = np.random.default_rng(1)
    places = np.repeat([0, 1, 2], 60)
    age = generator.uniform(20, 80, 180)
    shift = generator.normal(size=(3, 30))
    spread = np.exp(0.4 * generator.normal(size=(3, 30)))
    x = 0.05 * age[:, None] + spread[places] * generator.normal(size=(180, 30)) + 3 * shift[places]
    return x, np.repeat(["a", "b", "c"], 60), age


def test_units_do_not_matter(shifted):
    x, sites, age = shifted
    plain = harmonise(frame(x, sites, age=age))
    np.testing.assert_allclose(harmonise(frame(1e3 * x, sites, age=age)), 1e3 * plain, rtol=1e-6)
    np.testing.assert_allclose(harmonise(frame(x, sites, age=365.25 * age + 1e6)), plain, rtol=1e-5)


def test_a_site_with_hardly_a_scan_stays_as_it_is(shifted):
    table = frame(*shifted[:2])
    few = table[:122]
    two = table[:120]
    found = harmonise(few)
    np.testing.assert_array_equal(found[120:], few.to_numpy()[120:, :30].astype(float))
    np.testing.assert_allclose(found[:120], harmonise(two))
    assert (
        ComBat("site", handle_unknown="ignore").fit(table.iloc[[0, 60, 120]]).sites_.tolist() == []
    )


def test_constant_features_one_feature_and_collinear_covariates_give_numbers(shifted):
    x, sites, age = shifted
    flat = np.column_stack([np.full(180, 7.0), x[:, :5]])
    female = np.tile([1.0, 0.0], 90)
    found = harmonise(frame(flat, sites, age=age, women=female, men=1 - female))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:, 0], 7.0)
    one = harmonise(frame(x[:, :1], sites))
    np.testing.assert_allclose([one[sites == site].mean() for site in "abc"], x[:, 0].mean())


def test_sites_that_were_not_learned_are_refused_or_stay_as_they_are(shifted):
    x, sites, age = shifted
    table = frame(x, sites, age=age)
    known = sites != "c"
    with pytest.raises(ValueError, match="site 'c' has fewer than 3 rows in fit"):
        ComBat("site", preserve=["age"]).fit(table[known]).transform(table)
    with pytest.raises(ValueError, match="site 'c' has fewer than 3 rows in fit"):
        ComBat("site", preserve=["age"]).fit(table[:122])
    with pytest.warns(NeurocontrastWarning, match="site 'c' has .* Learned were 'a', 'b'"):
        left = harmonise(table, table[known])
    np.testing.assert_array_equal(left[~known], x[~known])
    np.testing.assert_allclose(left[known], harmonise(table[known]))


def test_residuals_are_those_of_least_squares_fitted_in_training():
    generator = np.random.default_rng(0)
    covariates = generator.normal(size=(50, 2))
    x = generator.normal(size=(50, 4))
    x += covariates @ generator.normal(size=(2, 4))
    both = np.column_stack([x, covariates])
    design = np.column_stack([np.ones(50), covariates])
    solved = np.linalg.lstsq(design[:30], x[:30])[0]
    expected = x - design @ solved + x[:30].mean(axis=0)
    np.testing.assert_allclose(Residualiser([4, 5]).fit(both[:30]).transform(both), expected)


def test_text_and_missing_covariates_are_taken_out_too():
    generator = np.random.default_rng(1)
    sex = generator.choice(["F", "M"], 80)
    age = generator.uniform(20, 80, 80)
    unknown = np.arange(80) % 5 == 0
    x = generator.normal(size=(80, 2)) + 3.0 * (sex == "M")[:, None] + 5.0 * unknown[:, None]
    table = pd.DataFrame(x, columns=["a", "b"]).assign(sex=sex, age=np.where(unknown, np.nan, age))
    found = Residualiser(["sex", "age"]).fit_transform(table)
    for group in (sex == "M", unknown):
        np.testing.assert_allclose(found[group].mean(axis=0), found[~group].mean(axis=0))
    np.testing.assert_allclose(found.mean(axis=0), x.mean(axis=0))


def test_covariates_are_coded_by_the_rows_that_the_encoder_was_fitted_on():
    table = pd.DataFrame(
        {
            "age": [20.0, 40.0, np.nan, 90.0],
            "sex": ["F", "M", None, "F"],
            "group": [True, False, True, True],
        }
    )
    encoder = covariate_encoder().fit(table[:3])
    # age, age missing | F, M, sex missing | False, True
    np.testing.assert_array_equal(
        encoder.transform(table)[2:], [[30, 1, 0, 0, 1, 0, 1], [90, 0, 1, 0, 0, 0, 1]]
    )
    np.testing.assert_array_equal(encoder.transform(table.assign(age=np.inf))[:, :2], [[30, 1]] * 4)
    new = table.assign(sex=["X", "n/a", "M", "F"])
    with pytest.raises(ValueError, match=r"'X' in 1 row .*Learned were 'F', 'M'"):
        encoder.transform(new)
    lenient = covariate_encoder(handle_unknown="ignore").fit(table[:3])
    with pytest.warns(NeurocontrastWarning, match="'X' in 1 row"):
        coded = lenient.transform(new)
    np.testing.assert_array_equal(coded[:, 2:5], [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]])
    empty = pd.DataFrame({"age": [np.nan] * 3, "sex": [None] * 3})
    assert covariate_encoder().fit_transform(empty).tolist() == [[0, 1, 1]] * 3


@pytest.fixture
def table() -> pd.DataFrame:
    """Three sites far apart; a label that moves features alike at each."""
    generator = np.random.default_rng(0)
    sites = np.repeat(["a", "b", "c"], 40)
    label = np.tile([0, 1], 60)
    x = generator.normal(size=(120, 6)) + 2 * label[:, None] * generator.normal(size=6)
    x += 10 * generator.normal(size=(3, 6))[np.repeat([0, 1, 2], 40)]
    made = pd.DataFrame(x, columns=FEATURES, index=pd.Index([f"sub-{row}" for row in range(120)]))
    return made.assign(
        site=sites,
        age=generator.uniform(20, 80, 120),
        sex=generator.choice(["F", "M"], 120),
        y=label,
    )


def test_its_parameters_are_searched_and_steps_follow_one_another(table):
    combat = ("combat", ComBat("site", preserve=["age"]), [*FEATURES, "site", "age"])
    kept = ("kept", "passthrough", ["age", "sex"])
    pipeline = make_pipeline(
        ColumnTransformer([combat, kept], verbose_feature_names_out=False).set_output(
            transform="pandas"
        ),
        Residualiser(["age", "sex"]),
        StandardScaler(),
        LogisticRegression(),
    )
    grid = {
        "columntransformer__combat__handle_unknown": ["error", "ignore"],
        "logisticregression__C": [0.1, 10.0],
    }
    search = GridSearchCV(
        pipeline, grid, cv=StratifiedKFold(3, shuffle=True, random_state=0), error_score="raise"
    )
    x = table.drop(columns="y")
    assert search.fit(x, table["y"]).best_score_ > 0.85
    assert search.best_estimator_[:-1].transform(x).shape == (120, 6)


@pytest.mark.parametrize(
    "transformer", [ComBat("site", preserve=["age", "sex"]), Residualiser(["site", "age", "sex"])]
)
def test_nothing_of_other_rows_gets_in_and_features_come_out_by_name(table, transformer):
    x = table.drop(columns="y")
    rows = np.arange(120) % 2 == 0
    fitted = clone(transformer).fit(x[rows])
    np.testing.assert_allclose(fitted.transform(x[~rows])[:1], fitted.transform(x[~rows].iloc[:1]))
    np.testing.assert_allclose(fitted.transform(x[rows]), clone(transformer).fit_transform(x[rows]))
    assert fitted.get_feature_names_out().tolist() == FEATURES
    assert fitted.n_features_in_ == 9
    found = clone(transformer).set_output(transform="pandas").fit_transform(x)
    assert found.columns.tolist() == FEATURES
    assert found.index.equals(x.index)


@pytest.mark.parametrize(
    ("transformer", "change", "message"),
    [
        (ComBat("sites"), {}, "ComBat: X has no column 'sites'.*Did you mean 'site'"),
        (ComBat("site"), {"sex": "F"}, "ComBat: column 'sex' holds text.*Leave it out of X"),
        (
            ComBat("site", preserve="age"),
            {},
            "The 'preserve' parameter of ComBat must be an array-like",
        ),
        (
            ComBat("site", handle_unknown="skip"),
            {},
            "The 'handle_unknown' parameter of ComBat must be a str among",
        ),
        (ComBat("site", preserve=["sex"]), {"site": None}, "'site' is missing in 120 of 120 rows"),
        (
            Residualiser([*FEATURES, "site", "age", "sex"]),
            {},
            "n_features=9, all of them named by parameters",
        ),
        (Residualiser(["site", "sex"]), {"f1": np.nan}, "Input X contains NaN"),
    ],
)
def test_what_is_wrong_is_said_as_scikit_learn_does(table, transformer, change, message):
    with pytest.raises(ValueError, match=message):
        transformer.fit(table.drop(columns="y").assign(**change))
