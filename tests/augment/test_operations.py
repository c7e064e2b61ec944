from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage

from neurocontrast.augment import operations
from neurocontrast.exceptions import DataError


@pytest.fixture
def volume():
    return torch.randn(1, 15, 18, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_flip_mirrors_one_axis(volume, axis):
    np.testing.assert_array_equal(operations.flip(volume, axis=axis)[0].numpy(), np.flip(volume[0].numpy(), axis))


@pytest.mark.parametrize("sigma", [0.0, 0.1, 0.3, 0.55, 1.0, 2.0])
def test_blur_is_scipys(volume, sigma):
    blurred = operations.blur(volume, sigma_voxels=sigma)[0].numpy()
    np.testing.assert_allclose(blurred, ndimage.gaussian_filter(volume[0].numpy(), sigma), atol=2e-6)


def test_blur_beyond_the_volume_is_refused(volume):
    with pytest.raises(DataError, match=r"blur reaches 16 voxels.*15 along axis 0.*augment\.blur\.sigma_voxels"):
        operations.blur(volume, sigma_voxels=4.0)


def test_blur_reaching_the_whole_volume_is_scipys(volume):
    blurred = operations.blur(volume, sigma_voxels=3.6)[0].numpy()
    np.testing.assert_allclose(blurred, ndimage.gaussian_filter(volume[0].numpy(), 3.6), atol=2e-6)


def test_noise_is_gaussian_and_of_the_asked_size():
    volume = torch.full((1, 40, 40, 40), 2.0)
    noisy = operations.add_noise_(volume.clone(), sigma=0.3, generator=torch.Generator().manual_seed(0))
    values = (noisy - volume).numpy().ravel() / 0.3
    assert values.mean() == pytest.approx(0.0, abs=0.02)
    assert values.std() == pytest.approx(1.0, abs=0.01)
    assert (values**4).mean() == pytest.approx(3.0, abs=0.15)


def test_cut_out_sets_the_box_and_nothing_else(volume):
    cut = operations.cut_out_(volume.clone(), corner=(2, 0, 5), size=(4, 18, 3), value=7.0)
    inside = torch.zeros_like(volume, dtype=torch.bool)
    inside[:, 2:6, :, 5:8] = True
    assert (cut[inside] == 7.0).all()
    assert torch.equal(cut[~inside], volume[~inside])
    assert (volume != 7.0).all()


def test_crop_resize_is_scipys_away_from_the_border(volume):
    corner, size = (2, 3, 1), (12, 14, 12)
    box = volume[0, 2:14, 3:17, 1:13].double().numpy()
    factors = [side / length for side, length in zip(volume.shape[1:], size, strict=True)]
    expected = ndimage.zoom(box, factors, order=1, mode="mirror", grid_mode=True)
    resized = operations.crop_resize(volume, corner=corner, size=size)[0].numpy()
    assert resized.shape == volume.shape[1:]
    middle = (slice(1, -1),) * 3
    np.testing.assert_allclose(resized[middle], expected[middle], atol=1e-5)


def test_cropping_everything_changes_nothing(volume):
    torch.testing.assert_close(operations.crop_resize(volume, corner=(0, 0, 0), size=volume.shape[1:]), volume)
