"""Studies of invented cohorts, without what a test does not look at."""

from typing import Any

import numpy as np

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation import EvaluationSettings, MeasuredPlan, plan_evaluation
from neurocontrast.evaluation.fit.fits import fit
from neurocontrast.evaluation.fit.out_of_fold import OutOfFold
from neurocontrast.evaluation.measure import measure
from neurocontrast.evaluation.target import Target
from neurocontrast.reporting.findings import FINDINGS

QUICK = {"n_bootstraps": 0, "confounds": False, "new_site": False, "outlyingness": False}
FAST = {**QUICK, "n_folds": 3, "C": (1e-3, 1e-1, 10.0), "alpha": (1.0, 100.0), "n_inner_folds": 2}


def make_plan(cohort, *, info=None, estimator=None, cv=None, **options):
    """Plan the study of a cohort; `options` are settings besides those of `FAST`."""
    given = {
        "info": EmbeddingsInfo.model_validate(info or {}),
        "estimator": estimator,
        "cv": cv,
    }
    return plan_evaluation(
        cohort.table, cohort.features, settings=EvaluationSettings(**FAST | options), **given
    )


def evaluate(cohort, **options):
    """Measure all that is asked for."""
    return evaluate_study(make_plan(cohort, **options))


def evaluate_study(plan, findings=FINDINGS) -> MeasuredPlan:
    """Fit the models of a study, and measure all that is asked for."""
    return measure(plan, fit(plan), findings)


def content(cohort, **options) -> dict[str, Any]:
    """Return what evaluation.json holds."""
    return evaluate(cohort, **options).evaluation.content()


def plan_kind(make_cohort, kind, n=80, *, n_features=20, diagnosis=1.0, **options):
    """Plan the study of two diagnoses, of three, or of age."""
    classes = ("hc", "bd", "sz") if kind == "multiclass" else ("control", "patient")
    cohort = make_cohort(n, n_features=n_features, classes=classes, diagnosis=diagnosis)
    return make_plan(cohort, target="age" if kind == "continuous" else "diagnosis", **options)


def names(n: int) -> np.ndarray:
    """Return names of subjects."""
    return np.arange(n).astype(str).astype(object)


def binary(codes) -> Target:
    """Return diagnoses, 1 of a patient."""
    return Target("diagnosis", "binary", np.asarray(codes), ("control", "patient"), "patient")


def continuous(ages) -> Target:
    """Return ages as a target."""
    return Target("age", "continuous", np.asarray(ages, dtype=float))


def target_by(kind, signal) -> Target:
    """Return a target that follows a signal: ages, or classes of equal size."""
    if kind == "continuous":
        return continuous(50 + 10 * signal)
    classes = ("a", "b") if kind == "binary" else ("a", "b", "c")
    codes = np.searchsorted(np.quantile(signal, np.arange(1, len(classes)) / len(classes)), signal)
    return Target("dx", kind, codes, classes, "b" if kind == "binary" else None)


def out_of_fold(scores) -> OutOfFold:
    """Return predictions of scores (n), of repeats (n_repeats, n) or of classes (n_repeats, n, n_classes)."""
    scores = np.atleast_2d(scores)
    decisions = scores.argmax(-1) if scores.ndim == 3 else (scores >= 0.5).astype(np.int64)
    return OutOfFold(scores, decisions, np.tile(np.arange(scores.shape[1]) % 2, (len(scores), 1)))


def warnings(found) -> dict[str, str]:
    """Return the messages of a study, of a result or of the content of evaluation.json, by their codes."""
    if isinstance(found, dict):
        return {each["code"]: each["message"] for each in found["warnings"]}
    notices = found.notices if hasattr(found, "notices") else found.evaluation.warnings
    return {each.code: each.message for each in notices}
