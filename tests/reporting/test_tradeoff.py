"""Site against target on the page of a comparison, from its table alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from neurocontrast.exceptions import DataError
from neurocontrast.reporting import build_comparison, list_pictures, read_comparison, render_comparison


def table(n: int = 4, **columns: object) -> pd.DataFrame:
    """A curve: each step of the weight tells the site less, and the target worse at known sites, better elsewhere."""
    steps = range(n)
    weights = [0.0, 0.1, 0.3, 1.0, 3.0, 10.0][:n]
    rows = pd.DataFrame(
        {
            "model": [f"w{w:g}" for w in weights],
            "weight_name": "weights.fair",
            "weight": weights,
            "site_balanced_accuracy": [0.95 - 0.1 * step for step in steps],
            "site_low": [0.9 - 0.1 * step for step in steps],
            "site_high": [0.99 - 0.1 * step for step in steps],
            "site_chance": 0.25,
            "metric": "mae",
            "known": [5.0 + step for step in steps],
            "known_low": [4.5 + step for step in steps],
            "known_high": [5.5 + step for step in steps],
            "unseen": [12.0 - step for step in steps],
            "unseen_low": [11.0 - step for step in steps],
            "unseen_high": [13.0 - step for step in steps],
            "ratio": 2.0,
            "ratio_low": 1.5,
            "ratio_high": 2.5,
            "constant": 10.0,
            "n": 80,
            "n_outside": [8 - step for step in steps],
            "n_unseen": 80,
            "n_unseen_outside": 60,
        }
    )
    return rows.assign(**columns)


@pytest.fixture
def page(comparisons) -> Callable:
    """Write a comparison with this table, and read it."""

    def write(folder: Path, rows: pd.DataFrame):
        comparisons.write(folder, kind="continuous", classes=[])
        rows.to_csv(folder / "tradeoff.tsv", sep="\t", index=False)
        files = read_comparison(folder)
        return files, build_comparison(files)

    return write


def section(sections):
    return next(each for each in sections if each.name == "tradeoff")


def test_the_curve_and_its_words(page, tmp_path, parse):
    files, sections = page(tmp_path / "c", table())
    names = {picture.name: picture for picture in list_pictures(sections)}
    for where, value in (("known", "8.00 (7.50 to 8.50)"), ("unseen", "9.00 (8.00 to 10.00)")):
        assert f"fair = 1: 0.65 and {value}" in names[f"tradeoff_{where}"].alt
        assert "in the order of weights.fair" in names[f"tradeoff_{where}"].caption
    text = parse.Page(render_comparison(files, sections)).text
    assert re.search(r"sites left out in turn \[\d\]", text)
    rows = {row[0]: row for row in parse.Page(render_comparison(files, sections)).rows if row}
    assert rows["w0"][1:] == [
        "0weights.fair", "0.950.90 to 0.99", "0.25", "5.004.50 to 5.50", "12.0011.00 to 13.00", "2.001.50 to 2.50",
        "10.00", "10.0%8 of 80", "75.0%60 of 80",
    ]  # fmt: skip


def test_models_without_a_weight_are_labelled_by_name(page, tmp_path):
    _, sections = page(tmp_path / "c", table(3, weight=None, weight_name=None, model=["a", "b", "<i>c"]))
    known = next(picture for picture in list_pictures(sections) if picture.name == "tradeoff_known")
    assert "a: 0.95 and 5.00" in known.alt
    assert "order of" not in known.caption
    assert not [block for block in section(sections).blocks if block.block == "paragraph"]
    assert "Weight" not in next(block for block in section(sections).blocks if block.block == "table").header


@pytest.mark.parametrize("n", [1, 2, 6])
def test_absent_values_have_a_dash(page, tmp_path, parse, n):
    """Intervals, unseen sites and outlyingness may be missing, each for itself."""
    gone = ("unseen", "unseen_low", "unseen_high", "ratio", "ratio_low", "ratio_high", "site_low", "site_high",
            "known_low", "known_high", "constant", "n", "n_outside", "site_chance", "n_unseen",
            "n_unseen_outside")  # fmt: skip
    files, sections = page(tmp_path / "c", table(n).drop(columns=[*gone]))
    html = render_comparison(files, sections)
    assert not re.search(r"\b(nan|NaN|None|inf)\b", parse.Page(html).text)
    names = {picture.name for picture in list_pictures(sections)}
    assert ("tradeoff_known" in names) == (n > 1)
    assert "tradeoff_unseen" not in names
    shown = next(block for block in section(sections).blocks if block.block == "table")
    assert [cell.text for cell in shown.rows[0]][-3:] == ["–", "–", "–"]


def test_without_the_table_the_page_says_so(comparisons, tmp_path, parse):
    files = read_comparison(comparisons.write(tmp_path / "c"))
    text = parse.Page(render_comparison(files, build_comparison(files))).text
    assert "none of the evaluations says how well the site can be told" in text


def test_a_table_that_is_none(page, tmp_path):
    with pytest.raises(DataError, match=r"tradeoff\.tsv, column 'unseen': must be numbers, found row 2: 'far'"):
        page(tmp_path / "a", table(2, unseen=["far", "near"]))
    with pytest.raises(DataError, match=r"tradeoff\.tsv: missing columns: 'model'"):
        page(tmp_path / "b", table(2).drop(columns="model"))
