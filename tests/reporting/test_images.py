"""The report of an evaluation of natural images."""

import json
import re

import pytest

from neurocontrast.reporting.blocks import Citations, list_pictures
from neurocontrast.reporting.findings import build_sections, open_folder
from neurocontrast.reporting.sections.methods import write_methods
from neurocontrast.reporting.sections.result import table_metrics
from tests.reporting.folders import evaluate_images
from tests.reporting.page import Page

BRAIN = re.compile(
    r"\b(scans?|subjects?|participants?|patients?|people|sites?|scanners?|brains?|clinic\w*|diagnos\w*|volumes?)\b",
    re.I,
)


def of_brains(page: Page) -> list[str]:
    """Words of brain imaging that a page of images has, but for its settings and the title of a reference."""
    text = page.text.partition("Resolved configuration")[0]
    return BRAIN.findall(
        text.replace("prediction in patients and for medical images; reports of scans have", "")
    )


@pytest.fixture(scope="module")
def page(image_folder, render) -> Page:
    return Page(render(image_folder))


def test_an_image_is_never_called_a_scan_and_a_class_never_a_diagnosis(page):
    assert "Other cameras, styles" in page.text
    assert of_brains(page) == []
    assert of_brains(Page("<p>Scans of patients</p>")) == ["Scans", "patients"]


def test_it_has_no_section_that_only_brains_have(page):
    assert not {"sites", "new_site", "brain", "confounds"} & set(page.headings())
    assert page.headings()[:3] == ["warnings", "result", "cohort"]
    assert page.headings()[-3:] == ["methods", "silences", "provenance"]


def test_it_leads_with_top_1_its_interval_and_chance(page, image_folder):
    metrics = json.loads((image_folder / "evaluation.json").read_text())["metrics"]
    value, low, high = (
        100 * each for each in (metrics["accuracy"]["pooled"], *metrics["accuracy"]["interval"])
    )
    assert f"Top-1 accuracy {value:.1f}% 95% interval {low:.1f} to {high:.1f}%" in page.text
    assert "chance 14.3%" in page.text
    assert (
        f"For {100 * metrics['top5_accuracy']['pooled']:.1f} of 100 the right class is among the five"
        in page.text
    )
    assert page.rows[1][0].strip() == "Top-1 accuracy"


def test_warnings_about_what_images_do_not_have_are_left_out(image_folder, changing, build):
    imbalance = {"code": "class_imbalance", "message": "Class 'cat' has 2% of the images."}
    missing = {"code": "site_missing", "message": "No scan has a site."}
    section = build("warnings", changing(image_folder)(warnings=[imbalance, missing]))
    assert "Class 'cat' has 2% of the images" in str(section)
    assert "No scan has a site" not in str(section)


def methods_of(files) -> tuple[str, Citations]:
    cite = Citations()
    return " ".join(text for _, text in write_methods(files, cite)), cite


def test_methods_say_what_was_done_and_cite_only_that(image_folder):
    text, cite = methods_of(open_folder(image_folder))
    assert "those of CIFAR-10" in text
    assert "200 training, 60 validation and 140 test images" in text
    assert (
        "C = 0.01 chosen on the validation images, fitted on the 260 images of training and validation"
        in text
    )
    assert "No test image was seen in pretraining." in text
    assert "nilearn" not in text
    marks = {
        int(number) for found in re.findall(r"\[([\d, ]+)\]", text) for number in found.split(",")
    }
    assert marks == {number for number, _ in cite.listed()}
    assert "fitted to its optimum by Newton's method" in text


def test_an_evaluation_with_folds_says_so(image_folder, changing):
    text, _ = methods_of(changing(image_folder)(splits="stratified", n_folds=5, split=None))
    assert "by Newton's method, inside each training fold, C = 0.01 chosen there" in text
    assert "Cross-validation used 5 folds, stratified by the target" in text
    assert "test images" not in text.split("Sensitive")[0].replace("No test image", "")


def test_the_column_of_permutation_p_values_is_explained(image_folder, changing):
    files = changing(image_folder)(
        permutation={"n": 19, "unit": "subject", "p_values": {"accuracy": 0.05}}
    )
    assert (
        "Perm. p: permutation p-value (1 + k)/(1 + n), one-sided, from n = 19"
        in table_metrics(files).note
    )


def test_many_classes_become_a_heat_map(tmp_path):
    names = [f"kind of thing {index:03d}" for index in range(40)]
    files = open_folder(evaluate_images(tmp_path / "many", classes=names, n=200))
    pictures = {picture.name: picture for picture in list_pictures(build_sections(files))}
    svg = pictures["confusion"].encode("svg").decode()
    assert svg.count("kind of") >= 80
    assert "Least often" in pictures["confusion"].alt
    assert len(pictures["confusion"].numbers) == 1600


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"classes": ("no", "yes")}, r"\d%"),
        ({"target": "wings"}, r"Mean absolute error of wings: \d\.\d+"),
    ],
)
def test_a_binary_and_a_continuous_target_have_pages_too(tmp_path, render, given, said):
    page = Page(render(evaluate_images(tmp_path / "e", **given)))
    assert re.search(said, page.text)
    assert of_brains(page) == []


@pytest.mark.slow
def test_ten_thousand_images_of_a_hundred_classes_make_a_small_page(tmp_path, render):
    names = [f"class {index}" for index in range(100)]
    assert (
        len(render(evaluate_images(tmp_path / "large", n=10_000, classes=names, n_bootstraps=0)))
        < 3_000_000
    )
