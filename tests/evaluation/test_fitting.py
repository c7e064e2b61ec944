"""What a probe says of scans: scores, the threshold of its decisions, and what they are refused for."""

import numpy as np
import pytest
from pydantic import ValidationError

from neurocontrast.evaluation import EvaluationSettings
from neurocontrast.evaluation.models import decide_scores, fit_probe
from neurocontrast.evaluation.target import Target
from tests.evaluation.quick import binary, evaluate, names


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_one_class_in_training_is_all_there_is_to_say(kind):
    classes = ("a", "b") if kind == "binary" else ("a", "b", "c")
    target = Target("dx", kind, np.array([1, 1, 1, 0, 1]), classes)
    x = np.random.default_rng(0).normal(size=(5, 2))
    decided = fit_probe(
        lambda train, test: (x[train], x[test]), target, np.arange(3), np.arange(3, 5),
        subjects=names(5), settings=EvaluationSettings(), seed=0,
    )[0]  # fmt: skip
    assert decided.decisions.tolist() == [1, 1]
    assert decided.scores.tolist() == ([1.0, 1.0] if kind == "binary" else [[0.0, 1.0, 0.0]] * 2)


def test_thresholds_are_read_in_one_form():
    assert EvaluationSettings(threshold="0.3").threshold == 0.3
    assert EvaluationSettings(threshold=" prevalence ").threshold == "prevalence"


@pytest.mark.parametrize("wrong", ["youden", "sensitivity=0.9", 0, 1.0, 50, "nan", ""])
def test_what_is_no_threshold_is_refused_with_what_is_one(wrong):
    with pytest.raises(ValidationError, match="must be half, prevalence, or a probability"):
        EvaluationSettings(threshold=wrong)


def test_a_threshold_moves_decisions_and_no_score(make_cohort):
    cohort = make_cohort(200, n_features=6, diagnosis=0.35, age=0.0)
    low, half = (evaluate(cohort, threshold=threshold).evaluation for threshold in (0.3, "half"))
    assert low.threshold.values == [0.3] * 5
    assert half.threshold.values == [0.5] * 5
    assert low.metrics["sensitivity"].pooled > half.metrics["sensitivity"].pooled
    assert low.metrics["auc"] == half.metrics["auc"]


def test_shares_are_those_of_the_training_rows():
    train = np.arange(4)  # the other rows hold what is not to be known
    by_share = EvaluationSettings(threshold="prevalence")
    two = binary([1, 0, 0, 0, 1, 1])
    assert decide_scores(np.array([0.2, 0.3]), two, train, by_share) == (pytest.approx([0, 1]), 0.25)
    several = Target("diagnosis", "multiclass", np.array([0, 0, 1, 2, 2, 2, 2, 2]), ("a", "b", "c"))
    assert decide_scores(np.array([[0.4, 0.24, 0.36]]), several, train, by_share)[0].tolist() == [2]
