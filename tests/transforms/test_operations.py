"""Each random operation on volumes against a plain form of its definition."""

import math

import numpy as np
import pytest
import torch
from monai.data import MetaTensor
from numpy.polynomial.legendre import leggrid3d
from scipy import ndimage, stats

from neurocontrast.transforms import (
    RandBrainBiasFieldd,
    RandBrainRiciand,
    RandBrainSharpnessd,
    RandCutoutd,
    RandNoised,
    RandResizedCropd,
)
from neurocontrast.transforms.rand_intensity import blur
from neurocontrast.transforms.rand_parts import cut_rim, leave_rim
from neurocontrast.transforms.rand_place import boxes_of

FLAT = np.zeros((1, 2, 2, 2))
UNEVEN = np.zeros((1, 2, 2, 2))
UNEVEN[0, 1, 0, 0] = 1.0  # from −1 to 1 along the first axis


def of_one(change, *volumes, **numbers):
    """Return what an operation makes of one volume, as a batch of one, by numbers of one sample."""
    batches = [volume[None].float().clone() for volume in volumes]
    arrays = {name: np.asarray(value)[None] for name, value in numbers.items()}
    made = change(*batches, **arrays)
    return tuple(each[0] for each in made) if isinstance(made, tuple) else made[0]


def rim(change, signal, brain, *, depth, coefficients=FLAT, **numbers):
    """Return signal and brain with another rim."""
    fields = {"depth_voxels": depth, "coefficients": coefficients[0]}
    signal, brain = of_one(change, signal, brain, **fields, **numbers)
    assert ((brain == 0) | (brain == 1)).all()
    return signal, brain == 1


def box_of(shape, *, fraction, place):
    """Return the slices of a box."""
    corners, sizes = boxes_of(shape, fraction=np.array([fraction]), place=np.array([place]))
    pairs = zip(corners[0].tolist(), sizes[0].tolist(), strict=True)
    return tuple(slice(corner, corner + size) for corner, size in pairs)


@pytest.fixture
def volume():
    return torch.rand(1, 15, 18, 16, generator=torch.Generator().manual_seed(1))


def array(x: torch.Tensor) -> np.ndarray:
    return x[0].numpy().astype(np.float64)


# --- detail
# ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sigma", [0.0, 0.1, 0.55, 1.0, 2.0])
def test_blur_is_scipys_with_the_nearest_voxel_beyond_the_border(volume, sigma):
    expected = ndimage.gaussian_filter(volume[0].numpy(), sigma, mode="nearest")
    np.testing.assert_allclose(
        of_one(blur, volume, sigma_voxels=sigma)[0].numpy(), expected, atol=2e-6
    )


@pytest.mark.parametrize("amount", [-1.0, -0.4, 0.0, 1.2])
def test_sharpen_is_an_unsharp_mask_that_leaves_a_quarter(volume, amount):
    smooth = ndimage.gaussian_filter(array(volume), 0.8, mode="nearest")
    expected = np.maximum(array(volume) + amount * (array(volume) - smooth), 0.25 * array(volume))
    sharp = of_one(RandBrainSharpnessd("image", sigma_voxels=0.8).change, volume, amount=amount)
    np.testing.assert_allclose(array(sharp), expected, atol=5e-6)


# --- intensities
# -----------------------------------------------------------------------------------------------------
def test_bias_field_is_numpys_legendre_polynomial(volume):
    coefficients = 0.2 * np.random.default_rng(0).standard_normal((4, 4, 4))
    places = [(2 * np.arange(side) + 1) / side - 1 for side in volume.shape[1:]]
    expected = array(volume) * np.exp(leggrid3d(*places, coefficients))
    change = RandBrainBiasFieldd("image").change
    found = of_one(change, volume, strength=0.5, coefficients=2.0 * coefficients)
    np.testing.assert_allclose(array(found), expected, rtol=2e-5)


def test_noise_is_gaussian_and_of_the_asked_size():
    volume = torch.full((1, 40, 40, 40), 2.0)
    noisy = of_one(RandNoised("image").change, volume, sigma=0.3, seed=0)
    values = (noisy - volume).numpy().ravel()
    assert stats.kstest(values[::7], stats.norm(scale=0.3).cdf).pvalue > 0.01


@pytest.mark.parametrize("operation", [RandNoised("image"), RandBrainRiciand("image")])
def test_each_volume_has_the_noise_of_its_own_seed(volume, operation):
    both = volume.expand(2, 1, -1, -1, -1).clone()
    noisy = operation.change(both, sigma=np.array([0.1, 0.1]), seed=np.array([7, 8]))
    for row, seed in enumerate((7, 8)):
        assert torch.equal(noisy[row], of_one(operation.change, volume, sigma=0.1, seed=seed))
    correlation = np.corrcoef(*(noisy[:, 0] - volume).flatten(1).numpy())[0, 1]
    assert abs(correlation) < 0.1


@pytest.mark.parametrize("signal", [0.0, 0.1, 1.0])
def test_rician_noise_is_scipys_rice_distribution(signal):
    volume = torch.full((1, 30, 30, 30), signal)
    noisy = of_one(RandBrainRiciand("image").change, volume, sigma=0.05, seed=0)
    assert (
        stats.kstest(noisy.numpy().ravel(), stats.rice(b=signal / 0.05, scale=0.05).cdf).pvalue
        > 0.01
    )
    assert (volume == signal).all()


