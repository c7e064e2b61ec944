"""An estimator by import path: run by `evaluate` alone, shown by `report`, and never imported from a folder."""

from __future__ import annotations

import json
import sys

import pytest
from small_run import FAST, embedded_people

import neurocontrast
from neurocontrast.cli import run
from neurocontrast.exceptions import CheckpointError


@pytest.fixture
def embeddings(tmp_path):
    return embedded_people(tmp_path / "embeddings.parquet")


def test_a_path_is_imported_by_evaluate_and_by_nothing_else(embeddings, tmp_path, monkeypatch):
    (tmp_path / "probe_of_mine.py").write_text(
        "from sklearn.svm import SVC\nfrom sklearn.pipeline import make_pipeline\n"
        "from sklearn.decomposition import PCA\nestimator = make_pipeline(PCA(4), SVC())\n"
    )
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        out = neurocontrast.evaluate(embeddings, probe="probe_of_mine:estimator", out=tmp_path / "EVAL", **FAST)
    sys.modules.pop("probe_of_mine")
    probe = json.loads((out / "evaluation.json").read_text())["probe"]
    assert (probe["name"], probe["own"]) == ("PCA + SVC", True)
    (tmp_path / "probe_of_mine.py").write_text("raise SystemExit('imported from a folder')\n")
    text = neurocontrast.report(out).read_text()
    assert "PCA + SVC" in text
    assert "Brier score, log-loss and calibration are left out" in text
    with pytest.raises(CheckpointError, match="pickle"):
        neurocontrast.predict(out, embeddings, out=tmp_path / "predictions.tsv")
    neurocontrast.compare([out, out], out=tmp_path / "comparison", names=["a", "b"])
    assert "probe_of_mine" not in sys.modules


def test_a_path_that_is_wrong_ends_with_2_and_writes_nothing(embeddings, tmp_path, capsys):
    command = ["evaluate", str(embeddings), "--out", str(tmp_path / "EVAL")]
    for path, message in (("no_such_module:x", "cannot be imported"), ("logistc", "Did you mean 'logistic'?")):
        assert run([*command, "--probe", path]) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "EVAL").exists()
