"""What is detected before anything is computed: who is left out, confounding, small sites and few people of a class."""

import numpy as np
import pandas as pd

from neurocontrast.evaluation.splits.given import split_table
from tests.evaluation.quick import make_plan, warnings


def notices(cohort, **options) -> dict[str, str]:
    return warnings(make_plan(cohort, info={"pretraining_subjects": []}, **options))


def test_confounding_of_site_and_class_names_the_sites_and_what_to_do(make_cohort):
    cohort = make_cohort(300, n_sites=3)
    patient = cohort.table["site"].map({"site-0": 0.9, "site-1": 0.5, "site-2": 0.1})
    drawn = np.random.default_rng(0).random(300) < patient
    cohort.table["diagnosis"] = np.where(drawn, "patient", "control")
    said = notices(cohort)["site_confounded"]
    counts = pd.crosstab(cohort.table["site"], cohort.table["diagnosis"], normalize="index")[
        "control"
    ]
    for site in ("site-0", "site-2"):
        assert f"'{site}' {counts[site]:.0%}" in said
    assert "Cramér's V" in said
    assert "splits=leave-site-out" in said
    assert "where" in said


def test_confounding_of_site_and_age_names_the_sites(make_cohort):
    cohort = make_cohort(200, n_sites=3)
    cohort.table["age"] += np.where(cohort.table["site"] == "site-1", 40, 0)
    mean = cohort.table.loc[cohort.table["site"] == "site-1", "age"].mean()
    assert f"'site-1' mean {mean:.4g}" in notices(cohort, target="age")["site_confounded"]


def test_small_sites_are_named_with_their_size(make_cohort):
    cohort = make_cohort(100, n_sites=2)
    cohort.table.loc[:3, "site"] = "tiny"
    assert "'tiny' (4)" in notices(cohort)["small_site"]
    assert "small_site" not in notices(cohort, min_site_n=4)


def test_single_class_sites_are_named_with_their_class(make_cohort):
    cohort = make_cohort(120, n_sites=3)
    cohort.table.loc[cohort.table["site"] == "site-1", "diagnosis"] = "patient"
    assert (
        "1 of 3 sites have one class only: 'site-1' (patient)"
        in notices(cohort)["single_class_site"]
    )


def test_single_class_test_folds_of_a_split_file_are_named(make_cohort):
    cohort = make_cohort(60)
    study = make_plan(cohort, n_folds=3)
    rows = (
        split_table(study.table, study.splits).fillna({"held_out_site": ""}).astype({"fold": int})
    )
    patients = (cohort.table["diagnosis"] == "patient").to_numpy()
    rows["fold"] = np.where(patients, np.arange(60) % 2, np.arange(60) % 3)
    said = notices(cohort, split_rows=rows)["single_class_fold"]
    assert "1 test folds have one class only (repeat 0 fold 2)" in said
    assert "stratified" in said


def test_few_subjects_of_a_class_are_named(make_cohort):
    cohort = make_cohort(60, n_sessions=2)
    patients = cohort.table.index[
        (cohort.table["diagnosis"] == "patient") & (cohort.table["session"] == "1")
    ]
    moved = cohort.table["participant_id"].isin(cohort.table.loc[patients[12:], "participant_id"])
    cohort.table.loc[moved, "diagnosis"] = "control"
    assert "'patient' has 12" in notices(cohort)["few_subjects"]  # subjects, not their 24 scans
    assert "class_imbalance" in notices(cohort)


def rows(flow: pd.DataFrame) -> list[tuple]:
    return [
        tuple(row) for row in flow.astype(object).where(flow.notna(), None).itertuples(index=False)
    ]


def test_who_came_in_and_who_went_and_why(make_cohort):
    cohort = make_cohort(60, n_sessions=2)
    elsewhere = cohort.table["site"] == "site-2"
    a, b, c = np.flatnonzero(~elsewhere)[:3]
    cohort.table.loc[[a, b, c, a + 60], "diagnosis"] = (
        None  # both sessions of the first, one of two others
    )
    flow = make_plan(cohort, where={"site": ["site-0", "site-1"]}).flow
    table = cohort.table
    gone = table[~elsewhere & table["diagnosis"].isna()]
    assert rows(flow) == [
        ("embedded", 120, 60, None),
        (
            "excluded",
            int(elsewhere.sum()),
            table[elsewhere]["subject_id"].nunique(),
            "not selected by where",
        ),
        ("excluded", len(gone), gone["subject_id"].nunique(), "diagnosis missing"),
        (
            "evaluated",
            120 - int(elsewhere.sum()) - 4,
            table[~elsewhere]["subject_id"].nunique() - 1,
            None,
        ),
    ]
    assert len(gone) == 4
    scans = flow.set_index("step")["n_scans"]
    assert scans["embedded"] == scans["excluded"].sum() + scans["evaluated"]


def test_scans_that_are_only_trained_on_are_no_evaluated_ones(make_cohort):
    cohort = make_cohort(60)
    study = make_plan(cohort)
    assert rows(study.flow) == [("embedded", 60, 60, None), ("evaluated", 60, 60, None)]
    given = split_table(study.table, study.splits).fillna({"held_out_site": ""})
    given["fold"] = given["fold"].astype(int)
    given.loc[:9, "fold"] = -1
    flow = make_plan(cohort, split_rows=given).flow
    assert rows(flow)[1:] == [
        ("excluded", 10, 10, "never tested, by the split file"),
        ("evaluated", 50, 50, None),
    ]
