"""Names that newer versions of programs write: cohorts of infants' templates, CAT12's longitudinal images, Clinica."""

import re

import numpy as np
import pytest

from neurocontrast import index
from neurocontrast.data.measures import read_tables
from neurocontrast.exceptions import DataError
from tests.reports.folders import write_aparc, write_aseg


def put(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("image")


def scans_of(found):
    table = found.table
    return list(zip(table["participant_id"], table["session"], table["space"], strict=True))


def test_cohorts_of_an_infants_template_are_spaces_of_their_own(tmp_path):
    root = tmp_path / "nibabies"
    for label, cohort in (("01", 1), ("02", 1), ("03", 2)):
        stem = f"sub-{label}/ses-1/anat/sub-{label}_ses-1"
        put(root, f"{stem}_desc-preproc_T1w.nii.gz")
        put(root, f"{stem}_space-MNIInfant_cohort-{cohort}_desc-preproc_T1w.nii.gz")
        put(root, f"{stem}_space-MNIInfant_cohort-{cohort}_desc-brain_mask.nii.gz")
    with pytest.raises(DataError, match=r"(?s)several spaces: .*--choose cohort=1"):
        index(root, tmp_path / "out.tsv")
    found = index(root, tmp_path / "out.tsv", choose=["cohort=1"])
    space = "MNIInfant:cohort-1"
    assert scans_of(found) == [("sub-01", "1", space), ("sub-02", "1", space)]
    assert all("desc-brain_mask" in path for path in found.table["mask_path"])


@pytest.mark.parametrize("folder", ["mri/", "sub-01/ses-1/anat/"])
def test_averages_and_realigned_scans_of_cat12_are_left_out_with_a_note(tmp_path, folder):
    root = tmp_path / "cat"
    stems = [f"{prefix}sub-01_ses-{ses}_T1w" for prefix in ("", "r") for ses in (1, 2)]
    put(root, *(f"{folder}mwp1{stem}.nii" for stem in [*stems, "avg_sub-01_ses-1_T1w"]))
    found = index(root, tmp_path / "out.tsv")
    assert [scan[:2] for scan in scans_of(found)] == [("sub-01", "1"), ("sub-01", "2")]
    assert not any("mwp1r" in path or "avg_" in path for path in found.table["path"])
    assert "longitudinal copies (2" in found.notes[0]
    found = index(root, tmp_path / "out.tsv", choose=["stream=long"], overwrite=True)
    assert all("mwp1rsub" in path for path in found.table["path"])
    assert [scan[:2] for scan in scans_of(found)] == [("sub-01", "1"), ("sub-01", "2")]


def test_cat12s_regions_of_averages_and_realigned_scans_are_told_apart(tmp_path):
    for number, stem in enumerate(["sub-01_ses-1", "rsub-01_ses-1", "avg_sub-01_ses-1"]):
        items = "<item>lHip</item><item>rHip</item>"
        values = f"<data><Vgm>[{3 + number / 10};3.5]</Vgm></data>"
        text = f"<S><cobra><names>{items}</names>{values}</cobra></S>"
        (tmp_path / f"catROI_{stem}_T1w.xml").write_text(text)
    table = read_tables(tmp_path)
    assert table.values["lHip_Vgm"].to_dict() == {("sub-01", "1"): 3000.0}
    long = read_tables(tmp_path, stream="long").values["lHip_Vgm"]
    assert long.to_dict() == {("sub-01", "1"): 3100.0}


def test_clinicas_template_is_no_scan(tmp_path):
    random = np.random.default_rng(0)
    base = "sub-01_long-M000M012"
    below = tmp_path / "caps" / "subjects" / "sub-01"
    folders = [
        *(
            below / f"ses-{ses}" / "t1" / "freesurfer_cross_sectional" / f"sub-01_ses-{ses}"
            for ses in ("M000", "M012")
        ),
        below / "long-M000M012" / "freesurfer_unbiased_template" / base,
        below / "ses-M000" / "t1" / "long-M000M012" / f"sub-01_ses-M000.long.{base}",
    ]
    for folder in folders:
        write_aseg(folder / "stats" / "aseg.stats", random)
        write_aparc(folder / "stats" / "lh.aparc.stats", random)
    (folders[2] / "base-tps").write_text("x")
    found = index(tmp_path / "caps", tmp_path / "out.tsv")
    assert [scan[:2] for scan in scans_of(found)] == [("sub-01", "M000"), ("sub-01", "M012")]


@pytest.mark.parametrize("above", ["", "derivatives/nibabies/"])
def test_freesurfer_of_fmriprep_by_session_is_read(tmp_path, above):
    random = np.random.default_rng(0)
    root = tmp_path / "root"
    for ses in ("1", "2"):
        folder = root / above / "sourcedata" / "freesurfer" / f"sub-01_ses-{ses}"
        write_aseg(folder / "stats" / "aseg.stats", random)
        write_aparc(folder / "stats" / "lh.aparc.stats", random)
        stem = f"{above}sub-01/ses-{ses}/anat/sub-01_ses-{ses}_acq-mprage_rec-norm"
        put(root, f"{stem}_desc-preproc_T1w.nii.gz")
        put(root, f"{stem}_space-MNI152NLin2009cAsym_res-1_desc-preproc_T1w.nii.gz")
    found = index(root, tmp_path / "out.tsv")
    space = "MNI152NLin2009cAsym"
    assert scans_of(found) == [("sub-01", "1", space), ("sub-01", "2", space)]
    assert len(found.measures.values) == 2


def test_images_that_a_program_made_are_named_where_raw_ones_are_taken(tmp_path):
    root = tmp_path / "bids"
    put(root, "sub-01/anat/sub-01_T1w.nii.gz", "sub-02/anat/sub-02_T1w.nii.gz")
    put(root, "sub-02/anat/sub-02_desc-defaced_T1w.nii.gz")
    found = index(root, tmp_path / "out.tsv")
    assert len(found.table) == 2
    note = "1 images beside the raw ones are left out.*sub-02_desc-defaced_T1w.nii.gz first"
    assert re.search(note, " ".join(found.notes))
    put(root, "derivatives/fmriprep/sub-01/anat/sub-01_desc-preproc_T1w.nii.gz")
    (root / "sub-02/anat/sub-02_desc-defaced_T1w.nii.gz").unlink()
    found = index(root, tmp_path / "out.tsv", overwrite=True)
    assert "beside the raw ones" not in " ".join(found.notes)
