"""Public names are listed, loaded or not; their docstrings follow numpydoc, and what people compose has an example."""

import importlib
import inspect
import re

import pytest
from numpydoc.validate import validate

import neurocontrast
from neurocontrast.evaluation import LeaveSiteOut, SiteStratifiedGroupKFold

PACKAGES = (
    "config",
    "data",
    "embedding",
    "encoders",
    "evaluation",
    "evaluation.measure",
    "explanation",
    "kernels",
    "losses",
)
PACKAGES += ("datasets", "natural", "training", "transforms")
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
WITH_EXAMPLES = ("kernels", "losses", "natural", "transforms")
NOT_MADE_BY_PEOPLE = {"Kernel", "ColumnKernel", "Objective", "LossSettings"}
"""Bases."""
SPLITTERS = {LeaveSiteOut, SiteStratifiedGroupKFold}


def public(package):
    module = importlib.import_module(f"neurocontrast.{package}")
    found = (getattr(module, name) for name in module.__all__)
    return {item for item in found if inspect.isclass(item) or inspect.isfunction(item)}


def path(item):
    return f"{item.__module__}.{item.__qualname__}"


COMMANDS = {getattr(neurocontrast, name) for name in neurocontrast.__all__}
PUBLIC = sorted(
    {path(item) for package in PACKAGES for item in public(package)}
    | {path(item) for item in COMMANDS}
)


def test_docstrings_follow_numpydoc():
    problems = []
    for name in PUBLIC:
        found = validate(name)
        # One line is enough where the names of the parameters say what they are; a list of them is
        # whole or absent.
        not_asked = NOT_ASKED if "Parameters" in found["docstring"] else NOT_ASKED | {"PR01"}
        problems += [
            f"{name}: {code}: {message}"
            for code, message in found["errors"]
            if code not in not_asked
        ]
    # A signature with keywords of all kinds does not tell which there are; the docstring does.
    open_signature = ("'*args'", "'**kwargs'", "Unknown parameters")
    assert [
        problem for problem in problems if not any(part in problem for part in open_signature)
    ] == []
    assert len(PUBLIC) > 100


REFERENCE = re.compile(r"(?<![`\w.])[A-Za-z]\w*_(?=[\s,.;:)]|$)")
"""A word of reStructuredText that ends with an underscore is a link, and docutils misses its target."""


def linked_words(docstring):
    """Return the words of a docstring that docutils reads as links, names of parameters apart."""
    lines = [line for line in docstring.splitlines() if not re.match(r"[\w\s,]+ : ", line)]
    prose = re.sub(r"``.*?``|>>> .*|`[^`]*`_?", "", "\n".join(lines), flags=re.DOTALL)
    return REFERENCE.findall(prose)


def test_no_word_of_a_docstring_is_a_link_without_a_target():
    assert linked_words("Shape (n, width_), see ``fit_`` and `a link`_.") == ["width_"]
    docstrings = {}
    for name in PUBLIC:
        module, _, attribute = name.rpartition(".")
        item = getattr(importlib.import_module(module), attribute)
        docstrings[name] = inspect.getdoc(item) or ""
        for method, function in vars(item).items() if inspect.isclass(item) else ():
            docstrings[f"{name}.{method}"] = inspect.getdoc(function) or ""
    links = {name: linked_words(docstring) for name, docstring in docstrings.items()}
    assert {name: words for name, words in links.items() if words} == {}


def test_every_public_class_that_people_compose_has_an_example_that_doctest_runs():
    classes = {
        item for package in WITH_EXAMPLES for item in public(package) if inspect.isclass(item)
    }
    classes = {item for item in classes if item.__name__ not in NOT_MADE_BY_PEOPLE} | SPLITTERS
    assert len(classes) > 40
    assert sorted(path(item) for item in classes if ">>> " not in (item.__doc__ or "")) == []


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_lists_the_public_names(name):
    package = importlib.import_module(f"neurocontrast.{name}")
    assert set(package.__all__) <= set(dir(package))
    assert all(getattr(package, public) is not None for public in package.__all__)


@pytest.mark.parametrize(
    "name", ["losses", "data", "transforms", "embedding", "encoders", "natural", "training"]
)
def test_dir_of_a_lazy_package_lists_nothing_else(name):
    package = importlib.import_module(f"neurocontrast.{name}")
    assert {public for public in dir(package) if not public.startswith("__")} == set(
        package.__all__
    )


def test_packages_are_found_from_the_root():
    assert {*neurocontrast.__all__, "losses", "kernels", "evaluation"} <= set(dir(neurocontrast))
    assert not {"Any", "import_module", "annotations", "TYPE_CHECKING"} & set(dir(neurocontrast))
    assert neurocontrast.kernels.Gaussian.__module__.startswith("neurocontrast.kernels")
    for name in ("index", "pretrain", "qc"):
        assert callable(getattr(neurocontrast, name))
