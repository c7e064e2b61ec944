"""The known answer that a run states of itself, and scans of a user compared with those it learned from."""

import nibabel as nib
import numpy as np
import pytest
from small_run import changed_run

import neurocontrast
from neurocontrast.data import read_cohort
from neurocontrast.exceptions import CheckpointError, DataError


def test_a_run_verifies_and_fits_its_own_scans_but_no_others(whole, cohort, tmp_path):
    scan = read_cohort(cohort).scans[0]
    found = neurocontrast.verify_weights(whole, scan=scan)
    assert found.passed
    assert not found.doubts
    assert "voxels of 8×8×8 mm" in found.facts[0]
    image = nib.load(scan)
    voxels = image.get_fdata(dtype=np.float32)
    voxels[: voxels.shape[0] // 2] = voxels.flat[0]
    nib.save(nib.Nifti1Image(voxels, image.affine), tmp_path / "half.nii.gz")
    doubts = neurocontrast.verify_weights(whole, scan=tmp_path / "half.nii.gz").doubts
    assert any("what is not background in your scan: " in doubt and "learned from" in doubt for doubt in doubts)
    with pytest.raises(DataError, match="absent"):
        neurocontrast.verify_weights(whole, scan=tmp_path / "absent.nii.gz")
    with pytest.raises(DataError, match="scan: the encoder takes 1 files a scan, got 2"):
        neurocontrast.verify_weights(whole, scan=[scan, scan])


def test_the_answer_is_of_the_weights_and_of_the_preprocessing(whole, tmp_path):
    copy = changed_run(whole, tmp_path / "copy", preprocessing={"normalise": "none"})
    assert not neurocontrast.verify_weights(copy).passed
    (copy / "answer.json").unlink()
    with pytest.raises(CheckpointError, match=r"there is no answer\.json"):
        neurocontrast.verify_weights(copy)
