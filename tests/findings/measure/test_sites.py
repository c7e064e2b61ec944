from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from neurocontrast.exceptions import ConfigError
from tests.evaluation import quick

evaluate = partial(quick.evaluate, n_bootstraps=50, C=(1e-1,))


def test_each_site_has_the_figures_of_its_own_predictions(make_cohort):
    result = evaluate(make_cohort(200))
    sites, table = result.tables["sites"], result.tables["predictions"]
    truth = table["y_true"] == "patient"
    assert sites["site"].tolist() == sorted(set(table["site"]))
    for row in sites.to_dict("records"):
        chosen = table["site"] == row["site"]
        assert row["n"] == chosen.sum()
        assert row["n_patient"] == truth[chosen].sum()
        assert row["auc"] == pytest.approx(roc_auc_score(truth[chosen], table["y_score"][chosen]))
        assert row["baseline_auc"] == pytest.approx(roc_auc_score(truth[chosen], table["baseline_score"][chosen]))
        assert row["auc_low"] <= row["auc"] <= row["auc_high"]


def test_small_and_single_class_sites_say_why_they_are_empty(make_cohort):
    cohort = make_cohort(120)
    cohort.table.loc[114:, ["site", "diagnosis"]] = ["small", "control"]
    sites = evaluate(cohort).tables["sites"].set_index("site")
    assert np.isnan(sites.loc["small", "auc"])
    assert "single class (control)" in sites.loc["small", "note"]
    assert "fewer than 10 subjects (6)" in sites.loc["small", "note"]


def test_a_site_whose_classes_are_separated_says_that_it_has_no_slope(make_cohort):
    sites = evaluate(make_cohort(80, diagnosis=5.0)).tables["sites"]
    assert sites["auc"].min() == 1.0
    assert sites["calibration_slope"].isna().all()
    assert sites["note"].str.contains("no finite slope").all()


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
