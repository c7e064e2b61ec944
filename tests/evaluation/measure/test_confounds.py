import json

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.metrics import balanced_accuracy_score

from neurocontrast.evaluation.measure.confounds import read_column, site_folds
from neurocontrast.evaluation.rows import draw_subjects
from tests.evaluation import quick


def evaluate(cohort, **options):
    few = {"n_bootstraps": 50, "C": (1e-2, 1.0), "n_folds": 3, "n_inner_folds": 2}
    return quick.evaluate(cohort, **{"confounds": True, **few, **options})


def confounds(cohort, **options):
    return evaluate(cohort, **options).evaluation.content()["confounds"]


@pytest.fixture(scope="module")
def marked(make_cohort):
    """Site and age are in the features, sex and head size are not."""
    cohort = make_cohort(240, n_sites=3, site=1.0, age=1.5, diagnosis=0.5)
    cohort.table["TIV"] = np.random.default_rng(0).normal(1500, 120, 240)
    return evaluate(cohort)


def row(result, column, within="all", metric=None):
    table = result.tables["confounds"]
    chosen = table[(table["column"] == column) & (table["within"] == within)]
    return (chosen if metric is None else chosen[chosen["metric"] == metric]).iloc[0]


def test_what_was_planted_is_found_and_what_was_not_is_at_chance(marked):
    for within in ("all", "control", "patient"):
        site, age, sex = (row(marked, column, within) for column in ("site", "age", "sex"))
        assert site["metric"] == sex["metric"] == "balanced_accuracy"
        assert site["value"] > 0.95
        assert site["chance"] == pytest.approx(1 / 3)
        assert age["metric"] == "mae"
        assert age["high"] < 0.8 * age["chance"]
        assert sex["low"] < sex["chance"] == 0.5 < sex["high"]
    assert row(marked, "age", metric="r2")["value"] > 0.5
    volume = row(marked, "tiv")
    assert volume["low"] <= volume["chance"] <= volume["high"]
    table = marked.tables["confounds"]
    assert (table["low"] <= table["value"]).all()
    assert (table["value"] <= table["high"]).all()
    assert table.loc[table["within"] == "all", "n"].tolist() == [240] * 6
    assert list(table.columns) == [
        *("column", "within", "metric", "value", "low", "high", "chance", "n", "n_levels", "note")
    ]


def test_the_openbhb_score_is_made_of_its_parts(marked):
    score = marked.evaluation.content()["confounds"]["openbhb"]
    assert score["score"] == pytest.approx(
        score["age_mae"] * score["site_balanced_accuracy"] ** 0.3
    )
    assert score["site_balanced_accuracy"] == pytest.approx(row(marked, "site")["value"])
    assert score["chance"] == pytest.approx(score["age_mae_chance"] * (1 / 3) ** 0.3)
    assert score["interval"][0] < score["score"] < score["interval"][1]
    assert score["n"] == {"scans": 240, "subjects": 240, "sites": 3}
    assert score["n_site_folds"] == 3
    json.dumps(marked.evaluation.content(), allow_nan=False)


@pytest.mark.slow
def test_features_without_site_score_better(make_cohort):
    cohorts = [make_cohort(200, site=site, age=1.5) for site in (0.0, 1.0)]
    scores = [
        confounds(cohort, n_bootstraps=0, new_site=True)["openbhb"]["score"] for cohort in cohorts
    ]
    assert scores[0] < 0.8 * scores[1]


def test_a_label_coded_by_site_is_flagged_twice_and_one_that_is_not_never(make_cohort):
    cohort = make_cohort(200, n_sites=4, site=1.0, diagnosis=0.0)
    at_hospital = cohort.table["site"].isin(["site-2", "site-3"]).to_numpy()
    cohort.table["diagnosis"] = np.where(at_hospital, "patient", "control")
    found = quick.warnings(evaluate(cohort))
    assert "site_confounded" in found
    assert "a probe can score without the brain" in found["site_predictable"]
    assert "4 sites" in found["site_predictable"]
    assert "site_predictable" not in quick.warnings(evaluate(make_cohort(150, site=0.0)))


@pytest.mark.slow
def test_combat_hides_the_site_and_leaves_no_score_of_unseen_sites(make_cohort):
    result = evaluate(make_cohort(150, site=1.0), harmonise="combat", n_bootstraps=0, n_folds=3)
    found = result.evaluation.content()["confounds"]
    assert row(result, "site")["value"] < 0.45
    assert found["openbhb"] is None
    assert "unseen sites cannot be taken out" in found["openbhb_reason"]
    cohort = make_cohort(60)
    cohort.table = cohort.table[["participant_id", "site", "age", "diagnosis"]]
    without = confounds(cohort, residualise=("site",), n_bootstraps=0, n_folds=2)
    assert (without["openbhb"], without["residualise"]) == (None, ["site"])
    assert without["openbhb_reason"] == found["openbhb_reason"]


