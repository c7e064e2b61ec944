"""The page of a comparison, from its tables alone."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.reporting import build_comparison, list_pictures, read_comparison, render_comparison

NAMES = ("ntxent", "<b>yaware", "untrained")


def write(folder: Path, **changes: object) -> Path:
    folder.mkdir()
    models = [
        {
            "model": name,
            "metric": metric,
            "value": 0.6 + 0.1 * place,
            "low": 0.5 + 0.1 * place,
            "high": 0.7 + 0.1 * place,
        }
        for metric in ("auc", "balanced_accuracy", "brier")
        for place, name in enumerate(NAMES)
    ]
    differences = [
        {"metric": metric, "model": name, "reference": "ntxent", "difference": gain, "low": gain - 0.05,
         "high": gain + 0.05, "n_folds": 10, "p_value": p, "p_adjusted": min(1, 2 * p)}
        for metric in ("auc", "balanced_accuracy", "brier")
        for name, gain, p in ((NAMES[1], 0.1, 0.004), (NAMES[2], -0.02, 0.5))
    ]  # fmt: skip
    pd.DataFrame(models).to_csv(folder / "models.tsv", sep="\t", index=False)
    pd.DataFrame(differences).to_csv(folder / "differences.tsv", sep="\t", index=False)
    curves = [
        {"model": name, "metric": "auc", "n_train": size, "mean": 0.5 + size / 1000, "sd": 0.03, "n": 25}
        for name in (*NAMES, "covariates only")
        for size in (50, 100, 200)
    ]
    pd.DataFrame(curves).to_csv(folder / "learning_curves.tsv", sep="\t", index=False)
    summary = {
        "format": 1, "target": "diagnosis", "kind": "binary", "classes": ["control", "patient"], "splits": "stratified",
        "n_folds": 5, "n_repeats": 2, "reference": "ntxent", "n_bootstraps": 100, "confidence_level": 0.95, "seed": 0,
        "models": [{"name": name, "simulated": False, "n_overlap": 0,
                    "warnings": [{"code": "few_subjects", "message": "x"}]} for name in NAMES],
        "environment": {"neurocontrast": "0.1.0", "command": ["/home/someone/x"]},
    }  # fmt: skip
    (folder / "comparison.json").write_text(json.dumps(summary | changes))
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return read_comparison(write(tmp_path_factory.mktemp("comparisons") / "c"))


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
    assert "few subjects" in page.text.lower()
    for image in page.all("img"):
        assert "0." in image["alt"]


def test_a_verdict_needs_the_test_too(tmp_path, parse):
    folder = write(tmp_path / "c")
    table = pd.read_csv(folder / "differences.tsv", sep="\t").assign(p_adjusted=0.2)
    table.to_csv(folder / "differences.tsv", sep="\t", index=False)
    files = read_comparison(folder)
    text = parse.Page(render_comparison(files, build_comparison(files))).text
    assert "yaware is better" not in text
    assert "looks better, but only the interval says so, not the corrected test over folds" in text


def test_figures(sections):
    names = {picture.name: picture for picture in list_pictures(sections)}
    assert {"models_auc", "differences_auc", "learning_auc"} <= set(names)
    assert set(names["learning_auc"].numbers["model"]) == {*NAMES, "covariates only"}
    assert "Filled squares" in names["differences_auc"].caption


def test_one_table_holds_all_models(sections):
    table = next(b for s in sections if s.name == "result" for b in s.blocks if b.block == "table")
    of_auc = table.rows[:3]
    assert [row[1].text for row in of_auc] == ["ntxent (reference)", "<b>yaware", "untrained"]
    assert [row[7].text for row in of_auc] == ["–", "0.004", "0.5"]
    assert of_auc[0][4].reason == "the reference itself"


def test_errors_that_grow_are_worse(tmp_path, parse):
    folder = write(tmp_path / "c", kind="continuous", classes=[])
    for name in ("models", "differences"):
        table = pd.read_csv(folder / f"{name}.tsv", sep="\t")
        table[table["metric"] == "auc"].assign(metric="mae").to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    files = read_comparison(folder)
    assert "<b>yaware is worse: MAE +0.100" in parse.Page(render_comparison(files, build_comparison(files))).text


def test_without_learning_curves_and_tests(tmp_path, parse):
    folder = write(tmp_path / "c")
    (folder / "learning_curves.tsv").unlink()
    table = pd.read_csv(folder / "differences.tsv", sep="\t").assign(p_value=None, p_adjusted=None)
    table.to_csv(folder / "differences.tsv", sep="\t", index=False)
    files = read_comparison(folder)
    text = parse.Page(render_comparison(files, build_comparison(files))).text
    assert "fewer than two of the evaluations hold a learning curve" in text
    assert "not tested over folds" in text


def test_what_is_no_comparison_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"it has no comparison\.json"):
        read_comparison(tmp_path)
    with pytest.raises(DataError, match=r"comparison\.json: must have format 1"):
        read_comparison(write(tmp_path / "a", format=9))
    folder = write(tmp_path / "b")
    (folder / "models.tsv").unlink()
    with pytest.raises(DataError, match=r"models\.tsv: absent or empty"):
        read_comparison(folder)
