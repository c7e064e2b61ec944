"""Each kind of target gets its own figures and sentences."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from neurocontrast.reporting.blocks import list_pictures
from neurocontrast.reporting.findings import build_sections, open_folder, render_report
from neurocontrast.reporting.sections.errors import count_confusion
from tests.reporting.folders import edit, rewrite
from tests.reporting.page import Page


@pytest.fixture
def shown(undrawn):
    """Give the names of figures and the page of an evaluation folder."""

    def show(folder):
        files = open_folder(folder)
        sections = build_sections(files)
        return [picture.name for picture in list_pictures(sections)], Page(
            render_report(files, sections)
        )

    return show


def test_two_classes(binary_folder, shown):
    names, _ = shown(binary_folder)
    assert {"headline", "roc", "precision_recall", "confusion", "sites_auc"} <= set(names)
    assert len(names) == len(set(names))


def test_several_classes(several_folder, shown):
    names, page = shown(several_folder)
    expected = {
        "confusion",
        "sites_balanced_accuracy",
        "calibration_1",
        "calibration_4",
        "external_confusion",
    }
    assert expected <= set(names)
    assert "guessing would give 25" in page.text
    assert "chance 0.25" in page.text


def test_numbers(age_folder, shown):
    names, page = shown(age_folder)
    assert {
        "predicted_true",
        "sites_mae",
        "sites_r2",
        "external_predicted_true",
        "learning_mae",
    } <= set(names)
    assert not {"roc", "confusion"} & set(names)
    assert not {"calibration", "curves"} & set(page.headings())
    assert "years on average" in page.text
    assert "within classes" not in page.text
    assert "“Within” rows" not in page.text
    assert "beyond sex and site" in page.text


def test_leave_site_out(evaluated, shown):
    _, page = shown(evaluated(splits="leave-site-out"))
    assert "one site left out at a time" in page.text
    assert "Site left out" in page.text


def test_confusion_counts_agree_with_the_metrics(binary_folder, repeated_folder, folder):
    files = open_folder(binary_folder)
    counts = count_confusion(files)
    recalls = counts.diagonal() / counts.sum(axis=1)
    assert recalls.mean() == pytest.approx(files.metrics["balanced_accuracy"].pooled)
    assert counts.sum() == files.summary.n.scans
    assert count_confusion(open_folder(repeated_folder)).sum() == pytest.approx(
        files.summary.n.scans
    )
    decided = open_folder(edit(folder, "predictions", lambda table: table.assign(y_pred="patient")))
    assert count_confusion(decided)[:, 0].sum() == 0


def test_each_repeat_has_its_curve(repeated_folder, build):
    files = open_folder(repeated_folder)
    roc = next(
        picture for picture in list_pictures([build("curves", files)]) if picture.name == "roc"
    )
    curves = roc.numbers[roc.numbers["curve"] == "Embedding"].groupby("repeat")
    areas = [np.trapezoid(rows["y"], rows["x"]) for _, rows in curves]
    assert areas == pytest.approx(
        [
            roc_auc_score(rows["y_true"] == "patient", rows["y_score"])
            for _, rows in files.predictions.groupby("repeat")
        ]
    )
    assert "a line for each repeat" in roc.caption


def test_a_report_without_a_single_metric_still_says_what_it_can(folder, shown):
    absent = dict.fromkeys(("mean", "sd", "pooled", "interval")) | {
        "n_folds_defined": 0,
        "reason": "single class",
    }
    rewrite(folder, metrics={"auc": absent}, baseline={}, increment={}, n={"scans": 120}, run=None, objective=None,
            environment={}, bootstrap={"n": 0})  # fmt: skip
    edit(folder, "predictions", lambda table: table.assign(y_true="control"))
    for name in ("sites", "folds"):
        edit(
            folder,
            name,
            lambda table: table.assign(**{column: "" for column in table if "auc" in column}),
        )
    _, page = shown(folder)
    assert "No figure of merit could be computed" in page.text
    assert "No curve is defined" in page.text
    assert "single class" in page.text
