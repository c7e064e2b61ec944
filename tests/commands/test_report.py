from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from neurocontrast.commands.report import report
from neurocontrast.exceptions import ConfigError
from tests.findings.show.folders import evaluate_scans


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory, make_cohort) -> Path:
    return evaluate_scans(tmp_path_factory.mktemp("stage") / "evaluation", make_cohort)


@pytest.fixture
def folder(evaluation, tmp_path) -> Path:
    return shutil.copytree(evaluation, tmp_path / "evaluation")


def test_writes_beside_the_evaluation_and_replaces_an_older_report(folder):
    page = report(str(folder), figures=False)
    assert page == folder / "report.html"
    assert page.read_text().startswith("<!DOCTYPE html>")
    page.write_text("old")
    assert report(folder, figures=False).read_text() != "old"
    assert not list(folder.glob(".tmp*"))


def test_out_and_figures(folder, tmp_path):
    page = report(folder, out=tmp_path / "deep" / "page.html")
    assert page == tmp_path / "deep" / "page.html"
    assert not (folder / "report.html").exists()
    figures = tmp_path / "deep" / "page_figures"
    listed = pd.read_csv(figures / "figures.tsv", sep="\t")
    for name in listed["name"]:
        assert (figures / f"{name}.svg").read_bytes().startswith(b"<?xml")
        assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert listed["alt"].notna().all()
    assert {"curve", "repeat", "x", "y"} == set(pd.read_csv(figures / "roc.tsv", sep="\t"))
    assert not any("sub-0" in path.read_text() for path in figures.glob("*.tsv"))


def test_figures_have_a_folder_beside_the_page_named_after_it(folder, tmp_path):
    report(folder)
    assert (folder / "figures" / "roc.tsv").is_file()
    report(folder, out=tmp_path / "here" / "mine.html")
    assert (tmp_path / "here" / "mine_figures" / "roc.tsv").is_file()
    report(folder, out=tmp_path / "alone" / "report.html", figures=False)
    assert [path.name for path in (tmp_path / "alone").iterdir()] == ["report.html"]


def test_a_failure_leaves_the_older_report(folder, monkeypatch):
    (folder / "report.html").write_text("old")
    monkeypatch.setattr("os.fsync", lambda stream: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        report(folder, figures=False)
    assert (folder / "report.html").read_text() == "old"
    assert not list(folder.glob(".tmp*"))


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
