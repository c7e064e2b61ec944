"""A column of train, validation and test: what is read from it, refused, and said about pretraining."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from neurocontrast.evaluation.splits.by_column import check_fixed, check_seen, fixed_split, look_at_twins
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, LeakageError
from neurocontrast.provenance import subject_digest

PARTS = ["train", "validation", "test", "train", "test", "test"]


def table_of(parts=PARTS) -> pd.DataFrame:
    names = [f"sub-{number}" for number in range(len(parts))]
    return pd.DataFrame({"participant_id": names, "subject_id": names, "session": "", "split": parts})


def subjects_of(split) -> np.ndarray:
    return np.arange(len(split.train) + len(split.test)).astype(str).astype(object)


def ages(*values) -> Target:
    return Target("age", "continuous", np.array(values, dtype=float))


def test_train_holds_validation_too():
    split = fixed_split(table_of(), "split")
    assert split.train.tolist() == [0, 1, 3]
    assert split.validation.tolist() == [1]
    assert split.test.tolist() == [2, 4, 5]


def test_a_column_that_is_not_there_or_lacks_a_part_is_refused():
    with pytest.raises(ConfigError, match="there is no column 'splits'"):
        fixed_split(table_of(), "splits")
    for parts, missing in ((["train"] * 3, "test"), (["test", "validation"], "train")):
        with pytest.raises(DataError, match=f"no row is of '{missing}' .of {len(parts)} rows"):
            fixed_split(table_of(parts), "split")


@pytest.mark.parametrize(("values", "part", "n"), [((5, 5, 1, 5, 2, 3), "train", 2), ((1, 2, 5, 3, 5, 5), "test", 3)])
def test_a_number_that_does_not_vary_in_a_part_is_refused(values, part, n):
    split = fixed_split(table_of(), "split")
    with pytest.raises(DataError, match=f"does not vary in the {n} rows of {part}"):
        check_fixed(split, ages(*values), subjects_of(split))
    check_fixed(split, ages(1, 1, 1, 2, 2, 1), subjects_of(split))


@pytest.mark.parametrize(("codes", "part"), [((0, 1, 0, 0, 1, 1), "train"), ((0, 1, 0, 1, 0, 0), "test")])
def test_a_part_of_one_class_is_refused(codes, part):
    split = fixed_split(table_of(), "split")
    target = Target("dx", "binary", np.array(codes), ("hc", "sz"), "sz")
    with pytest.raises(DataError, match=f"rows of {part} have the one class 'hc'"):
        check_fixed(split, target, subjects_of(split))


def test_rows_of_test_that_pretraining_has_seen_are_refused_unless_allowed():
    table = table_of()
    split = fixed_split(table, "split")
    info = {"pretraining_subjects": [subject_digest("sub-2"), subject_digest("sub-0")]}
    with pytest.raises(LeakageError, match=r"1 of 3 rows of test were in pretraining \(sub-2\)"):
        check_seen(table, split, info)
    counts, notices = check_seen(table, split, info, allow_overlap=True)
    assert counts == {"train": 1, "validation": 0, "test": 1}
    assert [notice.code for notice in notices] == ["pretraining_overlap"]
    counts, notices = check_seen(table, split, {"pretraining_subjects": [subject_digest("sub-1")]})
    assert counts == {"train": 0, "validation": 1, "test": 0}
    assert [notice.code for notice in notices] == ["validation_pretrained"]
    counts, notices = check_seen(table, split, {})
    assert set(counts.values()) == {None}
    assert [notice.code for notice in notices] == ["overlap_unknown"]


def test_five_of_more_seen_rows_are_named():
    table = table_of(["train", *["test"] * 6])
    split, names = fixed_split(table, "split"), [f"sub-{number}" for number in range(1, 7)]
    seen = [subject_digest(name) for name in names]
    with pytest.raises(LeakageError, match=r"\(sub-1, sub-2, sub-3, sub-4, sub-5 …\)"):
        check_seen(table, split, {"pretraining_subjects": seen})
    with pytest.raises(LeakageError, match=r"\(sub-1, sub-2, sub-3, sub-4, sub-5\)"):
        check_seen(table, split, {"pretraining_subjects": seen[:5]})


def test_twins_of_fitted_rows_are_counted():
    split = fixed_split(table_of(), "split")
    features = np.arange(12.0).reshape(6, 2)
    assert look_at_twins(features, split) == (0, [])
    features[4], features[5] = features[0], features[1]
    n, notices = look_at_twins(features, split)
    assert (n, len(notices)) == (2, 1)


def test_five_of_more_subjects_in_two_parts_are_named():
    split = fixed_split(table_of([*["train"] * 7, *["test"] * 7]), "split")
    twice = np.array([f"s{row % 7}" for row in range(14)], dtype=object)
    target = ages(*range(14))
    with pytest.raises(LeakageError, match=r"7 subjects are in train and in test \(s0, s1, s2, s3, s4( …)?\)"):
        check_fixed(split, target, twice)
    assert check_fixed(split, target, np.arange(14).astype(str).astype(object)) is None
