"""Fixtures that every part of the tests uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder of shared data and reference values beside the checkout."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        message = f"needs the shared data folder beside the checkout ({folder.name}/), which is absent"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder
