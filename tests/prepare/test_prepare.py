"""The stage: a table of scans becomes a table of brains, can be continued, and names what it could not prepare."""

import json
import re
import shutil

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("SimpleITK")

from nilearn.datasets import load_mni152_brain_mask

from neurocontrast import simulate
from neurocontrast.cli.app import run
from neurocontrast.commands.prepare import prepare
from neurocontrast.data import read_cohort
from neurocontrast.evaluation.rows import tidy_table
from neurocontrast.exceptions import ConfigError, DataError


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    table = simulate(folder / "scans", n_subjects=2, n_sites=1, spacing_mm=6.0, seed=0)
    frame = pd.read_csv(table, sep="\t", dtype=str)
    first = table.parent / frame["path"][0]
    image = nib.load(first)
    image.header["descrip"] = b"Erika Mustermann"
    nib.save(image, first)
    out = prepare(table, folder / "prepared", spacing_mm=6.0, bias=False, n_workers=0)
    return table, out


def test_the_new_table_names_brains_and_tissue_maps(study):
    _, out = study
    cohort = read_cohort(out)
    assert len(cohort) == 2
    for column in ("path", "gm", "wm", "csf"):
        paths = (
            cohort.table[column]
            if column == "path"
            else [out.parent / path for path in cohort.table[column]]
        )
        images = [nib.load(path) for path in paths]
        assert {image.shape for image in images} == {(31, 37, 31)}
        assert all(bytes(image.header["descrip"].tobytes()).strip(b"\0") == b"" for image in images)
    grey = nib.load(out.parent / cohort.table["gm"][0]).get_fdata()
    assert 0 <= grey.min() < 0.01
    assert 0.9 < grey.max() <= 1
    quality = pd.read_csv(out.parent / "quality.tsv", sep="\t")
    assert list(quality["extraction"]) == ["stripped already"] * 2
    assert (quality["dice_template"] > 0.85).all()


@pytest.mark.slow
def test_volumes_are_native_and_grow_with_the_cube_of_the_brain(study, tmp_path):
    table, _ = study
    source = nib.load(read_cohort(table).table["path"][0])
    names = {"sub-1": 1.0, "sub-2": 1.12, "sub-3": 0.9}
    for name, scale in names.items():
        affine = np.diag([scale, scale, scale, 1]) @ source.affine
        nib.save(
            nib.Nifti1Image(source.get_fdata(dtype=np.float32), affine), tmp_path / f"{name}.nii.gz"
        )
    (tmp_path / "scans.tsv").write_text(
        "participant_id\tpath\n" + "".join(f"{n}\t{n}.nii.gz\n" for n in names)
    )
    out = prepare(tmp_path / "scans.tsv", tmp_path / "out", spacing_mm=6.0, bias=False, n_workers=0)
    found = read_cohort(out).table.set_index("participant_id")[["tiv", "gm_ml", "wm_ml", "csf_ml"]]
    for name, scale in names.items():
        assert (found.loc[name] / found.loc["sub-1"]).to_numpy() == pytest.approx(
            scale**3, rel=0.03
        )
    template_ml = load_mni152_brain_mask(resolution=2).get_fdata().sum() * 8 / 1000
    quality = pd.read_csv(out.parent / "quality.tsv", sep="\t", index_col="participant_id")
    scales = [np.prod(json.loads(text)) for text in quality["scales"]]
    assert quality["tiv"].to_numpy() == pytest.approx(template_ml * np.array(scales), rel=0.003)
    # The brain's mask was counted in its own space: the tissues' sum is nearly that.
    assert quality[["gm_ml", "wm_ml", "csf_ml"]].sum(axis=1).to_numpy() == pytest.approx(
        quality["brain_ml"], rel=0.05
    )
    assert 700 < found.loc["sub-1", "tiv"] < 2500
    assert list(tidy_table(read_cohort(out).table)["tiv"]) == list(
        quality["tiv"]
    )  # as `evaluate` reads its covariates


