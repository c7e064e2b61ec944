"""A probe from outside the package: one description, registered under a name."""

from __future__ import annotations

import pytest
from sklearn.naive_bayes import GaussianNB

from neurocontrast.evaluation import EvaluationSettings, plan_study, run_study
from neurocontrast.evaluation.probes import PROBES, Probe
from neurocontrast.exceptions import ConfigError
from tests.evaluation.quick import QUICK

BAYES = Probe(
    "Gaussian naive Bayes",
    "Hand DJ, Yu K. Idiot's Bayes. Int Stat Rev 2001;69:385-398.",
    lambda continuous, large: GaussianNB(),
    strength="var_smoothing",
    parameter="var_smoothing",
    numbers=False,
    grid=(1e-1, 1e-3, 1e-9),
    why_not_stored="it is not linear",
)


@pytest.fixture
def _registered(monkeypatch):
    monkeypatch.setitem(PROBES, "bayes", BAYES)


@pytest.mark.usefixtures("_registered")
def test_a_probe_from_outside_is_fitted_and_described(make_cohort):
    cohort = make_cohort(80, diagnosis=1.0)
    study = plan_study(cohort.table, cohort.features, settings=EvaluationSettings(probe="bayes", **QUICK))
    found = run_study(study)
    assert found.evaluation.metrics["auc"].pooled > 0.6
    assert found.evaluation.probe.title == "Gaussian naive Bayes"
    assert found.evaluation.probe.why_not_stored == "it is not linear"
    assert set(found.tables["folds"]["var_smoothing"]) <= {1e-1, 1e-3, 1e-9}
    assert found.probe is None


@pytest.mark.usefixtures("_registered")
def test_it_is_refused_for_what_it_cannot_predict(make_cohort):
    cohort = make_cohort(60)
    with pytest.raises(ConfigError, match="'bayes' is not for a continuous target"):
        plan_study(cohort.table, cohort.features, settings=EvaluationSettings(probe="bayes", target="age", **QUICK))
