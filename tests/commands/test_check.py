from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

from neurocontrast.cli import run
from neurocontrast.commands.check import check
from neurocontrast.data.cohort import read_cohort
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.transforms import Preprocessing


@pytest.fixture
def table(tmp_path) -> Path:
    generator = np.random.default_rng(0)
    lines = ["participant_id\tpath\tage\tsex\tsite\tdiagnosis"]
    for i in range(6):
        nib.save(
            nib.Nifti1Image(generator.random((16, 16, 16), dtype=np.float32), np.eye(4)),
            tmp_path / f"{i}.nii.gz",
        )
        lines.append(f"s{i}\t{i}.nii.gz\t{30 + i}\t{'MF'[i % 2]}\t{'AB'[i // 3]}\t{'pc'[i % 2]}")
    path = tmp_path / "participants.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_good_table_passes_with_its_summary(table):
    report = check(table, n_workers=0)
    assert report.passed
    assert (report.n_scans, report.n_subjects) == (6, 6)
    assert list(report.summary.index) == ["A", "B", "all"]
    assert report.summary.loc["all", "age mean"] == 32.5
    assert report.summary.loc["A", "diagnosis p"] == 2
    text = report.to_text()
    assert text.startswith(
        "participants.tsv: 6 scans of 6 subjects; checked table, headers and voxels."
    )
    assert text.endswith("No problems.")


def test_a_site_called_all_is_not_the_total(table):
    people = pd.read_csv(table, sep="\t")
    people.assign(site=["all"] * 4 + ["b", None]).to_csv(table, sep="\t", index=False)
    summary = check(table, deep=False, n_workers=0).summary
    assert list(summary.index) == ["all", "b", "site n/a", "all"]
    assert summary["scans"].tolist() == [4, 1, 1, 6]


def test_the_recipe_to_begin_with_is_that_of_the_table(table, capsys):
    assert check(table, deep=False, n_workers=0).recipe == ("small",)
    maps = pd.read_csv(table, sep="\t")
    for name, more in {"gm": ("--set", "data.channels=[gm]"), "wm": ()}.items():
        maps.assign(**{name: maps["path"]}).to_csv(table, sep="\t", index=False)
        maps = pd.read_csv(table, sep="\t")
        assert check(table, deep=False, n_workers=0).recipe == ("tissue_linear", *more)
    assert (
        run(
            ["check", str(table), "--table-only", "--config", "yaware", "--set", "data.n_workers=1"]
        )
        == 0
    )
    assert (
        f"Next: neurocontrast pretrain --config yaware --participants {table}"
        in capsys.readouterr().out
    )


def test_problems_of_table_and_images_are_told_together(table):
    assert len(check(table, preprocessing=Preprocessing(), n_workers=0).problems.found) == 6
    nib.save(
        nib.Nifti1Image(np.zeros((16, 16, 16), dtype=np.float32), np.eye(4)),
        table.parent / "3.nii.gz",
    )
    shallow = check(table, deep=False, n_workers=0)
    assert shallow.passed
    assert "not the voxels" in shallow.to_text()
    (table.parent / "1.nii.gz").write_bytes(b"")
    (table.parent / "2.nii.gz").unlink()
    table.write_text(table.read_text().replace("\t34\t", "\t-34\t"))
    report = check(table, n_workers=0)
    assert not report.passed
    text = report.to_text()
    assert "participants.tsv: 4 problems" in text
    lines = (
        "line 3, s1: ",
        "0 bytes",
        "line 4, s2, column 'path'",
        "every voxel is 0",
        "line 6, s4, column 'age'",
    )
    for part in lines:
        assert part in text


def test_rows_without_a_problem_become_a_table_elsewhere(table, tmp_path, capsys):
    (table.parent / "1.nii.gz").write_bytes(b"")
    table.write_text(table.read_text().replace("\t34\t", "\t-34\t").replace("\t33\t", "\t89+\t"))
    good = tmp_path / "mended" / "good.tsv"
    assert (
        run(["check", str(table), "--write-good", str(good), "--set", "data.n_workers=1", "-q"])
        == 0
    )
    assert "the 4 rows without a problem; left out: 2." in capsys.readouterr().out
    assert good.read_text().splitlines()[3] == "s3\t../3.nii.gz\t89+\tF\tB\tc"
    assert list(read_cohort(good).table["participant_id"]) == ["s0", "s2", "s3", "s5"]
    assert check(good, n_workers=0).passed
    with pytest.raises(ConfigError, match=r"write_good: '.*good.tsv' exists\. .*overwrite=True"):
        check(table, write_good=good)
    with pytest.raises(ConfigError, match="is the table that is checked"):
        check(table, write_good=table, overwrite=True)
    for row in range(6):
        (table.parent / f"{row}.nii.gz").unlink()
    with pytest.raises(
        DataError, match=r"(?s)7 problems.*write_good: nothing was written, since no row"
    ):
        check(table, write_good=tmp_path / "none.tsv")
    assert not (tmp_path / "none.tsv").exists()


def test_paths_of_a_table_in_a_linked_folder_lead_to_the_same_files(table, tmp_path):
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/away")
    good = tmp_path / "link" / "good.tsv"
    notes = tmp_path / "notes.tsv"
    notes.write_text("mine")
    good.symlink_to(notes)  # a link in the place of the table gives way, and its target stays
    assert check(table, n_workers=0, write_good=good, overwrite=True).passed
    assert not good.is_symlink()
    assert notes.read_text() == "mine"
    assert len(read_cohort(good)) == 6


def test_the_real_cohort_passes_by_its_headers(shared_folder):
    report = check(shared_folder / "data" / "brains" / "participants.tsv", deep=False, n_workers=0)
    assert report.passed
    assert (report.n_scans, report.n_subjects) == (209, 209)
