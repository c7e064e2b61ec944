import shutil
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from neurocontrast.data import read_cohort
from neurocontrast.data.quality import doubts_about, doubts_about_images, inspect_scan, inspect_scans
from neurocontrast.transforms import Preprocessing


def test_deep_reads_voxels_and_shallow_headers_alone(brain, write_nifti, tmp_path):
    path = write_nifti(np.zeros_like(brain), "constant.nii.gz")
    assert inspect_scan(path, deep=False).problem == ""
    assert "every voxel is 0" in inspect_scan(path, deep=True).problem
    good = inspect_scan(write_nifti(brain), deep=True)
    assert good.problem == ""
    assert good.header.shape == brain.shape
    assert "no such file" in inspect_scan(tmp_path / "absent.nii", deep=False).problem
    assert "less than 50%" in inspect_scan(write_nifti(brain), Preprocessing(), deep=True).problem


@pytest.mark.parametrize("n_workers", [0, 2])
def test_all_images_are_looked_at_in_order(brain, write_nifti, n_workers):
    paths = [str(write_nifti(brain, f"scan{i}.nii.gz")) for i in range(9)]
    Path(paths[4]).write_bytes(b"")
    findings = inspect_scans(paths, deep=True, n_workers=n_workers)
    assert [finding.scan for finding in findings] == paths
    assert [bool(finding.problem) for finding in findings] == [i == 4 for i in range(9)]


def test_masks_copies_and_mixed_formats_are_doubtful(brain, write_nifti, tmp_path):
    mask = write_nifti((brain > 0).astype(np.float32), "mask.nii.gz")
    copy = tmp_path / "copy.nii.gz"
    shutil.copy(mask, copy)
    np.save(tmp_path / "a.npy", brain)
    doubts = doubts_about_images(inspect_scans([str(mask), str(copy), str(tmp_path / "a.npy")], deep=True))
    assert any("2 images, the first" in doubt and "is it a mask?" in doubt for doubt in doubts)
    assert any("the same file under 2 names" in doubt for doubt in doubts)
    assert any("1 .npy arrays, which have no orientation, are among 2 NIfTI images" in doubt for doubt in doubts)


def test_a_header_without_orientation_is_doubtful(brain, tmp_path):
    nib.save(nib.Nifti1Image(brain, None), tmp_path / "a.nii")
    (doubt,) = doubts_about_images([inspect_scan(tmp_path / "a.nii", deep=False)])
    assert "left and right are a guess" in doubt


def test_doubts_about_a_cohort(write_table):
    header = "participant_id\tsession\tsubject_id\tpath\tage\tsex\tsite\tdiagnosis"
    rows = [f"a{i}\t1\ta{i}\ta{i}.nii\t30\tF\tA\t{'pc'[i % 2]}" for i in range(6)]
    rows += ["b1\t1\tb1\tb1.nii\tn/a\tM\tB\tp", "b1\t2\tb1\tb2.nii\t31\tF\tB\tp", "A0\t1\tA0\tc.nii\t40\tM\tB\tp"]
    doubts = doubts_about(read_cohort(write_table(header, *rows)))
    assert "column 'age' is missing in 1 of 9 scans" in doubts
    assert "subjects with two sexes: 'b1'" in doubts
    assert "'A0', 'a0' count as different subjects" in doubts
    assert "sites with fewer than 5 scans: B (3)" in doubts
    assert any("sites with a single diagnosis: 'B'" in doubt for doubt in doubts)
