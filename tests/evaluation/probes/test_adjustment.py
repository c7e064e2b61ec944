"""What is adjusted for: covariates of the baseline, and sites and covariates taken out of the features."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast.evaluation import ComBat, Residualiser
from neurocontrast.evaluation.plan.models.covariates import CovariateDesign
from neurocontrast.evaluation.probes.adjustment import choose_covariates
from neurocontrast.evaluation.probes.designs import FeatureDesign
from neurocontrast.evaluation.rows import tidy_table
from neurocontrast.exceptions import ConfigError, DataError
from tests.evaluation.quick import content, evaluate, make_plan

TABLE = pd.DataFrame(
    {
        "age": [20.0, 40.0, np.nan, 90.0],
        "sex": ["F", "M", None, "F"],
        "site": ["a", "b", "a", "c"],
        "scanner": ["x", "x", "x", "x"],
        "dose": ["1,5", "2,5", "2", None],
        "subject_id": ["p", "q", "r", "s"],
    }
)
TRAIN = np.array([0, 1, 2])
TEST = np.array([3])


def test_everything_is_estimated_on_the_training_rows():
    train, test = CovariateDesign(TABLE, ("age", "sex", "site"))(TRAIN, TEST)
    # age, age missing | F, M, sex missing | a, b  (c was never seen)
    np.testing.assert_array_equal(
        train, [[20, 0, 1, 0, 0, 1, 0], [40, 0, 0, 1, 0, 0, 1], [30, 1, 0, 0, 1, 1, 0]]
    )
    np.testing.assert_array_equal(test, [[90, 0, 1, 0, 0, 0, 0]])


def test_what_cannot_be_a_covariate_is_left_out_and_said():
    names = ("age", "sex", "site", "scanner", "dose", "education", "tiv")
    used, dropped = choose_covariates(TABLE, names, target="age", sites_held_out=True)
    assert used == ("sex",)
    assert (
        dropped
        == {
            "age": "is the target",
            "site": "is held out",
            "scanner": "has fewer than two values",
            "dose": "is text of 3 different values, most of them of one subject alone",
            "education": "is not in the table",  # tiv, which the default asks for, is left out without a word
        }
    )
    assert choose_covariates(TABLE, names, target="diagnosis", sites_held_out=False)[0] == (
        "age",
        "sex",
        "site",
    )


def test_an_age_that_is_published_as_90_or_more_is_read_as_in_every_table_of_people():
    table = pd.DataFrame({"participant_id": ["a", "b", "c"], "age": ["31", "90+", "n/a"]})
    np.testing.assert_array_equal(tidy_table(table)["age"], [31, 90, np.nan])


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("age", ["31", "old", "n/a", "45.5"]),
        ("age", [31, -9, None, 999]),
        ("TIV", [1500.0, np.inf, None, "big"]),
    ],
)
def test_a_number_that_is_none_is_refused_by_name_and_not_taken_for_missing(name, column):
    """The oldest must not vanish from the cohort unseen."""
    table = pd.DataFrame({"participant_id": ["a", "b", "c", "d"], name: column})
    with pytest.raises(DataError, match=rf"column '{name}' must hold .*b: '(old|inf|-9)'"):
        tidy_table(table)
    known = tidy_table(table.iloc[[0, 2]])[name.lower()]
    assert known.iloc[0] == float(column[0])
    assert np.isnan(known.iloc[1])


def auc(cohort, **options) -> float:
    return content(cohort, **options)["metrics"]["auc_within_fold"]["pooled"]


@pytest.fixture(scope="module")
def coded_by_site(make_cohort):
    """Two sites of controls and two of patients, and a strong mark of the site in the features."""
    cohort = make_cohort(240, n_sites=4, diagnosis=0.0, age=0.0, site=1.0, seed=3)
    often = np.random.default_rng(0).random(240) < 0.9
    patients = cohort.table["site"].isin(["site-2", "site-3"]).to_numpy() == often
    cohort.table["diagnosis"] = np.where(patients, "patient", "control")
    return cohort


ADJUSTMENTS = [
    (ComBat("site", preserve=("age", "sex"), handle_unknown="ignore"),),
    (Residualiser(("age", "sex", "site")),),
    (ComBat("site", handle_unknown="ignore"), Residualiser(("age",))),
]


@pytest.mark.parametrize("adjustment", ADJUSTMENTS)
def test_test_rows_do_not_touch_what_is_learned(make_cohort, adjustment):
    cohort = make_cohort(90, site=1.0)
    train = np.arange(60)
    test = np.arange(60, 90)
    x_train, x_test = FeatureDesign(cohort.features, cohort.table, adjustment)(train, test)
    changed = cohort.features.copy()
    table = cohort.table.copy()
    changed[test[1:]] += 100 * np.random.default_rng(0).normal(size=changed[test[1:]].shape)
    table.loc[test[1:], "age"] = 5.0
    again_train, again_test = FeatureDesign(changed, table, adjustment)(train, test)
    np.testing.assert_array_equal(x_train, again_train)
    np.testing.assert_array_equal(x_test[0], again_test[0])  # nor do test rows touch each other
    everything = FeatureDesign(changed, table, adjustment)(np.arange(90), train)[1]
    assert np.abs(everything - x_train).max() > 0.1  # fitted on all scans it would have leaked


def test_the_target_is_never_preserved(make_cohort):
    study = make_plan(make_cohort(60), harmonise="combat", harmonise_preserve=("age", "diagnosis"))
    assert study.design().steps[0].preserve == ("age",)


def test_a_label_that_is_only_the_site_is_gone_with_the_site(coded_by_site):
    assert auc(coded_by_site) > 0.8
    assert auc(coded_by_site, harmonise="combat") < 0.6
    assert auc(coded_by_site, residualise=("site",)) < 0.6


def test_how_features_were_adjusted_is_written_and_no_probe_is_stored(make_cohort):
    result = evaluate(make_cohort(90), harmonise="combat", residualise=("sex",))
    found = result.evaluation.content()["confounds"]
    assert result.probe is None
    assert found["harmonise"] == "combat"
    assert found["harmonise_preserve"] == ["age", "sex"]
    assert found["residualise"] == ["sex"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"harmonise": "combat", "splits": "leave-site-out"},
            ConfigError,
            "site cannot be harmonised.*site-0' 0",
        ),
        ({"harmonise": "combat", "target": "site"}, ConfigError, "takes out what target=site"),
        (
            {"harmonise": "combat", "harmonise_preserve": ["agee"]},
            ConfigError,
            "harmonise_preserve: .*mean 'age'",
        ),
        ({"harmonise": "combat", "where": {"site": ["site-0"]}}, DataError, "nothing to harmonise"),
        ({"residualise": ["diagnosis"]}, ConfigError, "is the target"),
        ({"residualise": ["agee"]}, ConfigError, "residualise: .*Did you mean 'age'"),
        ({"residualise": ["participant_id"]}, ConfigError, "there is no covariate"),
        (
            {"residualise": ["serial"]},
            ConfigError,
            "'serial' has 90 different values in 90 subjects",
        ),
        (
            {"residualise": ["site"], "splits": "leave-site-out"},
            ConfigError,
            "held out cannot be estimated",
        ),
        (
            {"residualise": ["age"], "test": "others.parquet"},
            ConfigError,
            "not applied to an external test set",
        ),
    ],
)
def test_what_cannot_be_adjusted_for_is_refused(make_cohort, options, error, message):
    cohort = make_cohort(90)
    cohort.table["serial"] = [f"s{row}" for row in range(90)]
    with pytest.raises(error, match=message):
        make_plan(cohort, **options)


def test_scans_without_a_site_and_tiny_sites_cannot_be_harmonised(make_cohort):
    cohort = make_cohort(90)
    cohort.table.loc[:2, "site"] = "tiny"
    with pytest.raises(ConfigError, match="'tiny' 2"):
        make_plan(cohort, harmonise="combat")
    cohort.table.loc[:2, "site"] = None
    with pytest.raises(DataError, match="3 of 90 scans have no site"):
        make_plan(cohort, harmonise="combat")


@pytest.mark.slow
def test_combat_over_all_scans_with_the_label_preserved_finds_what_is_not_there_and_ours_does_not(
    make_cohort,
):
    """Ten cohorts without any effect, whose classes are spread unevenly over sites."""
    leaking = []
    ours = []
    for seed in range(10):
        cohort = make_cohort(
            100, n_features=100, n_sites=5, diagnosis=0.0, age=0.0, site=0.0, seed=seed
        )
        shares = np.linspace(0.1, 0.9, 5)[cohort.table["site"].str[-1].astype(int)]
        patients = np.random.default_rng(seed).random(100) < shares
        cohort.table["diagnosis"] = np.where(patients, "patient", "control")
        ours.append(auc(cohort, harmonise="combat"))
        both = (
            pd.DataFrame(cohort.features)
            .add_prefix("f")
            .assign(site=cohort.table["site"], label=1.0 * patients)
        )
        cohort.features = ComBat("site", preserve=["label"]).fit_transform(both)
        leaking.append(auc(cohort))
    assert np.mean(leaking) > 0.57
    assert np.mean(ours) < 0.53
