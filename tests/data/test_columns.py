from __future__ import annotations

import math

import pytest

from neurocontrast.data.columns import Refusal, as_age, as_sex, is_missing, is_numeric, number_in, number_of, text_of


@pytest.mark.parametrize("cell", ["", "n/a", "N/A", "NA", "na", "nan", "NaN", "null", "#N/A"])
def test_spellings_of_missing(cell):
    assert is_missing(cell)


@pytest.mark.parametrize("cell", ["none", "0", "-", "unknown", "no"])
def test_an_answer_is_not_missing(cell):
    assert not is_missing(cell)


@pytest.mark.parametrize(
    ("cell", "age"), [("0", 0), ("34.25", 34.25), ("120", 120), ("89+", 89), ("90.0+", 90), ("1e1", 10)]
)
def test_ages(cell, age):
    assert as_age(cell) == number_in("age", cell) == age


def test_only_ages_are_coded_with_a_plus():
    assert number_in("iq", "89+") is None
    assert number_in("iq", "189") == 189
    assert number_in("age", "189") is None


@pytest.mark.parametrize("cell", ["-3", "900", "120.1", "34,5", "old", "1_0", "0x10", "inf", "٣٤", "34Y", "20-25"])
def test_what_is_no_age_is_refused(cell):
    refusal = as_age(cell)
    assert isinstance(refusal, Refusal)
    assert "0 to 120" in refusal.rule


def test_a_decimal_comma_is_explained():
    assert "decimal point" in as_age("34,5").hint


@pytest.mark.parametrize(
    ("cell", "sex"),
    [
        ("M", "M"),
        ("m", "M"),
        ("Male", "M"),
        ("1", "M"),
        ("1.0", "M"),
        ("F", "F"),
        ("FEMALE", "F"),
        ("2", "F"),
        ("2.0", "F"),
    ],
)
def test_sexes(cell, sex):
    assert as_sex(cell) == sex


@pytest.mark.parametrize("cell", ["0", "3", "x", "w", "other"])
def test_what_is_no_sex_is_refused(cell):
    assert isinstance(as_sex(cell), Refusal)


def test_zero_one_coding_is_explained():
    assert "0/1 is not accepted" in as_sex("0").hint
    assert not as_sex("x").hint


def test_a_column_is_numeric_when_every_known_cell_is():
    assert is_numeric(["1.5", "n/a", "-2", "0", "0.5", ".5", "1e-3"])
    assert not is_numeric(["1", "2", "x"])
    assert not is_numeric(["001", "2"])
    assert not is_numeric(["n/a", ""])
    assert not is_numeric(["inf", "1"])


def test_text_of_a_value_is_what_a_table_would_hold():
    assert text_of(1.0) == "1"
    assert text_of(0.5) == "0.5"
    assert text_of(float("nan")) == ""
    assert text_of("01") == "01"
    assert number_of("1e400") is None
    assert math.isclose(number_of("-2.5"), -2.5)
