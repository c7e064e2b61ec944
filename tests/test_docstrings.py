"""Docstrings of the public classes and functions follow numpydoc, and those that people compose have an example."""

import importlib
import inspect

import pytest
from numpydoc.validate import validate

import neurocontrast

PACKAGES = ("config", "data", "embedding", "encoders", "evaluation", "explanation", "findings", "kernels", "losses")
PACKAGES += ("datasets", "training", "transforms")
NOT_ASKED = {
    "ES01",  # an extended summary
    "SA01",  # See Also
    "EX01",  # examples, but for the classes below
    "PR03",  # the order of parameters: inherited ones come first in signatures
    "PR04",  # types of parameters: annotations give them
    "RT01",  # Returns, of functions whose first line says what they return
    "RT02",  # names of return values
    "YD01",  # Yields
}
WITH_EXAMPLES = ("kernels", "losses", "transforms")
NOT_MADE_BY_PEOPLE = {"Kernel", "ColumnKernel", "Objective", "LossSettings"}
"""Bases."""
SPLITTERS = ("SiteStratifiedGroupKFold", "LeaveSiteOut")


def public(package):
    module = importlib.import_module(f"neurocontrast.{package}")
    found = (getattr(module, name) for name in module.__all__)
    return {item for item in found if inspect.isclass(item) or inspect.isfunction(item)}


def path(item):
    return f"{item.__module__}.{item.__qualname__}"


COMMANDS = {getattr(neurocontrast, name) for name in neurocontrast.__all__}
PUBLIC = sorted({path(item) for package in PACKAGES for item in public(package)} | {path(item) for item in COMMANDS})


def test_docstrings_follow_numpydoc():
    problems = []
    for name in PUBLIC:
        found = validate(name)
        # One line is enough where the names of the parameters say what they are; a list of them is whole or absent.
        not_asked = NOT_ASKED if "Parameters" in found["docstring"] else NOT_ASKED | {"PR01"}
        problems += [f"{name}: {code}: {message}" for code, message in found["errors"] if code not in not_asked]
    # A signature with keywords of all kinds does not tell which there are; the docstring does.
    open_signature = ("'*args'", "'**kwargs'", "'**ranges'", "Unknown parameters")
    assert [problem for problem in problems if not any(part in problem for part in open_signature)] == []
    assert len(PUBLIC) > 100


@pytest.mark.parametrize("package", WITH_EXAMPLES)
def test_every_public_class_has_an_example_that_doctest_runs(package):
    classes = {item for item in public(package) if inspect.isclass(item)}
    classes = {item for item in classes if item.__name__ not in NOT_MADE_BY_PEOPLE}
    assert sorted(path(item) for item in classes if ">>> " not in (item.__doc__ or "")) == []


@pytest.mark.parametrize("name", SPLITTERS)
def test_every_splitter_has_an_example_that_doctest_runs(name):
    assert ">>> " in inspect.getdoc(getattr(importlib.import_module("neurocontrast.evaluation"), name))
