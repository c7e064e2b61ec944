"""Layouts of programs and public sets; a new one is a function and a line of `LAYOUTS`, from wherever it comes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import neurocontrast
from neurocontrast import index
from neurocontrast.cli.app import app
from neurocontrast.data import read_cohort
from neurocontrast.data.layouts import LAYOUTS
from neurocontrast.data.layouts.tree import FoundScan
from neurocontrast.exceptions import DataError
from tests.data.conftest import made, put, rows


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    (tmp_path / "out").mkdir()


def subject_folders(tree):
    """A layout from outside the package: a folder a subject, with one scan in each."""
    for path, folder, _ in tree.matching(r"subject([0-9]+)", r"head\.nii\.gz"):
        yield FoundScan(folder[1], path, facts={"age": "30"})


def test_a_layout_from_outside_the_package_makes_a_cohort(tmp_path, monkeypatch):
    for name in ("subject02", "subject01"):
        (tmp_path / "heads" / name).mkdir(parents=True)
        (tmp_path / "heads" / name / "head.nii.gz").write_text("image")
    monkeypatch.setitem(LAYOUTS, "subject-folders", subject_folders)
    found = index(tmp_path / "heads", tmp_path / "participants.tsv")
    assert found.layout == "subject-folders"
    table = read_cohort(found.path).table
    assert table["participant_id"].tolist() == ["sub-01", "sub-02"]
    assert table["path"].tolist()[0] == str(tmp_path / "heads" / "subject01" / "head.nii.gz")
    assert table["age"].tolist() == [30.0, 30.0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"subject": ""}, "subject is empty; give the label of the subject"),
        ({"stage": "skull-stripped"}, r"one of 'raw', .*'tissue', found 'skull-stripped'"),
        ({"maps": {"mask": "m.nii"}}, "keys among 'mask_path', 'gm', .*found 'mask'"),
    ],
)
def test_a_scan_that_no_later_step_could_read_is_refused(wrong, message):
    with pytest.raises(ValueError, match=rf"01/head\.nii: .*{message}"):
        FoundScan(**{"subject": "01", "path": "01/head.nii", **wrong})


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_has_a_row_of_the_page(name):
    page = (Path(neurocontrast.__file__).parents[1] / "docs" / "data.md").read_text()
    assert f"\n| `{name}` |" in page, "docs/data.md: add a row of this layout"


def test_raw_images_of_any_layout_are_prepared_next(tmp_path, monkeypatch):
    put(tmp_path / "heads" / "subject01", "head.nii.gz")
    monkeypatch.setitem(LAYOUTS, "subject-folders", subject_folders)
    monkeypatch.chdir(tmp_path / "out")
    indexed = CliRunner().invoke(app, ["index", str(tmp_path / "heads")])
    assert "Next: neurocontrast prepare" in indexed.output


def test_fmriprep_has_masks_and_maps_and_one_space_is_chosen(tmp_path):
    root = tmp_path / "deriv"
    stem = "sub-01/anat/sub-01"
    for space in ("", "_space-MNI152NLin2009cAsym_res-2"):
        put(root, f"{stem}{space}_desc-preproc_T1w.nii.gz")
        put(root, f"{stem}{space}_desc-brain_mask.nii.gz")
        put(root, f"{stem}{space}_label-GM_probseg.nii.gz")
    found, record = made(root, tmp_path)
    row = found["sub-01", ""]
    assert row["space"] == "MNI152NLin2009cAsym"
    assert row["mask_path"].endswith("_space-MNI152NLin2009cAsym_res-2_desc-brain_mask.nii.gz")
    assert row["gm"].endswith("label-GM_probseg.nii.gz")
    assert record["left_out"][0]["reason"] == "native; the session has an image in MNI space"
    assert "--choose space=native" in record["notes"][0]
    found, record = made(root, tmp_path, choose=["space=native"], overwrite=True)
    assert found["sub-01", ""]["space"] == "native"
    assert record["notes"] == [
        "No table says anything of these people; --phenotype FILE joins one."
    ]
    put(root, f"{stem}_space-MNI152Lin_desc-preproc_T1w.nii.gz")
    with pytest.raises(DataError, match=r"2 images: .*decide with .*--choose space=MNI152Lin"):
        made(root, tmp_path, overwrite=True)


def test_cat12_gives_tissue_maps_and_volume(tmp_path):
    root = tmp_path / "cat"
    for prefix in ("mwp1", "mwp2", "wm"):
        put(root, f"mri/{prefix}sub-07_T1w.nii")
    put(root, "report/cat_sub-07_T1w.xml", "<x><vol_TIV>1512.25</vol_TIV><IQR>2.1</IQR></x>")
    put(root, "sheet.csv", "Patient,Age,Gender\n07,41,female\n")
    found, _ = made(root, tmp_path, phenotypes=[root / "sheet.csv"], id_column="Patient")
    row = found["sub-07", ""]
    assert (row["age"], row["sex"], row["tiv"]) == (41, "F", 1512.25)
    assert row["path"].endswith("mri/wmsub-07_T1w.nii")
    assert row["gm"].endswith("mwp1sub-07_T1w.nii")


def test_freesurfer_gives_the_stripped_brain(tmp_path):
    root = tmp_path / "subjects"
    for subject in ("bert", "fsaverage", "bert.long.base"):
        put(root, f"{subject}/mri/T1.mgz")
        put(root, f"{subject}/mri/brainmask.mgz")
    measure = "# Measure EstimatedTotalIntraCranialVol, eTIV, Estimated Total Intracranial Volume, 1514345.1, mm^3\n"
    measure += "# Measure SurfaceHoles, SurfaceHoles, Total number of defect holes in surfaces, 24, unitless\n"
    put(root, "bert/stats/aseg.stats", measure)
    put(root, "participants.tsv", rows("participant_id age\nbert 20"))
    found, _ = made(root, tmp_path)
    assert list(found) == [("sub-bert", "")]
    assert found["sub-bert", ""]["path"].endswith("bert/mri/brainmask.mgz")
    assert found["sub-bert", ""]["tiv"] == 1514.3
    assert found["sub-bert", ""]["euler"] == -22


def test_clinica_openbhb_brainprep_and_ixi(tmp_path):
    linear = "sub-1_ses-M00_space-MNI152NLin2009cSym{}_res-1x1x1_T1w.nii.gz"
    caps = tmp_path / "caps"
    for desc in ("", "_desc-Crop"):
        put(caps, f"subjects/sub-1/ses-M00/t1_linear/{linear.format(desc)}")
    found, _ = made(caps, tmp_path, choose=["desc=Crop"])
    assert "desc-Crop" in found["sub-1", "M00"]["path"]

    tissue = "subjects/sub-1/ses-M00/t1/spm/segmentation/normalized_space/sub-1_ses-M00_T1w_segm-{}_space-Ixi549Space"
    for name in ("graymatter", "whitematter"):
        put(tmp_path / "spm", f"{tissue.format(name)}_modulated-on_probability.nii.gz")
    found, _ = made(tmp_path / "spm", tmp_path, overwrite=True)
    row = found["sub-1", "M00"]
    assert (row["stage"], row["space"], row["path"].endswith(row["gm"].strip("."))) == (
        "tissue",
        "Ixi549Space",
        True,
    )
    assert "segm-whitematter" in row["wm"]

    bhb = tmp_path / "bhb"
    put(bhb, "train/sub-100053248969_preproc-quasiraw_T1w.npy")
    put(bhb, "train/sub-100053248969_preproc-cat12vbm_desc-gm_T1w.npy")
    put(
        bhb,
        "participants.tsv",
        rows("participant_id age sex site siteXacq\n100053248969 25 male 4 4.3"),
    )
    found, _ = made(bhb, tmp_path, choose=["preproc=cat12vbm"], overwrite=True)
    assert found["sub-100053248969", ""]["site"] == "4.3"
    assert found["sub-100053248969", ""]["stage"] == "tissue"

    quasiraw = tmp_path / "quasiraw"
    put(quasiraw, "sub-A/ses-1/anat/sub-A_ses-1_run-1_desc-6apply_T1w.nii.gz")
    found, _ = made(quasiraw, tmp_path, overwrite=True)
    assert found["sub-A", "1"]["stage"] == "stripped"

    ixi = tmp_path / "ixi"
    put(ixi, "IXI012-HH-1211-T1.nii.gz")
    put(ixi, "IXI.csv", 'IXI_ID,"SEX_ID (1=m, 2=f)",AGE\n12,1,38.78\n')
    found, _ = made(ixi, tmp_path, phenotypes=[ixi / "IXI.csv"], overwrite=True)
    row = found["sub-IXI012", ""]
    assert (row["sex"], row["age"], row["site"]) == ("M", 38.78, "Hammersmith Hospital")
