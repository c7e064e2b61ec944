from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy import ndimage

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.rand_detail import BrainResolution, BrainSharpness, blur, ghost, slice_matrix


@pytest.fixture
def volume():
    return torch.randn(1, 15, 18, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("sigma", [0.0, 0.1, 0.3, 0.55, 1.0, 2.0])
def test_blur_is_scipys(volume, sigma):
    blurred = blur(volume, sigma_voxels=sigma)[0].numpy()
    np.testing.assert_allclose(blurred, ndimage.gaussian_filter(volume[0].numpy(), sigma), atol=2e-6)


def test_blur_beyond_the_volume_is_refused(volume):
    with pytest.raises(DataError, match=r"blur reaches 16 voxels.*15 along axis 0.*augment\.blur\.sigma_voxels"):
        blur(volume, sigma_voxels=4.0)


def test_blur_reaching_the_whole_volume_is_scipys(volume):
    blurred = blur(volume, sigma_voxels=3.6)[0].numpy()
    np.testing.assert_allclose(blurred, ndimage.gaussian_filter(volume[0].numpy(), 3.6), atol=2e-6)


def array(x: torch.Tensor) -> np.ndarray:
    return x[0].numpy().astype(np.float64)


@pytest.mark.parametrize("amount", [-1.0, -0.4, 0.0, 1.2])
def test_sharpen_is_an_unsharp_mask_that_leaves_a_quarter(volume, amount):
    smooth = ndimage.gaussian_filter(array(volume), 0.8)
    expected = np.maximum(array(volume) + amount * (array(volume) - smooth), 0.25 * array(volume))
    sharp = BrainSharpness(sigma_voxels=0.8).change(volume, amount=amount)
    np.testing.assert_allclose(array(sharp), expected, atol=5e-6)


def test_sharpen_fits_its_gaussian_into_a_small_volume(volume):
    assert BrainSharpness(sigma_voxels=3.0).change(volume[:, :7], amount=1.0).isfinite().all()


def test_slices_of_one_voxel_change_nothing():
    np.testing.assert_allclose(slice_matrix(9, factor=1.0, phase=0.0), np.eye(9), atol=1e-12)


def test_slices_of_two_voxels_are_means_with_lines_between():
    line = np.random.default_rng(0).standard_normal(10)
    acquired = line.reshape(5, 2).mean(1)
    expected = np.interp(np.arange(10) + 0.5, np.arange(5) * 2 + 1.0, acquired)
    np.testing.assert_allclose(slice_matrix(10, factor=2.0, phase=0.0) @ line, expected)


def test_slices_keep_a_constant_and_cover_every_voxel():
    for side, factor, phase in product([8, 15], [1.0, 1.3, 2.5, 8.0], [0.0, 0.37, 0.99]):
        matrix = slice_matrix(side, factor=factor, phase=phase)
        assert matrix.shape == (side, side)
        assert (matrix >= 0.0).all(), (side, factor, phase)
        np.testing.assert_allclose(matrix.sum(1), 1.0)
        assert (matrix.sum(0) > 0.0).all(), (side, factor, phase)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1, 2)])
def test_resolution_falls_along_the_axes_asked(volume, axes):
    expected = array(volume)
    for axis in axes:
        matrix = slice_matrix(expected.shape[axis], factor=1.8, phase=0.3)
        expected = np.moveaxis(np.tensordot(matrix, expected, (1, axis)), 0, axis)
    lowered = BrainResolution().change(volume, axes=axes, factor=1.8, phase=0.3)
    np.testing.assert_allclose(array(lowered), expected, atol=2e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("phase", [0.0, 1.1, math.pi])
def test_ghosts_are_lines_of_k_space_that_rise_and_fall(volume, axis, phase):
    side = volume.shape[axis + 1]
    shift = 5
    weights = 1 + 2 * 0.07 * np.cos(2 * np.pi * np.arange(side) * shift / side + phase)
    shape = [side if other == axis else 1 for other in range(3)]
    expected = np.abs(np.fft.ifft(np.fft.fft(array(volume), axis=axis) * weights.reshape(shape), axis=axis))
    ghosted = ghost(volume, axis=axis, shift=shift, intensity=0.07, phase=phase)
    np.testing.assert_allclose(array(ghosted), expected, atol=1e-6)
