from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage
from scipy.spatial.transform import Rotation

from neurocontrast.transforms.rand_space import BrainAffine, Cutout, box_of, crop_resize


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


def test_cutout_sets_the_box_and_nothing_else(volume):
    where = {"fraction": 0.3, "place": (0.1, 0.99, 0.5)}
    cut = Cutout(value=7.0).change(volume, **where)
    inside = torch.zeros_like(volume, dtype=torch.bool)
    inside[:, *box_of(volume.shape[1:], **where)] = True
    assert (cut[inside] == 7.0).all()
    assert torch.equal(cut[~inside], volume[~inside])
    assert (volume != 7.0).all()


def test_crop_resize_is_scipys_away_from_the_border(volume):
    box = volume[0, 2:14, 3:17, 1:13].double().numpy()
    factors = [side / length for side, length in zip(volume.shape[1:], box.shape, strict=True)]
    expected = ndimage.zoom(box, factors, order=1, mode="mirror", grid_mode=True)
    resized = crop_resize(volume, box=(slice(2, 14), slice(3, 17), slice(1, 13)))[0].numpy()
    assert resized.shape == volume.shape[1:]
    middle = (slice(1, -1),) * 3
    np.testing.assert_allclose(resized[middle], expected[middle], atol=1e-5)


def test_cropping_everything_changes_nothing(volume):
    torch.testing.assert_close(crop_resize(volume, box=(slice(None),) * 3), volume)


def test_boxes_are_the_published_size_and_reach_every_border():
    shape = (12, 14, 13)
    first, last = (box_of(shape, fraction=0.25, place=[place] * 3) for place in (0.0, 1.0 - 1e-9))
    assert [box.stop - box.start for box in first] == [3, 4, 4]  # a quarter, rounded up
    assert [box.start for box in first] == [0, 0, 0]
    assert [box.stop for box in last] == [12, 14, 13]
    assert [box.stop - box.start for box in box_of((4, 4, 4), fraction=0.75, place=[0.0] * 3)] == [3, 3, 3]
