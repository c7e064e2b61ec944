"""Where preprocessed voxels are in the space of the scan."""

import nibabel as nib
import numpy as np
import pytest

from neurocontrast.transforms import Preprocessing, load_volume
from neurocontrast.transforms.grids import preprocessed_grid


def _save(path, *, shape=(30, 36, 32), affine=None, code=4, spot=(20, 9, 24), width=2):
    """A dim ball with a bright spot, whose place in mm is returned."""
    affine = np.array([[2.0, 0, 0, -31], [0, 2, 0, -40], [0, 0, 2, -22], [0, 0, 0, 1]]) if affine is None else affine
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    ball = (((grid - np.array(shape) / 2) / (0.45 * np.array(shape))) ** 2).sum(axis=-1) < 1
    voxels = ball + 20 * np.exp(-((grid - np.array(spot)) ** 2).sum(axis=-1) / width**2)
    image = nib.Nifti1Image(voxels.astype(np.float32), affine)
    image.set_sform(affine, code=code)
    image.set_qform(affine, code=code)
    nib.save(image, path)
    return nib.affines.apply_affine(affine, spot)


def _place_of_spot(path, preprocessing):
    voxels = load_volume(path, preprocessing)[0].astype(float)
    bright = np.clip(voxels - np.percentile(voxels, 99.5), 0, None)
    indices = np.indices(voxels.shape).reshape(3, -1)
    centre = (indices * bright.ravel()).sum(axis=1) / bright.sum()
    return nib.affines.apply_affine(preprocessed_grid(path, preprocessing).affine, centre)


FLIPPED = np.array([[0, -2.0, 0, 50], [2, 0, 0, -30], [0, 0, -2, 41], [0, 0, 0, 1]])


@pytest.mark.parametrize(
    ("spacing_mm", "shape"),
    [
        (2, (30, 36, 32)),  # as it is
        (2, (29, 31, 32)),  # cropped: even to odd
        (2, (33, 40, 37)),  # padded
        (3, (20, 24, 21)),  # resampled
        (None, (31, 33, 32)),
    ],
)
@pytest.mark.parametrize("affine", [None, FLIPPED])
def test_the_grid_s_affine_finds_the_scan_s_places_again(tmp_path, spacing_mm, shape, affine):
    path = str(tmp_path / "scan.nii.gz")
    expected = _save(path, affine=affine)
    preprocessing = Preprocessing(spacing_mm=spacing_mm, shape=shape, normalise="none")
    np.testing.assert_allclose(_place_of_spot(path, preprocessing), expected, atol=0.35)


@pytest.mark.parametrize(("code", "is_mni"), [(4, True), (1, False), (2, False), (0, False)])
def test_only_a_header_that_says_so_is_of_mni(tmp_path, code, is_mni):
    path = str(tmp_path / "scan.nii.gz")
    _save(path, code=code)
    assert preprocessed_grid(path, Preprocessing(spacing_mm=2, shape=(30, 36, 32))).is_mni is is_mni


def test_an_array_without_a_header_is_centred(tmp_path):
    path = tmp_path / "scan.npy"
    np.save(path, np.random.default_rng(0).random((21, 21, 21), dtype=np.float32))
    grid = preprocessed_grid(path, Preprocessing(spacing_mm=1.5, shape=(21, 21, 21)))
    np.testing.assert_allclose(nib.affines.apply_affine(grid.affine, (10, 10, 10)), 0, atol=1e-9)
    np.testing.assert_allclose(nib.affines.voxel_sizes(grid.affine), grid.spacing_mm)
    assert not grid.is_mni
