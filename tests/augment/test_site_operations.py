from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.polynomial.legendre import leggrid3d
from scipy import ndimage, stats
from scipy.spatial.transform import Rotation

from neurocontrast.augment import site_operations as operations

FLAT = np.zeros((2, 2, 2))


@pytest.fixture
def volume():
    return torch.rand(1, 15, 18, 16, generator=torch.Generator().manual_seed(1))


def array(x: torch.Tensor) -> np.ndarray:
    return x[0].numpy().astype(np.float64)


def ball(radius: float = 12.0, side: int = 33) -> torch.Tensor:
    places = np.stack(np.meshgrid(*[np.arange(side) - side // 2] * 3, indexing="ij"))
    return torch.from_numpy((places**2).sum(0) < radius**2)[None]


# --- position --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("angles", "translation", "scales"),
    [((0, 0, 0), (0, 0, 0), 1.0), ((7, -4, 11), (0.6, -1.3, 2.0), 1.0), ((0, 9, 0), (0, 0, 0.5), (0.9, 1.1, 1.05))],
)
def test_move_is_scipys_affine_transform(volume, angles, translation, scales):
    matrix = Rotation.from_euler("xyz", angles, degrees=True).as_matrix() / np.array(scales)
    centre = (np.array(volume.shape[1:]) - 1) / 2
    offset = centre - matrix @ centre + translation
    moved, _ = operations.move(volume, volume > 0.0, matrix=matrix, translation=translation)
    expected = ndimage.affine_transform(array(volume), matrix, offset, order=1, mode="grid-constant")
    np.testing.assert_allclose(array(moved), expected, atol=2e-5)


def test_move_keeps_the_size_of_the_brain():
    brain = ball()
    matrix = Rotation.from_euler("xyz", (5, -8, 3), degrees=True).as_matrix()
    for shift in (0.0, 0.25, 0.5):
        _, moved = operations.move(brain.float(), brain, matrix=matrix, translation=(shift, -shift, shift))
        assert moved.sum() == pytest.approx(int(brain.sum()), rel=0.01)


# --- intensity -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("gamma", [0.5, 1.0, 1.7])
def test_gamma_is_a_power_of_the_signal(volume, gamma):
    np.testing.assert_allclose(array(operations.adjust_gamma(volume, gamma=gamma)), array(volume) ** gamma, atol=1e-6)


def test_gamma_takes_what_lies_below_0_for_0():
    assert operations.adjust_gamma(torch.tensor([-1e-7, 0.0, 2.0]), gamma=0.5).tolist() == [
        0.0,
        0.0,
        pytest.approx(2**0.5),
    ]


@pytest.mark.parametrize("slopes", [(1.0, 1.0), (0.5, 2.0, 1.0), (1.0, 3.0, 0.2, 0.7, 1.1)])
def test_histogram_is_numpys_interpolation(volume, slopes):
    knots, values = np.linspace(0, 1, len(slopes) + 1), np.cumsum([0.0, *slopes]) / np.sum(slopes)
    mapped = array(operations.remap_histogram(volume, slopes=slopes))
    np.testing.assert_allclose(mapped, np.interp(array(volume), knots, values), atol=1e-6)
    assert operations.remap_histogram(torch.zeros(1), slopes=slopes).item() == 0.0


def test_histogram_goes_on_beyond_one():
    beyond = operations.remap_histogram(torch.tensor([1.0, 1.5]), slopes=(1.0, 3.0))
    assert beyond.tolist() == pytest.approx([1.0, 1.0 + 0.5 * 3.0 / 2.0])


def test_bias_field_is_numpys_legendre_polynomial(volume):
    coefficients = 0.2 * np.random.default_rng(0).standard_normal((4, 4, 4))
    places = [(2 * np.arange(side) + 1) / side - 1 for side in volume.shape[1:]]
    expected = array(volume) * np.exp(leggrid3d(*places, coefficients))
    np.testing.assert_allclose(array(operations.bias_field(volume, coefficients=coefficients)), expected, rtol=2e-5)


# --- sharpness and resolution ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("amount", [-1.0, -0.4, 0.0, 1.2])
def test_sharpen_is_an_unsharp_mask_that_leaves_a_quarter(volume, amount):
    smooth = ndimage.gaussian_filter(array(volume), 0.8)
    expected = np.maximum(array(volume) + amount * (array(volume) - smooth), 0.25 * array(volume))
    sharp = operations.sharpen(volume, amount=amount, sigma_voxels=0.8)
    np.testing.assert_allclose(array(sharp), expected, atol=5e-6)


def test_sharpen_fits_its_gaussian_into_a_small_volume(volume):
    assert operations.sharpen(volume[:, :7], amount=1.0, sigma_voxels=3.0).isfinite().all()


def test_slices_of_one_voxel_change_nothing():
    np.testing.assert_allclose(operations.slice_matrix(9, factor=1.0, phase=0.0), np.eye(9), atol=1e-12)


def test_slices_of_two_voxels_are_means_with_lines_between():
    line = np.random.default_rng(0).standard_normal(10)
    acquired = line.reshape(5, 2).mean(1)
    expected = np.interp(np.arange(10) + 0.5, np.arange(5) * 2 + 1.0, acquired)
    np.testing.assert_allclose(operations.slice_matrix(10, factor=2.0, phase=0.0) @ line, expected)


@pytest.mark.parametrize("side", [8, 15])
@pytest.mark.parametrize("factor", [1.0, 1.3, 2.5, 8.0])
@pytest.mark.parametrize("phase", [0.0, 0.37, 0.99])
def test_slices_keep_a_constant_and_cover_every_voxel(side, factor, phase):
    matrix = operations.slice_matrix(side, factor=factor, phase=phase)
    assert matrix.shape == (side, side)
    assert (matrix >= 0.0).all()
    np.testing.assert_allclose(matrix.sum(1), 1.0)
    assert (matrix.sum(0) > 0.0).all()


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1, 2)])
def test_resolution_falls_along_the_axes_asked(volume, axes):
    expected = array(volume)
    for axis in axes:
        matrix = operations.slice_matrix(expected.shape[axis], factor=1.8, phase=0.3)
        expected = np.moveaxis(np.tensordot(matrix, expected, (1, axis)), 0, axis)
    lowered = operations.lower_resolution(volume, axes=axes, factor=1.8, phase=0.3)
    np.testing.assert_allclose(array(lowered), expected, atol=2e-6)


