from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, roc_auc_score

from tests.evaluation import quick

evaluate = partial(quick.evaluate, n_bootstraps=50, C=(1e-1,))


def test_each_sex_and_age_band_has_the_figures_of_its_own_predictions(make_cohort):
    result = evaluate(make_cohort(200))
    groups, table = result.tables["groups"], result.tables["predictions"]
    truth = table["y_true"] == "patient"
    rows = {("sex", name): table["sex"] == name for name in ("F", "M")}
    rows |= {
        ("age", f"{low} to <{high}"): table["age"].between(low, high, inclusive="left")
        for low, high in ((18, 30), (30, 45), (45, 60), (60, 75))
    }
    rows[("age", "75 and over")] = table["age"] >= 75
    assert list(zip(groups["group_by"], groups["group"], strict=True)) == list(rows)
    for (_, group), chosen in zip(groups.iterrows(), rows.values(), strict=True):
        assert group["n"] == chosen.sum()
        assert group["n_patient"] == truth[chosen].sum()
        assert group["auc"] == pytest.approx(roc_auc_score(truth[chosen], table["y_score"][chosen]))
        assert group["baseline_auc"] == pytest.approx(roc_auc_score(truth[chosen], table["baseline_score"][chosen]))
        if group["note"] is None:
            assert group["auc_low"] <= group["auc"] <= group["auc_high"]


def test_small_and_single_class_groups_say_why_they_are_empty(make_cohort):
    cohort = make_cohort(120)
    cohort.table["sex"] = ["F"] * 114 + ["M"] * 6
    cohort.table.loc[114:, "diagnosis"] = "control"
    groups = evaluate(cohort).tables["groups"].set_index("group")
    assert np.isnan(groups.loc["M", "auc"])
    assert "single class (control)" in groups.loc["M", "note"]
    assert "fewer than 10 subjects (6)" in groups.loc["M", "note"]


def test_scans_without_age_or_sex_form_groups_and_the_target_none(make_cohort):
    cohort = make_cohort(120)
    cohort.table.loc[:19, "sex"] = None
    cohort.table.loc[:29, "age"] = np.nan
    groups = evaluate(cohort).tables["groups"].set_index(["group_by", "group"])["n"]
    assert groups["sex", "not stated"] == 20
    assert groups["age", "not stated"] == 30
    assert set(evaluate(cohort, target="sex").tables["groups"]["group_by"]) == {"age"}
    cohort.table[["age", "sex"]] = None
    assert evaluate(cohort).tables["groups"].empty


def test_of_age_each_band_has_its_error(make_cohort):
    result = evaluate(make_cohort(150, age=2.0), target="age")
    groups, table = result.tables["groups"].set_index("group"), result.tables["predictions"]
    young = table["age"].between(18, 30, inclusive="left")
    expected = mean_absolute_error(table["y_true"][young], table["y_score"][young])
    assert groups.loc["18 to <30", "mae"] == pytest.approx(expected)


def test_intervals_resample_sites_where_the_cohort_s_do(make_cohort):
    cohort = make_cohort(240, n_sites=24, site=1.0)
    by_site, by_subject = (
        evaluate(cohort, **options).tables["groups"].set_index("group").loc["F"]
        for options in ({}, {"bootstrap_unit": "subject"})
    )
    assert by_site["auc"] == by_subject["auc"]
    assert by_site["auc_low"] != by_subject["auc_low"]
