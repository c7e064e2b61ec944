"""Each site, sex and age band has the figures of its own predictions, and their intervals."""

from functools import partial

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, roc_auc_score

from tests.evaluation import quick

evaluate = partial(quick.evaluate, n_bootstraps=50, C=(1e-1,), n_folds=5)
BANDS = {f"{low} to <{high}": (low, high) for low, high in ((18, 30), (30, 45), (45, 60), (60, 75))}


@pytest.fixture(scope="module")
def measured(make_cohort):
    return evaluate(make_cohort(200))


@pytest.mark.parametrize("name", ["sites", "groups"])
def test_each_part_has_the_figures_of_its_own_predictions(measured, name):
    found = measured.tables[name]
    table = measured.tables["predictions"]
    if name == "sites":
        rows = {("site", site): table["site"] == site for site in sorted(set(table["site"]))}
    else:
        rows = {("sex", sex): table["sex"] == sex for sex in ("F", "M")}
        rows |= {
            ("age", band): table["age"].between(*ends, inclusive="left")
            for band, ends in BANDS.items()
        }
        rows["age", "75 and over"] = table["age"] >= 75
        assert found["group_by"].tolist() == [column for column, _ in rows]
    assert found["site" if name == "sites" else "group"].tolist() == [part for _, part in rows]
    truth = table["y_true"] == "patient"
    for row, chosen in zip(found.to_dict("records"), rows.values(), strict=True):
        assert row["n"] == chosen.sum()
        assert row["n_patient"] == truth[chosen].sum()
        assert row["auc"] == pytest.approx(roc_auc_score(truth[chosen], table["y_score"][chosen]))
        assert row["baseline_auc"] == pytest.approx(
            roc_auc_score(truth[chosen], table["baseline_score"][chosen])
        )
        if not row["note"]:
            assert row["auc_low"] <= row["auc"] <= row["auc_high"]
    assert found["auc_low"].notna().sum() >= 3


def test_small_parts_of_a_single_class_say_why_they_are_empty(make_cohort):
    cohort = make_cohort(120)
    cohort.table["sex"] = ["F"] * 114 + ["M"] * 6
    cohort.table.loc[114:, ["site", "diagnosis"]] = ["small", "control"]
    tables = evaluate(cohort).tables
    for part in (
        tables["sites"].set_index("site").loc["small"],
        tables["groups"].set_index("group").loc["M"],
    ):
        assert np.isnan(part["auc"])
        assert "single class (control)" in part["note"]
        assert "fewer than 10 subjects (6)" in part["note"]


def test_a_site_whose_classes_are_separated_says_that_it_has_no_slope(make_cohort):
    sites = evaluate(make_cohort(80, diagnosis=5.0)).tables["sites"]
    assert sites["auc"].min() == 1.0
    assert sites["calibration_slope"].isna().all()
    assert sites["note"].str.contains("no finite slope").all()


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
    groups = result.tables["groups"].set_index("group")
    table = result.tables["predictions"]
    young = table["age"].between(18, 30, inclusive="left")
    expected = mean_absolute_error(table["y_true"][young], table["y_score"][young])
    assert groups.loc["18 to <30", "mae"] == pytest.approx(expected)


def test_many_sites_are_resampled_whole_in_groups_too(make_cohort):
    cohort = make_cohort(240, n_sites=24, site=1.0)
    by_site, by_subject = (
        evaluate(cohort, **options) for options in ({}, {"bootstrap_unit": "subject"})
    )
    one, other = (found.evaluation.content() for found in (by_site, by_subject))
    assert (one["bootstrap"]["unit"], one["bootstrap"]["n_units"]) == ("site", 24)
    assert other["bootstrap"]["unit"] == "subject"
    assert one["metrics"]["auc"]["pooled"] == other["metrics"]["auc"]["pooled"]
    assert one["metrics"]["auc"]["interval"] != other["metrics"]["auc"]["interval"]
    one, other = (
        found.tables["groups"].set_index("group").loc["F"] for found in (by_site, by_subject)
    )
    assert one["auc"] == other["auc"]
    assert one["auc_low"] != other["auc_low"]
    notices = quick.warnings(quick.make_plan(make_cohort(60, n_sites=8), bootstrap_unit="site"))
    assert "few_sites_resampled" in notices
