from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_run import INFO, Listening

import neurocontrast as nc
from neurocontrast.embedding.table import write_embeddings

FAST = {"target": "age", "n_bootstraps": 0, "confounds": False, "new_site": False}
FAST |= {"alpha": (1.0, 100.0), "n_inner_folds": 3}


def write(path: Path, *, n: int, sites: tuple[str, ...], shift: float = 0.0, first: int = 0, ages=(20, 80)) -> Path:
    """Age moves features along one direction; `shift` moves all of these scans along another."""
    generator = np.random.default_rng(first)
    names = [f"sub-{first + row:03d}" for row in range(n)]
    table = pd.DataFrame({"participant_id": names, "subject_id": names, "session": "1"})
    table["age"], table["sex"] = generator.uniform(*ages, n), generator.choice(["F", "M"], n)
    table["site"] = [sites[row % len(sites)] for row in range(n)]
    age, away = np.random.default_rng(99).normal(size=(2, 20))
    features = np.outer((table["age"] - 50) / 15, age) + shift * (away + age) + generator.normal(size=(n, 20))
    write_embeddings(path, table, features.astype(np.float32), INFO)
    return path


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("embeddings")
    return {
        "training": write(folder / "training.parquet", n=120, sites=("a", "b")),
        "home": write(folder / "home.parquet", n=60, sites=("a", "b"), first=200),
        "away": write(folder / "away.parquet", n=40, sites=("c",), shift=4.0, first=300),
    }


@pytest.fixture(scope="module")
def plain(tables, tmp_path_factory) -> Path:
    return nc.evaluate(tables["training"], out=tmp_path_factory.mktemp("plain") / "e", test=str(tables["away"]), **FAST)


def predicted(probe: Path, table: Path, out: Path, **options) -> tuple[pd.DataFrame, dict, list[str]]:
    told = Listening()
    nc.predict(probe, table, out=out / "p.tsv", progress=told, overwrite=True, **options)
    return pd.read_csv(out / "p.tsv", sep="\t"), json.loads((out / "p.json").read_text()), told.warned


def test_scans_from_elsewhere_are_called_outside_and_those_from_home_are_not(plain, tables, tmp_path):
    found, about, told = predicted(plain, tables["away"], tmp_path)
    assert found["outside"].mean() > 0.95
    assert about["outlyingness"]["by_site"] == [
        {"site": "c", "n": 40, "n_outside": int(found["outside"].sum()), "median_percentile": 100.0}
    ]
    assert "do not trust" in told[0]
    outlying = pd.read_csv(plain / "external_outlyingness.tsv", sep="\t").set_index("participant_id")
    expected = outlying.loc[found["participant_id"]]
    np.testing.assert_allclose(found["mahalanobis_percentile"], expected["mahalanobis_percentile"], atol=1e-6)
    assert (expected["reference"] == "probe").all()
    found, _, told = predicted(plain, tables["home"], tmp_path)
    assert found["outside"].mean() < 0.1
    assert found["mahalanobis_percentile"].median() == pytest.approx(50, abs=20)
    assert told == []


def test_the_folder_holds_no_features_of_a_person(plain, tables):
    """Neither a scan's features nor, of 120 people, any row that lies as near to a scan as another scan does."""
    with np.load(plain / "probe" / "probe.npz") as stored:
        rows = [stored[name] for name in stored if stored[name].shape[-1:] == (20,) and name != "inside_axes"]
    table = pd.read_parquet(tables["training"])
    scans = table[[name for name in table if name.startswith("feature_")]].to_numpy(float)
    between = np.linalg.norm(scans[:, None] - scans, axis=2)
    nearest = np.sort(between, axis=1)[:, 1].min()
    for array in rows:
        each = np.atleast_2d(array)
        assert len(each) <= 4
        assert np.linalg.norm(each[:, None] - scans, axis=2).min() > 0.5 * nearest
