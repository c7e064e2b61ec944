import functools

import numpy as np
import pytest
import torch

from neurocontrast.data.simulation import SimulationSettings, draw_person, render_scan
from neurocontrast.transforms import brain_views
from neurocontrast.transforms.images import to_image
from neurocontrast.transforms.preprocessing import Preprocessing

AT_SITE = ("affine", "contrast", "bias_field", "sharpness", "rician", "tight_mask", "mask_edge")
"""Operations that imitate another site."""


def view_of(x, settings, seed=0):
    """Return a view of a volume (1, D, H, W)."""
    return brain_views(settings).set_random_state(seed=seed)({"image": x})["image"]


@functools.lru_cache(maxsize=4)
def raw_brain(index: int) -> np.ndarray:
    """Return one person's simulated scan at 6 mm: skull-stripped, its background 0."""
    settings = SimulationSettings(spacing_mm=6.0)
    return render_scan(settings, draw_person(settings, index)).astype(np.float32)


@functools.lru_cache(maxsize=32)
def normalised_brain(normalise: str, index: int) -> torch.Tensor:
    """Return the scan as the data stage gives it, through a cache in half precision: (1, D, H, W)."""
    voxels = raw_brain(index)
    settings = {"spacing_mm": None, "shape": voxels.shape, "normalise": normalise}
    image = to_image(voxels[np.newaxis], np.diag([6.0, 6.0, 6.0, 1.0]))
    made = Preprocessing.model_validate(settings).compose()({"image": image}, start=1)
    return made["image"].as_tensor().half().float()


@pytest.fixture
def voxels_of_head() -> np.ndarray:
    """A ball of grey matter around one of white, with fluid at the edge, 4 mm: sizes as in a brain."""
    grid = np.indices((40, 44, 40)) - (np.array([40, 44, 40])[:, None, None, None] - 1) / 2
    radius = np.sqrt((grid**2).sum(axis=0)) * 4
    voxels = np.select([radius < 48, radius < 66, radius < 70], [200.0, 140.0, 40.0], 0.0)
    noise = np.random.default_rng(0).normal(0, 8, voxels.shape)
    return np.where(voxels > 0, np.clip(voxels + noise, 1, None), 0).astype(np.float32)