@pytest.mark.slow
def test_a_tiv_of_the_table_is_kept_and_none_is_made_up(study, tmp_path):
    table, _ = study
    frame = (
        read_cohort(table)
        .table[["participant_id", "path"]]
        .assign(TIV=["1500.5", "n/a"], gm="head_gm.nii")
    )
    frame.to_csv(tmp_path / "participants.csv", index=False)
    given = {"spacing_mm": 6.0, "bias": False, "n_workers": 0}
    out = prepare(tmp_path / "participants.csv", tmp_path / "out", **given)
    kept = pd.read_csv(out, sep="\t")
    assert list(kept["TIV"].fillna(0)) == [1500.5, 0]
    assert "tiv" not in kept
    assert pd.read_csv(out.parent / "quality.tsv", sep="\t")["tiv"].between(700, 2500).all()
    assert kept["gm_ml"].notna().all()
    out = prepare(tmp_path / "participants.csv", tmp_path / "mni", **given, registration=False)
    assert not {"tiv", "gm_ml"} & set(pd.read_csv(out, sep="\t"))
    out = prepare(tmp_path / "participants.csv", tmp_path / "brains", **given, tissue=False)
    assert "gm" not in pd.read_csv(out, sep="\t")  # it lies where the head did


def test_scans_that_lie_in_mni_space_are_only_resampled(study, tmp_path):
    table, _ = study
    out = prepare(
        table,
        tmp_path / "out",
        spacing_mm=6.0,
        bias=False,
        registration=False,
        tissue=False,
        n_workers=0,
    )
    found = nib.load(read_cohort(out).table["path"][0])
    source = nib.load(read_cohort(table).table["path"][0])
    assert np.allclose(found.affine[:3, 3], (-90, -126, -72))

    def centre(image):
        voxels = image.get_fdata()
        return nib.affines.apply_affine(image.affine, np.argwhere(voxels > 0).mean(axis=0))

    assert np.abs(centre(found) - centre(source)).max() < 1.5
    quality = pd.read_csv(out.parent / "quality.tsv", sep="\t")
    assert list(quality["registration"]) == ["the header's"] * 2
    assert quality["metric"].isna().all()


