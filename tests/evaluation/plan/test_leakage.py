"""Leaks and copies are caught, and a leak planted on purpose finds nothing."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation.plan.leakage import check_duplicates, check_overlap
from neurocontrast.exceptions import LeakageError
from neurocontrast.provenance import subject_digest
from tests.evaluation.quick import content, make_plan

PERMUTED = {
    "n_folds": 3,
    "n_inner_folds": 2,
    "C": (1e-2, 1.0),
    "n_bootstraps": 200,
    "n_permutations": 39,
}
TABLE = pd.DataFrame(
    {
        "participant_id": ["a_1", "b_1", "c_1", "d_1"],
        "subject_id": list("abcd"),
        "session": "",
        "content_digest": ["a1 a2", "b1 b2", "c1", "d1"],
    }
)


def test_people_of_pretraining_are_refused_by_name_or_counted_and_not_knowing_them_is_said():
    def overlap(*seen, **options):
        info = {"pretraining_subjects": [*map(subject_digest, seen)]}
        info |= {"pretraining_contents": ["z1"], "pretraining_contents_complete": True}
        return check_overlap(TABLE, EmbeddingsInfo(**info), **options)

    with pytest.raises(
        LeakageError,
        match=r"1 of 4 subjects were in the pretraining cohort \(b\).*allow_overlap=True",
    ):
        overlap("b", "z")
    found = overlap("b", "c", allow_overlap=True)
    assert found.subjects == {"b", "c"}
    (notice,) = found.notices
    assert notice.code == "pretraining_overlap"
    assert "2 of 4 subjects" in notice.message
    nobody = overlap("z")
    assert (nobody.subjects, nobody.compared) == (frozenset(), ("identifiers", "contents"))
    assert nobody.notices == ()
    unknown = check_overlap(TABLE, EmbeddingsInfo())
    assert (unknown.subjects, unknown.compared) == (frozenset(), ())
    assert [notice.code for notice in unknown.notices] == ["overlap_unknown"]


def test_one_image_under_two_names_is_caught():
    features = np.random.default_rng(0).normal(size=(4, 5))
    assert check_duplicates(TABLE, features) == []
    features[3] = features[1]
    with pytest.raises(LeakageError, match=r"1 images have the names of several subjects.*b = d"):
        check_duplicates(TABLE, features)
    (notice,) = check_duplicates(TABLE, features, allow_overlap=True)
    assert notice.code == "duplicate_overlap"
    # Two equal scans of one subject are no leak.
    assert check_duplicates(TABLE.assign(subject_id=["a", "b", "c", "b"]), features) == []


@pytest.mark.slow
def test_recognising_a_subject_does_not_help(make_cohort):
    """Labels are random, sessions of a subject are alike: whoever parts them by scan finds a strong effect."""
    cohort = make_cohort(60, n_features=60, n_sessions=3, diagnosis=0.0, age=0.0)
    generator = np.random.default_rng(0)
    cohort.features[:] = np.tile(generator.normal(size=(60, 60)), (3, 1)) + 0.3 * generator.normal(
        size=(180, 60)
    )
    table = cohort.table
    assert content(cohort, **PERMUTED)["permutation"]["p_values"]["auc"] > 0.05
    parted = table["subject_id"] + "x" + table["session"]
    cohort.table = table.assign(participant_id=parted, subject_id=parted, session="")
    leaking = content(cohort, n_folds=3)["metrics"]["auc"]["pooled"]
    assert leaking > 0.75  # so the leak is real, and grouping by subject is what closes it


@pytest.mark.slow
def test_a_label_that_is_the_site_is_no_finding(make_cohort):
    """The features know the site, and the site knows nine labels of ten; within a site there is nothing."""
    cohort = make_cohort(120, n_features=8, diagnosis=0.0, age=0.0, site=3.0, n_sites=2)
    flipped = np.random.default_rng(0).random(120) < 0.1
    cohort.table["diagnosis"] = np.where(
        (cohort.table["site"] == "site-0") ^ flipped, "patient", "control"
    )
    found = content(cohort, **PERMUTED)
    assert found["metrics"]["auc"]["pooled"] > 0.8
    assert "site_confounded" in [warning["code"] for warning in found["warnings"]]
    assert found["increment"]["auc"]["interval"][0] <= 0
    assert found["permutation"]["p_values"]["auc"] > 0.05


def test_scans_of_a_subject_with_names_of_their_own_stay_in_one_fold(make_cohort):
    cohort = make_cohort(40, n_sessions=2)
    subjects = cohort.table["subject_id"].to_numpy()
    cohort.table["participant_id"] = [f"scan-{row}" for row in range(len(subjects))]
    for split in make_plan(cohort).splits:
        assert not {*subjects[split.train]} & {*subjects[split.test]}
