"""Where preprocessed voxels are in the space of the scan, and what they hold."""

import nibabel as nib
import numpy as np
import pytest
from scipy.ndimage import map_coordinates

from neurocontrast.transforms import Preprocessing
from neurocontrast.transforms.grids import preprocessed_grid, resample


@pytest.mark.parametrize(("code", "is_mni"), [(4, True), (1, False), (2, False), (0, False)])
def test_only_a_header_that_says_so_is_of_mni(tmp_path, code, is_mni):
    path = str(tmp_path / "scan.nii.gz")
    image = nib.Nifti1Image(
        np.random.default_rng(0).random((30, 36, 32), dtype=np.float32), np.diag([2, 2, 2, 1])
    )
    image.set_sform(image.affine, code=code)
    image.set_qform(image.affine, code=code)
    nib.save(image, path)
    assert preprocessed_grid(path, Preprocessing(spacing_mm=2, shape=(30, 36, 32))).is_mni is is_mni


def test_an_array_without_a_header_is_centred(tmp_path):
    path = tmp_path / "scan.npy"
    np.save(path, np.random.default_rng(0).random((21, 21, 21), dtype=np.float32))
    grid = preprocessed_grid(path, Preprocessing(spacing_mm=1.5, shape=(21, 21, 21)))
    np.testing.assert_allclose(nib.affines.apply_affine(grid.affine, (10, 10, 10)), 0, atol=1e-9)
    np.testing.assert_allclose(nib.affines.voxel_sizes(grid.affine), grid.spacing_mm)
    assert not grid.is_mni


# --- resampling
# ------------------------------------------------------------------------------------------------------
def plainly(voxels, spacing, shape, target_spacing, background):
    """Linear interpolation onto a finer grid, point by point, in double precision."""
    at = [
        (np.arange(n_target) - (n_target - 1) / 2) * target / source + (n - 1) / 2
        for n, n_target, source, target in zip(
            voxels.shape, shape, spacing, target_spacing, strict=True
        )
    ]
    points = np.meshgrid(*at, indexing="ij")
    found = map_coordinates(voxels.astype(np.float64), points, order=1, mode="nearest")
    outside = [(c < -0.5) | (c > n - 0.5) for c, n in zip(points, voxels.shape, strict=True)]
    found[np.logical_or.reduce(outside)] = background
    return found


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("flipped", [(), (1, 2)])
def test_however_the_scan_lies_in_memory_it_is_plain_linear_interpolation(brain, order, flipped):
    stored = np.ascontiguousarray(np.flip(brain.transpose(order), flipped))
    voxels = np.flip(stored, flipped).transpose(np.argsort(order))
    np.testing.assert_array_equal(voxels, brain)
    grid = (2.0, 2.0, 2.0), (40, 33, 30), (1.5, 1.9, 1.2)
    found = resample(voxels, *grid, background=-3.0)
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, plainly(brain, *grid, background=-3.0), rtol=1e-5, atol=1e-3)
    assert (found[0, :, 0] == -3.0).all()


def test_a_linear_ramp_stays_a_linear_ramp():
    ramp = np.broadcast_to(np.arange(40, dtype=np.float32), (20, 20, 40))
    for spacing, n in ((1.5, 24), (2.0, 18), (0.7, 50)):
        found = resample(ramp, (1.0, 1.0, 1.0), (12, 12, n), (spacing,) * 3)
        expected = 19.5 + (np.arange(n) - (n - 1) / 2) * spacing
        inner = slice(2, -2)
        np.testing.assert_allclose(found[6, 6, inner], expected[inner], atol=1e-4)


def test_a_coarser_grid_averages_noise_and_keeps_the_mean():
    noise = np.random.default_rng(0).normal(100, 10, (48, 48, 48)).astype(np.float32)
    coarse = resample(noise, (1.0, 1.0, 1.0), (12, 12, 12), (4.0, 4.0, 4.0))
    assert abs(coarse.mean() - 100) < 0.5
    assert coarse.std() < 1.6