def test_small_levels_and_missing_values_are_left_out_and_counted(make_cohort):
    cohort = make_cohort(120)
    cohort.table.loc[:3, "site"] = "tiny"
    cohort.table.loc[4:13, "sex"] = None
    cohort.table.loc[14:113, "age"] = np.nan
    result = evaluate(cohort)
    assert (row(result, "site")["n"], row(result, "site")["n_levels"]) == (116, 3)
    assert row(result, "sex")["n"] == 110
    age = row(result, "age", "patient")
    assert np.isnan(age["value"])
    assert age["n"] == 0
    assert "fewer than 20 subjects" in age["note"]


def test_one_site_no_age_no_classes_no_column_and_no_panel(make_cohort):
    cohort = make_cohort(80, n_sites=1)
    result = evaluate(cohort, target="sex")
    assert set(result.tables["confounds"]["column"]) == {"age"}
    assert "fewer than two sites" in result.evaluation.content()["confounds"]["openbhb_reason"]
    table = evaluate(make_cohort(100), target="age").tables["confounds"]
    assert set(table["within"]) == {"all"}
    assert set(table["column"]) == {"site", "sex"}
    result = evaluate(cohort, confounds=False)
    assert "confounds" not in result.tables
    assert "confounds=false" in result.evaluation.content()["confounds"]["openbhb_reason"]
    cohort.table = cohort.table[["participant_id", "diagnosis"]]
    assert evaluate(cohort).tables["confounds"].empty


def test_readings_are_those_of_their_own_predictions_and_chance_of_what_the_training_rows_say(
    make_cohort,
):
    cohort = make_cohort(100, site=0.4)
    result = evaluate(cohort)
    study = quick.make_plan(cohort, n_folds=3, n_inner_folds=2, C=(1e-2, 1.0))
    reading = read_column(study, "site", np.arange(100))
    expected = balanced_accuracy_score(reading.target.values, reading.model.decisions[0])
    assert row(result, "site")["value"] == pytest.approx(expected)
    reading = read_column(study, "age", np.arange(100))
    ages = reading.target.values
    errors = []
    for split in reading.splits:
        guess = DummyRegressor(strategy="median").fit(
            np.zeros((len(split.train), 1)), ages[split.train]
        )
        errors.append(np.abs(ages[split.test] - guess.predict(np.zeros((len(split.test), 1)))))
    assert row(result, "age", metric="mae")["chance"] == pytest.approx(
        np.concatenate(errors).mean()
    )


def test_large_cohorts_are_drawn_from_by_subject():
    subjects = np.repeat([f"s{k}" for k in range(100)], 3).astype(object)
    rows, note = draw_subjects(subjects, seed=0, n_scans=100)
    assert len(rows) == 99
    assert all(count == 3 for count in np.unique(subjects[rows].astype(str), return_counts=True)[1])
    assert note == "99 of 300 scans, drawn by subject"
    assert draw_subjects(subjects, seed=1, n_scans=100)[0].tolist() != rows.tolist()
    assert draw_subjects(subjects, seed=0, n_scans=300)[1] is None


def test_many_sites_are_held_out_in_ten_groups_of_about_equal_size():
    generator = np.random.default_rng(0)
    sites = np.array([f"site-{place}" for place in generator.integers(0, 40, 600)], dtype=object)
    subjects = np.arange(600).astype(str).astype(object)
    subjects[np.flatnonzero(sites == "site-1")[0]] = subjects[np.flatnonzero(sites == "site-2")[0]]
    splits = site_folds(sites, subjects)
    assert len(splits) == 10
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(600))
    for split in splits:
        assert not set(sites[split.train]) & set(sites[split.test])
        assert not set(subjects[split.train]) & set(subjects[split.test])
        assert 40 <= len(split.test) <= 80


def test_people_who_went_to_every_site_and_sessions_are_read_too(make_cohort):
    """Travelling subjects: more sites than half of the subjects, which as a target would look like an identifier."""
    cohort = make_cohort(12, n_sessions=8, diagnosis=0.3)
    cohort.table["site"] = "site-" + cohort.table["session"].astype(str)
    cohort.features += (
        3 * np.random.default_rng(0).normal(size=(9, 20))[cohort.table["session"].astype(int)]
    )
    cohort.table["education"] = [np.inf, *range(95)]
    result = evaluate(
        cohort, n_folds=2, covariates=("education", "session"), bootstrap_unit="subject"
    )
    for column in ("site", "session"):
        assert row(result, column)["n_levels"] == 8
        assert row(result, column)["value"] > 0.9
