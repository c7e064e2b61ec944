import importlib
import os
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from small_run import Listening, read_json

import neurocontrast
from neurocontrast.data import read_cohort
from neurocontrast.documents.encoder import EncoderDescription
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.embedding import extract, read_embeddings
from neurocontrast.encoders import load_encoder, load_model, save_encoder
from neurocontrast.exceptions import ConfigError
from neurocontrast.transforms import Preprocessing, load_volume


def test_features_are_the_run_s_encoder_on_the_run_s_preprocessing(embedded, brain_run, cohort):
    read = read_embeddings(embedded)
    encoder, contract = load_encoder(brain_run)
    preprocessing = Preprocessing.from_contract(contract.preprocessing.content())
    assert preprocessing.normalise == "zscore-brain"  # the run's, not today's default
    volumes = np.stack(
        [load_volume(path, preprocessing) for path in read_cohort(cohort).table["path"]]
    )
    with torch.no_grad():
        expected = encoder(torch.from_numpy(volumes)).numpy()
    np.testing.assert_allclose(read.features, expected, rtol=1e-4, atol=1e-5)


def test_what_the_loss_saw_is_embedded_where_that_is_asked_for(
    tmp_path, embedded, brain_run, cohort, cached
):
    head = {**cached, "embedding": {"layer": "head"}}
    read = read_embeddings(
        neurocontrast.embed(brain_run, participants=cohort, out=tmp_path / "h.parquet", config=head)
    )
    features = read_embeddings(embedded)
    model, contract = load_model(brain_run)
    with torch.no_grad():
        expected = model.head(torch.from_numpy(features.features)).numpy()
    assert read.features.shape == (14, 4)
    np.testing.assert_allclose(read.features, expected, rtol=1e-3, atol=1e-4)
    assert (features.info.layer, read.info.layer) == ("encoder", "head")
    digest = contract.sha256
    # Features of both can have one size, and must not be taken for each other.
    assert (features.info.encoder_digest, read.info.encoder_digest) == (digest, f"{digest}, head")
    assert (
        read.info.with_keys(precision="bf16-mixed").encoder_digest == f"{digest}, head, bf16-mixed"
    )
    assert (
        EmbeddingsInfo(run={"weights": {"sha256": digest}}).encoder_digest == digest
    )  # a table of an earlier version


def test_description_says_what_the_features_came_from(embedded, brain_run, cohort):
    info = read_embeddings(embedded).info.content()
    provenance = read_json(brain_run / "provenance.json")
    assert info["flow"] == [{"step": "listed", "n_scans": 14, "n_subjects": 14, "reason": None}]
    assert info["pretraining_subjects"] == provenance["pretraining_subjects"]
    assert info["run"]["name"] == "run"
    assert info["run"]["weights"] == load_encoder(brain_run)[1].weights.content()
    assert info["simulated"] is True
    assert info["simulation"]["settings"]["seed"] == 5
    assert info["objective"]["loss"] == "yaware"
    assert info["training_metrics"][0]["epoch"] == 1
    assert isinstance(info["training_metrics"][0]["train_loss"], float)
    assert info["cohort_digest"] == read_cohort(cohort).digest()
    assert info["cohort_source"] == "participants.tsv"
    assert info["environment"]["neurocontrast"]


def test_an_encoder_alone_embeds_with_a_warning(brain_run, embedded, cohort, cached, tmp_path):
    alone = tmp_path / "encoder"
    alone.mkdir()
    for name in ("encoder.json", "encoder.safetensors"):
        shutil.copy(brain_run / name, alone)
    heard = Listening()
    out = neurocontrast.embed(
        alone, participants=cohort, out=tmp_path / "e.parquet", config=cached, progress=heard
    )
    read = read_embeddings(out)
    assert any("no provenance.json" in text for text in heard.warned)
    assert read.info.pretraining_subjects is None
    assert read.info.training_metrics == []
    np.testing.assert_array_equal(read.features, read_embeddings(embedded).features)


def test_an_existing_file_is_replaced_only_when_asked(embedded, brain_run, cohort, cached):
    before = embedded.read_bytes()
    with pytest.raises(
        ConfigError, match=r"exists\. Give another file, or replace it with overwrite=True"
    ):
        neurocontrast.embed(brain_run, participants=cohort, out=embedded, config=cached)
    assert embedded.read_bytes() == before
    neurocontrast.embed(brain_run, participants=cohort, out=embedded, config=cached, overwrite=True)
    assert read_embeddings(embedded).features.shape == (14, 32)


