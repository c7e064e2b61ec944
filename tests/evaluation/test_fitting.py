from __future__ import annotations

import numpy as np
import pytest

from neurocontrast.evaluation import EvaluationSettings, plan_study
from neurocontrast.evaluation.models import fit_probe
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from tests.evaluation.quick import QUICK

FAST = {**QUICK, "C": (1e-4, 1e-2, 1.0), "n_inner_folds": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probe": "logistic", "target": "age"}, "'logistic' is not for a continuous target.*Use 'auto', 'ridge'"),
        ({"probe": "ridge"}, "'ridge' is not for a categorical target.*Use 'auto', 'logistic'"),
        ({"threshold": 0.3, "target": "age"}, "threshold: '0.3' is for two classes, and 'age' is continuous"),
        ({"threshold": 0.3, "target": "site"}, "'0.3' is for two classes, and 'site' is of 3 classes"),
    ],
)
def test_probes_and_thresholds_that_do_not_fit_the_target_are_refused(make_cohort, options, message):
    cohort = make_cohort(60)
    with pytest.raises(ConfigError, match=message):
        plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**{**FAST, **options}))


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_one_class_in_training_is_all_there_is_to_say(kind):
    classes = ("a", "b") if kind == "binary" else ("a", "b", "c")
    target = Target("dx", kind, np.array([1, 1, 1, 0, 1]), classes)
    x = np.random.default_rng(0).normal(size=(5, 2))
    decided = fit_probe(
        lambda train, test: (x[train], x[test]), target, np.arange(3), np.arange(3, 5),
        subjects=np.arange(5).astype(str).astype(object), settings=EvaluationSettings(), seed=0,
    )[0]  # fmt: skip
    assert decided.decisions.tolist() == [1, 1]
    assert decided.scores.tolist() == ([1.0, 1.0] if kind == "binary" else [[0.0, 1.0, 0.0]] * 2)
