"""A wrong name is answered with the likely one."""

import pytest

from neurocontrast import exceptions
from neurocontrast.lazy import require


def test_near_miss_is_suggested_whatever_its_case():
    assert exceptions.suggestion("Diagnosi", ["age", "diagnosis"]) == " Did you mean 'diagnosis'?"
    assert exceptions.suggestion("zzz", ["age", "diagnosis"]) == ""


def test_allowed_names_are_listed():
    assert exceptions.one_of(["a", "b"]) == "'a', 'b'"


def test_bad_input_ends_with_2_and_a_failing_run_with_1():
    codes = {
        name: getattr(exceptions, name).exit_code
        for name in exceptions.__all__
        if name.endswith("Error")
    }
    assert codes.pop("TrainingError") == 1
    assert set(codes.values()) == {2}


def test_missing_optional_package_names_the_extra():
    with pytest.raises(
        exceptions.MissingDependencyError, match=r"pip install 'neurocontrast\[excel\]'"
    ):
        require("no_such_package", extra="excel", purpose="The workbook")
    assert require("json", extra="excel", purpose="x").dumps([]) == "[]"


def test_messages_hold_no_escape_codes_and_not_fifty_thousand_names():
    message = str(exceptions.DataError("a\x1b[31mb\r\udcff\u2028\u202e: é 脳 \nnext"))
    assert message == "a\\x1b[31mb\\r\\udcff\\u2028\\u202e: é 脳 \nnext"
    assert exceptions.one_of(map(str, range(50_000))).endswith("'28', '29' and 49970 more")


def test_no_line_of_a_message_is_without_end():
    first, second = str(exceptions.DataError("x" * 70_000 + "\n  short")).split("\n")
    assert (len(first), second) == (2_900, "  short")
    assert exceptions.said(ValueError("a\n b" * 200)).startswith("a ba ba b")
    assert exceptions.said(KeyError()) == "KeyError"
