"""What `prepare` finds in its folder is trusted only if it was made of the same files by the same recipe, whole."""

import gzip
import json
import shutil

import nibabel as nib
import numpy as np
import pytest
from filelock import FileLock

pytest.importorskip("SimpleITK")

from neurocontrast import locks
from neurocontrast.commands.prepare import prepare
from neurocontrast.data import read_cohort
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.prepare import records, scan

FAST = {"spacing_mm": 8.0, "bias": False, "registration": False, "n_workers": 0}


def write_study(folder, names=("sub-1", "sub-2"), seed=0):
    """Write small stripped brains in MNI space and their table."""
    folder.mkdir(parents=True)
    affine = nib.affines.from_matvec(np.eye(3) * 8, (-90, -126, -72))
    for number in range(len(names)):
        voxels = np.zeros((23, 28, 23), np.float32)
        voxels[6:17, 7:20, 6:16] = np.random.default_rng([seed, number]).uniform(
            50, 150, (11, 13, 10)
        )
        nib.save(nib.Nifti1Image(voxels, affine), folder / f"{number}.nii.gz")
    rows = [f"{name}\t{number}.nii.gz\n" for number, name in enumerate(names)]
    (folder / "heads.tsv").write_text("participant_id\tpath\n" + "".join(rows))
    return folder / "heads.tsv"


def contents(folder):
    """Return every file of a folder; of the record of the whole, what does not change from call to call."""
    found = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    if "prepare.json" in found:
        found["prepare.json"] = {**json.loads(found["prepare.json"]), "environment": None}
    return found


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path / "study")


@pytest.fixture
def prepared(study, tmp_path):
    prepare(study, tmp_path / "out", **FAST)
    return tmp_path / "out"


def test_a_record_names_what_was_made_from_what_and_by_what(study, prepared):
    record = json.loads((prepared / "images/sub-1.json").read_text())
    source = study.parent / "0.nii.gz"
    assert (record["input"]["path"], record["input"]["sha256"]) == (
        "0.nii.gz",
        [records.digest_of_file(source)],
    )
    assert record["options"]["spacing_mm"] == 8
    assert {"neurocontrast", "SimpleITK"} <= set(record["code"])
    assert set(record["files"]) == {f"sub-1_{name}.nii.gz" for name in ("brain", "gm", "wm", "csf")}
    whole = json.loads((prepared / "prepare.json").read_text())
    assert whole["finished"] is True
    assert whole["input"]["sha256"] == records.digest_of_file(study)
    assert str(study.parent) not in (prepared / "images/sub-1.json").read_text() + json.dumps(
        whole["input"]
    )


@pytest.mark.parametrize("name", ["participants.tsv", "quality.tsv"])
def test_the_input_table_is_never_replaced(study, name):
    table = study.rename(study.parent / name)
    before = contents(study.parent)
    with pytest.raises(ConfigError, match=rf"{name}' is the input table, and would be replaced"):
        prepare(table, study.parent, **FAST)
    assert contents(study.parent) == before


def test_tables_and_images_of_others_are_never_replaced(study, prepared):
    (study.parent / "participants.tsv").write_text("participant_id\nsub-1\n")
    before = contents(study.parent)
    with pytest.raises(
        ConfigError, match=r"holds participants.tsv and no prepare.json, so it is not known what it"
    ):
        prepare(study, study.parent, **FAST)
    assert contents(study.parent) == before
    again = prepared / "again.tsv"
    again.write_text(
        "participant_id\tpath\nsub-1\timages/sub-1_brain.nii.gz\nsub-2\timages/sub-2_brain.nii.gz\n"
    )
    before = contents(prepared)
    with pytest.raises(
        DataError, match=r"(?s)2 problems.*images/sub-1_brain.nii.gz is an input, and would be"
    ):
        prepare(again, prepared, **FAST)
    assert contents(prepared) == before


def test_identifiers_that_give_one_file_are_refused_together(tmp_path):
    table = write_study(
        tmp_path / "study", ("a b", "a-b", "a/b", "c", "C", "d", "e", "e_acq-imitated1")
    )
    with pytest.raises(DataError, match="3 problems") as caught:
        prepare(table, tmp_path / "out", **FAST, imitations=1)
    said = str(caught.value)
    assert "'a b', 'a-b', 'a/b' would be one file, images/a-b_brain.nii.gz" in said
    assert "'c', 'C' would" in said
    assert "'e', 'e_acq-imitated1'" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("at", [1, 3, 6])
def test_a_call_stopped_at_another_recipe_leaves_no_mixture(study, prepared, monkeypatch, at):
    before = contents(prepared)
    write = scan._write
    left = at

    def stop(*given):
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        write(*given)

    monkeypatch.setattr(scan, "_write", stop)
    with pytest.raises(KeyboardInterrupt):
        prepare(study, prepared, **FAST | {"spacing_mm": 6.0})
    assert not (prepared / "participants.tsv").exists()
    assert not json.loads((prepared / "prepare.json").read_text())["finished"]
    for person in ("sub-1", "sub-2"):
        images = list((prepared / "images").glob(f"{person}_*"))
        assert len({nib.load(path).shape for path in images}) <= 1
        assert len(images) == 4 or not (prepared / f"images/{person}.json").exists()
    monkeypatch.setattr(scan, "_write", write)
    prepare(study, prepared, **FAST)
    assert contents(prepared) == before


