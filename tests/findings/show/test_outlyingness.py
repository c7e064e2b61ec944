"""Scans outside the distribution that a model learned from: counts, warnings, and nobody's name."""

import re
import shutil

import pandas as pd
import pytest

from neurocontrast.findings import open_folder, render_report
from neurocontrast.findings.external import external_part
from neurocontrast.findings.result import list_warnings
from tests.findings.show.folders import edit, rewrite
from tests.findings.show.page import Page


@pytest.fixture
def folder(full_folder, tmp_path):
    return shutil.copytree(full_folder, tmp_path / "e", ignore=shutil.ignore_patterns("explanation"))


def read(folder, file="outlyingness.tsv"):
    return pd.read_csv(folder / file, sep="\t", dtype={"outside": str, "session": str}, keep_default_na=False)


def test_counts_are_those_of_the_files(folder, build):
    table = read(folder)
    table["outside"] = (table["site"] == "site-04").astype(str)
    by_site = [
        {"site": site, "n": len(part), "n_outside": len(part) * (site == "site-04"), "median_percentile": 7.0}
        for site, part in table.groupby("site")
    ]
    n_outside = sum(each["n_outside"] for each in by_site)
    about = {"n": 120, "n_outside": n_outside, "by_site": by_site, "note": "10 scans have no score"}
    files = open_folder(rewrite(edit(folder, "outlyingness", lambda _: table), outlyingness=about))
    page = Page(render_report(files, [build("outlyingness", files)]))
    assert f"{n_outside} of 120 scans" in page.text
    assert about["note"] in page.text
    rows = {row[0]: row for row in page.rows if row}
    for each in by_site:
        share = each["n_outside"] / each["n"]
        assert rows[each["site"]][2:4] == [f"{share:.0%}{each['n_outside']} of {each['n']}", "7"]


def test_external_people_are_counted_and_not_named(folder, build):
    names = [f"patient{number}" for number in range(60)]
    edit(folder, "external_outlyingness", lambda table: table.assign(participant_id=names))
    rewrite(folder, warnings=[{"code": "external_outside_distribution", "message": "Look at patient7."}])
    files = open_folder(folder)
    assert list_warnings(files)[0][0] == "Look at [id]."
    html = render_report(files, [build("external", files)])
    assert not re.search(r"patient\d", html)
    counted = external_part(files).summary.outlyingness
    assert f"{counted.n_outside} of {counted.n} scans" in Page(html).text


def test_a_scan_without_a_score_is_neither_inside_nor_outside(folder, build):
    def change(table):
        table.loc[:9, ["mahalanobis", "mahalanobis_percentile", "outside"]] = ""

    files = open_folder(edit(folder, "outlyingness", change))
    assert not re.search(r"\b(nan|NaN|None|inf)\b", Page(render_report(files, [build("outlyingness", files)])).text)
