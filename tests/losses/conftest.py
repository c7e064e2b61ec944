"""Fixtures of the tests of the losses."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def naive() -> ModuleType:
    """The double loops of ``naive.py``, written from the formulas alone."""
    spec = importlib.util.spec_from_file_location("naive_losses", Path(__file__).with_name("naive.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