def test_maps_of_an_earlier_recipe_do_not_stay_beside_the_new_brain(study, prepared):
    prepare(study, prepared, **FAST, tissue=False)
    assert sorted(path.name for path in (prepared / "images").iterdir()) == [
        *("sub-1.json", "sub-1_brain.nii.gz", "sub-2.json", "sub-2_brain.nii.gz")
    ]


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def altered(path):
    path.write_bytes(gzip.compress(b"\0" * 10_000))


@pytest.mark.parametrize("name", ["sub-2_brain.nii.gz", "sub-2_csf.nii.gz"])
@pytest.mark.parametrize(
    "damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b""), cut, altered]
)
def test_an_image_that_is_not_as_it_was_written_is_made_again(study, prepared, name, damage):
    before = contents(prepared)
    other = prepared / "images/sub-1_gm.nii.gz"
    kept = other.stat().st_mtime_ns
    damage(prepared / "images" / name)
    prepare(study, prepared, **FAST)
    assert contents(prepared) == before
    assert other.stat().st_mtime_ns == kept


def test_a_damaged_record_is_made_again(study, prepared):
    before = contents(prepared)
    for text in ("", "null", "[]", "{}", '{"files": {}}', '{"files": 1, "input": "", "facts": 2}'):
        (prepared / "images/sub-2.json").write_text(text)
        prepare(study, prepared, **FAST)
        assert contents(prepared) == before


def test_images_of_another_cohort_are_refused_and_kept(prepared, tmp_path):
    before = contents(prepared)
    other = write_study(tmp_path / "other", seed=1)
    other.write_text(other.read_text().replace("sub-1", "sub-3", 1))
    with pytest.raises(
        DataError, match=r"sub-2: images/sub-2_brain\.nii\.gz was made of another file"
    ):
        prepare(other, prepared, skip=True, **FAST)
    assert contents(prepared) == before


def test_moved_scans_are_trusted_and_corrected_ones_are_made_again(study, prepared, tmp_path):
    image = prepared / "images/sub-2_brain.nii.gz"
    before = image.stat().st_mtime_ns
    moved = tmp_path / "moved"
    shutil.move(study.parent, moved)
    prepare(moved / "heads.tsv", prepared, **FAST)
    assert image.stat().st_mtime_ns == before
    shutil.move(moved, study.parent)
    corrected = write_study(tmp_path / "corrected", seed=1).parent
    shutil.copy(corrected / "0.nii.gz", study.parent / "0.nii.gz")
    prepare(study, prepared, **FAST)
    assert image.stat().st_mtime_ns == before
    alone = prepare(study, tmp_path / "alone", **FAST).parent
    assert contents(prepared) == contents(alone)


def test_another_version_of_the_code_makes_everything_again(study, prepared, monkeypatch):
    before = (prepared / "images/sub-2_brain.nii.gz").stat().st_mtime_ns
    monkeypatch.setattr(records, "version", lambda: "9.9")
    prepare(study, prepared, **FAST)
    assert (prepared / "images/sub-2_brain.nii.gz").stat().st_mtime_ns > before


def test_imitations_that_are_damaged_or_of_another_brain_are_made_again(study, prepared):
    prepare(study, prepared, **FAST, imitations=1)
    before = contents(prepared)
    (prepared / "images/sub-1_acq-imitated1_gm.nii.gz").write_bytes(b"")
    (prepared / "images/sub-2_acq-imitated1.json").write_text("")
    prepare(study, prepared, **FAST, imitations=1)
    assert contents(prepared) == before
    (prepared / "images/sub-1.json").unlink()
    left = prepared / "images/sub-1_acq-imitated1_gm.nii.gz"
    prepare(study, prepared, **FAST)
    assert not left.exists()


def test_what_a_killed_call_left_is_removed_and_a_living_one_is_respected(
    study, prepared, monkeypatch
):
    left = [
        prepared / ".tmp-0123456789ab-quality.tsv",
        prepared / "images/.tmp-0123456789ab-sub-1_brain.nii.gz",
    ]
    for path in left:
        path.write_bytes(b"half")
    prepare(study, prepared, **FAST)
    assert not any(path.exists() for path in left)
    monkeypatch.setattr("neurocontrast.locks._PATIENCE", 0)
    with (
        FileLock(prepared / locks.LOCK),
        pytest.raises(ConfigError, match="another process is preparing scans"),
    ):
        prepare(study, prepared, **FAST)
    assert len(read_cohort(prepared / "participants.tsv")) == 2
