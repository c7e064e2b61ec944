"""`embed` that was killed continues where it stopped."""

import importlib
import os
import shutil

import pandas as pd
import pytest
import torch
from small_run import Listening

import neurocontrast
from neurocontrast.embedding import extract
from neurocontrast.encoders import load_encoder, save_encoder


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def study(settings, tmp_path_factory):
    """A run and a cohort of their own: a test changes the time of one of its scans."""
    folder = tmp_path_factory.mktemp("study")
    table = neurocontrast.simulate(folder / "cohort", n_subjects=8, n_sites=2, spacing_mm=8.0, seed=6)
    data = {"cache_dir": str(folder / "cache"), "n_workers": 1}
    own = (f"data.participants={table}", f"data.cache_dir={folder / 'cache'}", "training.epochs=0")
    run = neurocontrast.pretrain(settings(*own), out=folder / "run")
    return run, table, {"data": data, "embedding": {"batch_size": 2, "accelerator": "cpu"}}


@pytest.fixture
def embedded(monkeypatch):
    """The rows of batches that are read; the third batch of the first call is not reached."""
    rows, read = [], extract.read_batches

    def reading(images, batches, **options):
        for of_batch, samples in read(images, batches, **options):
            if len(rows) == 2:
                rows.append("killed")
                raise Killed
            rows.append(of_batch.tolist())
            yield of_batch, samples

    monkeypatch.setattr(extract, "read_batches", reading)
    stage = importlib.import_module("neurocontrast.runs.folder")
    environment = stage.describe_environment()  # its time would differ between two files
    monkeypatch.setattr(stage, "describe_environment", lambda: environment)
    return rows


@pytest.fixture
def killed(study, embedded, tmp_path):
    run, table, config = study
    with pytest.raises(Killed):
        neurocontrast.embed(run, participants=table, out=tmp_path / "e.parquet", config=config)
    assert not (tmp_path / "e.parquet").exists()
    assert len(list(tmp_path.iterdir())) == 1
    return tmp_path / "e.parquet"


def test_a_killed_call_continues_and_writes_the_bytes_of_one_that_was_not(study, killed, embedded, tmp_path):
    run, table, config = study
    heard = Listening()
    neurocontrast.embed(run, participants=table, out=killed, config=config, progress=heard)
    assert embedded == [[0, 1], [2, 3], "killed", [4, 5], [6, 7]]
    assert f"{killed}: 4 of 8 scans are there already." in heard.said
    assert list(tmp_path.iterdir()) == [killed]
    whole = neurocontrast.embed(run, participants=table, out=tmp_path / "whole.parquet", config=config)
    assert embedded[5:] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert killed.read_bytes() == whole.read_bytes()


def other_weights(run, table, config, folder):
    other = shutil.copytree(run, folder / "other")
    encoder, contract = load_encoder(run)
    with torch.no_grad():
        next(encoder.parameters()).add_(1)
    save_encoder(other, encoder, {key: contract[key] for key in ("preprocessing", "cache_dtype")})
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
    return lambda run, table, config, _: (run, table, {**config, "embedding": {**config["embedding"], **changed}})


CHANGES = [other_weights, embedding(layer="head"), embedding(batch_size=3), other_table, another_scan]


@pytest.mark.parametrize("change", CHANGES)
def test_batches_of_something_else_are_not_used(study, killed, embedded, tmp_path, change):
    run, table, config = change(*study, tmp_path)
    neurocontrast.embed(run, participants=table, out=killed, config=config)
    assert [row for batch in embedded[3:] for row in batch] == list(range(8))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