@pytest.mark.parametrize("column", ["space", "Space"])
def test_heads_that_were_scaled_to_the_template_are_not_measured(study, tmp_path, column):
    """Their volumes would be the template's for everybody, and tiv is a covariate."""
    table = read_cohort(study[0]).table[["participant_id", "path"]]
    spaces = ["MNI152NLin2009cAsym:cohort-1", " mni152"]
    table.assign(**{column: spaces}).to_csv(tmp_path / "scans.tsv", sep="\t", index=False)
    given = {"spacing_mm": 6.0, "bias": False, "tissue": False, "n_workers": 0}
    with pytest.raises(DataError) as caught:
        prepare(tmp_path / "scans.tsv", tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()
    message = str(caught.value)
    assert message.startswith("scans.tsv: 2 of 2 scans lie in MNI space already")
    assert f"by the column '{column}': " in message
    for name, space in zip(table["participant_id"], spaces, strict=True):
        assert f"{name} ({space.strip()!r})" in message
    for remedy in ("registration=False (--no-registration)", "index --choose space=native"):
        assert remedy in message
    out = prepare(tmp_path / "scans.tsv", tmp_path / "out", **given, registration=False)
    assert "tiv" not in pd.read_csv(out, sep="\t")


def test_one_head_in_mni_space_is_named_among_native_ones(study, tmp_path):
    table = read_cohort(study[0]).table[["participant_id", "path"]]
    table.assign(space=["native", "MNI152"]).to_csv(tmp_path / "scans.csv", index=False)
    with pytest.raises(DataError, match=rf"1 of 2 scans .*: {table['participant_id'][1]} \('MNI"):
        prepare(tmp_path / "scans.csv", tmp_path / "out", spacing_mm=6.0, n_workers=0)
    table.assign(space=["native", "n/a"]).to_csv(tmp_path / "scans.csv", index=False)
    given = {"spacing_mm": 6.0, "bias": False, "tissue": False, "n_workers": 0}
    out = prepare(tmp_path / "scans.csv", tmp_path / "out", **given)
    assert pd.read_csv(out, sep="\t")["tiv"].notna().all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"spacing_mm": 0.1}, "spacing_mm must be between 0.5 and 8"),
        ({"n_workers": -2}, "n_workers must be 0 or more"),
        ({"imitations": 21}, "imitations must be between 0 and 20, got 21"),
    ],
)
def test_wrong_options_are_named_before_anything_is_done(study, tmp_path, options, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        prepare(study[0], tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_imitations_are_sessions_of_their_subjects_and_nothing_real_is_prepared_again(
    study, tmp_path
):
    table = study[0]
    out = tmp_path / "prepared" / "participants.tsv"
    shutil.copytree(study[1].parent, out.parent)
    brain = out.parent / read_cohort(out).table["gm"][0].replace("_gm", "_brain")
    before = brain.stat().st_mtime_ns
    real = out.read_text()
    prepare(table, out.parent, spacing_mm=6.0, bias=False, imitations=2, n_workers=0)
    assert brain.stat().st_mtime_ns == before
    assert out.read_text() == real
    cohort = read_cohort(out.parent / "imitations.tsv")
    assert cohort.table.groupby("subject_id").size().tolist() == [3, 3]
    assert cohort.table["session"].str.contains("imitated").sum() == 4
    assert (
        sorted(cohort.table["acquisition"]) == ["imitated1"] * 2 + ["imitated2"] * 2 + ["real"] * 2
    )
    assert "acquisition" not in read_cohort(out).table
    one = cohort.table[cohort.table["subject_id"] == cohort.table["subject_id"][0]]
    grey = [nib.load(out.parent / path).get_fdata() for path in one["gm"]]
    correlations = np.corrcoef([each.ravel() for each in grey])[np.triu_indices(3, 1)]
    assert ((correlations > 0.5) & (correlations < 0.999)).all()


def test_what_cannot_be_prepared_is_named_and_the_others_are_kept(study, tmp_path, capsys):
    table, _ = study
    frame = read_cohort(table).table[["participant_id", "path"]].copy()
    frame.loc[0, "path"] = str(tmp_path / "bad.nii.gz")
    (tmp_path / "bad.nii.gz").write_bytes(b"no image")
    frame.to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    name = frame["participant_id"][0]
    with pytest.raises(DataError, match=rf"1 of 2 scans could not be prepared:\n  {name}"):
        prepare(
            tmp_path / "participants.tsv", tmp_path / "out", spacing_mm=6.0, bias=False, n_workers=0
        )
    assert not (tmp_path / "out" / "participants.tsv").exists()
    arguments = [
        "prepare",
        str(tmp_path / "participants.tsv"),
        "--out",
        str(tmp_path / "out"),
        "--no-bias",
    ]
    arguments += ["--spacing-mm", "6", "--n-workers", "0"]
    assert run(arguments) == 2
    assert name in capsys.readouterr().err
    assert run([*arguments, "--skip"]) == 0
    assert len(read_cohort(tmp_path / "out" / "participants.tsv")) == 1


@pytest.mark.parametrize(
    ("voxels", "mask", "said"),
    [
        (np.zeros((10, 10, 10)), "", "scan.nii.gz: "),
        (
            np.ones((10, 10, 10)),
            "none.nii.gz",
            "none.nii.gz: there is no such file. The column 'mask_path' names it",
        ),
        (np.ones((10, 10, 10, 2)), "", "10 × 10 × 10 × 2"),
    ],
)
def test_a_scan_without_a_brain_is_named(tmp_path, voxels, mask, said):
    nib.save(nib.Nifti1Image(voxels.astype(np.float32), np.eye(4)), tmp_path / "scan.nii.gz")
    (tmp_path / "participants.tsv").write_text(
        f"participant_id\tpath\tmask_path\nsub-1\tscan.nii.gz\t{mask}\n"
    )
    with pytest.raises(DataError, match=said):
        prepare(tmp_path / "participants.tsv", tmp_path / "out", n_workers=0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda voxels, affine: (voxels[:12], affine),
            r"mask.nii.gz: the mask has the shape \(12, ",
        ),
        (
            lambda voxels, affine: (voxels, affine + np.eye(4)[:1].T * [0, 0, 0, 4]),
            "header puts the mask 4.0 mm from",
        ),
    ],
)
def test_a_mask_of_another_grid_is_refused(study, tmp_path, change, said):
    image = nib.load(read_cohort(study[0]).table["path"][0])
    voxels, affine = change((image.get_fdata() > 0).astype(np.float32), image.affine)
    nib.save(nib.Nifti1Image(voxels, affine), tmp_path / "mask.nii.gz")
    row = f"sub-1\t{image.get_filename()}\tmask.nii.gz\n"
    (tmp_path / "scans.tsv").write_text(f"participant_id\tpath\tmask_path\n{row}")
    with pytest.raises(DataError, match=said):
        prepare(tmp_path / "scans.tsv", tmp_path / "out", spacing_mm=6.0, n_workers=0)
