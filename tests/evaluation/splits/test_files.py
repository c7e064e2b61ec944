from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from neurocontrast.evaluation import EvaluationSettings, plan_study, read_split_file
from neurocontrast.exceptions import DataError, LeakageError
from neurocontrast.findings import measure

FAST = {"n_bootstraps": 0, "C": (1e-2, 1.0), "confounds": False, "new_site": False, "outlyingness": False}


def study_of(cohort, path: Path | None = None, **options):
    rows = None if path is None else read_split_file(path)
    return plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**FAST, **options), split_rows=rows)


def write(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(path, sep="\t", index=False)
    return path


@pytest.fixture(scope="module")
def cohort(make_cohort):
    return make_cohort(40, n_sessions=2)


@pytest.fixture
def folds(cohort) -> pd.DataFrame:
    frame = cohort.table[["participant_id", "session"]].copy()
    frame["repeat"], frame["fold"] = 0, np.tile(np.arange(40) % 4, 2)
    return frame


@pytest.mark.parametrize("options", [{"n_repeats": 2}, {"splits": "leave-site-out"}])
def test_the_written_splits_are_the_same_splits_again(cohort, tmp_path, options):
    first = study_of(cohort, **options)
    result = measure(first)
    again = study_of(cohort, write(tmp_path / "splits.tsv", result.tables["splits"]))
    for a, b in zip(first.splits, again.splits, strict=True):
        assert (a.repeat, a.fold, a.held_out_site) == (b.repeat, b.fold, b.held_out_site)
        np.testing.assert_array_equal(a.test, b.test)
        np.testing.assert_array_equal(a.train, b.train)
    repeated = measure(again)
    assert repeated.evaluation.content()["splits"] == "file"
    assert repeated.evaluation.content()["splits_digest"] == result.evaluation.content()["splits_digest"]
    pd.testing.assert_frame_equal(repeated.tables["predictions"], result.tables["predictions"])
    assert first.covariates == again.covariates


def test_scans_without_a_fold_are_trained_on_and_never_tested(cohort, folds, tmp_path):
    folds["fold"] = folds["fold"].map({0: "0", 1: "1", 2: "n/a", 3: ""})
    study = study_of(cohort, write(tmp_path / "splits.tsv", folds))
    assert len(study.splits) == 2
    assert [len(split.test) for split in study.splits] == [20, 20]
    assert [len(split.train) for split in study.splits] == [60, 60]
    result = measure(study)
    assert len(result.tables["predictions"]) == 40
    assert result.tables["sites"]["n"].sum() == 40


def test_a_subject_in_two_folds_is_refused(cohort, folds, tmp_path):
    folds.loc[3, "fold"] = 0
    with pytest.raises(LeakageError, match=r"scans of 1 subjects are in different folds \(sub-0003\)"):
        study_of(cohort, write(tmp_path / "splits.tsv", folds))


def test_a_subject_tested_and_trained_on_is_refused(cohort, folds, tmp_path):
    folds["fold"] = folds["fold"].astype(object)
    folds.loc[3, "fold"] = "n/a"
    with pytest.raises(LeakageError, match="sub-0003"):
        study_of(cohort, write(tmp_path / "splits.tsv", folds))


def test_where_sites_are_held_out_a_subject_of_two_sites_is_never_trained_on_and_tested(cohort, folds, tmp_path):
    table = cohort.table.copy()
    table.loc[3, "site"] = next(site for site in table["site"].unique() if site != table.loc[3, "site"])
    folds["fold"] = table["site"].astype("category").cat.codes
    study = study_of(replace(cohort, table=table), write(tmp_path / "splits.tsv", folds))
    assert all(split.held_out_site for split in study.splits)
    for split in study.splits:
        assert not set(study.subjects[split.train]) & set(study.subjects[split.test])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="fold"), "missing columns: 'fold'; found: 'participant_id'"),
        (lambda f: f.rename(columns={"fold": "folds"}), "Did you mean 'folds'"),
        (lambda f: f.assign(fold="first"), "column 'fold': must be 0, 1, 2 …, found row 2: 'first'"),
        (lambda f: f.assign(repeat=-1), "column 'repeat'"),
        (lambda f: f.iloc[1:], "lacks 1 of the 80 scans to evaluate .sub-0000 session 1."),
        (lambda f: pd.concat([f, f.iloc[:1]]), "lists scans twice .sub-0000."),
        (
            lambda f: pd.concat([f, f.iloc[:1].assign(participant_id="sub-9999")]),
            "1 scans that are not among those to evaluate .sub-9999 session 1.",
        ),
        (lambda f: f.assign(fold=f["fold"] + 1), "no scan in fold 0"),
        (lambda f: f.assign(fold=""), "repeat 0 has an empty fold in every row"),
        (lambda f: f.iloc[:0], "has no rows"),
        (lambda f: f.assign(fold="1e300"), "column 'fold': must be 0, 1, 2 …, found row 2: '1e300'"),
    ],
)
def test_a_wrong_split_file_is_answered(cohort, folds, tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        study_of(cohort, write(tmp_path / "splits.tsv", change(folds)))


def test_the_sites_that_folds_hold_out_are_found_whatever_a_column_says(cohort, folds, tmp_path):
    def held_out() -> set[str | None]:
        return {split.held_out_site for split in study_of(cohort, write(tmp_path / "splits.tsv", folds)).splits}

    folds["held_out_site"] = cohort.table["site"]  # folds dealt at random, said to hold out sites
    assert held_out() == {None}
    folds["fold"] = cohort.table["site"].map({"site-0": 0, "site-1": 1, "site-2": 1})
    assert held_out() == {None}
    folds["fold"] = cohort.table["site"].map({"site-0": "0", "site-1": "1", "site-2": ""})
    assert held_out() == {"site-0", "site-1"}
    folds = folds.drop(columns="held_out_site")
    assert held_out() == {"site-0", "site-1"}
