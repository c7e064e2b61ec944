from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from neurocontrast.evaluation import LeaveSiteOut
from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.splits import leave_site_out
from neurocontrast.exceptions import DataError


def test_one_site_is_left_out_with_all_its_subjects():
    sites = ["a", "a", "b", "b", "c", "c"]
    subjects = np.array(["1", "2", "1", "3", "4", "5"], dtype=object)  # subject 1 was scanned at a and at b
    splits = leave_site_out(sites, subjects, names=list("uvwxyz"))
    assert [split.held_out_site for split in splits] == ["a", "b", "c"]
    assert splits[0].test.tolist() == [0, 1]
    assert splits[0].train.tolist() == [3, 4, 5]  # not row 2: subject 1 is being tested


def test_leave_site_out_refuses_scans_without_a_site():
    with pytest.raises(DataError, match=r"site is missing for 1 of 3 scans \(sub-2\)"):
        leave_site_out(["a", NO_SITE, "b"], np.array(list("123")), names=["sub-1", "sub-2", "sub-3"])


def test_leave_site_out_needs_two_sites():
    with pytest.raises(DataError, match="at least two sites, found 'a'"):
        leave_site_out(["a", "a"], np.array(list("12")), names=["1", "2"])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_site_held_out_and_the_people_seen_there_are_never_trained_on(data):
    n = data.draw(st.integers(4, 40))
    groups = np.array(
        [(f"s{data.draw(st.integers(0, n))}", data.draw(st.sampled_from(["a", "b", "c"]))) for _ in range(n)]
    )
    assume(len(set(groups[:, 1])) > 1)
    splits = list(LeaveSiteOut().split(np.zeros(n), groups=groups))
    assert len(splits) == LeaveSiteOut().get_n_splits(groups=groups) == len(set(groups[:, 1]))
    for train, test in splits:
        assert len(set(groups[test, 1])) == 1
        assert not set(groups[test, 1]) & set(groups[train, 1])
        assert not set(groups[test, 0]) & set(groups[train, 0])
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(n))
