import json
import re
import xml.etree.ElementTree as ElementTree

import matplotlib
import pytest

from neurocontrast.reporting.findings import open_folder
from neurocontrast.reporting.sections.curves import draw_curve
from neurocontrast.reporting.style import distinct_labels, plain_label, shorten
from tests.reporting.folders import rewrite
from tests.reporting.page import Page

HOSTILE = [
    "<script>alert(1)</script>",
    'quote" onload="x',
    "$x_1$ {{ 7 }}",
    "St. Ł–東京",
    "&amp;",
    "a\x07b",
]


@pytest.fixture(scope="module")
def html(binary_folder, render) -> str:
    return render(binary_folder)


def test_nothing_is_loaded_and_nothing_runs(html):
    page = Page(html)
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


def test_images_are_sound_and_load_nothing(html):
    images = Page(html).images()
    assert len(images) > 3
    for image in images:
        ElementTree.fromstring(image)
        assert not re.search(r'(?:href|src)="(?!#|data:)', image)


def test_warnings_come_first(html, binary_folder):
    page = Page(html)
    assert page.headings()[:2] == ["warnings", "result"]
    warnings = json.loads((binary_folder / "evaluation.json").read_text())["warnings"]
    assert "single_class_site" in {warning["code"] for warning in warnings}
    for warning in warnings:
        assert warning["message"] in page.text
    assert f"{len(warnings)} warnings" in page.text


def test_simulated_data_are_labelled(html):
    page = Page(html)
    assert page.text.count("SIMULATED") >= 2
    assert [p for p in page.all("p") if p.get("class") == "banner"]
    assert "says nothing about patients" in page.text


def test_names_of_users_are_escaped(evaluated, render):
    folder = evaluated(
        sites=HOSTILE, classes=("<b>control", "pa</script>tient"), positive="pa</script>tient"
    )
    rewrite(folder, warnings=[{"code": "x", "message": "<img src=http://example.org/x.png>"}])
    html = render(folder)
    page = Page(html)
    assert not page.all("script")
    assert not page.all("b")
    assert "<script>alert(1)</script>" in page.text
    assert "pa</script>tient" in page.text
    assert "St. Ł–東京" in page.text
    assert "a b" in page.text or "ab" in page.text
    assert "\x07" not in html
    assert len(page.images()) == len(page.all("img")) > 3
    for image in page.images():
        ElementTree.fromstring(image)


def test_identifiers_are_hidden_unless_asked_for(folder, render):
    message = "1 image stands under two names: sub-0003 = sub-0010."
    rewrite(folder, warnings=[{"code": "duplicate_overlap", "message": message}])
    hidden = render(folder)
    shown = render(folder, show_ids=True)
    assert not re.search(r"sub-\d{4}", hidden)
    assert "[id] = [id]" in hidden
    assert "sub-0003 = sub-0010" in shown


def test_folders_of_the_machine_are_left_out(html):
    assert "/data/people" not in html
    assert "emb.parquet" in html


@pytest.mark.usefixtures("undrawn")
def test_what_is_missing_is_said(folder, render):
    for name in ("cohort.tsv", "config.yaml"):
        (folder / name).unlink()
    text = Page(render(folder)).text
    assert "cohort.tsv is absent" in text
    assert "config.yaml is absent" in text


def test_absent_values_get_a_dash_and_a_reason(html):
    page = Page(html)
    row = next(
        row for row in page.rows if row[0] == "site-02" and "single class (control)" in row[-1]
    )
    assert row[3:5] == ["–"] * 2
    titles = [abbreviation["title"] for abbreviation in page.all("abbr")]
    assert titles
    assert all(titles)


def test_the_page_is_the_same_every_time(binary_folder, render, html):
    assert render(binary_folder) == html


def test_figures_leave_matplotlib_as_it_was(binary_folder):
    before = dict(matplotlib.rcParams)
    picture = draw_curve(open_folder(binary_folder), "roc")
    picture.encode("svg")
    picture.encode("png")
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", ["plain", "two\nlines", "bell\x07", "x" * 200, ""])
def test_labels_are_one_short_printable_line(name):
    label = shorten(name, length=20)
    assert len(label) <= 20
    assert label.isprintable()
    assert plain_label("cost $5 and $6") == r"cost \$5 and \$6", "no mathematics"


def test_long_names_stay_apart():
    names = [f"University Hospital of Somewhere, department {i}, scanner A" for i in range(12)]
    labels = distinct_labels(names, length=24)
    assert len(set(labels)) == len(names)
    assert all(len(label) <= 24 for label in labels)


def test_names_that_differ_nowhere_near_the_ends_are_numbered():
    names = ["a" * 40 + middle + "b" * 60 for middle in "xyz"] + ["short"]
    labels = distinct_labels(names, length=16)
    assert len(set(labels)) == 4
    assert labels[-1] == "short"
