from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.rand_detail import BrainSharpness, blur


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
