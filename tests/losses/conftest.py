"""Fixtures of the tests of the losses."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from neurocontrast.losses import core


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


@pytest.fixture
def hold(monkeypatch):
    """``hold(n)``: have losses hold no more than n × n similarities at once; None for as many as they like."""

    def set_limit(n: int | None) -> None:
        monkeypatch.setattr(core, "AT_ONCE", 2**20 if n is None else n * n)

    return set_limit


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``specimen`` once for every loss, one with ``prediction`` for those that predict."""
    for name, of in (("specimen", "SPECIMENS"), ("prediction", "PREDICTIONS")):
        if name in metafunc.fixturenames:
            specimens = getattr(_beside("specimens"), of)
            metafunc.parametrize(name, specimens, ids=[specimen.name for specimen in specimens])
