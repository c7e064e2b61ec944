from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage

from neurocontrast.transforms.rand_boxes import box_of, crop_resize, cut_out


@pytest.fixture
def volume():
    return torch.randn(1, 15, 18, 16, generator=torch.Generator().manual_seed(1))


def test_cut_out_sets_the_box_and_nothing_else(volume):
    cut = cut_out(volume, box=(slice(2, 6), slice(18), slice(5, 8)), value=7.0)
    inside = torch.zeros_like(volume, dtype=torch.bool)
    inside[:, 2:6, :, 5:8] = True
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
