from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from neurocontrast.evaluation.notices import check_duplicates, check_overlap
from neurocontrast.exceptions import LeakageError
from neurocontrast.provenance import subject_digest

TABLE = pd.DataFrame({"participant_id": ["a_1", "b_1", "c_1", "d_1"], "subject_id": list("abcd"), "session": ""})


def test_a_participant_of_pretraining_is_refused_by_name():
    info = {"pretraining_subjects": [subject_digest("b"), subject_digest("z")]}
    with pytest.raises(LeakageError, match=r"1 of 4 subjects were in the pretraining cohort \(b\).*allow_overlap=True"):
        check_overlap(TABLE, info)


def test_an_allowed_overlap_is_counted_and_said():
    info = {"pretraining_subjects": [subject_digest("b"), subject_digest("c")]}
    n_overlap, (notice,) = check_overlap(TABLE, info, allow_overlap=True)
    assert n_overlap == 2
    assert notice.code == "pretraining_overlap"
    assert "2 of 4 subjects" in notice.message


def test_nobody_in_common_is_silent_and_not_knowing_is_not():
    assert check_overlap(TABLE, {"pretraining_subjects": [subject_digest("z")]}) == (0, [])
    n_overlap, (notice,) = check_overlap(TABLE, {})
    assert (n_overlap, notice.code) == (0, "overlap_unknown")


def test_one_image_under_two_names_is_caught():
    features = np.random.default_rng(0).normal(size=(4, 5))
    assert check_duplicates(TABLE, features) == []
    features[3] = features[1]
    with pytest.raises(LeakageError, match=r"1 images have the names of several subjects.*b = d"):
        check_duplicates(TABLE, features)
    (notice,) = check_duplicates(TABLE, features, allow_overlap=True)
    assert notice.code == "duplicate_overlap"


def test_two_equal_scans_of_one_subject_are_no_leak():
    features = np.random.default_rng(0).normal(size=(4, 5))
    features[3] = features[1]
    assert check_duplicates(TABLE.assign(subject_id=["a", "b", "c", "b"]), features) == []
