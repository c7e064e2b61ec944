from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, roc_auc_score

from neurocontrast.evaluation import EvaluationSettings, plan_study
from neurocontrast.exceptions import ConfigError
from neurocontrast.findings import measure
from neurocontrast.findings.groups import age_bands

FAST = {"n_bootstraps": 50, "C": (1e-1,), "confounds": False, "new_site": False, "outlyingness": False}


def evaluate(cohort, **options):
    return measure(plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**{**FAST, **options})))


def test_each_sex_and_age_band_has_the_figures_of_its_own_predictions(make_cohort):
    result = evaluate(make_cohort(200))
    groups, table = result.tables["groups"], result.tables["predictions"]
    truth = table["y_true"] == "patient"
    rows = {("sex", name): table["sex"] == name for name in ("F", "M")}
    rows |= {
        ("age_band", f"{low} to <{high}"): table["age"].between(low, high, inclusive="left")
        for low, high in ((18, 30), (30, 45), (45, 60), (60, 75))
    }
    rows[("age_band", "75 and over")] = table["age"] >= 75
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
    groups = evaluate(cohort, age_bands=()).tables["groups"].set_index("group")
    assert list(groups.index) == ["F", "M"]
    assert np.isnan(groups.loc["M", "auc"])
    assert "single class (control)" in groups.loc["M", "note"]
    assert "fewer than 10 subjects (6)" in groups.loc["M", "note"]


def test_a_group_whose_classes_are_separated_says_that_it_has_no_slope(make_cohort):
    groups = evaluate(make_cohort(80, diagnosis=5.0), age_bands=()).tables["groups"]
    assert groups["auc"].min() == 1.0
    assert groups["calibration_slope"].isna().all()
    assert groups["note"].str.contains("no finite slope").all()


def test_scans_without_age_or_sex_form_groups_and_the_target_none(make_cohort):
    cohort = make_cohort(120)
    cohort.table.loc[:19, "sex"] = None
    cohort.table.loc[:29, "age"] = np.nan
    groups = evaluate(cohort).tables["groups"]
    assert groups.loc[groups["group"] == "(no sex)", "n"].item() == 20
    assert groups.loc[groups["group"] == "(no age)", "n"].item() == 30
    of_sex = evaluate(cohort, target="sex").tables["groups"]
    assert set(of_sex["group_by"]) == {"age_band"}
    cohort.table[["age", "sex"]] = None
    assert evaluate(cohort).tables["groups"].empty


def test_of_age_each_band_has_its_error(make_cohort):
    result = evaluate(make_cohort(150, age=2.0), target="age")
    groups, table = result.tables["groups"], result.tables["predictions"]
    young = table["age"].between(18, 30, inclusive="left")
    value = groups.loc[groups["group"] == "18 to <30", "mae"].item()
    assert value == pytest.approx(mean_absolute_error(table["y_true"][young], table["y_score"][young]))
    assert "calibration" not in result.tables


def test_a_band_holds_its_lower_edge():
    bands, names = age_bands(np.array([17.99, 18.0, 44.9, 45.0, np.nan]), (18, 45))
    assert bands.tolist() == ["under 18", "18 to <45", "18 to <45", "45 and over", "(no age)"]
    assert names == ["under 18", "18 to <45", "45 and over", "(no age)"]


@pytest.mark.parametrize("edges", [(30, 18), (18, 18), (-1, 18), (18, float("inf"))])
def test_edges_must_rise(edges):
    with pytest.raises(ValueError, match="rising order"):
        EvaluationSettings(age_bands=edges)


def test_many_sites_are_resampled_whole(make_cohort):
    cohort = make_cohort(240, n_sites=24, site=1.0)
    by_site, by_subject = (
        evaluate(cohort).evaluation.content(),
        evaluate(cohort, bootstrap_unit="subject").evaluation.content(),
    )
    assert by_site["bootstrap"]["unit"] == "site"
    assert by_site["bootstrap"]["n_units"] == 24
    assert by_subject["bootstrap"]["unit"] == "subject"
    assert by_site["metrics"]["auc"]["pooled"] == by_subject["metrics"]["auc"]["pooled"]
    assert by_site["metrics"]["auc"]["interval"] != by_subject["metrics"]["auc"]["interval"]


def test_too_few_sites_are_not_resampled(make_cohort):
    with pytest.raises(ConfigError, match=r"at least 5 sites .* found 3"):
        evaluate(make_cohort(60), bootstrap_unit="site")
    assert evaluate(make_cohort(60)).evaluation.content()["bootstrap"]["unit"] == "subject"
    some = evaluate(make_cohort(120, n_sites=8), bootstrap_unit="site").evaluation.content()
    assert "few_sites_resampled" in {warning["code"] for warning in some["warnings"]}
    cohort = make_cohort(120, n_sites=8)
    cohort.table.loc[0, "site"] = None
    with pytest.raises(ConfigError, match="1 of 120 scans have no site"):
        evaluate(cohort, bootstrap_unit="site")
    with pytest.raises(ConfigError, match="cannot be resampled to predict the site"):
        evaluate(make_cohort(120, n_sites=8), bootstrap_unit="site", target="site")
