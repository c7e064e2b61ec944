"""The page of a comparison, from its tables alone."""

from __future__ import annotations

import pandas as pd
import pytest

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.reporting import build_comparison, list_pictures, read_comparison, render_comparison


@pytest.fixture(scope="module")
def files(comparisons, tmp_path_factory):
    return read_comparison(comparisons.write(tmp_path_factory.mktemp("comparisons") / "c"))


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


def test_a_verdict_needs_the_test_too(comparisons, tmp_path, parse):
    folder = comparisons.write(tmp_path / "c")
    table = pd.read_csv(folder / "differences.tsv", sep="\t").assign(p_adjusted=0.2)
    table.to_csv(folder / "differences.tsv", sep="\t", index=False)
    files = read_comparison(folder)
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


def test_errors_that_grow_are_worse(comparisons, tmp_path, parse):
    folder = comparisons.write(tmp_path / "c", kind="continuous", classes=[])
    for name in ("models", "differences"):
        table = pd.read_csv(folder / f"{name}.tsv", sep="\t")
        table[table["metric"] == "auc"].assign(metric="mae").to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    files = read_comparison(folder)
    assert "<b>yaware is worse: MAE +0.100" in parse.Page(render_comparison(files, build_comparison(files))).text


def test_without_learning_curves_and_tests(comparisons, tmp_path, parse):
    folder = comparisons.write(tmp_path / "c")
    (folder / "learning_curves.tsv").unlink()
    table = pd.read_csv(folder / "differences.tsv", sep="\t").assign(p_value=None, p_adjusted=None)
    table.to_csv(folder / "differences.tsv", sep="\t", index=False)
    files = read_comparison(folder)
    text = parse.Page(render_comparison(files, build_comparison(files))).text
    assert "fewer than two of the evaluations hold a learning curve" in text
    assert "not tested over folds" in text


def test_what_is_no_comparison_is_named(comparisons, tmp_path):
    with pytest.raises(ConfigError, match=r"it has no comparison\.json"):
        read_comparison(tmp_path)
    with pytest.raises(DataError, match=r"comparison\.json: must have format 1"):
        read_comparison(comparisons.write(tmp_path / "a", format=9))
    folder = comparisons.write(tmp_path / "b")
    (folder / "models.tsv").unlink()
    with pytest.raises(DataError, match=r"models\.tsv: absent or empty"):
        read_comparison(folder)


def test_simulated_data_are_marked(comparisons, tmp_path, parse):
    folder = comparisons.write(tmp_path / "c", models=[{"name": "ntxent", "simulated": True}])
    files = read_comparison(folder)
    assert "SIMULATED DATA." in parse.Page(render_comparison(files, build_comparison(files))).text
