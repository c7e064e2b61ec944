from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from neurocontrast.data.scans import Scan
from neurocontrast.data.simulation import SimulationSettings, draw_person, render_scan
from neurocontrast.data.volumes import Preprocessing, preprocess

LANDMARKS = tuple(np.linspace(0.0, 100.0, 11).tolist())


@functools.lru_cache(maxsize=4)
def _raw_brain(index: int) -> np.ndarray:
    settings = SimulationSettings(spacing_mm=6.0)
    return render_scan(settings, draw_person(settings, index)).astype(np.float32)


@functools.lru_cache(maxsize=32)
def _brain(normalise: str, index: int) -> torch.Tensor:
    voxels = _raw_brain(index)
    settings = {"spacing_mm": None, "shape": voxels.shape, "normalise": normalise}
    if normalise == "histogram":
        settings["landmarks"] = LANDMARKS
    made = preprocess(Scan(voxels, (6.0, 6.0, 6.0)), Preprocessing.model_validate(settings))
    return torch.from_numpy(made).half().float()


@pytest.fixture(scope="session")
def raw_brain() -> Callable[[int], np.ndarray]:
    """One person's simulated scan at 6 mm: skull-stripped, its background 0."""
    return _raw_brain


@pytest.fixture(scope="session")
def brain() -> Callable[[str, int], torch.Tensor]:
    """The scan as the data stage gives it, normalised in a way, through a cache in half precision: (1, D, H, W)."""
    return _brain


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Two threads in PyTorch's operations, as many as were set before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
