"""The report of an evaluation of natural images."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from neurocontrast.findings import build_sections, open_folder, render_report
from neurocontrast.findings.comparison.show import build_comparison, render_comparison
from neurocontrast.findings.methods import write_methods
from neurocontrast.page.blocks import Citations, list_pictures

BRAIN = re.compile(
    r"\b(scans?|subjects?|participants?|patients?|people|sites?|scanners?|brains?|clinic\w*|diagnos\w*|volumes?)\b",
    re.I,
)


def _pictures(folder: Path) -> dict:
    sections = build_sections(open_folder(folder))
    return {picture.name: picture for picture in list_pictures(sections)}


def _changed(folder: Path, copy: Path, **changes: object) -> Path:
    shutil.copytree(folder, copy)
    summary = json.loads((copy / "evaluation.json").read_text()) | changes
    (copy / "evaluation.json").write_text(json.dumps(summary))
    return copy


def _section(folder: Path, name: str, parse: ModuleType) -> str:
    """Return the text of one section, with what stands for its figures, without building the others."""
    files = open_folder(folder)
    shown = next(each for each in files.findings if each.name == name and each.fits(files)).show(files)
    page = parse.Page(render_report(files, [shown]))
    return " ".join([page.text, *(image["alt"] for image in page.all("img"))])


def _methods(folder: Path) -> tuple[str, Citations]:
    cite = Citations()
    return " ".join(text for _, text in write_methods(open_folder(folder), cite)), cite


@pytest.fixture(scope="module")
def page(image_folder: Path, render, parse: ModuleType):
    return parse.Page(render(image_folder))


def test_an_image_is_never_called_a_scan_and_a_class_never_a_diagnosis(page):
    text = page.text.replace("scans.tsv", "")
    assert "Other cameras, styles" in text
    assert BRAIN.findall(text) == []


def test_it_has_no_section_that_only_brains_have(page):
    assert page.headings() == [
        "warnings", "result", "cohort", "errors", "map", "training", "methods", "silences",
        "provenance",
    ]  # fmt: skip


def test_it_leads_with_top_1_its_interval_and_chance(page, image_folder: Path):
    accuracy = json.loads((image_folder / "evaluation.json").read_text())["metrics"]["accuracy"]["pooled"] * 100
    assert f"Top-1 accuracy {accuracy:.1f}% 95% interval {accuracy - 2:.1f} to {accuracy + 0.4:.1f}%" in page.text
    assert "chance 14.3%" in page.text
    assert "For 99.5 of 100 the right class is among the five likeliest" in page.text
    assert page.rows[1][0].strip() == "Top-1 accuracy"


def test_warnings_about_what_images_do_not_have_are_left_out(page):
    assert "Read this first: 1 warning" in page.text
    assert "Class 'cat' has 2% of the images" in page.text
    assert "No scan has a site" not in page.text


def test_methods_say_what_was_done_and_cite_only_that(image_folder: Path, tmp_path):
    text, cite = _methods(image_folder)
    assert "those of CIFAR-10" in text
    assert "400 training, 100 validation and 140 test images" in text
    assert "C = 0.01 chosen on the validation images, fitted on the 500 images of training and validation" in text
    assert "No test image was seen in pretraining." in text
    assert "nilearn" not in text
    marks = {int(number) for found in re.findall(r"\[([\d, ]+)\]", text) for number in found.split(",")}
    assert marks == {number for number, _ in cite.listed()}
    assert "fitted to its optimum by Newton's method" in text


def test_an_evaluation_with_folds_says_so(image_folder: Path, tmp_path):
    folds = _changed(image_folder, tmp_path / "folds", splits="stratified", n_folds=5, split=None)
    text, _ = _methods(folds)
    assert "by Newton's method, inside each training fold, C = 0.01 chosen there" in text
    assert "Cross-validation used 5 folds, stratified by the target" in text
    assert "test images" not in text.split("Sensitive")[0].replace("No test image", "")


def test_many_classes_become_a_heat_map(tmp_path, make_images):
    names = [f"kind of thing {index:03d}" for index in range(40)]
    pictures = _pictures(make_images(tmp_path / "many", classes=names, n=200))
    svg = pictures["confusion"].encode("svg").decode()
    assert svg.count("kind of") >= 80
    assert "Least often" in pictures["confusion"].alt
    assert len(pictures["confusion"].numbers) == 1600


def test_a_binary_and_a_continuous_target_have_pages_too(image_folder: Path, tmp_path, render):
    table = pd.read_csv(image_folder / "predictions.tsv", sep="\t")
    table = table[[name for name in table if not name.startswith("score_")]]
    for kind, changes in (
        ("binary", {"kind": "binary", "classes": ["no", "yes"], "positive": "yes"}),
        ("continuous", {"kind": "continuous", "classes": [], "positive": None}),
    ):
        folder = _changed(image_folder, tmp_path / kind, target="wings", **changes)
        metric = {"pooled": 0.7, "mean": 0.7, "sd": None, "interval": [0.6, 0.8]}
        summary = json.loads((folder / "evaluation.json").read_text())
        summary["metrics"] = {"accuracy" if kind == "binary" else "mae": metric}
        (folder / "evaluation.json").write_text(json.dumps(summary))
        random = np.random.default_rng(0).uniform(0, 1, len(table))
        truth = np.where(random > 0.4, "yes", "no") if kind == "binary" else random
        new = table.assign(y_true=truth, y_score=random, y_pred=np.where(random > 0.5, "yes", "no"))
        new = new if kind == "binary" else new.drop(columns="y_pred")
        new.to_csv(folder / "predictions.tsv", sep="\t", index=False)
        (folder / "map.tsv").unlink()
        html = render(folder)
        assert ("70.0%" if kind == "binary" else "Mean absolute error of wings: 0.700") in html
        assert BRAIN.findall(re.sub(r"<[^>]*>", " ", html.split("<body>")[1]).replace("scans.tsv", "").replace(
            "prediction in patients and for medical images; reports of scans have their tables", "")) == []  # fmt: skip


def test_models_of_images_are_compared_by_accuracy(image_maker, parse):
    files = image_maker.make_comparison()
    sections = build_comparison(files)
    page = parse.Page(render_comparison(files, sections))
    assert BRAIN.findall(page.text) == []
    assert "supcon is better: top-1 accuracy +3.0 points (+2.0 to +4.0, adjusted p = 0.001)." in page.text
    assert "the same training, validation and test images for every model" in page.text
    assert "McNemar" in page.text
    assert "Nadeau" not in page.text
    assert "learning" not in page.headings()


@pytest.mark.slow
def test_ten_thousand_images_of_a_hundred_classes_make_a_small_page(tmp_path, make_images, render):
    names = [f"class {index}" for index in range(100)]
    html = render(make_images(tmp_path / "large", n=10_000, classes=names))
    assert len(html) < 3_000_000
    assert "3,000 of the 10,000 images are drawn, chosen at random" in html
