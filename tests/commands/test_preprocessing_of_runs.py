"""What a run states of its scans: preprocessing, channels and a known answer, held against scans of a user."""

import json
import shutil

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from small_run import Interrupting, changed_run, metrics, read_json, with_maps

import neurocontrast
from neurocontrast import check
from neurocontrast.data import CohortDataset, read_cohort
from neurocontrast.exceptions import CheckpointError, DataError, TrainingInterrupted
from neurocontrast.transforms import Preprocessing, brain_transforms, load_volume


def test_a_run_from_before_there_was_anything_to_fit_continues(whole, settings, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    path = run / "provenance.json"
    provenance = json.loads(path.read_text())
    assert provenance.pop("preprocessing") == settings().data.preprocessing.contract()
    path.write_text(json.dumps(provenance))
    neurocontrast.pretrain(settings("training.epochs=3"), out=run, resume=True)
    assert len(metrics(run)) == 3


def test_all_scans_that_are_no_brains_are_named_by_a_run(cohort, settings, tmp_path):
    table = read_cohort(cohort).table[["participant_id", "path", "age", "sex", "site"]].copy()
    for row in (0, 9):
        image = nib.load(table.loc[row, "path"])
        table.loc[row, "path"] = str(tmp_path / f"{row}.nii.gz")
        nib.save(
            nib.Nifti1Image(image.get_fdata(dtype=np.float32) + 9, image.affine),
            table.loc[row, "path"],
        )
    participants = tmp_path / "participants.tsv"
    table.to_csv(participants, sep="\t", index=False)
    config = settings("data.normalise=percentile", f"data.participants={participants}")
    with pytest.raises(DataError, match="scans: 2 problems") as told:
        neurocontrast.pretrain(config, out=tmp_path / "run")
    assert str(told.value).count("litres of it are not 0") == 2
    assert not (tmp_path / "run" / "config.yaml").exists()
    report = check(participants, preprocessing=config.data.preprocessing, n_workers=0)
    assert len(report.problems.found) == 2
    assert check(participants, n_workers=0).passed


def test_an_older_contract_gives_the_voxels_it_gave(cohort):
    path = str(read_cohort(cohort).table["path"][0])
    older = {
        "transform_version": 1,
        "spacing_mm": None,
        "shape": [20, 24, 20],
        "orientation": "RAS",
    }
    plain = load_volume(path, Preprocessing.from_contract(older | {"normalise": "none"}))[0]
    assert (plain == 0).any()  # nothing is masked, padded or scaled but by what follows
    whole = load_volume(path, Preprocessing.from_contract(older | {"normalise": "zscore"}))[0]
    np.testing.assert_allclose(whole, (plain - plain.mean()) / plain.std(), atol=1e-5)
    brain = load_volume(path, Preprocessing.from_contract(older | {"normalise": "zscore-brain"}))[0]
    inside = plain[plain != 0]
    np.testing.assert_allclose(
        brain, np.where(plain != 0, (plain - inside.mean()) / inside.std(), 0), atol=1e-5
    )


def test_a_run_verifies_and_fits_its_own_scans_but_no_others(whole, cohort, tmp_path):
    scan = read_cohort(cohort).scans[0]
    found = neurocontrast.verify_weights(whole, scan=scan)
    assert found.passed
    assert not found.doubts
    assert "voxels of 8×8×8 mm" in found.facts[0]
    image = nib.load(scan)
    voxels = image.get_fdata(dtype=np.float32)
    voxels[: voxels.shape[0] // 2] = voxels.flat[0]
    nib.save(nib.Nifti1Image(voxels, image.affine), tmp_path / "half.nii.gz")
    doubts = neurocontrast.verify_weights(whole, scan=tmp_path / "half.nii.gz").doubts
    assert any(
        "what is not background in your scan: " in doubt and "learned from" in doubt
        for doubt in doubts
    )
    with pytest.raises(DataError, match="absent"):
        neurocontrast.verify_weights(whole, scan=tmp_path / "absent.nii.gz")
    with pytest.raises(DataError, match="scan: the encoder takes 1 files a scan, got 2"):
        neurocontrast.verify_weights(whole, scan=[scan, scan])


def test_the_answer_is_of_the_weights_and_of_the_preprocessing(whole, tmp_path):
    copy = changed_run(whole, tmp_path / "copy", preprocessing={"normalise": "none"})
    assert not neurocontrast.verify_weights(copy).passed
    (copy / "answer.json").unlink()
    with pytest.raises(CheckpointError, match=r"there is no answer\.json"):
        neurocontrast.verify_weights(copy)


@pytest.fixture(scope="module")
def table_of_maps(cohort):
    """The cohort with a map of dark and a map of bright voxels beside each scan."""
    return with_maps(cohort)


def test_each_channel_is_the_scan_of_its_own_file(table_of_maps):
    cohort = read_cohort(table_of_maps, channels=["gm", "wm"])
    transforms = brain_transforms(
        spacing_mm=10.0, shape=(16, 20, 16), normalise="none", n_channels=2
    )
    both = CohortDataset(cohort, transforms)[3]["image"]
    for channel, column in zip(both, ("gm", "wm"), strict=True):
        alone = brain_transforms(spacing_mm=10.0, shape=(16, 20, 16), normalise="none")(
            {"image": cohort.table[column][3]}
        )
        np.testing.assert_array_equal(channel.numpy(), alone["image"][0].numpy())


def test_check_names_the_column_of_a_missing_map(table_of_maps):
    table = pd.read_csv(table_of_maps, sep="\t", dtype=str, keep_default_na=False)
    table.loc[2, "wm"] = "nowhere.nii.gz"
    table.loc[4, "gm"] = "n/a"
    table.to_csv(table_of_maps.parent / "bad.tsv", sep="\t", index=False)
    found = neurocontrast.check(table_of_maps.parent / "bad.tsv", channels=["gm", "wm"])
    assert {(problem.column, problem.line) for problem in found.problems.found} == {
        ("wm", 4),
        ("gm", 6),
    }
    assert neurocontrast.check(table_of_maps, channels=["gm", "wm"]).passed


def test_channels_that_are_no_files_or_on_different_grids_are_refused(table_of_maps, tmp_path):
    for wrong, message in (
        ("wn", "there is no column 'wn'"),
        ("age", "column 'age' holds no files"),
    ):
        with pytest.raises(DataError, match=message):
            read_cohort(table_of_maps, channels=["gm", wrong])
    first, *_ = read_cohort(table_of_maps, channels=["gm", "wm"]).scans
    image = nib.load(first[1])
    moved = image.affine.copy()
    moved[0, 3] += 12
    nib.save(nib.Nifti1Image(image.get_fdata(), moved), tmp_path / "moved.nii.gz")
    nib.save(nib.Nifti1Image(image.get_fdata()[:-1], image.affine), tmp_path / "smaller.nii.gz")
    load = brain_transforms(spacing_mm=10.0, shape=(16, 20, 16), normalise="none", n_channels=2)
    for other, message in (("moved", "puts it 12.0 mm from"), ("smaller", "must lie on one grid")):
        with pytest.raises(RuntimeError) as error:
            load({"image": [first[0], str(tmp_path / f"{other}.nii.gz")]})
        assert message in str(error.value.__cause__)


@pytest.mark.parametrize("channels", ["null", "[gm]", "[gm, wm]"])
def test_a_run_that_was_killed_states_the_channels_of_one_that_was_not(
    table_of_maps, settings, tmp_path, channels
):
    given = settings(
        f"data.participants={table_of_maps}", f"data.channels={channels}", "data.normalise=none"
    )
    with pytest.raises(TrainingInterrupted):
        neurocontrast.pretrain(given, out=tmp_path / "killed", progress=Interrupting("epoch 1/"))
    neurocontrast.pretrain(given, out=tmp_path / "killed", resume=True)
    neurocontrast.pretrain(given, out=tmp_path / "straight")
    killed, straight = (
        read_json(tmp_path / name / "encoder.json") for name in ("killed", "straight")
    )
    assert killed["channels"] == straight["channels"] == list(given.data.channels or ["t1"])
    assert killed["weights"] == straight["weights"]