# --- ghosts and noise ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("phase", [0.0, 1.1, math.pi])
def test_ghosts_are_lines_of_k_space_that_rise_and_fall(volume, axis, phase):
    side = volume.shape[axis + 1]
    shift = 5
    weights = 1 + 2 * 0.07 * np.cos(2 * np.pi * np.arange(side) * shift / side + phase)
    shape = [side if other == axis else 1 for other in range(3)]
    expected = np.abs(np.fft.ifft(np.fft.fft(array(volume), axis=axis) * weights.reshape(shape), axis=axis))
    ghosted = operations.ghost(volume, axis=axis, shift=shift, intensity=0.07, phase=phase)
    np.testing.assert_allclose(array(ghosted), expected, atol=1e-6)


@pytest.mark.parametrize("signal", [0.0, 0.1, 1.0])
def test_noise_is_scipys_rice_distribution(signal):
    volume = torch.full((1, 30, 30, 30), signal)
    noisy = operations.rician_noise(volume, sigma=0.05, generator=torch.Generator().manual_seed(0))
    assert stats.kstest(noisy.numpy().ravel(), stats.rice(b=signal / 0.05, scale=0.05).cdf).pvalue > 0.01
    assert (volume == signal).all()


# --- brain extraction ------------------------------------------------------------------------------------------------
def slab() -> torch.Tensor:
    brain = torch.zeros(1, 24, 26, 26, dtype=torch.bool)
    brain[:, 6:] = True
    return brain


@pytest.mark.parametrize(
    ("depth", "expected"), [(0.0, [1, 1, 1, 1]), (0.5, [0.5, 1, 1, 1]), (1.0, [0, 1, 1, 1]), (2.0, [0, 0, 1, 1])]
)
def test_at_a_flat_surface_whole_voxels_are_cut_and_half_ones_in_half(depth, expected):
    signal, brain = operations.cut_rim(slab().float(), slab(), depth_voxels=depth, coefficients=FLAT)
    np.testing.assert_allclose(signal[0, 6:10, 13, 13], expected, atol=0.1)
    assert torch.equal(brain, signal > 0.0)
    assert (signal[:, :6] == 0.0).all()


@pytest.mark.parametrize("depth", [0.5, 1.0, 2.0, 3.0])
def test_of_a_ball_about_the_depth_asked_is_cut(depth):
    distance = ndimage.distance_transform_edt(ball()[0].numpy()) - 0.5
    signal, brain = operations.cut_rim(ball().float(), ball(), depth_voxels=depth, coefficients=FLAT)
    kept = array(signal)
    assert kept[distance > depth + 1.2].min() == 1.0
    assert kept[(distance < depth - 0.7) & (distance > -0.5)].sum() == 0.0
    assert not brain[~ball()].any()


def test_only_the_dark_part_of_a_rim_is_cut():
    signal = ball() * torch.rand(1, 33, 33, 33, generator=torch.Generator().manual_seed(0)).clamp(min=0.02)
    cut, brain = operations.cut_rim(signal, ball(), depth_voxels=2.0, coefficients=FLAT, below=0.4)
    dark, bright = signal < 0.35, (signal > 0.45) & ball()
    assert torch.equal(cut[bright], signal[bright])
    distance = torch.from_numpy(ndimage.distance_transform_edt(ball()[0].numpy()))[None] - 0.5
    outer, inner = ball() & (distance < 1.2), distance > 3.2
    assert not brain[outer & dark].any()
    assert torch.equal(cut[inner], signal[inner])


@pytest.mark.parametrize("depth", [0.4, 1.0, 2.0])
def test_a_rim_is_left_around_the_brain_and_only_there(depth):
    signal, brain = operations.leave_rim(
        0.8 * ball(9.0).float(), ball(9.0), depth_voxels=depth, coefficients=FLAT, rim=0.5
    )
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
    signal, _ = operations.cut_rim(ball().float(), ball(), depth_voxels=1.0, coefficients=coefficients)
    distance = ndimage.distance_transform_edt(ball()[0].numpy())
    lost = [((distance[part] > 0) & (array(signal)[part] < 0.5)).sum() for part in (slice(0, 11), slice(22, 33))]
    assert lost[1] > 2 * lost[0]


def test_cutting_never_adds_and_leaving_never_cuts():
    coefficients = np.zeros((2, 2, 2))
    coefficients[1, 0, 0] = 3.0
    cut, cut_brain = operations.cut_rim(ball().float(), ball(), depth_voxels=0.1, coefficients=coefficients)
    left, left_brain = operations.leave_rim(
        ball().float(), ball(), depth_voxels=0.1, coefficients=coefficients, rim=0.5
    )
    assert not (cut_brain & ~ball()).any()
    assert (cut[~ball()] == 0.0).all()
    assert left_brain[ball()].all()
    assert (left[ball()] == 1.0).all()
