import importlib
import json

import numpy as np
import pandas as pd
import pytest
from small_run import FASTEST, read_json

import neurocontrast
from neurocontrast.data import read_cohort
from neurocontrast.documents.embeddings import read_embeddings, write_embeddings
from neurocontrast.evaluation.plan.models.voxels import ComponentsDesign
from neurocontrast.exceptions import DataError


@pytest.fixture(scope="module")
def table(others):
    return read_cohort(others).table


def embeddings(path, table, **info):
    features = np.random.default_rng(0).normal(size=(len(table), 8)).astype(np.float32)
    write_embeddings(path, table, features, {"pretraining_subjects": [], **info})
    return path


def evaluate(source, out, **options):
    folder = neurocontrast.evaluate(source, out=out, **FASTEST | options)
    return read_json(folder / "evaluation.json")


def test_scans_that_are_where_the_table_says_are_a_baseline(table, tmp_path):
    summary = evaluate(embeddings(tmp_path / "e.parquet", table), tmp_path / "out")
    assert summary["voxels"].keys() == summary["baseline"].keys()
    assert summary["voxels_about"]["mask"] == "box of 48 × 57 × 48 voxels around the centre"
    assert summary["voxels_about"]["spacing_mm"] == 4
    off = evaluate(tmp_path / "e.parquet", tmp_path / "off", voxels="off")
    assert "voxels" not in off
    assert off["metrics"] == summary["metrics"]


@pytest.mark.slow
def test_scans_are_found_by_a_table_and_its_folder_is_written_nowhere(table, others, tmp_path):
    moved = embeddings(
        tmp_path / "e.parquet", table.assign(path=[f"{i}.nii.gz" for i in range(len(table))])
    )
    assert "voxels" not in evaluate(moved, tmp_path / "alone")
    summary = evaluate(moved, tmp_path / "out", scans=str(others))
    assert (
        evaluate(embeddings(tmp_path / "f.parquet", table), tmp_path / "own")["voxels"]
        == summary["voxels"]
    )
    written = "".join(
        path.read_text()
        for path in (tmp_path / "out").rglob("*.*")
        if path.suffix in (".tsv", ".yaml")
    )
    assert str(others.parent) not in written
    assert str(others.parent) not in json.dumps({**summary, "environment": None})


def test_a_few_absent_scans_are_said_and_refused_where_voxels_are_asked_for(table, tmp_path):
    paths = list(table["path"])
    source = embeddings(
        tmp_path / "e.parquet", table.assign(path=["/nowhere/x.nii.gz", *paths[1:]])
    )
    summary = evaluate(source, tmp_path / "auto")
    assert "voxels" not in summary
    warning = next(each for each in summary["warnings"] if each["code"] == "voxels_left_out")
    assert "1 of 28 scans are not where the embeddings table says" in warning["message"]
    with pytest.raises(DataError, match="1 of 28 scans are not where"):
        evaluate(source, tmp_path / "on", voxels="on")
    assert not (tmp_path / "on").exists()


def test_all_unreadable_scans_are_named_at_once_without_their_folder(table, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.nii.gz").write_bytes(b"no image")
    paths = [str(tmp_path / "a.nii.gz"), str(tmp_path / "b.nii.gz"), *table["path"][2:]]
    source = embeddings(tmp_path / "e.parquet", table.assign(path=paths))
    with pytest.raises(
        DataError, match=r"scans cannot be used: 2 problems(.|\n)*sub-(.|\n)*sub-"
    ) as error:
        evaluate(source, tmp_path / "out", voxels="on")
    assert str(tmp_path) not in str(error.value)


def test_scans_that_the_other_table_lacks_are_refused(table, others, tmp_path):
    fewer = pd.read_csv(others, sep="\t", dtype=str).iloc[1:]
    fewer["path"] = list(table["path"][1:])
    fewer.to_csv(tmp_path / "fewer.tsv", sep="\t", index=False)
    with pytest.raises(DataError, match=r"1 of 28 scans are not in scans 'fewer.tsv' \(sub-"):
        evaluate(
            embeddings(tmp_path / "e.parquet", table),
            tmp_path / "out",
            scans=str(tmp_path / "fewer.tsv"),
        )


def test_too_many_voxels_are_refused_with_what_to_do(table, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("neurocontrast.runs.voxels"), "MAX_BYTES", 1000)
    with pytest.raises(DataError, match=r"voxels: 28 scans of \d+ voxels take .* set voxels=off"):
        evaluate(embeddings(tmp_path / "e.parquet", table), tmp_path / "out", voxels="on")


def test_the_components_of_the_encoder_s_input_are_those_of_the_linear_encoder(
    others, table, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    prepared = {
        "spacing_mm": 8.0,
        "shape": [24, 28, 24],
        "normalise": "zscore-brain",
        "erode_mm": 8.0,
    }
    data = {
        "cache_dir": str(tmp_path / "cache"),
        "n_workers": 1,
        "val_fraction": 0.0,
        "participants": str(others),
    }
    config = {"data": prepared | data, "encoder": {"name": "pca", "n_components": 5}}
    linear = neurocontrast.pretrain(config, out=tmp_path / "run")
    made = neurocontrast.embed(
        linear, participants=others, out=tmp_path / "e.parquet", config={"data": data}
    )
    seen = []
    stage = importlib.import_module("neurocontrast.runs.voxels")
    products = stage.voxels.voxel_products
    monkeypatch.setattr(
        stage.voxels, "voxel_products", lambda values: seen.append(values) or products(values)
    )
    summary = evaluate(made, tmp_path / "out", voxels="input", allow_overlap=True)
    assert (
        summary["voxels_about"] | {"n_voxels": 24 * 28 * 24, "spacing_mm": 8.0}
        == summary["voxels_about"]
    )
    components = ComponentsDesign(products(seen[0]), n_components=5)
    features = read_embeddings(made).features
    rows = np.arange(len(table))
    # The encoder's components after the first are those of a randomised solver.
    first = [np.abs(each[:, :1]) for each in (components(rows, rows)[0], features)]
    np.testing.assert_allclose(*first, rtol=1e-2, atol=1e-2)


def test_the_encoder_s_input_cannot_be_read_where_its_preprocessing_is_not_known(table, tmp_path):
    with pytest.raises(DataError, match="voxels=input: the embeddings do not say how their run"):
        evaluate(embeddings(tmp_path / "e.parquet", table), tmp_path / "out", voxels="input")
    assert not (tmp_path / "out").exists()
