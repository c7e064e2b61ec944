from __future__ import annotations

import pytest
from pydantic import ValidationError

from neurocontrast.evaluation import EvaluationSettings, plan_study, run_study

FAST = {
    "n_bootstraps": 0,
    "confounds": False,
    "new_site": False,
    "outlyingness": False,
    "C": (1e-3, 1e-1, 10.0),
}


def test_thresholds_are_read_in_one_form():
    assert EvaluationSettings(threshold="0.3").threshold == 0.3
    assert EvaluationSettings(threshold=" prevalence ").threshold == "prevalence"


@pytest.mark.parametrize("wrong", ["youden", "sensitivity=0.9", 0, 1.0, 50, "nan", ""])
def test_what_is_no_threshold_is_refused_with_what_is_one(wrong):
    with pytest.raises(ValidationError, match="must be half, prevalence, or a probability"):
        EvaluationSettings(threshold=wrong)


def test_a_threshold_moves_decisions_and_no_score(make_cohort):
    cohort = make_cohort(200, n_features=6, diagnosis=0.35, age=0.0)
    found = {}
    for threshold in (0.3, "half"):
        settings = EvaluationSettings(threshold=threshold, **FAST)
        found[threshold] = run_study(plan_study(cohort.table, cohort.features, settings=settings)).evaluation
    low, half = found[0.3], found["half"]
    assert low.threshold.values == [0.3] * 5
    assert half.threshold.values == [0.5] * 5
    assert low.metrics["sensitivity"].pooled > half.metrics["sensitivity"].pooled
    assert low.metrics["auc"] == half.metrics["auc"]
