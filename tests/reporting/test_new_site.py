"""The panel of unseen sites: its words, its numbers, and what it says where something is missing."""

import json
import shutil

import pandas as pd
import pytest

from neurocontrast.reporting.blocks import Citations, Paragraph, Table, list_pictures
from neurocontrast.reporting.findings import open_folder, render_report
from neurocontrast.reporting.sections.methods import write_methods
from neurocontrast.reporting.sections.new_site import (
    constant_estimate,
    judge_constant,
    say_new_site,
)
from tests.reporting.folders import edit, rewrite
from tests.reporting.page import Page

EVALUATION = "age_folder"


def change(folder, **keys):
    """Change the block of evaluation.json (dotted with two underscores), and read it all again."""
    path = folder / "evaluation.json"
    summary = json.loads(path.read_text())
    for name, value in keys.items():
        *way, last = name.split("__")
        place = summary["new_site"]
        for key in way:
            place = place[key]
        place[last] = value
    path.write_text(json.dumps(summary))
    return open_folder(folder)


def figure(value, low=None, high=None, n=90):
    return {"value": value, "low": low, "high": high, "n": n}


def texts(section):
    return " ".join(block.text for block in section.blocks if isinstance(block, Paragraph))


def test_numbers_on_the_page_are_those_of_the_files(folder, build):
    files = open_folder(folder)
    section = build("new_site", files)
    rows = {row[0]: row for row in Page(render_report(files, [section])).rows if row}
    block = json.loads((folder / "evaluation.json").read_text())["new_site"]

    def said(value, low, high) -> str:
        return f"{value:.2f}{low:.2f} to {high:.2f}"

    pooled = [
        [block[place]["embedding"]["mae"][key] for key in ("value", "low", "high")]
        for place in ("home", "unseen")
    ]
    assert rows["All left out, pooled"][2:4] == [said(*each) for each in pooled]
    assert rows["All left out, pooled"][6] == f"{block['unseen']['constant']['mae']['value']:.2f}"
    table = pd.read_csv(folder / "new_sites.tsv", sep="\t").set_index(["site", "model"])
    assert len(block["left_out"]) == 4
    for site in block["left_out"]:
        own = table.loc[(site, "embedding")]
        assert rows[site][2:4] == [
            said(*own[[key, f"{key}_low", f"{key}_high"]]) for key in ("home_mae", "mae")
        ]
        assert rows[site][4] == f"{own['mae'] / own['home_mae']:.2f}"
        assert rows[site][6] == f"{table.loc[(site, 'constant'), 'mae']:.2f}"
    found = block["site_predictability"]
    assert (
        f"with a balanced accuracy of {found['balanced_accuracy']:.2f} ({found['low']:.2f} to "
        in texts(section)
    )
    unsure = change(
        folder, site_predictability=found | {"balanced_accuracy": 1.0, "low": None, "high": None}
    )
    assert "with a balanced accuracy of 1.00 (chance 0.25)" in texts(build("new_site", unsure))


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
    gain = [each and each - 11.0 for each in unseen]
    files = change(
        folder, unseen__embedding__mae=figure(*unseen), ratio__embedding__mae=figure(*ratio),
        unseen_minus_constant={"embedding": {"mae": figure(*gain)}}, home__embedding__mae=figure(7.0, 6.95, 7.05),
        unseen__constant={"mae": figure(11.0)},
    )  # fmt: skip
    said = say_new_site(files)
    assert said.startswith(
        "At a site that the model has not seen, the mean absolute error of age is"
    )
    assert says in said


def test_a_paired_difference_decides(folder):
    for ends, word in (((-1.0, -0.1), "better"), ((-1.0, 0.3), "not shown")):
        paired = {"embedding": {"mae": figure(-0.5, *ends)}}
        files = change(
            folder, unseen__embedding__mae=figure(10.5, 9.5, 11.5), unseen_minus_constant=paired
        )
        assert judge_constant(files, "mae") == word


def test_the_constant_guess_has_no_order(folder):
    assert constant_estimate(open_folder(folder), "spearman") is None
    files = change(folder, unseen__constant={"mae": figure(9.5, 9.0, 10.0)})
    assert constant_estimate(files, "mae").value == 9.5


def test_classes_are_said_by_their_own_metric(full_folder, several_folder, tmp_path, build):
    folder = shutil.copytree(full_folder, tmp_path / "b")
    files = change(
        folder, unseen__embedding={"auc": figure(0.6, 0.55, 0.65, 120), "brier": figure(0.3)},
        home__embedding={"auc": figure(0.8, 0.75, 0.85, 120)}, ratio__embedding={"brier": figure(2.0, 1.7, 2.4)},
        unseen__constant={"brier": figure(0.25)}, unseen_minus_constant={},
    )  # fmt: skip
    said = say_new_site(files)
    assert (
        "the AUC of diagnosis is 0.60 (95% interval 0.55 to 0.65; 120 scans), against 0.80 (0.75 to 0.85)"
        in said
    )
    assert (
        "That is above chance (0.50). The Brier score there is 2.00 (1.70 to 2.40) times that at known sites"
        in said
    )
    assert said.endswith("; a constant guess was not compared.")
    files = change(folder, unseen_minus_constant={"embedding": {"brier": {"value": 0.05}}})
    assert say_new_site(files).endswith("that is no better than the constant guess (0.25).")
    assert [picture.name for picture in list_pictures([build("new_site", files)])] == [
        "new_sites_auc"
    ]
    files = change(folder, unseen__embedding__auc=figure(0.52, 0.47, 0.57, 120))
    assert "That it is better than chance (0.50) there is not shown" in say_new_site(files)
    assert "the balanced accuracy of diagnosis is " in say_new_site(open_folder(several_folder))


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"new_site": None, "new_site_note": "there is one site only"}, "There is one site only"),
        (
            {"new_site": None, "new_site_note": None, "splits": "leave-site-out"},
            "The result above is that of unseen sites already",
        ),
        ({"new_site": None}, "new_sites.tsv is absent or empty"),
    ],
)
def test_where_there_is_none_it_says_why(folder, build, keys, says):
    (folder / "new_sites.tsv").unlink()
    files = open_folder(rewrite(folder, **keys))
    section = build("new_site", files)
    assert says in texts(section)
    assert not list_pictures([section])
    assert "Unseen sites." not in dict(write_methods(files, Citations()))


def test_the_table_tells_bias_and_spread_apart(folder, build):
    def header(table) -> set[str]:
        shown = build("new_site", open_folder(edit(folder, "new_sites", lambda _: table)))
        return {
            str(name)
            for name in next(block for block in shown.blocks if isinstance(block, Table)).header
        }

    table = pd.read_csv(folder / "new_sites.tsv", sep="\t", keep_default_na=False, na_values=[""])
    assert {"Bias", "Spread"} <= header(table)
    assert not {"Bias", "Spread"} & header(table.drop(columns=["bias", "spread"]))
