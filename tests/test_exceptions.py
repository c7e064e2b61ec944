"""A wrong name is answered with the likely one."""

import pytest

from neurocontrast import exceptions
from neurocontrast.lazy import is_installed, require


def test_near_miss_is_suggested_whatever_its_case():
    assert exceptions.suggestion("Diagnosi", ["age", "diagnosis"]) == " Did you mean 'diagnosis'?"
    assert exceptions.suggestion("zzz", ["age", "diagnosis"]) == ""


def test_allowed_names_are_listed():
    assert exceptions.one_of(["a", "b"]) == "'a', 'b'"


def test_bad_input_ends_with_2_and_a_failing_run_with_1():
    codes = {name: getattr(exceptions, name).exit_code for name in exceptions.__all__ if name.endswith("Error")}
    assert codes.pop("TrainingError") == 1
    assert set(codes.values()) == {2}


def test_missing_optional_package_names_the_extra():
    assert is_installed("json")
    assert not is_installed("no_such_package")
    with pytest.raises(exceptions.MissingDependencyError, match=r"pip install 'neurocontrast\[excel\]'"):
        require("no_such_package", extra="excel", purpose="The workbook")
    assert require("json", extra="excel", purpose="x").dumps([]) == "[]"
