from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage
from scipy.spatial.transform import Rotation

from neurocontrast.transforms.rand_affine import BrainAffine


@pytest.fixture
def volume():
    return torch.rand(1, 15, 18, 16, generator=torch.Generator().manual_seed(1))


def array(x: torch.Tensor) -> np.ndarray:
    return x[0].numpy().astype(np.float64)


def ball(radius: float = 12.0, side: int = 33) -> torch.Tensor:
    places = np.stack(np.meshgrid(*[np.arange(side) - side // 2] * 3, indexing="ij"))
    return torch.from_numpy((places**2).sum(0) < radius**2)[None]


@pytest.mark.parametrize(
    ("angles", "translation", "scales"),
    [((0, 0, 0), (0, 0, 0), 1.0), ((7, -4, 11), (0.6, -1.3, 2.0), 1.0), ((0, 9, 0), (0, 0, 0.5), (0.9, 1.1, 1.05))],
)
def test_move_is_scipys_affine_transform(volume, angles, translation, scales):
    matrix = Rotation.from_euler("xyz", angles, degrees=True).as_matrix() / np.array(scales)
    centre = (np.array(volume.shape[1:]) - 1) / 2
    offset = centre - matrix @ centre + translation
    moved, _ = BrainAffine().change_brain(volume, volume > 0.0, matrix=matrix, translation=translation)
    expected = ndimage.affine_transform(array(volume), matrix, offset, order=1, mode="grid-constant")
    np.testing.assert_allclose(array(moved), expected, atol=2e-5)


def test_move_keeps_the_size_of_the_brain():
    brain = ball()
    matrix = Rotation.from_euler("xyz", (5, -8, 3), degrees=True).as_matrix()
    for shift in (0.0, 0.25, 0.5):
        _, moved = BrainAffine().change_brain(brain.float(), brain, matrix=matrix, translation=(shift, -shift, shift))
        assert moved.sum() == pytest.approx(int(brain.sum()), rel=0.01)