def test_settings_that_contradict_the_run_are_refused_by_name_with_both_values(
    brain_run, cohort, cached, tmp_path
):
    contract = read_json(brain_run / "encoder.json")["preprocessing"]
    data = {
        **cached["data"],
        "channels": ["gm"],
        "spacing_mm": 3.0,
        "cache_dtype": "float16",
        "smooth_mm": 6.0,
    }
    with pytest.raises(ConfigError) as refused:
        neurocontrast.embed(
            brain_run, participants=cohort, out=tmp_path / "e.parquet", config={"data": data}
        )
    assert str(refused.value).splitlines()[:-1] == [
        'data.cache_dtype: is "float16", and the run was trained with "float32"',
        'data.channels: is ["gm"], and the run was trained with ["t1"]',
        "data.smooth_mm: is 6.0, and the run was trained with 0.0",
        f"data.spacing_mm: is 3.0, and the run was trained with {contract['spacing_mm']}",
    ]
    assert not list(tmp_path.iterdir())
    same = {
        **cached["data"],
        "channels": ["t1"],
        "spacing_mm": contract["spacing_mm"],
        "percentiles": [3, 97],
    }
    where, heard = (
        {"where": {"sex": ["F"]}},
        Listening(),
    )  # is for training, and selects nothing here
    options = {"out": tmp_path / "e.parquet", "config": {"data": same | where}, "progress": heard}
    assert (
        len(read_embeddings(neurocontrast.embed(brain_run, participants=cohort, **options)).table)
        == 14
    )
    assert "all 14 scans of the table are embedded" in heard.warned[0]


@pytest.fixture(scope="module")
def study(settings, cached, tmp_path_factory):
    """A run and a cohort of their own: a test changes the time of one of its scans."""
    folder = tmp_path_factory.mktemp("study")
    table = neurocontrast.simulate(
        folder / "cohort", n_subjects=8, n_sites=2, spacing_mm=8.0, seed=6
    )
    run = neurocontrast.pretrain(
        settings(f"data.participants={table}", "training.epochs=0"), out=folder / "run"
    )
    return run, table, cached | {"embedding": {"batch_size": 2, "accelerator": "cpu"}}


@pytest.fixture
def batches(monkeypatch):
    """The rows of batches that are read; the third batch of the first call is not reached."""
    rows = []
    read = extract.read_batches

    def reading(images, batches, **options):
        for of_batch, samples in read(images, batches, **options):
            if len(rows) == 2:
                rows.append("killed")
                raise KeyboardInterrupt
            rows.append(of_batch.tolist())
            yield of_batch, samples

    monkeypatch.setattr(extract, "read_batches", reading)
    stage = importlib.import_module("neurocontrast.runs.folder")
    environment = stage.describe_environment()  # its time would differ between two files
    monkeypatch.setattr(stage, "describe_environment", lambda: environment)
    return rows


@pytest.fixture
def killed(study, batches, tmp_path):
    run, table, config = study
    with pytest.raises(KeyboardInterrupt):
        neurocontrast.embed(run, participants=table, out=tmp_path / "e.parquet", config=config)
    assert not (tmp_path / "e.parquet").exists()
    assert len(list(tmp_path.iterdir())) == 1
    return tmp_path / "e.parquet"


def test_a_killed_call_continues_and_writes_the_bytes_of_one_that_was_not(
    study, killed, batches, tmp_path
):
    run, table, config = study
    heard = Listening()
    neurocontrast.embed(run, participants=table, out=killed, config=config, progress=heard)
    assert batches == [[0, 1], [2, 3], "killed", [4, 5], [6, 7]]
    assert f"{killed}: 4 of 8 scans are there already." in heard.said
    assert list(tmp_path.iterdir()) == [killed]
    whole = neurocontrast.embed(
        run, participants=table, out=tmp_path / "whole.parquet", config=config
    )
    assert batches[5:] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert killed.read_bytes() == whole.read_bytes()


def other_weights(run, table, config, folder):
    other = shutil.copytree(run, folder / "other")
    encoder, contract = load_encoder(run)
    with torch.no_grad():
        next(encoder.parameters()).add_(1)
    samples = {"preprocessing": contract.preprocessing, "cache_dtype": contract.cache_dtype}
    save_encoder(other, encoder, EncoderDescription.model_validate(samples))
    return other, table, config


def other_table(run, table, config, folder):
    rows = pd.read_csv(table, sep="\t", dtype=str, keep_default_na=False)[::-1]
    rows["path"] = [str(table.parent / path) for path in rows["path"]]
    rows.to_csv(folder / "other.tsv", sep="\t", index=False)
    return run, folder / "other.tsv", config


def another_scan(run, table, config, folder):
    scan = table.parent / pd.read_csv(table, sep="\t")["path"][0]
    os.utime(scan, (1, 1))
    return run, table, config


def embedding(**changed):
    """Return what changes keys of the section `embedding`."""
    return lambda run, table, config, _: (
        run,
        table,
        {**config, "embedding": {**config["embedding"], **changed}},
    )


CHANGES = [
    other_weights,
    embedding(layer="head"),
    embedding(batch_size=3),
    other_table,
    another_scan,
]


@pytest.mark.parametrize("change", CHANGES)
def test_batches_of_something_else_are_not_used(study, killed, batches, tmp_path, change):
    run, table, config = change(*study, tmp_path)
    neurocontrast.embed(run, participants=table, out=killed, config=config)
    assert [row for batch in batches[3:] for row in batch] == list(range(8))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
