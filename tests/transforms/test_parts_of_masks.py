"""The brain's mask against SciPy's own operations, and its way into text and back."""

import numpy as np
import pytest
import scipy.ndimage

from neurocontrast.transforms import KeepBraind, MarkBraind, ResampleByAread
from neurocontrast.transforms.brain import erode, fill_largest
from neurocontrast.transforms.images import to_image


@pytest.fixture
def lumps():
    """Smooth noise above a threshold: pieces with holes, some at the ends of the box."""
    generator = np.random.default_rng(3)
    noise = scipy.ndimage.gaussian_filter(generator.normal(size=(30, 26, 34)), 2)
    pieces = noise > np.quantile(noise, 0.4)
    within = scipy.ndimage.distance_transform_edt(np.pad(pieces, 1))[1:-1, 1:-1, 1:-1]
    pieces[np.unravel_index(within.argmax(), within.shape)] = False
    return pieces


def test_the_largest_piece_without_holes_is_scipys(lumps):
    labels, n_pieces = scipy.ndimage.label(lumps)
    assert n_pieces > 1
    largest = labels == np.bincount(labels.ravel())[1:].argmax() + 1
    expected = scipy.ndimage.binary_fill_holes(largest)
    assert expected.sum() > largest.sum()
    np.testing.assert_array_equal(fill_largest(lumps), expected)
    assert not fill_largest(np.zeros((9, 9, 9), bool)).any()
    assert fill_largest(np.ones((9, 9, 9), bool)).all()


@pytest.mark.parametrize("spacing", [(1.0, 1.0, 1.0), (1.5, 1.5, 1.5), (1.0, 1.3, 2.1)])
@pytest.mark.parametrize("radius", [1.0, 2.1, 3.0, 4.5, 6.0])
def test_erosion_is_by_euclidean_distance(lumps, spacing, radius):
    # Beyond the box there is no edge: a box continued by its own end voxels is far enough from any
    # other.
    wide = np.pad(lumps, 8, mode="edge")
    distance = scipy.ndimage.distance_transform_edt(wide, sampling=spacing)
    interior = tuple(slice(8, -8) for _ in range(3))
    inner = erode(wide, radius, spacing)[interior]
    np.testing.assert_array_equal(inner, (distance > radius + 1e-4)[interior])
    whole = scipy.ndimage.distance_transform_edt(lumps, sampling=spacing)
    np.testing.assert_array_equal(erode(lumps, radius, spacing), whole > radius + 1e-4)


def brain_of(voxels, spacing, shape=None, target=None):
    """The brain of a scan on a grid with the same centre."""
    item = MarkBraind("image")(
        {"image": to_image(voxels[np.newaxis], np.diag([spacing] * 3 + [1.0]))}
    )
    item = ResampleByAread(("image", "brain"), spacing_mm=target, shape=shape)(item)
    return KeepBraind("image")(item)["brain"].numpy()[0] != 0


def test_a_hole_in_the_brain_is_not_its_edge(brain):
    hollow = brain.copy()
    hollow[12, 14, 10] = 0
    np.testing.assert_array_equal(brain_of(hollow, 2.0), brain_of(brain, 2.0))


def test_on_another_grid_a_voxel_is_brain_when_half_of_it_is():
    voxels = np.zeros((32, 32, 32), dtype=np.float32)
    voxels[8:24, 8:24, 8:24] = 5
    mask = brain_of(voxels, 1.0, (16, 16, 16), 2.0)
    assert mask.sum() == 8**3
    np.testing.assert_array_equal(np.argwhere(mask).min(axis=0), [4, 4, 4])
    fine = brain_of(voxels, 1.0, (64, 64, 64), 0.5)
    assert fine.sum() == 32**3 - 8  # its corners
