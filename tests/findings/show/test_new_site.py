"""The panel of unseen sites: its words, its numbers, and what it says where something is missing."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from neurocontrast.findings import open_folder, render_report
from neurocontrast.findings.methods import write_methods
from neurocontrast.findings.new_site.show import (
    constant_estimate,
    judge_constant,
    say_new_site,
)
from neurocontrast.page.blocks import Citations, Table, list_pictures


@pytest.fixture(scope="module")
def age_folder(make, add_new_sites, tmp_path_factory):
    folder = make.make_continuous(tmp_path_factory.mktemp("sites") / "age", n=90)
    return add_new_sites(folder)


@pytest.fixture
def folder(age_folder, tmp_path):
    return shutil.copytree(age_folder, tmp_path / "e")


def build(files):
    return next(each for each in files.findings if each.name == "new_site" and each.fits(files)).show(files)


def change(folder, table=None, **keys):
    """Change the block of evaluation.json (dotted with two underscores) or the table, and read it all again."""
    path = folder / "evaluation.json"
    summary = json.loads(path.read_text())
    for name, value in keys.items():
        *way, last = name.split("__")
        place = summary["new_site"]
        for key in way:
            place = place[key]
        place[last] = value
    path.write_text(json.dumps(summary))
    if table is not None:
        table.to_csv(folder / "new_sites.tsv", sep="\t", index=False)
    return open_folder(folder)


def read(folder):
    return pd.read_csv(folder / "new_sites.tsv", sep="\t", keep_default_na=False, na_values=[""])


def texts(section):
    return " ".join(block.text for block in section.blocks if block.block == "paragraph")


def test_numbers_on_the_page_are_those_of_the_files(folder, parse):
    files = open_folder(folder)
    section = build(files)
    rows = {row[0]: row for row in parse.Page(render_report(files, [section])).rows if row}
    assert rows["All left out, pooled"][1:] == [
        "90", "7.006.95 to 7.05", "14.0013.95 to 14.05", "2.00", "16.8016.75 to 16.85", "11.00",
    ]  # fmt: skip
    table = read(folder).set_index(["site", "model"])
    for site in ("a", "b", "c"):
        own = table.loc[(site, "embedding")]
        known, unseen, divided = rows[site][2], rows[site][3], rows[site][4]
        assert known == f"{own['home_mae']:.2f}{own['home_mae_low']:.2f} to {own['home_mae_high']:.2f}"
        assert unseen == f"{own['mae']:.2f}{own['mae_low']:.2f} to {own['mae_high']:.2f}"
        assert divided == f"{own['mae'] / own['home_mae']:.2f}"
        assert rows[site][6] == f"{table.loc[(site, 'constant'), 'mae']:.2f}"
    assert "told from the embedding with a balanced accuracy of 0.81 (0.74 to 0.88; chance 0.25)" in texts(section)


def test_a_reading_of_the_site_without_an_interval_has_none_in_brackets(folder):
    site = {"balanced_accuracy": 1.0, "low": None, "high": None, "chance": 0.25, "n_sites": 4}
    section = build(change(folder, site_predictability=site))
    assert "with a balanced accuracy of 1.00 (chance 0.25)" in texts(section)


@pytest.mark.parametrize(
    ("unseen", "ratio", "says"),
    [
        ((14.0, 13.0, 15.0), (2.0, 1.7, 2.4), "2.00 times (1.70 to 2.40) the 7.00 (6.95 to 7.05) at sites that it "
         "knows; that is worse than the constant guess (11.00)"),
        ((11.5, 10.5, 12.5), (1.6, 1.4, 1.8), "; that is no better than the constant guess (11.00)"),
        ((10.5, 9.5, 11.5), (1.5, 1.3, 1.7), "; that this is better than the constant guess (11.00) is not shown"),
        ((9.0, 8.0, 10.0), (1.3, 1.1, 1.5), "; that is better than the constant guess (11.00)"),
        ((7.5, 6.5, 8.5), (1.1, 0.9, 1.3), "(whether that is a change at all, these data do not settle); that is "
         "better"),
        ((9.0, None, None), (1.3, None, None), "9.00 years (no interval; 90 scans), 1.30 times (no interval) the 7.00"),
    ],
)  # fmt: skip
def test_the_sentence_claims_what_intervals_allow(folder, unseen, ratio, says):
    of_unseen = dict(zip(("value", "low", "high"), unseen, strict=True)) | {"n": 90}
    of_ratio = dict(zip(("value", "low", "high"), ratio, strict=True))
    gain = {name: of_unseen[name] and of_unseen[name] - 11.0 for name in ("value", "low", "high")}
    paired = {"embedding": {"mae": gain}}
    files = change(folder, unseen__embedding__mae=of_unseen, ratio__embedding__mae=of_ratio,
                   unseen_minus_constant=paired)  # fmt: skip
    said = say_new_site(files)
    assert said.startswith("At a site that the model has not seen, the mean absolute error of age is")
    assert says in said


def test_a_paired_difference_decides(folder):
    unseen = {"value": 10.5, "low": 9.5, "high": 11.5, "n": 90}
    for ends, word in (((-1.0, -0.1), "better"), ((-1.0, 0.3), "not shown")):
        paired = {"embedding": {"mae": {"value": -0.5, "low": ends[0], "high": ends[1]}}}
        files = change(folder, unseen__embedding__mae=unseen, unseen_minus_constant=paired)
        assert judge_constant(files, "mae") == word


def test_the_constant_guess_has_no_order(folder):
    assert constant_estimate(open_folder(folder), "spearman") is None
    files = change(folder, unseen__constant={"mae": {"value": 9.5, "low": 9.0, "high": 10.0, "n": 90}})
    assert constant_estimate(files, "mae").value == 9.5


def test_other_kinds_of_target(make, add_new_sites, tmp_path):
    files = open_folder(add_new_sites(make.make_binary(tmp_path / "b", n_boot=5)))
    said = say_new_site(files)
    assert "the AUC of diagnosis is 0.60 (95% interval 0.55 to 0.65; 120 scans), against 0.80 (0.75 to 0.85)" in said
    assert "That is above chance (0.50). The Brier score there is 2.00 (1.70 to 2.40) times that at known sites" in said
    assert said.endswith("; a constant guess was not compared.")
    files = change(tmp_path / "b", unseen_minus_constant={"embedding": {"brier": {"value": 0.05}}})
    assert say_new_site(files).endswith("that is no better than the constant guess (0.25).")
    assert [picture.name for picture in list_pictures([build(files)])] == ["new_sites_auc"]
    at_chance = {"value": 0.52, "low": 0.47, "high": 0.57, "n": 120}
    files = change(tmp_path / "b", unseen__embedding__auc=at_chance)
    assert "That it is better than chance (0.50) there is not shown" in say_new_site(files)
    several = open_folder(add_new_sites(make.make_multiclass(tmp_path / "m")))
    assert "the balanced accuracy of diagnosis is 0.40" in say_new_site(several)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"new_site": None, "new_site_note": "there is one site only"}, "There is one site only"),
        ({"new_site": None, "splits": "leave-site-out"}, "The result above is that of unseen sites already"),
        ({"new_site": None}, "new_sites.tsv is absent or empty"),
    ],
)
def test_where_there_is_none_it_says_why(folder, parse, keys, says):
    (folder / "new_sites.tsv").unlink()
    path = folder / "evaluation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    files = open_folder(folder)
    section = build(files)
    assert says in texts(section)
    assert not list_pictures([section])
    assert "Unseen sites." not in dict(write_methods(files, Citations()))


def test_the_table_tells_bias_and_spread_apart(folder):
    table = read(folder).drop(columns=["bias"], errors="ignore")
    plain = build(change(folder, table))
    assert "Bias and spread" not in str(plain)
    known = table.assign(bias=5.0, spread=6.5)
    shown = next(block for block in build(change(folder, known)).blocks if isinstance(block, Table))
    assert {"Bias", "Spread"} <= {str(name) for name in shown.header}
    assert "Bias and spread" in shown.note
    *sites, pooled = (" ".join(map(str, row)) for row in shown.rows)
    assert all("6.50" in row for row in sites)
    assert "6.50" not in pooled
