"""The way of a joined table: evaluate, compare, report, predict; and what refuses it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_run import FAST as FASTEST
from small_run import embedded_people

import neurocontrast as nc
from neurocontrast.embedding.table import read_embeddings, write_embeddings
from neurocontrast.exceptions import DataError

FAST = FASTEST | {"n_bootstraps": 20}
RUNS = {
    "net": {"encoder": {"name": "lenet"}, "weights": {"sha256": "a" * 64}, "preprocessing": {"kind": "volumes"}},
    "linear": {"encoder": {"name": "pca"}, "weights": {"sha256": "b" * 64}, "preprocessing": {"kind": "volumes"}},
}
OBJECTIVES = {
    "net": {"loss": "ntxent", "title": "NT-Xent", "citation": "Chen T. SimCLR.", "temperature": 0.1},
    "linear": {"loss": "none", "title": "principal components of voxels", "citation": "Jolliffe I. PCA."},
}
SIZES = {"net": 30, "linear": 6}


def embed(folder: Path, name: str, *, n: int, first: int = 0) -> Path:
    """Write features in which the class is seen."""
    about = {"run": {"name": name, **RUNS[name]}, "objective": OBJECTIVES[name], "pretraining_subjects": []}
    return embedded_people(
        folder / f"{name}-{first}.parquet", n=n, first=first, n_features=SIZES[name], strength=0.8, **about
    )


def join(folder: Path, *, n: int, first: int = 0, order: tuple[str, ...] = ("net", "linear")) -> Path:
    paths = [embed(folder, name, n=n, first=first) for name in order]
    return nc.join(paths, out=folder / f"{'-'.join(order)}-{first}.parquet", names=order, overwrite=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("joined")
    nc.evaluate(join(root, n=80), out=root / "EVAL", **FAST)
    return root


def test_scans_that_are_joined_alike_are_predicted_as_the_external_test_predicts_them(folder):
    others = join(folder, n=30, first=500)
    nc.evaluate(folder / "net-linear-0.parquet", out=folder / "TESTED", test=str(others), **FAST)
    tested = pd.read_csv(folder / "TESTED" / "external_predictions.tsv", sep="\t")
    found = pd.read_csv(nc.predict(folder / "EVAL", others, out=folder / "p.tsv"), sep="\t")
    np.testing.assert_allclose(found["y_score"], tested["y_score"], atol=1e-9)


def test_the_report_names_the_blocks_and_how_they_are_balanced(folder):
    page = nc.report(folder / "EVAL", figures=False).read_text(encoding="utf-8")
    assert "“net” (LeNet (3D), 30 features) and “linear” (principal components of voxels, 6 features)" in page
    assert "“net”: NT-Xent, no metadata and “linear”: principal components of voxels" in page
    assert "features of each encoder were given the same total variance" in page
    assert "Chen T. SimCLR." in page
    assert "Jolliffe I. PCA." in page


def test_a_joined_table_is_compared_with_one_of_its_members(folder):
    splits = str(folder / "EVAL" / "splits.tsv")
    nc.evaluate(embed(folder, "linear", n=80), out=folder / "LINEAR", split_file=splits, **FAST)
    compared = nc.compare([folder / "LINEAR", folder / "EVAL"], out=folder / "BOTH", n_bootstraps=20)
    page = (compared / "comparison.html").read_text(encoding="utf-8")
    assert "“net”: NT-Xent" in page
    assert set(pd.read_csv(compared / "differences.tsv", sep="\t")["model"]) == {"EVAL"}


def test_features_of_other_blocks_are_refused(folder, tmp_path):
    turned = join(folder, n=30, first=600, order=("linear", "net"))
    alone = embed(folder, "net", n=30, first=600)
    for table in (turned, alone):
        with pytest.raises(DataError, match=r"fitted on net \(30 features, aaaa.*names=net,linear"):
            nc.predict(folder / "EVAL", table, out=tmp_path / "p.tsv")
        with pytest.raises(DataError, match=r"test: the probe was fitted on net \(30"):
            nc.evaluate(folder / "net-linear-0.parquet", out=tmp_path / "E", test=str(table), **FAST)
    nc.evaluate(embed(folder, "net", n=80), out=tmp_path / "NET", **FAST)
    with pytest.raises(DataError, match=r"fitted on features of one encoder, and this table has net \(30"):
        nc.predict(tmp_path / "NET", join(folder, n=30, first=600), out=tmp_path / "p.tsv")
    assert not (tmp_path / "p.tsv").exists()


def test_a_table_that_was_cut_after_it_was_joined_is_refused(folder, tmp_path):
    read = read_embeddings(folder / "net-linear-0.parquet")
    write_embeddings(tmp_path / "cut.parquet", read.table, read.features[:, :20], read.info)
    with pytest.raises(DataError, match="are 36 features, and the table has 20"):
        nc.evaluate(tmp_path / "cut.parquet", out=tmp_path / "E", **FAST)
