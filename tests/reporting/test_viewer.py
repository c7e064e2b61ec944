"""The map of the embedding to look into: who is on it, what each column says, and whose slices can be opened."""

import json
import re
import shutil

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast.cli import run as run_cli
from neurocontrast.documents.embeddings import write_embeddings
from neurocontrast.exceptions import ConfigError
from neurocontrast.reporting import viewer

N = 24
FAST = {"n_bootstraps": 0, "confounds": False, "new_site": False, "n_folds": 3, "C": (1.0,)}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("viewer")
    generator = np.random.default_rng(0)
    nib.save(
        nib.Nifti1Image(generator.random((10, 12, 14), dtype=np.float32), np.eye(4)),
        folder / "brain.nii.gz",
    )
    (folder / "torn.nii.gz").write_bytes(b"\x1f\x8b\x00")
    names = [f"sub-{number:02d}" for number in range(N)]
    table = pd.DataFrame(
        {"participant_id": names, "subject_id": names, "session": "", "site": ["a", "b"] * (N // 2)}
    )
    table["path"] = str(folder / "brain.nii.gz")
    table.loc[1, "path"] = str(folder / "torn.nii.gz")
    table.loc[2, "path"] = str(folder / "gone.nii.gz")
    table["age"] = np.where(np.arange(N) == 3, np.nan, 20.0 + np.arange(N))
    table["sex"] = ["F", "F", "M", "M"] * 6
    table["diagnosis"] = ["control", "patient", "patient"] * 8
    table["ward"] = ["</script><b>", "a & b"] * (N // 2)
    write_embeddings(
        folder / "emb.parquet", table, generator.normal(size=(N, 5)).astype(np.float32), {}
    )
    return nc.evaluate(
        folder / "emb.parquet", target="diagnosis", out=folder / "evaluation", **FAST
    )


def read(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found.group(1))


def test_every_scan_is_on_the_map_with_its_columns_and_slices(evaluated, tmp_path):
    nc.report(evaluated, out=tmp_path / "page.html", figures=False, viewer=True)
    page = (tmp_path / "page_map.html").read_text(encoding="utf-8")
    data = read(page)
    assert data["names"] == [f"sub-{number:02d}" for number in range(N)]
    ((name, points),) = data["maps"].items()
    assert name.startswith("PCA (")
    assert np.shape(points) == (N, 2)
    assert np.ptp(points, axis=0).min() > 1
    assert data["columns"]["age"][:4] == [20.0, 21.0, 22.0, None]
    assert data["columns"]["ward"][:2] == ["</script><b>", "a & b"]
    assert {"diagnosis", "sex", "site", "predicted (mean of repeats)"} <= set(data["columns"])
    assert [row for row, each in enumerate(data["slices"]) if each is None] == [1, 2]
    assert data["slices"][0].startswith("data:image/jpeg;base64,")
    assert "do not share this file" in page
    assert f"columns of {N} scans, and slices of {N - 2} of them" in page
    assert str(evaluated.parent) not in page
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    assert "default-src 'none'" in page


def test_a_few_scans_of_many_have_slices(evaluated, tmp_path, monkeypatch):
    monkeypatch.setattr(viewer, "MAX_SLICED", 2)
    nc.report(evaluated, out=tmp_path / "page.html", figures=False, viewer=True)
    page = (tmp_path / "page_map.html").read_text(encoding="utf-8")
    assert [row for row, each in enumerate(read(page)["slices"]) if each] == [0, N - 1]
    assert "are of at most 2 scans" in page


def test_other_embeddings_are_refused_and_no_page_is_written(evaluated, tmp_path):
    away = shutil.copytree(evaluated, tmp_path / "far" / "away")
    with pytest.raises(
        ConfigError, match=r"the embeddings 'emb\.parquet' that were evaluated are not near"
    ):
        nc.report(away, figures=False, viewer=True)
    (tmp_path / "emb.parquet").write_bytes(b"changed")
    with pytest.raises(ConfigError, match="or have changed since"):
        nc.report(away, figures=False, viewer=True)
    assert not list(away.glob("*.html"))


def test_the_command_warns_that_the_map_is_not_to_be_shared(evaluated, tmp_path, capsys):
    assert run_cli(["report", f"{evaluated}", "--map", "--no-figures"]) == 0
    assert (evaluated / "map.html").is_file()
    assert "Do not share it" in " ".join(capsys.readouterr().err.split())


def test_an_infinite_value_is_a_missing_one_since_json_has_none():
    table = pd.DataFrame({"volume": [1.0, np.inf, 2.0]})
    assert viewer._columns(table) == {"volume": [1.0, None, 2.0]}
