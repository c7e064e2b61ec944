"""The preprocessing of a run: kept in its files, refused where it does not fit, as it was in older contracts."""

import json
import shutil

import nibabel as nib
import numpy as np
import pytest
from small_run import metrics

import neurocontrast
from neurocontrast import check
from neurocontrast.data import read_cohort
from neurocontrast.exceptions import CheckpointError, DataError
from neurocontrast.transforms import Preprocessing, load_volume


def test_a_run_from_before_there_was_anything_to_fit_continues(whole, settings, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    path = run / "provenance.json"
    provenance = json.loads(path.read_text())
    assert provenance.pop("preprocessing") == settings().data.preprocessing.contract()
    path.write_text(json.dumps(provenance))
    neurocontrast.pretrain(settings("training.epochs=3"), out=run, resume=True)
    assert len(metrics(run)) == 3
    path.write_text(json.dumps(provenance | {"preprocessing": {"transform_version": 1, "landmarks": [0]}}))
    with pytest.raises(CheckpointError, match=r"provenance\.json: preprocessing contract: landmarks: unknown key"):
        neurocontrast.pretrain(settings("training.epochs=4"), out=run, resume=True)


def test_all_scans_that_are_no_brains_are_named_by_a_run(cohort, settings, tmp_path):
    table = read_cohort(cohort).table[["participant_id", "path", "age", "sex", "site"]].copy()
    for row in (0, 9):
        image = nib.load(table.loc[row, "path"])
        table.loc[row, "path"] = str(tmp_path / f"{row}.nii.gz")
        nib.save(nib.Nifti1Image(image.get_fdata(dtype=np.float32) + 9, image.affine), table.loc[row, "path"])
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
    older = {"transform_version": 1, "spacing_mm": None, "shape": [20, 24, 20], "orientation": "RAS"}
    plain = load_volume(path, Preprocessing.from_contract(older | {"normalise": "none"}))[0]
    assert (plain == 0).any()  # nothing is masked, padded or scaled but by what follows
    whole = load_volume(path, Preprocessing.from_contract(older | {"normalise": "zscore"}))[0]
    np.testing.assert_allclose(whole, (plain - plain.mean()) / plain.std(), atol=1e-5)
    brain = load_volume(path, Preprocessing.from_contract(older | {"normalise": "zscore-brain"}))[0]
    inside = plain[plain != 0]
    np.testing.assert_allclose(brain, np.where(plain != 0, (plain - inside.mean()) / inside.std(), 0), atol=1e-5)
