"""Whole heads and brains that are not in MNI space are named, with the command that prepares them."""

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

import neurocontrast
from neurocontrast.cli.app import run
from neurocontrast.transforms.template import extent_of
from tests.commands.small_run import Listening
from tests.heads import head_of


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Return a table of brains in MNI space."""
    folder = tmp_path_factory.mktemp("brains")
    return neurocontrast.simulate(folder / "s", n_subjects=4, n_sites=2, spacing_mm=8.0, seed=5)


def with_images(cohort, folder, change):
    """Write a table of changed images, and return its path."""
    rows = cohort.read_text().splitlines()
    column = rows[0].split("\t").index("path")
    for number, row in enumerate(rows[1:], start=1):
        cells = row.split("\t")
        image = nib.load(cohort.parent / cells[column])
        cells[column] = f"{number}.nii.gz"
        nib.save(change(image, number), folder / cells[column])
        rows[number] = "\t".join(cells)
    (folder / "p.tsv").write_text("\n".join(rows))
    return folder / "p.tsv"


def native(image, _):
    """Return a smaller brain at another place of the scanner."""
    affine = np.diag([0.85, 0.85, 0.85, 1.0]) @ image.affine
    affine[:3, 3] += (0, 25, -30)
    return nib.Nifti1Image(image.get_fdata(dtype=np.float32), affine)


def test_prepared_brains_have_no_such_warning(cohort, capsys):
    report = neurocontrast.check(cohort)
    assert report.n_unprepared == 0
    assert not any("prepare" in warning for warning in report.warnings)
    assert run(["check", str(cohort)]) == 0
    assert "neurocontrast pretrain" in capsys.readouterr().out


def test_scans_that_their_index_calls_raw_are_prepared_next(cohort, tmp_path, capsys):
    """A head that was masked, or a phantom, has the extent of a brain."""
    rows = pd.read_csv(cohort, sep="\t", dtype=str)
    rows["path"] = [str(cohort.parent / path) for path in rows["path"]]
    rows["stage"] = ["raw", "raw", "stripped", "stripped"]
    table = tmp_path / "p.tsv"
    rows.to_csv(table, sep="\t", index=False)
    assert neurocontrast.check(table).n_unprepared == 2
    assert run(["check", str(table)]) == 0
    printed = capsys.readouterr().out
    assert "2 scans are raw: prepare them first" in printed
    assert f"Next: neurocontrast prepare {table} --out prepared" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"), [(head_of, "are whole heads"), (native, "are not in MNI space")]
)
def test_raw_scans_are_named_and_prepare_comes_next(cohort, tmp_path, capsys, change, words):
    table = with_images(cohort, tmp_path, change)
    report = neurocontrast.check(table)
    n = report.n_scans
    assert report.n_unprepared == n
    assert any(f"{n} of {n} scans {words} (the first, " in text for text in report.warnings)
    assert run(["check", str(table)]) == 0
    printed = capsys.readouterr().out
    assert f"Next: neurocontrast prepare {table} --out prepared" in printed
    assert "No problems." not in printed


def test_pretrain_warns_of_raw_scans(cohort, tmp_path):
    data = {"cache_dir": str(tmp_path / "cache"), "n_workers": 1, "spacing_mm": 14.0}
    config = {
        "data": {**data, "shape": [12, 14, 12], "val_fraction": 0.0},
        "encoder": {"name": "lenet", "projection": [8, 4]},
        "training": {"epochs": 1, "batch_size": 4, "accelerator": "cpu"},
    }
    for table, is_raw in ((cohort, False), (with_images(cohort, tmp_path, native), True)):
        told = Listening()
        out = tmp_path / f"run-{is_raw}"
        neurocontrast.pretrain(config, participants=table, out=out, progress=told)
        assert any("not in MNI space" in text for text in told.warned) is is_raw


def test_a_map_of_tissue_is_no_brain_and_a_constant_image_has_no_extent():
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    assert extent_of(np.ones((20, 20, 20)), affine).litres == 0
    small = np.zeros((60, 60, 60))
    small[20:40, 20:40, 20:40] = 1
    assert not extent_of(small, affine).is_unregistered
