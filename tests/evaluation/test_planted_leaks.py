"""Leaks planted on purpose: each would look like a result, and each is caught."""

from __future__ import annotations

import numpy as np

from neurocontrast.evaluation import EvaluationSettings, plan_study, run_study

SETTINGS = EvaluationSettings(
    n_folds=3,
    n_inner_folds=2,
    C=(1e-2, 1.0),
    n_bootstraps=200,
    n_permutations=39,
    confounds=False,
    new_site=False,
    outlyingness=False,
)


def evaluate(cohort, **options):
    return run_study(
        plan_study(cohort.table, cohort.features, settings=SETTINGS.model_copy(update=options))
    ).evaluation.content()


def test_recognising_a_subject_does_not_help(make_cohort):
    """Labels are random, sessions of a subject are alike: whoever parts them by scan finds a strong effect."""
    cohort = make_cohort(60, n_features=60, n_sessions=3, diagnosis=0.0, age=0.0)
    generator = np.random.default_rng(0)
    cohort.features[:] = np.tile(generator.normal(size=(60, 60)), (3, 1)) + 0.3 * generator.normal(size=(180, 60))
    table = cohort.table
    assert evaluate(cohort)["permutation"]["p_values"]["auc"] > 0.05
    cohort.table = table.assign(
        participant_id=table["participant_id"] + "x" + table["session"],
        subject_id=table["subject_id"] + "x" + table["session"],
        session="",
    )
    leaking = evaluate(cohort, n_permutations=0)["metrics"]["auc"]["pooled"]
    assert leaking > 0.75  # so the leak is real, and grouping by subject is what closes it


def test_a_label_that_is_the_site_is_no_finding(make_cohort):
    """The features know the site, and the site knows nine labels of ten; within a site there is nothing."""
    cohort = make_cohort(120, n_features=8, diagnosis=0.0, age=0.0, site=3.0, n_sites=2)
    flipped = np.random.default_rng(0).random(120) < 0.1
    cohort.table["diagnosis"] = np.where((cohort.table["site"] == "site-0") ^ flipped, "patient", "control")
    found = evaluate(cohort)
    assert found["metrics"]["auc"]["pooled"] > 0.8
    assert "site_confounded" in [warning["code"] for warning in found["warnings"]]
    assert found["increment"]["auc"]["interval"][0] <= 0
    assert found["permutation"]["p_values"]["auc"] > 0.05
