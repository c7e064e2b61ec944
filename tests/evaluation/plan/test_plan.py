"""Whole studies: figures against scikit-learn's on the same predictions, tables, warnings and refusals."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_absolute_error, roc_auc_score

from neurocontrast.exceptions import ConfigError, DataError, LeakageError
from neurocontrast.provenance import subject_digest
from tests.evaluation.quick import content, evaluate, make_plan, warnings

EVERYTHING = {"n_bootstraps": 200, "confounds": True, "new_site": True, "outlyingness": True}


@pytest.fixture(scope="module")
def binary(make_cohort):
    return evaluate(make_cohort(150, n_sites=4), info={"pretraining_subjects": []}, **EVERYTHING)


@pytest.fixture(scope="module")
def summary(binary):
    return binary.evaluation.content()


def test_a_planted_signal_is_found_and_beats_the_baseline(summary):
    auc, baseline, increment = (
        summary[part]["auc"] for part in ("metrics", "baseline", "increment")
    )
    assert auc["pooled"] > 0.9
    assert auc["interval"][0] < auc["pooled"] < auc["interval"][1]
    assert baseline["pooled"] < 0.7
    assert increment["interval"][0] > 0.1
    assert increment["difference"] == pytest.approx(auc["pooled"] - baseline["pooled"])


def test_the_figures_are_those_of_the_predictions(binary, summary):
    table = binary.tables["predictions"]
    folds = binary.tables["folds"]
    truth = table["y_true"] == "patient"
    for part, column in (("metrics", "y_score"), ("baseline", "baseline_score")):
        assert summary[part]["auc"]["pooled"] == pytest.approx(roc_auc_score(truth, table[column]))
    for _, fold in folds.iterrows():
        rows = table["fold"] == fold["fold"]
        assert fold["n_test"] == rows.sum()
        assert fold["n_positive_test"] == truth[rows].sum()
        assert fold["auc"] == pytest.approx(roc_auc_score(truth[rows], table["y_score"][rows]))
    assert summary["metrics"]["auc"]["mean"] == pytest.approx(folds["auc"].mean())


def test_the_same_seed_gives_the_same_files_and_another_does_not(make_cohort, binary, summary):
    again = evaluate(make_cohort(150, n_sites=4), info={"pretraining_subjects": []}, **EVERYTHING)
    assert again.evaluation.content() == summary
    for name, table in binary.tables.items():
        pd.testing.assert_frame_equal(table, again.tables[name])
    other = content(make_cohort(150, n_sites=4), seed=1)
    assert other["metrics"]["auc"]["pooled"] != summary["metrics"]["auc"]["pooled"]


def test_the_order_of_rows_does_not_decide_who_is_tested_with_whom(make_cohort):
    cohort = make_cohort(60)
    study = make_plan(cohort)
    order = np.random.default_rng(0).permutation(60)
    cohort.table, cohort.features = (
        cohort.table.iloc[order].reset_index(drop=True),
        cohort.features[order],
    )
    shuffled = make_plan(cohort)
    for a, b in zip(study.splits, shuffled.splits, strict=True):
        assert set(study.subjects[a.test]) == set(shuffled.subjects[b.test])


def test_all_tables_have_their_columns(binary, summary):
    whose = ("participant_id", "subject_id", "session", "site")
    assert {name: list(table.columns)[:7] for name, table in binary.tables.items()} == {
        "predictions": ["participant_id", "subject_id", "session", "site", "age", "sex", "repeat"],
        "folds": [
            "repeat",
            "fold",
            "n_train",
            "n_test",
            "n_positive_test",
            "auc",
            "balanced_accuracy",
        ],
        "sites": ["site", "n", "n_control", "n_patient", "auc", "auc_low", "auc_high"],
        "groups": ["group_by", "group", "n", "n_control", "n_patient", "auc", "auc_low"],
        "calibration": [
            "model",
            "bin",
            "n",
            "mean_predicted",
            "observed",
            "observed_low",
            "observed_high",
        ],
        "cohort": ["site", "control", "patient", "total"],
        "confounds": ["column", "within", "metric", "value", "low", "high", "chance"],
        "flow": ["step", "n_scans", "n_subjects", "reason"],
        "new_sites": ["site", "model", "n", "n_train", "auc", "auc_low", "auc_high"],
        "outlyingness": [*whose, "reference", "mahalanobis", "mahalanobis_percentile"],
        "scans": ["participant_id", "session", "site", "path"],
        "splits": ["participant_id", "session", "repeat", "fold", "held_out_site"],
    }
    assert list(binary.tables["predictions"].columns)[7:] == [
        "fold",
        "y_true",
        "y_score",
        "baseline_score",
        "y_pred",
    ]
    assert binary.tables["cohort"]["total"].sum() == 150
    assert binary.tables["scans"]["site"].nunique() == 4
    json.dumps(summary, allow_nan=False)


def test_a_continuous_target_uses_ridge_and_leaves_itself_out_of_the_baseline(make_cohort):
    result = evaluate(make_cohort(120, age=2.0), target="age")
    summary = result.evaluation.content()
    assert summary["kind"] == "continuous"
    assert summary["baseline_covariates"] == ["sex", "site"]
    assert summary["metrics"]["r2"]["pooled"] > 0.6
    assert summary["baseline"]["r2"]["pooled"] < 0.2
    predictions = result.tables["predictions"]
    expected = mean_absolute_error(predictions["y_true"], predictions["y_score"])
    assert summary["metrics"]["mae"]["pooled"] == pytest.approx(expected)
    columns = ["site", "n", "n_subjects", "mean", "sd", "min", "max"]
    assert list(result.tables["cohort"].columns) == columns
    assert "alpha" in result.tables["folds"]


def test_several_classes_have_a_score_each(make_cohort):
    result = evaluate(
        make_cohort(180, classes=("hc", "bd", "sz"), diagnosis=1.5), n_repeats=2, outlyingness=True
    )
    found = result.evaluation.content()
    predictions = result.tables["predictions"]
    assert (found["classes"], found["positive"]) == (["hc", "bd", "sz"], None)
    scores = predictions[["score_hc", "score_bd", "score_sz"]].to_numpy()
    np.testing.assert_allclose(scores.sum(axis=1), 1)
    assert len(predictions) == 2 * 180
    assert found["outlyingness"]["n"] == len(result.tables["outlyingness"]) == 180
    own = [
        scores[row, ["hc", "bd", "sz"].index(name)]
        for row, name in enumerate(predictions["y_true"])
    ]
    np.testing.assert_allclose(predictions["y_score"], own)
    assert found["metrics"]["balanced_accuracy"]["pooled"] > 0.6


def test_leaving_sites_out_drops_site_from_the_baseline_and_keeps_single_class_sites(make_cohort):
    cohort = make_cohort(120, n_sites=4)
    cohort.table.loc[cohort.table["site"] == "site-3", "diagnosis"] = "control"
    result = evaluate(cohort, splits="leave-site-out")
    found = result.evaluation.content()
    assert "single_class_site" in warnings(found)
    assert found["baseline_covariates"] == ["age", "sex"]
    assert found["n_folds"] == 4
    folds = result.tables["folds"].set_index("held_out_site")
    assert np.isnan(folds.loc["site-3", "auc"])
    assert folds.loc["site-3", "specificity"] >= 0
    assert found["metrics"]["auc"]["n_folds_defined"] == 3
    assert found["metrics"]["auc"]["pooled"] is not None
    note = result.tables["sites"].set_index("site").loc["site-3", "note"]
    assert "single class (control)" in note


def test_uneven_sites_pooled_without_their_base_rates_are_warned_about(make_cohort):
    cohort = make_cohort(200, n_sites=4, diagnosis=0.0, age=0.0)
    share = cohort.table["site"].map({"site-0": 0.9, "site-1": 0.1, "site-2": 0.8, "site-3": 0.2})
    drawn = np.random.default_rng(0).random(200) < share
    cohort.table["diagnosis"] = np.where(drawn, "patient", "control")
    summary = content(cohort, splits="leave-site-out")
    assert summary["baseline"]["auc"]["pooled"] < 0.35  # far under chance: nothing but base rates
    assert summary["baseline"]["auc_within_fold"]["pooled"] == pytest.approx(0.5, abs=0.15)
    assert "auc_within_fold" not in warnings(summary)["pooled_auc_mixes_folds"]


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_an_older_class_is_warned_about_however_rare_it_is(make_cohort, share):
    cohort = make_cohort(400)
    cohort.table["diagnosis"] = np.where(np.arange(400) < 400 * share, "patient", "control")
    cohort.table["age"] = np.random.default_rng(0).normal(50, 10, 400)
    assert "age_imbalance" not in warnings(make_plan(cohort))
    cohort.table.loc[cohort.table["diagnosis"] == "patient", "age"] += 7
    assert "age_imbalance" in warnings(make_plan(cohort))


def test_leakage_concerns_only_those_who_are_evaluated(make_cohort):
    cohort = make_cohort(90)
    seen = cohort.table.loc[cohort.table["site"] == "site-0", "subject_id"]
    info = {"pretraining_subjects": [subject_digest(subject) for subject in seen]}
    with pytest.raises(LeakageError, match=f"{len(seen)} of 90 subjects"):
        make_plan(cohort, info=info)
    elsewhere = make_plan(cohort, info=info, where={"site": ["site-1", "site-2"]})
    assert not elsewhere.overlap.subjects
    allowed = make_plan(cohort, info=info, allow_overlap=True)
    assert len(allowed.overlap.subjects) == len(seen)
    assert "pretraining_overlap" in warnings(allowed)


def test_missing_sites_form_a_group_when_stratified(make_cohort):
    cohort = make_cohort(60)
    cohort.table.loc[:9, "site"] = None
    result = evaluate(cohort)
    assert "(no site)" in set(result.tables["cohort"]["site"])
    assert "site_missing" in warnings(result)


def test_tables_without_any_covariate_still_have_a_baseline(make_cohort):
    cohort = make_cohort(60)
    cohort.table = cohort.table[["participant_id", "diagnosis"]]
    found = content(cohort)
    assert found["baseline_covariates"] == []
    assert found["baseline"]["auc_within_fold"]["pooled"] == pytest.approx(0.5)
    assert "baseline_empty" in warnings(found)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"target": "diagnose"}, ConfigError, "Did you mean 'diagnosis'"),
        ({"where": {"sites": ["a"]}}, DataError, "no column 'sites'.*Did you mean 'site'"),
        ({"where": {"site": ["site-9"]}}, DataError, "no value 'site-9'"),
        (
            {"splits": "leave-site-out", "n_repeats": 3},
            ConfigError,
            "n_repeats: .* must be 1, got 3",
        ),
        (
            {"splits": "leave-site-out", "target": "site"},
            ConfigError,
            "held out cannot be predicted",
        ),
        ({"n_folds": 40}, ConfigError, "n_folds="),
        ({"target": "age", "n_folds": 40}, ConfigError, "need at least 80 subjects"),
        ({"positive": "patients"}, ConfigError, "Did you mean 'patient'"),
        (
            {"probe": "logistic", "target": "age"},
            ConfigError,
            "'logistic' is not for a conti.*Use 'auto', 'ridge'",
        ),
        (
            {"probe": "ridge"},
            ConfigError,
            "'ridge' is not for a categorical target.*Use 'auto', 'logistic'",
        ),
        (
            {"threshold": 0.3, "target": "age"},
            ConfigError,
            "'0.3' is for two classes, and 'age' is continuous",
        ),
        (
            {"threshold": 0.3, "target": "site"},
            ConfigError,
            "'0.3' is for two classes, and 'site' is of 3 classes",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_answered_with_what_to_do(make_cohort, options, error, message):
    with pytest.raises(error, match=message):
        make_plan(make_cohort(60), **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t, x: (t, np.where(np.arange(30)[:, None] == 3, np.nan, x)),
            "1 scans have NaN .* sub-0003",
        ),
        (lambda t, x: (t, np.ones_like(x)), "collapsed"),
        (lambda t, x: (t.assign(participant_id="sub-1"), x), "share participant_id and session"),
        (lambda t, x: (t.drop(columns="participant_id"), x), "'participant_id' is needed"),
        (lambda t, x: (t, x[:10]), "found shape"),
    ],
)
def test_features_that_are_no_numbers_or_all_alike_are_refused(make_cohort, change, message):
    cohort = make_cohort(30)
    cohort.table, cohort.features = change(cohort.table, cohort.features)
    with pytest.raises(DataError, match=message):
        make_plan(cohort)


def test_a_perfect_score_is_warned_about_and_has_no_interval(make_cohort):
    cohort = make_cohort(60, diagnosis=0.0)
    assert "perfect_separation" not in warnings(evaluate(cohort))
    cohort.features[:, 0] = 100.0 * (cohort.table["diagnosis"] == "patient")
    found = content(cohort, n_bootstraps=50)
    assert "perfect_separation" in warnings(found)
    assert found["metrics"]["auc"]["pooled"] == 1.0
    assert found["metrics"]["auc"]["interval"] is None
