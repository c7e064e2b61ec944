"""Scans outside the distribution that a model learned from: counts, warnings, and nobody's name."""

from __future__ import annotations

import json
import re
import shutil

import pandas as pd
import pytest

from neurocontrast.exceptions import DataError
from neurocontrast.findings import open_folder, render_report
from neurocontrast.findings.external import external_part
from neurocontrast.findings.result import list_warnings


@pytest.fixture
def folder(full_folder, tmp_path):
    return shutil.copytree(full_folder, tmp_path / "e", ignore=shutil.ignore_patterns("explanation"))


def build(files, name="outlyingness"):
    return next(each for each in files.findings if each.name == name and each.fits(files)).show(files)


def change(folder, table=None, *, file="outlyingness.tsv", **keys):
    path = folder / "evaluation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    if table is not None:
        table.to_csv(folder / file, sep="\t", index=False)
    return open_folder(folder)


def counted(table, **about):
    """Return the counts of a table as `evaluate` writes them."""
    scored = table[table["mahalanobis_percentile"].astype(str) != ""]
    flags = scored.assign(outside=scored["outside"].astype(str).str.lower() == "true")
    by_site = [
        {
            "site": site or "not stated",
            "n": len(part),
            "n_outside": int(part["outside"].sum()),
            "median_percentile": 50.0,
        }
        for site, part in flags.groupby("site")
    ]
    block = {"n": len(flags), "n_outside": int(flags["outside"].sum()), "by_site": by_site}
    return {**block, "reference": "training folds", **about}


def read(folder, file="outlyingness.tsv"):
    return pd.read_csv(folder / file, sep="\t", dtype={"outside": str, "session": str}, keep_default_na=False)


def test_counts_are_those_of_the_files(folder, parse):
    files = open_folder(folder)
    table = read(folder)
    n_outside = (table["outside"] == "True").sum()
    section = build(files)
    page = parse.Page(render_report(files, [section]))
    assert f"{n_outside} of {len(table)} scans" in page.text
    rows = {row[0]: row for row in page.rows if row}
    for site, part in table.groupby("site"):
        n = (part["outside"] == "True").sum()
        assert rows[site][2] == f"{n / len(part):.0%}{n} of {len(part)}"
        assert rows[site][3] == f"{part['mahalanobis_percentile'].median():.0f}"


def test_external_people_are_not_named_either(folder):
    table = read(folder, "external_outlyingness.tsv")
    table["participant_id"] = [f"patient{number}" for number in range(len(table))]
    files = change(folder, table, file="external_outlyingness.tsv",
                   warnings=[{"code": "external_outside_distribution", "message": "Look at patient7."}])  # fmt: skip
    assert list_warnings(files)[0][0] == "Look at [id]."
    assert not re.search(r"patient\d", render_report(files, [build(files, "external")]))


def test_the_external_part_has_its_own(folder, parse):
    files = open_folder(folder)
    counted = external_part(files).summary.outlyingness
    section = build(files, "external")
    text = parse.Page(render_report(files, [section])).text
    assert f"{counted.n_outside} of {counted.n} scans" in text


def test_scans_without_a_score(folder, parse):
    """Where a fold is too small no distance can be had: such a scan is neither inside nor outside."""
    table = read(folder).astype(object)
    table.loc[:9, ["mahalanobis", "mahalanobis_percentile", "outside"]] = ""
    about = counted(table, note="10 scans have no score: too few training scans", threshold_percentile=97.5)
    files = change(folder, table, outlyingness=about)
    assert "of 110 scans" in build(files).blocks[0].facts[0][1]
    page = parse.Page(render_report(files, [build(files)]))
    assert about["note"] in page.text
    assert not re.search(r"\b(nan|NaN|None|inf)\b", page.text)


def test_what_is_no_flag_or_number_is_named(folder):
    with pytest.raises(
        DataError, match=r"outlyingness\.tsv, column 'outside': must be true or false, found row 3: 'far'"
    ):
        change(folder, read(folder).assign(outside=["True", "far"] + [""] * 118))
    with pytest.raises(DataError, match=r"column 'mahalanobis': must be numbers, found row 2: 'x'"):
        change(folder, read(folder).assign(mahalanobis="x"))
    with pytest.raises(DataError, match=r"outlyingness\.tsv: missing columns: 'outside'"):
        change(folder, read(folder).drop(columns="outside"))
