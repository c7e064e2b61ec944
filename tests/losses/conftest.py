"""Fixtures of the tests of the losses."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _beside(name: str) -> ModuleType:
    """Import a module that stands beside this file."""
    spec = importlib.util.spec_from_file_location(f"tests_losses_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def naive() -> ModuleType:
    """The double loops of ``naive.py``, written from the formulas alone."""
    return _beside("naive")


@pytest.fixture(scope="session")
def random_batch():
    """``random_batch(n, d, seed=…, n_labels=…)``: two views and their metadata, in float64."""
    return _beside("specimens").random_batch


def _is_tiled(specimen: object) -> bool:
    return "tile" in inspect.signature(type(specimen.build()).__init__).parameters


def _has_closed_form(specimen: object) -> bool:
    return getattr(specimen.build(), "closed_form", None) is not None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``specimen`` once for every loss, ``tiled_`` or ``closed_specimen`` for those that are."""
    wanted = {"specimen": lambda _: True, "tiled_specimen": _is_tiled, "closed_specimen": _has_closed_form}
    for name in wanted.keys() & set(metafunc.fixturenames):
        specimens = [specimen for specimen in _beside("specimens").SPECIMENS if wanted[name](specimen)]
        metafunc.parametrize(name, specimens, ids=[specimen.name for specimen in specimens])
