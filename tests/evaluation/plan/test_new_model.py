"""A model and a probe from outside the package: one function that makes it of a study, and one description."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import neurocontrast
from neurocontrast.documents.findings import LearningCurve
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation import fit_and_measure
from neurocontrast.evaluation.plan import planning
from neurocontrast.evaluation.plan.models import Baseline, ProbeModel
from neurocontrast.evaluation.plan.models.kernel import MeasureDesign
from neurocontrast.evaluation.probe_kinds import PROBES, Probe
from neurocontrast.exceptions import ConfigError
from neurocontrast.reporting.baselines import list_baselines
from tests.evaluation.quick import QUICK, evaluate, make_plan

FAST = {"n_bootstraps": 50, "C": (1e-2,)}


def make_noise(plan):
    """Return a model of numbers that say nothing."""
    values = np.random.default_rng(0).normal(size=(len(plan.table), 3))
    return ProbeModel(
        "noise",
        lambda train, test: (values[train], values[test]),
        baseline=Baseline("noise", "random numbers", "chance"),
        result_keys={"noise_seed": 0},
    )


def make_of_age(plan):
    """Return a model of a column of the table."""
    design = MeasureDesign(plan.table, ("age",))
    return ProbeModel("of_age", design, baseline=Baseline("age alone", "years"))


def test_a_model_from_outside_is_fitted_compared_and_written(make_cohort, monkeypatch):
    cohort = make_cohort(100)
    before = fit_and_measure(make_plan(cohort, **FAST))
    monkeypatch.setattr(planning, "MODELS", (*planning.MODELS, make_noise))
    plan = make_plan(cohort, **FAST)
    assert [model.name for model in plan.models] == ["embedding", "baseline", "noise"]
    found = fit_and_measure(plan)
    noise = found.evaluation.models["noise"]
    assert noise.metrics["auc"].pooled < found.evaluation.metrics["auc"].pooled
    assert noise.increment["auc"].p_value < 0.05
    content = found.evaluation.content()
    assert content["noise_seed"] == 0
    assert content["noise_increment"]["auc"]["p_value"] == noise.increment["auc"].p_value
    assert "models" not in content
    (baseline,) = list_baselines(found.evaluation)
    assert (baseline.key, baseline.name, baseline.plural) == ("noise", "noise", "random numbers")
    assert baseline.metrics == noise.metrics
    assert baseline.increment == noise.increment
    assert {"noise_auc", "baseline_auc"} <= set(found.tables["folds"])
    assert "noise_score" in found.tables["predictions"]
    assert found.evaluation.metrics == before.evaluation.metrics


def test_a_maker_can_say_why_there_is_no_model(make_cohort, monkeypatch):
    notice = Notice("noise_left_out", "There is no noise.", "None was made.")
    monkeypatch.setattr(planning, "MODELS", (*planning.MODELS, lambda _: notice))
    plan = make_plan(make_cohort(60), **FAST)
    assert [model.name for model in plan.models] == ["embedding", "baseline"]
    assert notice in plan.notices


def test_a_model_that_cannot_be_tested_externally_is_named_in_the_warnings(
    make_cohort, monkeypatch, tmp_path
):
    cohort = make_cohort(100, n_features=4)
    columns = [f"feature_{number:04d}" for number in range(4)]
    table = cohort.table.join(pd.DataFrame(cohort.features, columns=columns))
    options = FAST | QUICK | {"test": table.iloc[70:], "out": tmp_path / "folder"}
    alone = neurocontrast.evaluate(table.iloc[:70], target="diagnosis", **options)
    assert "external_untested" not in {notice.code for notice in alone.record.warnings}
    monkeypatch.setattr(planning, "MODELS", (*planning.MODELS, make_noise, make_of_age))
    found = neurocontrast.evaluate(table.iloc[:70], target="diagnosis", **options, overwrite=True)
    (notice,) = [each for each in found.record.warnings if each.code == "external_untested"]
    assert "no comparison with noise, since only models of the table's columns" in notice.message
    assert list(found.record.external["rivals"]) == ["of_age"]
    assert "there is no comparison with noise" in found.report(viewer=False).read_text()


def test_its_learning_curve_is_written_too(make_cohort, monkeypatch):
    monkeypatch.setattr(planning, "MODELS", (*planning.MODELS, make_noise))
    found = evaluate(make_cohort(60), **FAST, train_sizes=(20,), n_draws=1).evaluation
    assert found.part(LearningCurve).model_extra["noise"]["auc"][0]["n_train"] == 20


def test_a_linear_probe_from_outside_is_fitted_described_stored_and_refused_for_numbers(
    make_cohort, monkeypatch
):
    probe = Probe(
        "logistic regression by liblinear",
        "Fan 2008",
        lambda _: LogisticRegression(solver="liblinear"),
        "C",
    )
    monkeypatch.setitem(PROBES, "liblinear", probe)
    cohort = make_cohort(80)
    found = evaluate(cohort, probe="liblinear", C=(1e-3, 1e-1))
    assert found.evaluation.probe.title == probe.title
    assert "liblinear" in found.evaluation.probe.estimator
    assert set(found.tables["folds"]["C"]) <= {1e-3, 1e-1}
    assert found.probe.name == "liblinear"
    with pytest.raises(ConfigError, match="'liblinear' is not for a continuous target"):
        make_plan(cohort, probe="liblinear", target="age")
