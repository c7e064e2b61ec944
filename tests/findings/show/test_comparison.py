"""The page of a comparison, from its tables alone."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from neurocontrast.findings.comparison.show import build_comparison, render_comparison
from neurocontrast.page.blocks import list_pictures


@pytest.fixture(scope="module")
def files(comparisons):
    return comparisons.make()


@pytest.fixture(scope="module")
def sections(files):
    return build_comparison(files)


def test_the_page(files, sections, parse):
    html = render_comparison(files, sections)
    page = parse.Page(html)
    assert page.headings()[:2] == ["warnings", "result"]
    assert not page.all("b")
    assert not page.all("script")
    assert "/home/someone" not in html
    assert "<b>yaware is better: AUC +0.100 (+0.050 to +0.150, adjusted p = 0.008)" in page.text
    assert "untrained cannot be told apart from it by these data" in page.text
    assert "By AUC, and next to ntxent: <b>yaware is better; untrained cannot" in page.text
    assert "All models: x" in page.text
    for image in page.all("img"):
        assert "0." in image["alt"]


def test_a_verdict_needs_the_test_too(comparisons, files, parse):
    files = comparisons.make(differences=files.differences.assign(p_adjusted=0.2))
    text = parse.Page(render_comparison(files, build_comparison(files))).text
    assert "yaware is better" not in text
    assert "looks better, but only the interval says so, not the corrected test over folds" in text


def test_figures(comparisons, sections):
    names = {picture.name: picture for picture in list_pictures(sections)}
    assert {"models_auc", "differences_auc", "learning_auc"} <= set(names)
    assert set(names["learning_auc"].numbers["model"]) == {*comparisons.NAMES, "covariates only"}
    assert "Filled squares" in names["differences_auc"].caption


def test_one_table_holds_all_models(sections):
    table = next(b for s in sections if s.name == "result" for b in s.blocks if b.block == "table")
    of_auc = table.rows[:3]
    assert [row[1].text for row in of_auc] == ["ntxent (reference)", "<b>yaware", "untrained"]
    assert [row[7].text for row in of_auc] == ["–", "0.004", "0.5"]
    assert of_auc[0][4].reason == "the reference itself"


def test_errors_that_grow_are_worse(comparisons, files, parse):
    tables = {
        name: (table := getattr(files, name))[table["metric"] == "auc"].assign(metric="mae")
        for name in ("models", "differences")
    }
    files = comparisons.make(kind="continuous", classes=[], **tables)
    assert "<b>yaware is worse: MAE +0.100" in parse.Page(render_comparison(files, build_comparison(files))).text


def test_a_warning_names_each_model_once(comparisons, parse):
    twice = [{"code": "few_subjects", "explanation": "Few. See Confounds, and the rest."}] * 2
    models = [{"name": name, "warnings": twice if name == "ntxent" else []} for name in comparisons.NAMES]
    files = comparisons.make(models=models)
    text = parse.Page(render_comparison(files, build_comparison(files))).text
    assert "ntxent: few subjects" in text
    assert "Few. In the model's own report, see Confounds, and the rest." in text, "this page has no such section"


def test_simulated_data_are_marked(comparisons, parse):
    files = comparisons.make(models=[{"name": "ntxent", "simulated": True}])
    assert "SIMULATED DATA." in parse.Page(render_comparison(files, build_comparison(files))).text


NEW_SITES = {
    "site_balanced_accuracy": [0.95, 0.85], "site_low": [0.9, 0.8], "site_high": [0.99, 0.89], "site_chance": 0.25,
    "metric": "mae", "known": [5.0, 6.0], "known_low": [4.5, 5.5], "known_high": [5.5, 6.5], "unseen": [12.0, 11.0],
    "unseen_low": [11.0, 10.0], "unseen_high": [13.0, 12.0], "ratio": 2.0, "ratio_low": 1.5, "ratio_high": 2.5,
    "constant": 10.0, "n": 80, "n_outside": [8, 7],
}  # fmt: skip


def test_models_at_new_sites_stand_in_a_table(comparisons, parse):
    files = comparisons.make(
        kind="continuous", classes=[], tradeoff=pd.DataFrame({"model": ["a", "<i>b"], **NEW_SITES})
    )
    page = parse.Page(render_comparison(files, build_comparison(files)))
    assert re.search(r"sites left out in turn \[\d\]", page.text)
    rows = {row[0]: row[1:] for row in page.rows if row}
    assert rows["a"] == ["0.950.90 to 0.99", "0.25", "5.004.50 to 5.50", "12.0011.00 to 13.00", "2.001.50 to 2.50",
                         "10.00", "10.0%8 of 80"]  # fmt: skip
    assert "<i>b" in rows
