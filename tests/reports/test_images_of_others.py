"""A table whose column of paths was sorted without the others: everybody has the image of another."""

import pandas as pd
import pytest

from neurocontrast.data import read_cohort
from neurocontrast.exceptions import DataError

NAMES = ["sub-01", "sub-02", "sub-03"]


def read(paths, names=NAMES):
    table = pd.DataFrame({"participant_id": names, "path": paths})
    return read_cohort(table, check_images=False).table


def test_images_of_other_participants_are_refused():
    paths = [f"{name}/anat/{name}_T1w.nii.gz" for name in NAMES[::-1]]
    with pytest.raises(DataError, match=r"'sub-03_T1w\.nii\.gz', the image of another") as caught:
        read(paths)
    assert "line 2, sub-01, column 'path'" in str(caught.value)
    assert "line 4, sub-03" in str(caught.value)
    assert "line 3" not in str(caught.value)


def test_images_of_ones_own_or_of_nobody_else_are_taken():
    assert len(read([f"x/{name}_ses-1_T1w.nii.gz" for name in NAMES])) == 3
    assert len(read([f"x/{name}_T1w.nii.gz" for name in NAMES], ["01", "sub_02", "SUB-03"])) == 3
    others = ["paris_01", "lyon_01", "P7"]
    assert len(read(["paris/sub-01_T1w.nii", "lyon/sub-01_T1w.nii", "sub-03_T1w.nii"], others)) == 3
    assert len(read(["scan2.nii", "scan3.nii", "scan1.nii"], ["scan1", "scan2", "scan3"])) == 3
