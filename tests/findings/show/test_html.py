from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pandas as pd
import pytest

HOSTILE = ["<script>alert(1)</script>", 'quote" onload="x', "$x_1$ {{ 7 }}", "St. Ł–東京", "&amp;", "a\x07b"]


def change(folder: Path, **keys: object) -> Path:
    path = folder / "evaluation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    return folder


@pytest.fixture(scope="module")
def html(binary_folder, render) -> str:
    return render(binary_folder)


def test_nothing_is_loaded_and_nothing_runs(html, parse):
    page = parse.Page(html)
    assert not page.all("script")
    assert not page.all("link")
    assert not page.all("iframe")
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        assert attributes.get("src", "data:").startswith("data:")
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL).group(1)
    assert "url(" not in style
    assert "@import" not in style
    policy = [meta["content"] for meta in page.all("meta") if "http-equiv" in meta]
    assert policy == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_images_are_sound_and_load_nothing(html, parse):
    for image in parse.Page(html).images():
        ElementTree.fromstring(image)
        assert not re.search(r'(?:href|src)="(?!#|data:)', image)


def test_warnings_come_first(html, parse, make):
    page = parse.Page(html)
    assert page.headings()[:2] == ["warnings", "result"]
    for warning in make.WARNINGS:
        assert warning["message"] in page.text
    assert "3 warnings" in page.text


def test_simulated_data_are_labelled(html, parse):
    page = parse.Page(html)
    assert page.text.count("SIMULATED") >= 2
    assert [p for p in page.all("p") if p.get("class") == "banner"]
    assert "says nothing about patients" in page.text


def test_names_of_users_are_escaped(tmp_path, make, render, parse):
    folder = make.make_binary(
        tmp_path / "e",
        sites=HOSTILE,
        classes=("<b>control", "pa</script>tient"),
        warnings=[{"code": "x", "message": "<img src=http://example.org/x.png>"}],
        n_boot=5,
    )
    html = render(folder)
    page = parse.Page(html)
    assert not page.all("script")
    assert not page.all("b")
    assert all(image["src"].startswith("data:") for image in page.all("img"))
    assert "<script>alert(1)</script>" in page.text
    assert "pa</script>tient" in page.text
    assert "St. Ł–東京" in page.text
    assert "a b" in page.text or "ab" in page.text
    assert "\x07" not in html
    for image in page.images():
        ElementTree.fromstring(image)


def test_identifiers_are_hidden_unless_asked_for(tmp_path, make, render):
    folder = make.make_binary(
        tmp_path / "e",
        warnings=[{"code": "duplicate_overlap", "message": "1 image stands under two names: sub-0003 = sub-0010."}],
        n_boot=5,
    )
    first = pd.read_csv(folder / "predictions.tsv", sep="\t")["participant_id"].iloc[0]
    hidden, shown = render(folder), render(folder, show_ids=True)
    assert not re.search(r"sub-\d{4}", hidden)
    assert "[id] = [id]" in hidden
    assert "sub-0003 = sub-0010" in shown
    assert first.startswith("sub-")


def test_folders_of_the_machine_are_left_out(html):
    assert "/home/someone" not in html
    assert "emb.parquet" in html


@pytest.mark.usefixtures("undrawn")
def test_what_is_missing_is_said(tmp_path, make, render, parse):
    folder = make.make_binary(tmp_path / "e", n_boot=5)
    says = {
        "cohort.tsv": "cohort.tsv is absent",
        "config.yaml": "config.yaml is absent",
    }
    for name in says:
        (folder / name).unlink(missing_ok=True)
    text = parse.Page(render(folder)).text
    assert [name for name, words in says.items() if words not in text] == []


def test_absent_values_get_a_dash_and_a_reason(html, parse):
    page = parse.Page(html)
    row = next(row for row in page.rows if row[0] == "site-02" and "only one class at this site" in row[-1])
    assert row[3:9] == ["–"] * 6
    assert all(abbreviation["title"] for abbreviation in page.all("abbr"))


def test_the_page_is_the_same_every_time(binary_folder, render, html):
    assert render(binary_folder) == html
