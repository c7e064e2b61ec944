"""Where preprocessed voxels are in the space of the scan."""

import nibabel as nib
import numpy as np
import pytest

from neurocontrast.transforms import Preprocessing
from neurocontrast.transforms.grids import preprocessed_grid


@pytest.mark.parametrize(("code", "is_mni"), [(4, True), (1, False), (2, False), (0, False)])
def test_only_a_header_that_says_so_is_of_mni(tmp_path, code, is_mni):
    path = str(tmp_path / "scan.nii.gz")
    image = nib.Nifti1Image(np.random.default_rng(0).random((30, 36, 32), dtype=np.float32), np.diag([2, 2, 2, 1]))
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
