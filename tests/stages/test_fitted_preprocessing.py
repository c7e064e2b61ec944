"""What `pretrain` fits its preprocessing to: on which scans, kept for the whole run, used by what comes after."""

import json
import shutil

import nibabel as nib
import numpy as np
import pytest
import torch
from small_run import metrics, weights

import neurocontrast
from neurocontrast.data import fit_preprocessing, read_cohort
from neurocontrast.data.cohort import split_by_subject
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_encoder
from neurocontrast.exceptions import CheckpointError, DataError
from neurocontrast.stages import check, sources
from neurocontrast.transforms import Preprocessing, load_volume

ASKED = ("data.normalise=histogram", "data.erode_mm=10", "data.cache_dtype=float32")


@pytest.fixture
def fitted(settings, tmp_path):
    return neurocontrast.pretrain(settings(*ASKED), out=tmp_path / "fitted")


def preprocessing_of(run):
    return Preprocessing.from_contract(load_encoder(run)[1]["preprocessing"])


def test_it_is_fitted_on_the_scans_of_training_alone_and_applied_to_others(fitted, settings, cohort, cache, tmp_path):
    table, asked = read_cohort(cohort), settings(*ASKED)
    training, validation = split_by_subject(table, asked.data.val_fraction, asked.seed)
    assert len(validation)
    rows = table.table.iloc[training]
    expected = fit_preprocessing(asked.data.preprocessing, list(rows["path"]))
    found = preprocessing_of(fitted)
    assert found == expected
    assert found != fit_preprocessing(asked.data.preprocessing, list(table.table["path"]))
    assert len(found.landmarks) == 11
    provenance = json.loads((fitted / "provenance.json").read_text())
    assert provenance["preprocessing"] == found.contract()

    out = neurocontrast.embed(
        fitted, participants=cohort, out=tmp_path / "e.parquet", config={"data": {"cache_dir": str(cache)}}
    )
    volumes = np.stack([load_volume(path, found) for path in table.table["path"]])
    assert (volumes == 0).mean() > 0.5
    with torch.no_grad():
        features = load_encoder(fitted)[0](torch.from_numpy(volumes)).numpy()
    np.testing.assert_allclose(read_embeddings(out).features, features, rtol=1e-4, atol=1e-5)


def test_a_run_that_continues_keeps_what_it_was_fitted_to(fitted, settings, tmp_path, monkeypatch):
    run = neurocontrast.pretrain(settings(*ASKED, "training.epochs=1"), out=tmp_path / "run")

    def refuse(*_, **__):
        raise AssertionError("fitted again")

    monkeypatch.setattr(sources, "fit_preprocessing", refuse)
    longer = settings(*ASKED, f"data.cache_dir={tmp_path / 'another'}")
    neurocontrast.pretrain(longer, out=run, resume=True)
    assert weights(run) == weights(fitted)
    assert metrics(run) == metrics(fitted)
    assert preprocessing_of(run) == preprocessing_of(fitted)


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
    with pytest.raises(CheckpointError, match=r"provenance\.json: preprocessing contract: .*landmarks are 11"):
        neurocontrast.pretrain(settings("training.epochs=4"), out=run, resume=True)


@pytest.mark.slow  # two processes start
def test_processes_fit_once_and_use_the_same(fitted, settings, tmp_path):
    asked = settings(*ASKED, "training.devices=2", "training.epochs=1")
    run = neurocontrast.pretrain(asked, out=tmp_path / "two")
    assert preprocessing_of(run) == preprocessing_of(fitted)


@pytest.mark.parametrize("asked", [("data.normalise=percentile",), ASKED])
def test_all_scans_that_are_no_brains_are_named_before_a_run_begins(cohort, settings, tmp_path, asked):
    table = read_cohort(cohort).table
    lines = ["participant_id\tpath\tage\tsex\tsite"]
    for row in table.itertuples():
        name = f"{row.participant_id}.nii.gz"
        shutil.copy(row.path, tmp_path / name)
        lines.append(f"{row.participant_id}\t{name}\t{row.age}\t{row.sex}\t{row.site}")
    for name in (str(table["participant_id"][0]), str(table["participant_id"][9])):
        image = nib.load(tmp_path / f"{name}.nii.gz")
        head = nib.Nifti1Image(image.get_fdata(dtype=np.float32) + 9, image.affine)
        head.to_filename(tmp_path / f"{name}.nii.gz")
    participants = tmp_path / "participants.tsv"
    participants.write_text("\n".join(lines) + "\n")
    config = settings(*asked, f"data.participants={participants}")
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
