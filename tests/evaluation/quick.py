"""Studies of invented cohorts, without what a test does not look at."""

from __future__ import annotations

from typing import Any

from neurocontrast.evaluation import EvaluationSettings, plan_study
from neurocontrast.findings import measure

QUICK = {"n_bootstraps": 0, "confounds": False, "new_site": False, "outlyingness": False}
FAST = {**QUICK, "C": (1e-3, 1e-1, 10.0), "alpha": (1.0, 100.0), "n_inner_folds": 3}


def plan(cohort, *, info=None, split_rows=None, estimator=None, cv=None, **options):
    """Plan the study of a cohort; `options` are settings besides those of `FAST`."""
    given = {"info": info or {}, "split_rows": split_rows, "estimator": estimator, "cv": cv}
    return plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**FAST | options), **given)


def evaluate(cohort, **options):
    """Measure all that is asked for."""
    return measure(plan(cohort, **options))


def content(cohort, **options) -> dict[str, Any]:
    """Return what evaluation.json holds."""
    return evaluate(cohort, **options).evaluation.content()


def warnings(found) -> dict[str, str]:
    """Return the messages of a study, of a result or of the content of evaluation.json, by their codes."""
    if isinstance(found, dict):
        return {each["code"]: each["message"] for each in found["warnings"]}
    notices = found.notices if hasattr(found, "notices") else found.evaluation.warnings
    return {each.code: each.message for each in notices}
