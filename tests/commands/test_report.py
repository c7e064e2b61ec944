import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from small_run import FASTEST, embedded_people, read_json

import neurocontrast
from neurocontrast.commands.report import report
from neurocontrast.exceptions import CheckpointError, ConfigError
from tests.reporting.folders import evaluate_scans


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory, make_cohort) -> Path:
    return evaluate_scans(tmp_path_factory.mktemp("stage") / "evaluation", make_cohort)


@pytest.fixture
def folder(evaluation, tmp_path) -> Path:
    return shutil.copytree(evaluation, tmp_path / "evaluation")


@pytest.mark.usefixtures("blank_figures")
def test_writes_beside_the_evaluation_and_replaces_an_older_report(folder):
    page = report(str(folder), figures=False)
    assert page == folder / "report.html"
    assert page.read_text().startswith("<!DOCTYPE html>")
    page.write_text("old")
    assert report(folder, figures=False).read_text() != "old"
    assert not list(folder.glob(".tmp*"))


@pytest.mark.slow
def test_out_and_figures(folder, tmp_path):
    page = report(folder, out=tmp_path / "deep" / "page.html")
    assert page == tmp_path / "deep" / "page.html"
    report(folder, out=tmp_path / "here" / "mine.html")
    assert (tmp_path / "here" / "mine_figures" / "roc.tsv").is_file()
    assert not (folder / "report.html").exists()
    figures = tmp_path / "deep" / "page_figures"
    listed = pd.read_csv(figures / "figures.tsv", sep="\t")
    for name in listed["name"]:
        assert (figures / f"{name}.svg").read_bytes().startswith(b"<?xml")
        assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert listed["alt"].notna().all()
    assert {"curve", "repeat", "x", "y"} == set(pd.read_csv(figures / "roc.tsv", sep="\t"))
    assert not any("sub-0" in path.read_text() for path in figures.glob("*.tsv"))


def test_wrong_places_are_refused_before_any_work(folder, tmp_path):
    with pytest.raises(ConfigError, match="there is no folder"):
        report(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="out: must be a file"):
        report(folder, out=tmp_path)
    with pytest.raises(ConfigError, match=r"out: must end in \.html"):
        report(folder, out=tmp_path / "page.pdf")
    (tmp_path / "page_figures").write_text("")
    with pytest.raises(ConfigError, match="page_figures', which is a file"):
        report(folder, out=tmp_path / "page.html")
    assert not (folder / "report.html").exists()


@pytest.mark.usefixtures("blank_figures")
def test_a_path_is_imported_by_evaluate_and_by_nothing_else(tmp_path, monkeypatch):
    embeddings = embedded_people(tmp_path / "embeddings.parquet")
    (tmp_path / "probe_of_mine.py").write_text(
        "from sklearn.svm import SVC\nfrom sklearn.pipeline import make_pipeline\n"
        "from sklearn.decomposition import PCA\nestimator = make_pipeline(PCA(4), SVC())\n"
    )
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        out = neurocontrast.evaluate(
            embeddings, probe="probe_of_mine:estimator", out=tmp_path / "EVAL", **FASTEST
        )
    sys.modules.pop("probe_of_mine")
    probe = read_json(out / "evaluation.json")["probe"]
    assert (probe["name"], probe["own"]) == ("PCA + SVC", True)
    (tmp_path / "probe_of_mine.py").write_text("raise SystemExit('imported from a folder')\n")
    text = neurocontrast.report(out).read_text()
    assert "PCA + SVC" in text
    assert "Brier score, log-loss and calibration are left out" in text
    with pytest.raises(CheckpointError, match="pickle"):
        neurocontrast.predict(out, embeddings, out=tmp_path / "predictions.tsv")
    neurocontrast.compare([out, out], out=tmp_path / "comparison", names=["a", "b"])
    assert "probe_of_mine" not in sys.modules
