"""One advice: the rule, the commands that give it, and the pages that say it."""

import re
import shlex

import pandas as pd
import pytest

import neurocontrast
from neurocontrast.cli.app import run
from neurocontrast.config import load_config
from neurocontrast.config.recipes import list_recipes
from neurocontrast.data.advice import RULES, TableContent, advise, recipe_for
from tests.commands.small_run import PEOPLE
from tests.conftest import ROOT

METADATA = {"age", "sex"}


def content(kind, n, columns=(), *, n_scans=None, n_sites=0):
    return TableContent(kind, n, n_scans or n, frozenset(columns), n_sites)


CASES = {
    "natural images": (content("images", 60_000), "natural/simclr"),
    "measures": (content("measures", 400, METADATA), "measures"),
    "measures of four sites": (content("measures", 400, METADATA, n_sites=4), "measures"),
    "measures of five sites": (content("measures", 400, METADATA, n_sites=5), "measures_members"),
    "measures of five sites without age": (
        content("measures", 400, {"sex"}, n_sites=5),
        "measures_linear",
    ),
    "measures of few": (
        content("measures", 99, METADATA),
        "measures_linear --set encoder.n_components=49",
    ),
    "measures without sex": (content("measures", 400, {"age"}), "measures_linear"),
    "maps": (content("maps", 2000, {"gm", "wm", "csf"} | METADATA), "tissue_linear"),
    "maps of few": (
        content("maps", 60, {"gm", "wm"}),
        "tissue_linear --set encoder.n_components=30",
    ),
    "grey matter": (content("maps", 300, {"gm"}), "tissue_linear --set data.channels=[gm]"),
    "imitations": (
        content("maps", 300, {"gm", "wm", "csf"}, n_scans=1200),
        "tissue_discriminants",
    ),
    "imitations of grey matter": (
        content("maps", 300, {"gm"}, n_scans=1200),
        "tissue_linear --set data.channels=[gm]",
    ),
    "brains": (content("brains", 999, METADATA), "small"),
    "brains of many": (content("brains", 1000, METADATA), "yaware"),
    "brains without metadata": (
        content("brains", 400, {"sex"}),
        "ntxent --set training.probe_columns=[sex]",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_rule_that_holds_is_the_advice(name):
    table, words = CASES[name]
    assert " ".join(advise(table).words) == words


@pytest.mark.parametrize("name", CASES)
def test_pretrain_would_take_the_advice(name):
    """The recipe is there, its columns are in the table, and its components are fewer than people."""
    table, _ = CASES[name]
    advice = advise(table)
    config = load_config(advice.recipe, advice.settings, check_objective=True)
    objective = config.objective
    factors = [*(getattr(objective, "kernel", None) or ())]
    needed = {factor.column for factor in factors}
    is_trained = config.encoder.name not in ("pca", "lda")
    if is_trained and table.content != "images":
        needed |= set(config.training.probe_columns)
        assert needed <= table.columns
    if table.content == "maps":
        assert set(config.data.channels) <= table.columns
    if not is_trained:
        assert config.encoder.n_components < table.n_people


def test_every_recipe_that_is_advised_comes_with_the_package():
    assert {rule.recipe for rule in RULES} <= set(list_recipes())
    assert {advise(table).recipe for table, _ in CASES.values()} == {rule.recipe for rule in RULES}


def test_empty_columns_and_scans_of_one_person_do_not_count():
    people = [f"sub-{row:04d}" for row in range(600)] * 2
    table = pd.DataFrame({"participant_id": people, "subject_id": people, "age": 30.0, "sex": "F"})
    assert recipe_for(table).words == ("small",)
    assert recipe_for(table.assign(sex=None)).recipe == "ntxent"
    assert recipe_for(table.assign(sex="")).recipe == "ntxent"
    assert recipe_for(table.assign(gm="", wm="")).recipe == "small"
    assert recipe_for(table, kind="measures").recipe == "measures"
    sites = [f"site {row % 5}" for row in range(1200)]
    assert recipe_for(table.assign(site=sites), kind="measures").recipe == "measures_members"
    without = table.assign(site=["", *sites[1:]]).query("site != 'site 1'")
    assert recipe_for(without, kind="measures").recipe == "measures"
    assert recipe_for(table, kind="images").recipe == "natural/simclr"


def rows_of(page: str) -> list[list[str]]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def test_the_page_says_the_rule():
    """docs/choosing.md has each rule as a row, in the same order."""
    rows = rows_of("docs/choosing.md")
    said = [[rule.when, f"`{rule.recipe}`", rule.because] for rule in RULES]
    start = rows.index(said[0])
    assert rows[start : start + len(said)] == said


README = {
    "tables of FreeSurfer": ["measures", "measures of five sites"],
    "maps of tissue": ["maps", "imitations"],
    "brains of fewer": ["brains", "brains of many"],
}


def test_readme_says_the_rule():
    rows = {row[0]: row[1] for row in rows_of("README.md") if len(row) == 2}
    for beginning, cases in README.items():
        (cell,) = (cell for have, cell in rows.items() if have.startswith(beginning))
        for part, case in zip(cell.split(";"), cases, strict=True):
            first = re.findall(r"`([^`]+)`", part)[0]
            assert first == advise(CASES[case][0]).recipe


def test_the_pages_begin_with_the_advice():
    """Raw heads end as maps of `prepare`, tables of FreeSurfer as measures."""
    advised = {
        "README.md": "maps",
        "docs/from_scanner_to_report.md": "maps",
        "docs/from_freesurfer_to_report.md": "measures",
    }
    for page, case in advised.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        (first,) = re.findall(r"^neurocontrast pretrain --config (\S+)", text, re.MULTILINE)
        assert first == advise(CASES[case][0]).recipe, page


@pytest.mark.slow
def test_check_and_doctor_say_the_same(shared_folder, tmp_path, capsys):
    people = ROOT / "sample" / "participants.tsv"
    assert run(["check", str(people), "--table-only", "-q"]) == 0
    said = capsys.readouterr().out
    words = re.findall(r"pretrain --config (.*?) --participants", said)
    found = neurocontrast.doctor(
        load_config("tissue_linear", [f"data.participants={people}", "encoder.n_components=5"])
    )
    assert [shlex.split(found.run.advice)] == [shlex.split(each) for each in words]
    assert f"Recipe for this table: {found.run.advice} (" in found.to_text()


def test_doctor_advises_on_measures():
    measures = {"kind": "measures", "participants": PEOPLE}
    tables = sorted(map(str, (ROOT / "sample" / "measures").glob("data-*.tsv")))
    found = neurocontrast.doctor({"data": {**measures, "measures": tables},
                                  "encoder": {"name": "pca", "n_components": 5}})  # fmt: skip
    assert found.run.advice == "measures"
