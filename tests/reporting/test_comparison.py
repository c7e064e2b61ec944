"""The page of a comparison, from its tables alone: comparisons as `compare` makes them, without an evaluation."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from neurocontrast.documents.comparison import ComparisonRecord
from neurocontrast.reporting.blocks import Table, list_pictures
from neurocontrast.reporting.comparison import (
    Comparison,
    build_comparison,
    render_comparison,
)
from tests.reporting.folders import IMAGES
from tests.reporting.page import Page
from tests.reporting.test_images import of_brains

NAMES = ("ntxent", "<b>yaware", "untrained")
NO_SITES = pd.DataFrame({"metric": [], "unseen": []})


def make(**changes: object) -> Comparison:
    """Return a comparison; `changes` are keys of its summary, or its tables."""
    models = [
        {"model": name, "metric": metric, "value": value, "low": value - 0.1, "high": value + 0.1}
        for metric in ("auc", "balanced_accuracy", "brier")
        for name, value in zip(NAMES, (0.6, 0.7, 0.8), strict=True)
    ]
    differences = [
        {"metric": metric, "model": name, "reference": "ntxent", "difference": gain, "low": gain - 0.05,
         "high": gain + 0.05, "n_folds": 10, "p_value": p, "p_adjusted": min(1, 2 * p)}
        for metric in ("auc", "balanced_accuracy", "brier")
        for name, gain, p in ((NAMES[1], 0.1, 0.004), (NAMES[2], -0.02, 0.5))
    ]  # fmt: skip
    curves = [
        {
            "model": name,
            "metric": "auc",
            "n_train": size,
            "mean": 0.5 + size / 1000,
            "sd": 0.03,
            "n": 25,
        }
        for name in (*NAMES, "covariates only")
        for size in (50, 100, 200)
    ]
    summary = {
        "format": 1, "target": "diagnosis", "kind": "binary", "classes": ["control", "patient"], "splits": "stratified",
        "n_folds": 5, "n_repeats": 2, "reference": "ntxent", "n_bootstraps": 100, "confidence_level": 0.95, "seed": 0,
        "models": [{"name": name, "simulated": False, "n_overlap": 0,
                    "warnings": [{"code": "few_subjects", "message": "x"}]} for name in NAMES],
        "environment": {"neurocontrast": "0.1.0", "command": ["/data/people/x"]},
    }  # fmt: skip
    tables = {
        name: changes.pop(name) for name in list(changes) if isinstance(changes[name], pd.DataFrame)
    }
    record = ComparisonRecord.model_validate(summary | changes)
    made = Comparison(record, *map(pd.DataFrame, (models, differences, curves)), NO_SITES)
    return replace(made, **{name: table.fillna(np.nan) for name, table in tables.items()})


@pytest.fixture(scope="module")
def files():
    return make()


def test_a_pair_without_a_test_over_folds_is_told_so(files):
    untested = files.differences.astype({"p_adjusted": object}).assign(
        p_adjusted=None, low=np.nan, high=np.nan
    )
    changed = replace(files, differences=untested)
    html = render_comparison(changed, build_comparison(changed))
    assert "not tested over folds" in html
    assert "cannot be told apart" not in html, "there is no interval"


@pytest.fixture(scope="module")
def sections(files):
    return build_comparison(files)


def test_the_page(files, sections):
    html = render_comparison(files, sections)
    page = Page(html)
    assert page.headings()[:2] == ["warnings", "result"]
    assert not page.all("b")
    assert not page.all("script")
    assert "/data/people" not in html
    assert "<b>yaware is better: AUC +0.100 (+0.050 to +0.150, adjusted p = 0.008)" in page.text
    assert "untrained cannot be told apart from it by these data" in page.text
    assert "By AUC, and next to ntxent: <b>yaware is better; untrained cannot" in page.text
    assert "All models: x" in page.text
    assert "5 folds × 2 repeats, stratified by the target; the same scans" in page.text, (
        "there are no sites"
    )
    alts = [image["alt"] for image in page.all("img")]
    assert len(alts) > 2
    assert all("0." in alt for alt in alts)


def test_a_verdict_needs_the_test_too(files):
    files = make(differences=files.differences.assign(p_adjusted=0.2))
    text = Page(render_comparison(files, build_comparison(files))).text
    assert "yaware is better" not in text
    assert "looks better, but only the interval says so, not the corrected test over folds" in text


def test_figures(sections):
    names = {picture.name: picture for picture in list_pictures(sections)}
    assert {"models_auc", "differences_auc", "learning_auc"} <= set(names)
    assert set(names["learning_auc"].numbers["model"]) == {*NAMES, "covariates only"}
    assert "Filled squares" in names["differences_auc"].caption


def test_one_table_holds_all_models(sections):
    table = next(
        b for s in sections if s.name == "result" for b in s.blocks if isinstance(b, Table)
    )
    of_auc = table.rows[:3]
    assert [row[1].text for row in of_auc] == ["ntxent (reference)", "<b>yaware", "untrained"]
    assert [row[7].text for row in of_auc] == ["–", "0.004", "0.5"]
    assert of_auc[0][4].reason == "the reference itself"


def test_errors_that_grow_are_worse(files):
    tables = {
        name: (table := getattr(files, name))[table["metric"] == "auc"].assign(metric="mae")
        for name in ("models", "differences")
    }
    files = make(kind="continuous", classes=[], **tables)
    assert (
        "<b>yaware is worse: MAE +0.100"
        in Page(render_comparison(files, build_comparison(files))).text
    )


def test_a_warning_names_each_model_once():
    twice = [{"code": "few_subjects", "explanation": "Few. See Confounds, and the rest."}] * 2
    models = [{"name": name, "warnings": twice if name == "ntxent" else []} for name in NAMES]
    files = make(models=models)
    text = Page(render_comparison(files, build_comparison(files))).text
    assert "ntxent: few subjects" in text
    assert "Few. In the model's own report, see Confounds, and the rest." in text, (
        "this page has no such section"
    )


def test_two_warnings_of_one_code_are_both_told():
    raised = [
        {"code": "pooled_auc_mixes_folds", "message": f"Of the {name}."}
        for name in ("embedding", "baseline")
    ]
    models = [{"name": name, "warnings": raised[place:]} for place, name in enumerate(NAMES[:2])]
    files = make(models=models)
    text = Page(render_comparison(files, build_comparison(files))).text
    assert "ntxent: Of the embedding. <b>yaware: Of the baseline." in text
    assert "ntxent: Of the baseline." in text
    assert "2 warnings" in text


def test_simulated_data_are_marked():
    files = make(models=[{"name": "ntxent", "simulated": True}])
    assert "SIMULATED DATA." in Page(render_comparison(files, build_comparison(files))).text


NEW_SITES = {
    "site_balanced_accuracy": [0.95, 0.85], "site_low": [0.9, 0.8], "site_high": [0.99, 0.89], "site_chance": 0.25,
    "metric": "mae", "known": [5.0, 6.0], "known_low": [4.5, 5.5], "known_high": [5.5, 6.5], "unseen": [12.0, 11.0],
    "unseen_low": [11.0, 10.0], "unseen_high": [13.0, 12.0], "ratio": 2.0, "ratio_low": 1.5, "ratio_high": 2.5,
    "constant": 10.0, "n": 80, "n_outside": [8, 7],
}  # fmt: skip


def test_models_at_new_sites_stand_in_a_table():
    files = make(
        kind="continuous", classes=[], tradeoff=pd.DataFrame({"model": ["a", "<i>b"], **NEW_SITES})
    )
    page = Page(render_comparison(files, build_comparison(files)))
    assert re.search(r"sites left out in turn \[\d\]", page.text)
    rows = {row[0]: row[1:] for row in page.rows if row}
    assert rows["a"] == ["0.950.90 to 0.99", "0.25", "5.004.50 to 5.50", "12.0011.00 to 13.00", "2.001.50 to 2.50",
                         "10.00", "10.0%8 of 80"]  # fmt: skip
    assert "<i>b" in rows


def test_models_of_images_are_compared_by_accuracy():
    images = [{"name": name, "run": IMAGES["run"], "warnings": []} for name in ("simclr", "supcon")]
    row = {
        "metric": "accuracy",
        "low": 0.02,
        "high": 0.04,
        "n_folds": 1,
        "p_value": 0.001,
        "p_adjusted": 0.001,
    }
    files = make(
        kind="multiclass", classes=["cat", "dog", "ship"], splits="fixed", n_folds=1, models=images,
        reference="simclr", target="label", differences=pd.DataFrame([row | {"model": "supcon", "reference": "simclr",
                                                             "difference": 0.03, "test": "mcnemar"}]),
    )  # fmt: skip
    of_each = [("simclr", 0.90), ("supcon", 0.93)]
    table = pd.DataFrame(
        [
            {"model": m, "metric": "accuracy", "value": v, "low": v, "high": v + 0.1}
            for m, v in of_each
        ]
    )
    files = replace(files, models=table, learning_curves=pd.DataFrame({"model": [], "metric": []}))
    page = Page(render_comparison(files, build_comparison(files)))
    assert of_brains(page) == []
    assert (
        "supcon is better: top-1 accuracy +3.0 points (+2.0 to +4.0, adjusted p = 0.001)."
        in page.text
    )
    assert "the same training, validation and test images for every model" in page.text
    assert "McNemar" in page.text
    assert "Nadeau" not in page.text
    files = replace(files, differences=files.differences.assign(p_adjusted=0.2))
    assert "not McNemar's test" in Page(render_comparison(files, build_comparison(files))).text
