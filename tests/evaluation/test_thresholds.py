from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.metrics import roc_curve

from neurocontrast.evaluation import EvaluationSettings, plan_study, run_study
from neurocontrast.evaluation.fitting import choose_threshold

FAST = {
    "n_bootstraps": 0,
    "umap": False,
    "confounds": False,
    "new_site": False,
    "outlyingness": False,
    "C": (1e-3, 1e-1, 10.0),
}


@pytest.fixture
def predictions():
    generator = np.random.default_rng(3)
    truth = np.repeat([0, 1], [140, 60])
    return truth, np.round(1 / (1 + np.exp(-generator.normal(size=200) - truth + 1.2)), 2)  # with ties


def rates(truth, scores, cut):
    return (scores[truth == 1] >= cut).mean(), (scores[truth == 0] < cut).mean()


def test_youden_is_the_best_point_of_the_roc_curve(predictions):
    truth, scores = predictions
    cut = choose_threshold("youden", prevalence=0.3, truth=truth, scores=scores)
    false, true, _ = roc_curve(truth, scores, drop_intermediate=False)
    assert sum(rates(truth, scores, cut)) == pytest.approx((1 + true - false).max())


@pytest.mark.parametrize("aim", [0.5, 0.9, 0.99])
def test_an_aim_is_reached_and_at_the_least_cost(predictions, aim):
    truth, scores = predictions
    cut = choose_threshold(f"sensitivity={aim}", prevalence=0.3, truth=truth, scores=scores)
    assert rates(truth, scores, cut)[0] >= aim
    assert rates(truth, scores, min(scores[scores >= cut]) + 1e-9)[0] < aim  # any higher would miss it
    cut = choose_threshold(f"specificity={aim}", prevalence=0.3, truth=truth, scores=scores)
    assert rates(truth, scores, cut)[1] >= aim
    assert rates(truth, scores, max(scores[scores < cut]))[1] < aim  # any lower would miss it


def test_rules_that_look_at_no_prediction():
    assert choose_threshold("half", prevalence=0.2) == 0.5
    assert choose_threshold("prevalence", prevalence=0.2) == 0.2
    assert choose_threshold(0.35, prevalence=0.2) == 0.35


def test_thresholds_are_read_in_one_form():
    assert EvaluationSettings(threshold="0.3").threshold == 0.3
    assert EvaluationSettings(threshold="sensitivity = .90").threshold == "sensitivity=0.9"
    assert EvaluationSettings(threshold="specificity=0.8").threshold == "specificity=0.8"


@pytest.mark.parametrize("wrong", ["youdens", "sensitivity=90", "sensitivity=", "precision=0.9", 0, 1.0, 50, "nan", ""])
def test_what_is_no_threshold_is_refused_with_what_is_one(wrong):
    with pytest.raises(ValidationError, match="must be half, prevalence, youden, sensitivity="):
        EvaluationSettings(threshold=wrong)


def test_a_sensitivity_chosen_inside_training_folds_is_about_reached_outside(make_cohort):
    cohort = make_cohort(400, n_features=6, diagnosis=0.35, age=0.0)
    settings = EvaluationSettings(threshold="sensitivity=0.9", **FAST)
    summary = run_study(plan_study(cohort.table, cohort.features, settings=settings)).evaluation.content()
    assert summary["threshold"]["rule"] == "sensitivity=0.9"
    assert len(summary["threshold"]["values"]) == 5
    assert summary["metrics"]["sensitivity"]["pooled"] == pytest.approx(0.9, abs=0.06)
    half = run_study(
        plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**FAST))
    ).evaluation.content()
    assert summary["metrics"]["auc"]["pooled"] == half["metrics"]["auc"]["pooled"]
    assert half["threshold"] == {"rule": "half", "values": [0.5] * 5}
    assert half["metrics"]["sensitivity"]["pooled"] < 0.85


def test_thresholds_never_look_at_the_test_fold(make_cohort):
    """Turning the labels of a test fold round leaves the threshold and the decisions there as they are."""
    cohort = make_cohort(120, n_features=6)
    settings = EvaluationSettings(threshold="youden", **FAST)
    study = plan_study(cohort.table, cohort.features, settings=settings)
    before = run_study(study)
    test = study.splits[0].test
    swapped = cohort.table.copy()
    swapped.loc[test, "diagnosis"] = swapped.loc[test, "diagnosis"].map({"control": "patient", "patient": "control"})
    rows = before.tables["splits"].astype({"fold": int}).fillna({"held_out_site": ""})
    after = run_study(plan_study(swapped, cohort.features, settings=settings, split_rows=rows))
    assert after.evaluation.content()["threshold"]["values"][0] == before.evaluation.content()["threshold"]["values"][0]
    assert (
        after.evaluation.content()["threshold"]["values"][1:] != before.evaluation.content()["threshold"]["values"][1:]
    )
    first = [
        table[table["fold"] == 0]["y_pred"].tolist()
        for table in (before.tables["predictions"], after.tables["predictions"])
    ]
    assert first[0] == first[1]


@pytest.mark.parametrize("rule", ["youden", "sensitivity=0.9", "specificity=0.9"])
def test_where_inner_predictions_are_of_one_class_the_prevalence_decides(rule):
    assert choose_threshold(rule, prevalence=0.2, truth=np.zeros(4), scores=np.linspace(0, 1, 4)) == 0.2
