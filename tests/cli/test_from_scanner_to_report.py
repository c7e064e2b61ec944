"""The commands of two pages of docs/ as written: on a small BIDS tree of whole heads, and on tables of FreeSurfer."""

import re
import shlex
import shutil

import numpy as np
import pandas as pd
import pytest

from neurocontrast.cli import run
from neurocontrast.config.recipes import list_recipes
from tests.conftest import ROOT
from tests.heads import write_bids

PAGE = ROOT / "docs" / "from_scanner_to_report.md"
MEASURES = ROOT / "sample" / "measures"


def commands_of(page):
    """Return the commands of a page's fenced blocks of shell, split into words."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return [
        shlex.split(line, comments=True)
        for block in blocks
        for line in block.splitlines()
        if line.strip()
    ]


SMALLER = {"n_components: 60": "n_components: 1"}


@pytest.mark.slow
def test_the_commands_of_the_page_lead_to_a_report(shared_folder, tmp_path, monkeypatch):
    pytest.importorskip("SimpleITK")
    pytest.importorskip("deepbet")
    monkeypatch.chdir(tmp_path)
    write_bids(tmp_path / "bids", shared_folder / "data" / "brains", n_volunteers=2, n_study=10)
    recipe = list_recipes()["tissue_linear"].read_text(encoding="utf-8")
    # A file of the name that the page gives is read in place of the recipe: the page's commands
    # stay as they are.
    for line, smaller in SMALLER.items():
        assert line in recipe
        recipe = recipe.replace(line, smaller)
    (tmp_path / "tissue_linear").write_text(recipe, encoding="utf-8")
    codes = {" ".join(words): run(words[1:]) for words in commands_of(PAGE)}
    assert len(codes) > 5
    assert codes == dict.fromkeys(codes, 0)
    quality = pd.read_csv(tmp_path / "brains" / "quality.tsv", sep="\t")
    assert list(quality["extraction"]) == ["deepbet"] * 12
    assert (quality["dice_template"] > 0.9).all()
    text = (tmp_path / "evaluation" / "report.html").read_text(encoding="utf-8")
    assert "diagnosis" in text
    assert "london" in text
    assert "novosibirsk" in text
    assert "<script" not in text


@pytest.mark.slow
def test_the_commands_of_the_page_of_measures_lead_to_a_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(
        MEASURES,
        tmp_path / "derivatives",
        ignore=shutil.ignore_patterns("participants.tsv", "*.md"),
    )
    people = pd.read_csv(MEASURES / "participants.tsv", sep="\t", dtype=str)
    n = np.arange(len(people))
    people["site"] = np.where(n % 3 == 1, "lyon", "paris")
    people["diagnosis"] = np.where(n % 2, "control", "patient")
    people["cohort"] = np.where(n < 120, "volunteers", "study")
    people.to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    commands = commands_of(ROOT / "docs" / "from_freesurfer_to_report.md")
    assert [run(words[1:]) for words in commands] == [0] * 9
    assert len(pd.read_csv(tmp_path / "people.tsv", sep="\t")) == len(people)
    page = (tmp_path / "evaluation" / "report.html").read_text(encoding="utf-8")
    assert "Right-VentralDC" in page
