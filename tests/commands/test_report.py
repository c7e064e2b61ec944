from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from neurocontrast.commands.report import report
from neurocontrast.exceptions import ConfigError
from neurocontrast.progress import SILENT
from tests.findings.show.evaluation_folders import make_binary


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory) -> Path:
    return make_binary(tmp_path_factory.mktemp("stage") / "evaluation", n=60, n_boot=5)


@pytest.fixture
def folder(evaluation, tmp_path) -> Path:
    return shutil.copytree(evaluation, tmp_path / "evaluation")


class Recorder(type(SILENT)):
    def __init__(self):
        self.done = {}

    def task(self, description, total, unit):
        recorder = self

        class Task:
            def __enter__(self):
                recorder.done[description] = [0, total]
                return self

            def __exit__(self, *error):
                return None

            def advance(self, n=1, **shown):
                recorder.done[description][0] += n

        return Task()


def test_writes_beside_the_evaluation_and_replaces_an_older_report(folder):
    page = report(str(folder), figures=False)
    assert page == folder / "report.html"
    assert page.read_text().startswith("<!DOCTYPE html>")
    page.write_text("old")
    assert report(folder, figures=False).read_text() != "old"
    assert not list(folder.glob(".tmp*"))


def test_out_and_figures(folder, tmp_path):
    progress = Recorder()
    page = report(folder, out=tmp_path / "deep" / "page.html", figures_dir=tmp_path / "figures", progress=progress)
    assert page == tmp_path / "deep" / "page.html"
    assert not (folder / "report.html").exists()
    assert all(done == total for done, total in progress.done.values())
    numbers = pd.read_csv(tmp_path / "figures" / "roc.tsv", sep="\t")
    assert {"curve", "repeat", "x", "y"} == set(numbers)
    assert (tmp_path / "figures" / "roc.svg").read_bytes().startswith(b"<?xml")
    assert (tmp_path / "figures" / "roc.png").read_bytes().startswith(b"\x89PNG")
    assert not any("sub-0" in path.read_text() for path in (tmp_path / "figures").glob("*.tsv"))


def test_figures_stand_beside_the_page(folder, tmp_path):
    report(folder)
    listed = pd.read_csv(folder / "figures" / "figures.tsv", sep="\t")
    for name in listed["name"]:
        assert (folder / "figures" / f"{name}.svg").is_file()
        assert (folder / "figures" / f"{name}.png").is_file()
    assert listed["alt"].notna().all()
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
    (tmp_path / "taken").write_text("")
    with pytest.raises(ConfigError, match="figures_dir: must be a folder"):
        report(folder, figures_dir=tmp_path / "taken")
    assert not (folder / "report.html").exists()
