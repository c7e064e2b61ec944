from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from neurocontrast.evaluation.target import choose_positive, read_target
from neurocontrast.exceptions import ConfigError, DataError


def frame(**columns) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    ids = [f"sub-{row:02d}" for row in range(n)]
    return pd.DataFrame({"participant_id": ids, "subject_id": ids, "session": "", "path": "", **columns})


@pytest.mark.parametrize(
    ("classes", "positive"),
    [
        (["control", "patient"], "patient"),
        (["AD", "CN"], "AD"),
        (["HC", "BD"], "BD"),
        (["healthy_control", "alzheimer"], "alzheimer"),
        (["F", "M"], "M"),
        (["1", "0"], "1"),
        (["control", "healthy"], "healthy"),
    ],
)
def test_the_positive_class_is_the_one_that_is_no_control(classes, positive):
    assert choose_positive(classes) == positive


def test_two_classes_are_binary_with_the_positive_last():
    target, present = read_target(frame(dx=["patient", "control", None, "patient"] * 3), "dx")
    assert (target.kind, target.classes, target.positive) == ("binary", ("control", "patient"), "patient")
    assert present.tolist() == [True, True, False, True] * 3
    assert target.labels().tolist() == ["patient", "control", "patient"] * 3
    chosen, _ = read_target(frame(dx=["patient", "control"] * 3), "dx", positive="control")
    assert chosen.classes == ("patient", "control")


def test_several_classes_put_controls_first():
    target, _ = read_target(frame(dx=["bd", "sz", "hc"] * 5), "dx")
    assert (target.kind, target.classes, target.positive) == ("multiclass", ("hc", "bd", "sz"), None)


def test_numbers_are_continuous_unless_they_are_two_or_the_user_says_so():
    assert read_target(frame(age=np.arange(10.0)), "age")[0].kind == "continuous"
    scale = frame(cdr=[0.0, 0.5, 1.0, 0.5] * 5)
    assert read_target(scale, "cdr")[0].kind == "continuous"
    assert read_target(scale, "cdr", kind="categorical")[0].classes == ("0", "0.5", "1")
    coded, _ = read_target(frame(responder=[0.0, 1.0] * 5), "responder")
    assert (coded.kind, coded.classes) == ("binary", ("0", "1"))
    text = frame(score=[str(value) for value in range(10)])
    assert read_target(text, "score", kind="continuous")[0].values.tolist() == list(range(10))


def test_missing_values_of_a_table_are_missing():
    target, present = read_target(frame(dx=["a", "b", "n/a", "", "NaN", np.nan, "a"]), "dx")
    assert present.tolist() == [True, True, False, False, False, False, True]
    assert target.values.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("columns", "arguments", "error", "message"),
    [
        ({"diagnosis": ["a", "b"]}, {"name": "diagnose"}, ConfigError, "Did you mean 'diagnosis'"),
        ({"dx": ["a", "b"]}, {"name": "participant_id"}, ConfigError, "identifies scans"),
        ({"dx": ["a", "b"]}, {"name": "feature_0003"}, ConfigError, "there is no such column"),
        ({"dx": ["a", "a"]}, {"name": "dx"}, DataError, "the one value 'a' in all 2 scans"),
        ({"age": [5.0, 5.0]}, {"name": "age"}, DataError, "the one value 5 in all 2 scans"),
        ({"dx": [None, None]}, {"name": "dx"}, DataError, "missing in all 2 scans"),
        ({"code": list("abcdefgh")}, {"name": "code"}, DataError, "8 different values in 8 subjects"),
        ({"dx": ["a", "b"]}, {"name": "dx", "positive": "c"}, ConfigError, "'c' is not a class"),
        ({"dx": ["patient", "con"]}, {"name": "dx", "positive": "patients"}, ConfigError, "mean 'patient'"),
        ({"dx": list("abc") * 3}, {"name": "dx", "positive": "a"}, ConfigError, "has 3 classes"),
        ({"age": [5.0, 6.0, 7.0]}, {"name": "age", "positive": "6"}, ConfigError, "is continuous"),
        ({"dx": ["1", "x", "2"]}, {"name": "dx", "kind": "continuous"}, DataError, "sub-01: 'x'"),
    ],
)
def test_a_wrong_target_is_answered_with_what_to_do(columns, arguments, error, message):
    with pytest.raises(error, match=message):
        read_target(frame(**columns), **arguments)


def test_none_is_a_class_and_pythons_none_is_missing():
    target, present = read_target(frame(dx=["none", "mdd", "none", "None", "null", "mdd"]), "dx")
    assert (target.classes, target.positive) == (("none", "mdd"), "mdd")
    assert present.tolist() == [True, True, True, False, False, True]
