"""`sub-01` of two sites' folders is two people, and never one in silence; averages of sessions are no sessions."""

import re

import numpy as np
import pytest

from neurocontrast import index
from neurocontrast.data.measures import read_tables
from neurocontrast.exceptions import ConfigError, DataError, NeurocontrastError
from tests.reports.folders import write_aparc, write_aseg

IMAGES = {
    "fmriprep": "{home}/sub-{label}{folder}/anat/sub-{label}{session}_desc-preproc_T1w.nii.gz",
    "freesurfer": "{home}/sub-{label}{session}/mri/brainmask.mgz",
    "brainprep": "{home}/sub-{label}{folder}/anat/sub-{label}{session}_desc-6apply_T1w.nii.gz",
    "cat12": "{home}/mri/mwp1sub-{label}{session}.nii",
    "caps": "{home}/sub-{label}/ses-{ses}/t1_linear/sub-{label}_ses-{ses}_space-S_T1w.nii.gz",
}


def put_image(root, layout, home, label, ses=""):
    session = f"_ses-{ses}" if ses else ""
    folder = f"/ses-{ses}" if ses else ""
    names = {"home": home, "label": label, "session": session, "folder": folder, "ses": ses or "1"}
    path = root / IMAGES[layout].format(**names)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("image")


def people_of(found):
    return sorted(set(found.table["participant_id"]))


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "participants.tsv"


@pytest.mark.parametrize("sessions", [("", ""), ("1", "2")])
@pytest.mark.parametrize("layout", list(IMAGES))
def test_one_name_in_two_folders_is_refused_with_the_flags_that_decide(
    tmp_path, out, layout, sessions
):
    root = tmp_path / "root"
    for home, ses in zip(("siteA", "siteB"), sessions, strict=True):
        put_image(root, layout, home, "01", ses)
    put_image(root, layout, "siteB", "02", sessions[1])
    with pytest.raises(ConfigError) as error:
        index(root, out, layout=layout)
    text = str(error.value)
    assert "sub-01 (siteA, siteB)" in text
    assert "sub-02" not in text
    for flag in ("dataset=all", "dataset=same", "dataset=siteB"):
        assert flag in text
    found = index(root, out, layout=layout, choose=["dataset=all"], overwrite=True)
    assert people_of(found) == ["sub-siteA_01", "sub-siteB_01", "sub-siteB_02"]
    found = index(root, out, layout=layout, choose=["dataset=siteB"], overwrite=True)
    assert people_of(found) == ["sub-01", "sub-02"]
    with pytest.raises(ConfigError, match="no scan is in this folder"):
        index(root, out, layout=layout, choose=["dataset=siteC"], overwrite=True)
    if sessions[0]:
        found = index(root, out, layout=layout, choose=["dataset=same"], overwrite=True)
        assert people_of(found) == ["sub-01", "sub-02"]


def write_statistics(root, names):
    random = np.random.default_rng(0)
    for name in names:
        write_aseg(root / name / "stats" / "aseg.stats", random)
        write_aparc(root / name / "stats" / "lh.aparc.stats", random)


@pytest.mark.parametrize("ends", [("", ""), ("_ses-1", "_ses-2")])
@pytest.mark.parametrize("above", ["", "derivatives/"])
def test_measures_of_two_sites_are_told_apart(tmp_path, out, ends, above):
    root = tmp_path / "root"
    names = [f"{above}siteA/sub-01{ends[0]}", f"{above}siteB/sub-01{ends[1]}"]
    write_statistics(root, [*names, f"{above}siteB/sub-02"])
    with pytest.raises(NeurocontrastError, match=r"sub-01 \(\S*siteA, \S*siteB\).*dataset=all"):
        index(root, out)
    with pytest.raises(DataError, match="names of subjects are in several folders"):
        read_tables(root)
    found = index(root, out, choose=["dataset=all"])
    assert people_of(found) == ["sub-siteA_01", "sub-siteB_01", "sub-siteB_02"]
    measures = read_tables(found.measures_path).values["Left-Hippocampus"]
    assert measures.nunique() == 3
    found = index(root, out, choose=["dataset=siteA"], overwrite=True)
    assert people_of(found) == ["sub-01"]


def test_parts_of_a_persons_measures_may_lie_in_two_folders(tmp_path):
    write_statistics(tmp_path / "a", ["sub-01"])
    (tmp_path / "b" / "sub-01" / "stats").mkdir(parents=True)
    moved = tmp_path / "a" / "sub-01" / "stats" / "lh.aparc.stats"
    moved.rename(tmp_path / "b" / "sub-01" / "stats" / moved.name)
    assert read_tables(tmp_path).values.index.tolist() == [("sub-01", "")]


@pytest.mark.parametrize("sessions", [("", ""), ("1", "2")])
def test_two_people_are_not_joined_with_one_person_of_a_table(tmp_path, out, sessions):
    rows = ["participant_id\tsession_id\tage"]
    for site, ses in zip(("siteA", "siteB"), sessions, strict=True):
        folder = tmp_path / "root" / site / "sub-01" / (f"ses-{ses}" if ses else "") / "anat"
        folder.mkdir(parents=True)
        name = f"sub-01_ses-{ses}_T1w.nii.gz" if ses else "sub-01_T1w.nii.gz"
        (folder / name).write_text("image")
        rows.append(f"sub-01\t{ses or 'n/a'}\t40")
    (tmp_path / "people.tsv").write_text("\n".join(rows) + "\n")
    with pytest.raises(DataError, match=r"row is of sub-siteB_01 too; .* as siteA_01"):
        index(tmp_path / "root", out, phenotypes=[tmp_path / "people.tsv"])


@pytest.mark.parametrize(("rows", "age"), [("ses-1\t30\nses-2\t33\n", ""), ("ses-1\t30\n", "30")])
def test_sessions_beside_an_average_are_joined_if_there_is_one_and_named_if_not(
    tmp_path, out, rows, age
):
    root = tmp_path / "bids"
    for label in ("01", "02"):
        (root / f"sub-{label}" / "anat").mkdir(parents=True)
        (root / f"sub-{label}" / "anat" / f"sub-{label}_T1w.nii.gz").write_text("image")
        table = root / f"sub-{label}" / f"sub-{label}_sessions.tsv"
        table.write_text(f"session_id\tage\n{rows}")
    found = index(root, out)
    assert found.table["age"].tolist() == [age, age]
    note = "sub-*_sessions.tsv: of 2 scans, such as sub-01, it has rows of other sessions alone"
    assert (note in " ".join(found.notes)) is not bool(age)


def test_a_scan_without_session_beside_scans_of_sessions_is_noted(tmp_path, out):
    write_statistics(tmp_path / "fs", ["sub-01", "sub-01_ses-1", "sub-01_ses-2", "sub-02_ses-1"])
    notes = " ".join(index(tmp_path / "fs", out).notes)
    assert re.search(r"1 people have a scan without session .*: sub-01\.", notes)