# --- boxes
# -----------------------------------------------------------------------------------------------------------
def test_cutout_sets_the_box_and_nothing_else(volume):
    where = {"fraction": 0.3, "place": (0.1, 0.99, 0.5)}
    cut = of_one(RandCutoutd("image", value=7.0).change, volume, **where)
    inside = torch.zeros_like(volume, dtype=torch.bool)
    inside[:, *box_of(volume.shape[1:], **where)] = True
    assert (cut[inside] == 7.0).all()
    assert torch.equal(cut[~inside], volume[~inside])
    assert (volume != 7.0).all()


def test_a_resized_crop_is_scipys_away_from_the_border_and_its_affine_is_true(volume):
    where = {"fraction": 0.75, "place": (0.5, 0.5, 0.5)}
    box = box_of(volume.shape[1:], **where)
    part = array(volume)[box]
    factors = [side / length for side, length in zip(volume.shape[1:], part.shape, strict=True)]
    expected = ndimage.zoom(part, factors, order=1, mode="mirror", grid_mode=True)
    change = RandResizedCropd("image").change
    middle = (slice(1, -1),) * 3
    np.testing.assert_allclose(
        array(of_one(change, volume, **where))[middle], expected[middle], atol=1e-5
    )
    assert torch.equal(of_one(change, volume, fraction=1.0, place=(0, 0, 0)), volume)
    made = RandResizedCropd("image", prob=1.0)({"image": MetaTensor(volume)})["image"]
    assert made.pixdim.tolist() == pytest.approx([12 / 15, 14 / 18, 12 / 16])


def test_boxes_are_the_published_size_and_reach_every_border():
    shape = (12, 14, 13)
    first, last = (box_of(shape, fraction=0.25, place=[place] * 3) for place in (0.0, 1.0 - 1e-9))
    assert [box.stop - box.start for box in first] == [3, 4, 4]  # a quarter, rounded up
    assert [box.start for box in first] == [0, 0, 0]
    assert [box.stop for box in last] == [12, 14, 13]
    assert [box.stop - box.start for box in box_of((4, 4, 4), fraction=0.75, place=[0.0] * 3)] == [
        3,
        3,
        3,
    ]


# --- the edge of the brain
# -------------------------------------------------------------------------------------------
def ball(radius: float = 12.0, side: int = 33) -> torch.Tensor:
    places = np.stack(np.meshgrid(*[np.arange(side) - side // 2] * 3, indexing="ij"))
    return torch.from_numpy((places**2).sum(0) < radius**2)[None]


@pytest.mark.parametrize(
    ("depth", "expected"),
    [(0.0, [1, 1, 1, 1]), (0.5, [0.5, 1, 1, 1]), (1.0, [0, 1, 1, 1]), (2.0, [0, 0, 1, 1])],
)
def test_at_a_flat_surface_whole_voxels_are_cut_and_half_ones_in_half(depth, expected):
    slab = torch.zeros(1, 24, 26, 26, dtype=torch.bool)
    slab[:, 6:] = True
    signal, brain = rim(cut_rim, slab.float(), slab, depth=depth)
    np.testing.assert_allclose(signal[0, 6:10, 13, 13], expected, atol=0.1)
    assert torch.equal(brain, signal > 0.0)
    assert (signal[:, :6] == 0.0).all()


@pytest.mark.parametrize("depth", [0.5, 3.0])
def test_of_a_ball_about_the_depth_asked_is_cut(depth):
    distance = ndimage.distance_transform_edt(ball()[0].numpy()) - 0.5
    signal, brain = rim(cut_rim, ball().float(), ball(), depth=depth)
    kept = array(signal)
    assert kept[distance > depth + 1.2].min() == 1.0
    assert kept[(distance < depth - 0.7) & (distance > -0.5)].sum() == 0.0
    assert not brain[~ball()].any()


def test_only_the_dark_part_of_a_rim_is_cut():
    signal = ball() * torch.rand(1, 33, 33, 33, generator=torch.Generator().manual_seed(0)).clamp(
        min=0.02
    )
    cut, brain = rim(cut_rim, signal, ball(), depth=2.0, below=0.4)
    dark = signal < 0.35
    bright = (signal > 0.45) & ball()
    assert torch.equal(cut[bright], signal[bright])
    distance = torch.from_numpy(ndimage.distance_transform_edt(ball()[0].numpy()))[None] - 0.5
    outer = ball() & (distance < 1.2)
    inner = distance > 3.2
    assert not brain[outer & dark].any()
    assert torch.equal(cut[inner], signal[inner])


@pytest.mark.parametrize("depth", [0.4, 2.0])
def test_a_rim_is_left_around_the_brain_and_only_there(depth):
    signal, brain = rim(leave_rim, 0.8 * ball(9.0).float(), ball(9.0), depth=depth, rim=0.5)
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


def test_the_depth_differs_from_place_to_place_and_cutting_never_adds_nor_leaving_cuts():
    signal, brain = rim(cut_rim, ball().float(), ball(), depth=1.0, coefficients=UNEVEN)
    distance = ndimage.distance_transform_edt(ball()[0].numpy())
    lost = [
        ((distance[part] > 0) & (array(signal)[part] < 0.5)).sum()
        for part in (slice(0, 11), slice(22, 33))
    ]
    assert lost[1] > 2 * lost[0]
    assert not (brain & ~ball()).any()
    left, left_brain = rim(
        leave_rim, ball().float(), ball(), depth=0.1, coefficients=3.0 * UNEVEN, rim=0.5
    )
    assert left_brain[ball()].all()
    assert (left[ball()] == 1.0).all()
    assert math.isfinite(float(left.sum()))
