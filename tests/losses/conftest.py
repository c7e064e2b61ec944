"""Fixtures of the tests of the losses."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

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
def naive() -> SimpleNamespace:
    """The double loops of ``naive.py`` and ``naive_kernels.py``, written from the formulas alone."""
    return SimpleNamespace(**(vars(_beside("naive_kernels")) | vars(_beside("naive"))))


@pytest.fixture(scope="session")
def random_batch():
    """``random_batch(n, d, seed=…, n_labels=…)``: two views and their metadata, in float64."""
    return _beside("specimens").random_batch


@pytest.fixture
def hold(monkeypatch):
    """``hold(n)``: have losses hold no more than n × n similarities at once; None for as many as they like."""

    def set_limit(n: int | None) -> None:
        monkeypatch.setattr(core, "AT_ONCE", 2**20 if n is None else n * n)
        monkeypatch.setattr(core, "FEWEST", 1)

    return set_limit


_SPECIMENS = {
    "specimen": lambda module: module.SPECIMENS,
    # Formulas over all embeddings, of any views that the loss takes.
    "pooled": lambda module: [
        each for each in module.SPECIMENS if not each.name.startswith(("infonce", "alignment-uniformity", "cclk"))
    ],
    "prediction": lambda module: module.PREDICTIONS,
    # CCL-K solves an n × n system; the mean over observed pairs is streamed by the kernel.
    "tiled": lambda module: [
        each for each in module.SPECIMENS if not each.name.startswith("cclk") and not each.name.endswith("missing")
    ],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for every loss of the kind that its argument names."""
    for name, of in _SPECIMENS.items():
        if name in metafunc.fixturenames:
            specimens = of(_beside("specimens"))
            metafunc.parametrize(name, specimens, ids=[specimen.name for specimen in specimens])
