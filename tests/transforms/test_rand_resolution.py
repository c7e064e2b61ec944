from __future__ import annotations

import numpy as np
import pytest
import torch

from neurocontrast.transforms.rand_resolution import BrainResolution, slice_matrix


@pytest.fixture
def volume():
    return torch.rand(1, 15, 18, 16, generator=torch.Generator().manual_seed(1))


def array(x: torch.Tensor) -> np.ndarray:
    return x[0].numpy().astype(np.float64)


def test_slices_of_one_voxel_change_nothing():
    np.testing.assert_allclose(slice_matrix(9, factor=1.0, phase=0.0), np.eye(9), atol=1e-12)


def test_slices_of_two_voxels_are_means_with_lines_between():
    line = np.random.default_rng(0).standard_normal(10)
    acquired = line.reshape(5, 2).mean(1)
    expected = np.interp(np.arange(10) + 0.5, np.arange(5) * 2 + 1.0, acquired)
    np.testing.assert_allclose(slice_matrix(10, factor=2.0, phase=0.0) @ line, expected)


@pytest.mark.parametrize("side", [8, 15])
@pytest.mark.parametrize("factor", [1.0, 1.3, 2.5, 8.0])
@pytest.mark.parametrize("phase", [0.0, 0.37, 0.99])
def test_slices_keep_a_constant_and_cover_every_voxel(side, factor, phase):
    matrix = slice_matrix(side, factor=factor, phase=phase)
    assert matrix.shape == (side, side)
    assert (matrix >= 0.0).all()
    np.testing.assert_allclose(matrix.sum(1), 1.0)
    assert (matrix.sum(0) > 0.0).all()


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1, 2)])
def test_resolution_falls_along_the_axes_asked(volume, axes):
    expected = array(volume)
    for axis in axes:
        matrix = slice_matrix(expected.shape[axis], factor=1.8, phase=0.3)
        expected = np.moveaxis(np.tensordot(matrix, expected, (1, axis)), 0, axis)
    lowered = BrainResolution().change(volume, axes=axes, factor=1.8, phase=0.3)
    np.testing.assert_allclose(array(lowered), expected, atol=2e-6)
