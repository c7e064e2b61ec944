from __future__ import annotations

import numpy as np
import pandas as pd

from neurocontrast.evaluation import EvaluationSettings, plan_study
from neurocontrast.evaluation.splits.given import split_table
from tests.evaluation.quick import QUICK


def rows(flow: pd.DataFrame) -> list[tuple]:
    return [tuple(row) for row in flow.astype(object).where(flow.notna(), None).itertuples(index=False)]


def test_who_came_in_and_who_went_and_why(make_cohort):
    cohort = make_cohort(60, n_sessions=2)
    elsewhere = cohort.table["site"] == "site-2"
    a, b, c = np.flatnonzero(~elsewhere)[:3]
    cohort.table.loc[[a, b, c, a + 60], "diagnosis"] = None  # both sessions of the first, one of two others
    settings = EvaluationSettings(where={"site": ["site-0", "site-1"]}, **QUICK)
    flow = plan_study(cohort.table, cohort.features, settings=settings).flow
    table = cohort.table
    gone = table[~elsewhere & table["diagnosis"].isna()]
    assert rows(flow) == [
        ("embedded", 120, 60, None),
        ("excluded", int(elsewhere.sum()), table[elsewhere]["subject_id"].nunique(), "not selected by where"),
        ("excluded", len(gone), gone["subject_id"].nunique(), "diagnosis missing"),
        ("evaluated", 120 - int(elsewhere.sum()) - 4, table[~elsewhere]["subject_id"].nunique() - 1, None),
    ]
    assert len(gone) == 4
    scans = flow.set_index("step")["n_scans"]
    assert scans["embedded"] == scans["excluded"].sum() + scans["evaluated"]


def test_scans_that_are_only_trained_on_are_no_evaluated_ones(make_cohort):
    cohort = make_cohort(60)
    study = plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**QUICK))
    assert rows(study.flow) == [("embedded", 60, 60, None), ("evaluated", 60, 60, None)]
    given = split_table(study.table, study.splits).fillna({"held_out_site": ""})
    given["fold"] = given["fold"].astype(int)
    given.loc[:9, "fold"] = -1
    flow = plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**QUICK), split_rows=given).flow
    assert rows(flow)[1:] == [("excluded", 10, 10, "never tested, by the split file"), ("evaluated", 50, 50, None)]
