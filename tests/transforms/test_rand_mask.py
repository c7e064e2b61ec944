from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage

from neurocontrast.transforms.rand_mask import cut_rim, leave_rim

FLAT = np.zeros((2, 2, 2))


def array(x: torch.Tensor) -> np.ndarray:
    return x[0].numpy().astype(np.float64)


def ball(radius: float = 12.0, side: int = 33) -> torch.Tensor:
    places = np.stack(np.meshgrid(*[np.arange(side) - side // 2] * 3, indexing="ij"))
    return torch.from_numpy((places**2).sum(0) < radius**2)[None]


def slab() -> torch.Tensor:
    brain = torch.zeros(1, 24, 26, 26, dtype=torch.bool)
    brain[:, 6:] = True
    return brain


@pytest.mark.parametrize(
    ("depth", "expected"), [(0.0, [1, 1, 1, 1]), (0.5, [0.5, 1, 1, 1]), (1.0, [0, 1, 1, 1]), (2.0, [0, 0, 1, 1])]
)
def test_at_a_flat_surface_whole_voxels_are_cut_and_half_ones_in_half(depth, expected):
    signal, brain = cut_rim(slab().float(), slab(), depth_voxels=depth, coefficients=FLAT)
    np.testing.assert_allclose(signal[0, 6:10, 13, 13], expected, atol=0.1)
    assert torch.equal(brain, signal > 0.0)
    assert (signal[:, :6] == 0.0).all()


@pytest.mark.parametrize("depth", [0.5, 1.0, 2.0, 3.0])
def test_of_a_ball_about_the_depth_asked_is_cut(depth):
    distance = ndimage.distance_transform_edt(ball()[0].numpy()) - 0.5
    signal, brain = cut_rim(ball().float(), ball(), depth_voxels=depth, coefficients=FLAT)
    kept = array(signal)
    assert kept[distance > depth + 1.2].min() == 1.0
    assert kept[(distance < depth - 0.7) & (distance > -0.5)].sum() == 0.0
    assert not brain[~ball()].any()


def test_only_the_dark_part_of_a_rim_is_cut():
    signal = ball() * torch.rand(1, 33, 33, 33, generator=torch.Generator().manual_seed(0)).clamp(min=0.02)
    cut, brain = cut_rim(signal, ball(), depth_voxels=2.0, coefficients=FLAT, below=0.4)
    dark, bright = signal < 0.35, (signal > 0.45) & ball()
    assert torch.equal(cut[bright], signal[bright])
    distance = torch.from_numpy(ndimage.distance_transform_edt(ball()[0].numpy()))[None] - 0.5
    outer, inner = ball() & (distance < 1.2), distance > 3.2
    assert not brain[outer & dark].any()
    assert torch.equal(cut[inner], signal[inner])


@pytest.mark.parametrize("depth", [0.4, 1.0, 2.0])
def test_a_rim_is_left_around_the_brain_and_only_there(depth):
    signal, brain = leave_rim(0.8 * ball(9.0).float(), ball(9.0), depth_voxels=depth, coefficients=FLAT, rim=0.5)
    assert (signal[ball(9.0)] == 0.8).all()
    outside = ndimage.distance_transform_edt(~ball(9.0)[0].numpy()) - 0.5
    values = array(signal)
    # Half a voxel outside, and on a curved surface a little less than on a flat one.
    assert values[outside == 0.5].mean() == pytest.approx(0.4 * min(1.0, depth), rel=0.2)
    assert values.max(where=~ball(9.0)[0].numpy(), initial=0.0) <= 0.4 + 1e-6
    assert values[outside > depth + 0.7].max() == 0.0
    assert not brain[0].numpy()[outside > depth + 0.7].any()
    assert brain[ball(9.0)].all()
    assert brain.sum() > ball(9.0).sum()


def test_the_depth_differs_from_place_to_place():
    coefficients = np.zeros((2, 2, 2))
    coefficients[1, 0, 0] = 1.0  # from −1 to 1 along the first axis
    signal, _ = cut_rim(ball().float(), ball(), depth_voxels=1.0, coefficients=coefficients)
    distance = ndimage.distance_transform_edt(ball()[0].numpy())
    lost = [((distance[part] > 0) & (array(signal)[part] < 0.5)).sum() for part in (slice(0, 11), slice(22, 33))]
    assert lost[1] > 2 * lost[0]


def test_cutting_never_adds_and_leaving_never_cuts():
    coefficients = np.zeros((2, 2, 2))
    coefficients[1, 0, 0] = 3.0
    cut, cut_brain = cut_rim(ball().float(), ball(), depth_voxels=0.1, coefficients=coefficients)
    left, left_brain = leave_rim(ball().float(), ball(), depth_voxels=0.1, coefficients=coefficients, rim=0.5)
    assert not (cut_brain & ~ball()).any()
    assert (cut[~ball()] == 0.0).all()
    assert left_brain[ball()].all()
    assert (left[ball()] == 1.0).all()
