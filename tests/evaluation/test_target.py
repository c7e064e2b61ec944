import numpy as np
import pandas as pd
import pytest

from neurocontrast.evaluation.target import choose_positive, read_target
from neurocontrast.exceptions import ConfigError, DataError


def frame(**columns) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    ids = [f"sub-{row:02d}" for row in range(n)]
    return pd.DataFrame(
        {"participant_id": ids, "subject_id": ids, "session": "", "path": "", **columns}
    )


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


@pytest.mark.parametrize(
    ("column", "options", "kind", "classes", "positive"),
    [
        (["patient", "control"] * 3, {}, "binary", ("control", "patient"), "patient"),
        (
            ["patient", "control"] * 3,
            {"positive": "control"},
            "binary",
            ("patient", "control"),
            "control",
        ),
        (["bd", "sz", "hc"] * 5, {}, "multiclass", ("hc", "bd", "sz"), None),
        (np.arange(10.0), {}, "continuous", (), None),
        ([str(value) for value in range(10)], {"kind": "continuous"}, "continuous", (), None),
        ([0.0, 0.5, 1.0, 0.5] * 5, {}, "continuous", (), None),
        ([0.0, 0.5, 1.0, 0.5] * 5, {"kind": "categorical"}, "multiclass", ("0", "0.5", "1"), None),
        ([0.0, 1.0] * 5, {}, "binary", ("0", "1"), "1"),
    ],
)
def test_what_is_predicted_follows_from_the_values_or_from_what_the_user_says(
    column, options, kind, classes, positive
):
    target, present = read_target(frame(x=column), "x", **options)
    assert (target.kind, target.classes, target.positive) == (kind, classes, positive)
    assert present.all()
    if kind == "continuous":
        assert target.values.tolist() == [float(value) for value in column]


@pytest.mark.parametrize(
    ("column", "classes", "labels"),
    [
        (
            ["patient", "control", None, "patient"],
            ("control", "patient"),
            ["patient", "control", None, "patient"],
        ),
        (
            ["a", "b", pd.NaT, "", "NaN", np.nan, "a"],
            ("a", "b"),
            ["a", "b", None, None, None, None, "a"],
        ),
        (
            ["none", "mdd", "None", "null", "mdd"],
            ("none", "mdd"),
            ["none", "mdd", None, None, "mdd"],
        ),
    ],
)
def test_missing_values_are_missing_and_none_is_a_class(column, classes, labels):
    target, present = read_target(frame(dx=column), "dx")
    assert (target.classes, target.positive) == (classes, classes[1])
    assert present.tolist() == [label is not None for label in labels]
    assert target.labels().tolist() == [label for label in labels if label is not None]


@pytest.mark.parametrize(
    ("columns", "arguments", "error", "message"),
    [
        ({"diagnosis": ["a", "b"]}, {"name": "diagnose"}, ConfigError, "Did you mean 'diagnosis'"),
        ({"dx": ["a", "b"]}, {"name": "participant_id"}, ConfigError, "identifies scans"),
        ({"dx": ["a", "b"]}, {"name": "feature_0003"}, ConfigError, "there is no such column"),
        ({"dx": ["a", "a"]}, {"name": "dx"}, DataError, "the one value 'a' in all 2 scans"),
        ({"age": [5.0, 5.0]}, {"name": "age"}, DataError, "the one value 5 in all 2 scans"),
        ({"dx": [None, None]}, {"name": "dx"}, DataError, "missing in all 2 scans"),
        (
            {"code": list("abcdefgh")},
            {"name": "code"},
            DataError,
            "8 different values in 8 subjects",
        ),
        ({"dx": ["a", "b"]}, {"name": "dx", "positive": "c"}, ConfigError, "'c' is not a class"),
        (
            {"dx": ["patient", "con"]},
            {"name": "dx", "positive": "patients"},
            ConfigError,
            "mean 'patient'",
        ),
        ({"dx": list("abc") * 3}, {"name": "dx", "positive": "a"}, ConfigError, "has 3 classes"),
        ({"age": [5.0, 6.0, 7.0]}, {"name": "age", "positive": "6"}, ConfigError, "is continuous"),
        ({"dx": ["1", "x", "2"]}, {"name": "dx", "kind": "continuous"}, DataError, "sub-01: 'x'"),
    ],
)
def test_a_wrong_target_is_answered_with_what_to_do(columns, arguments, error, message):
    with pytest.raises(error, match=message):
        read_target(frame(**columns), **arguments)
