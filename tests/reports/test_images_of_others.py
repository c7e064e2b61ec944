"""A table whose column of paths was sorted without the others: everybody has the image of another."""

import pandas as pd
import pytest

from neurocontrast.data import read_cohort
from neurocontrast.data.cohort import inspect_cohort
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


def problems(**columns):
    table = pd.DataFrame({"participant_id": NAMES, **columns})
    return inspect_cohort(table, check_images=False).problems.to_text()


@pytest.mark.parametrize(
    "form",
    [
        "mri/mwp1{}_T1w.nii",
        "mri/wm{}_ses-1_T1w.nii.gz",
        "mri/mwp1r{}_T1w.nii",
        "mri/avg_{}_T1w.nii",
        "{}/mri/brainmask.mgz",
        "{}_ses-1.long.{}/mri/norm.mgz",
        "x/{}/ses-1/anat/T1w.nii.gz",
    ],
)
def test_names_of_programs_and_folders_tell_the_participant(form):
    paths = [form.replace("{}", name) for name in NAMES]
    assert len(read(paths)) == 3
    assert len(read(paths, ["01", "sub_02", "SUB-03"])) == 3
    with pytest.raises(DataError, match="3 problems") as caught:
        read([*paths[1:], paths[0]])
    assert str(caught.value).count("the image of another participant of this table") == 3
    with pytest.raises(DataError, match=r"line 2, 01, column 'path': found '.*sub-02"):
        read([*paths[1:], paths[0]], ["01", "02", "03"])


@pytest.mark.parametrize("column", ["mask_path", "gm", "wm", "csf"])
def test_masks_and_maps_of_other_participants_are_refused(column):
    paths = [f"{name}_T1w.nii" for name in NAMES]
    maps = [f"x/{name}_map.nii" for name in NAMES]
    assert "0 problems" in problems(path=paths, **{column: maps})
    assert "0 problems" in problems(path=paths, **{column: [maps[0], "n/a", ""]})
    assert "0 problems" in problems(path=paths, **{column: ["all.nii"] * 3})
    text = problems(path=paths, **{column: [maps[1], maps[0], "n/a"]})
    assert f"line 2, sub-01, column '{column}': found 'sub-02_map.nii', the image of" in text
    assert "2 problems" in text


def test_a_channel_is_refused_once():
    table = pd.DataFrame(
        {"participant_id": NAMES, "gm": [f"{name}_gm.nii" for name in NAMES[::-1]]}
    )
    found = inspect_cohort(table, channels=["gm"], check_images=False).problems.found
    assert [(problem.line, problem.column) for problem in found] == [(2, "gm"), (4, "gm")]


@pytest.mark.parametrize(
    "form", ["sub-01_ses-{}_T1w.nii", "sub-01/ses-{}/T1.nii", "mwp1sub-01_ses-{}.nii"]
)
def test_exchanged_sessions_are_refused(form):
    def read_sessions(sessions, labels):
        table = pd.DataFrame({"participant_id": "sub-01", "session": sessions})
        table["path"] = [form.format(label) for label in labels]
        return read_cohort(table, check_images=False).table

    ordered = ["1", "2", "10"]
    assert len(read_sessions(ordered, ordered)) == 3
    assert len(read_sessions(["ses-1", "ses-2", "ses-10"], ["01", "02", "10"])) == 3
    assert len(read_sessions(["first", "second", "third"], ordered)) == 3
    assert len(read_sessions(["", "2", "10"], ["1", "2", "10"])) == 3
    with pytest.raises(DataError, match="of another session of this participant") as caught:
        read_sessions(ordered, sorted(ordered))
    assert "line 3, sub-01, column 'path': found '" in str(caught.value)
    assert "line 2" not in str(caught.value)


def test_one_mask_may_serve_all_sessions():
    table = pd.DataFrame({"participant_id": "sub-01", "session": ["1", "2"]})
    table["path"] = ["sub-01_ses-1_T1w.nii", "sub-01_ses-2_T1w.nii"]
    table["mask_path"] = "sub-01_ses-1_mask.nii"
    assert len(read_cohort(table, check_images=False)) == 2
    table["mask_path"] = ["sub-01_ses-2_mask.nii", "sub-01_ses-1_mask.nii"]
    with pytest.raises(DataError, match=r"column 'mask_path'.*another session"):
        read_cohort(table, check_images=False)


def test_labels_that_begin_other_labels_are_told_apart():
    names = ["sub-A", "sub-A_1", "sub-AB"]
    paths = [f"{name}_T1w.nii" for name in names]
    assert len(read(paths, names)) == 3
    assert len(read(["sub-A_1_T1w.nii", "sub-A_2.nii", "sub-ABC.nii"], ["A", "A_2", "AB"])) == 3
    with pytest.raises(DataError, match="2 problems"):
        read([paths[2], paths[1], paths[0]], names)


def test_folders_of_studies_named_like_participants_are_taken():
    assert len(read([f"sub-02/scan{number}.nii" for number in range(3)])) == 3
    assert len(read([f"sub-02/{name}/T1.nii" for name in NAMES])) == 3
    names = ["01", "paris_01", "lyon_01"]
    assert len(read(["x/sub-01/T1.nii", "paris/sub-01/T1.nii", "lyon/sub-01.nii"], names)) == 3


def test_a_column_of_subjects_says_whose_image_is_whose():
    table = pd.DataFrame({"participant_id": ["1", "2", "3"], "subject_id": ["3", "1", "2"]})
    table["path"] = ["sub-3_T1w.nii", "sub-1_T1w.nii", "sub-2_T1w.nii"]
    assert len(read_cohort(table, check_images=False)) == 3
    visits = ["01_ses-1", "01_ses-2", "02_ses-1"]
    table = pd.DataFrame({"participant_id": visits, "subject_id": ["01", "01", "02"]})
    table["path"] = [f"sub-{visit}_T1w.nii" for visit in visits]
    assert len(read_cohort(table, check_images=False)) == 3
    table["path"] = table["path"].tolist()[::-1]
    with pytest.raises(DataError, match="2 problems"):
        read_cohort(table, check_images=False)
