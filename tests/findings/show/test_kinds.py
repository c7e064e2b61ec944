"""Each kind of target gets its own figures and sentences."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from neurocontrast.findings import build_sections, open_folder
from neurocontrast.findings.errors import count_confusion
from neurocontrast.page.blocks import list_pictures


def names_of_figures(folder):
    files = open_folder(folder)
    return [picture.name for picture in list_pictures(build_sections(files))]


def test_binary(binary_folder):
    names = names_of_figures(binary_folder)
    assert {"headline", "roc", "precision_recall", "confusion", "sites_auc", "training_loss"} <= set(names)
    assert {name for name in names if name.startswith("training")} == {"training_loss", "training_effective_rank"}
    assert {"map_pca_target", "map_pca_age", "map_pca_sex", "map_pca_site"} <= set(names)
    assert len(names) == len(set(names))


def test_multiclass(tmp_path, make, render, parse):
    folder = make.make_multiclass(tmp_path / "e")
    assert {"confusion", "sites_balanced_accuracy"} <= set(names_of_figures(folder))
    page = parse.Page(render(folder))
    assert "guessing would give 25" in page.text
    assert "chance 0.25" in page.text


@pytest.mark.usefixtures("undrawn")
def test_continuous(tmp_path, make, render, parse):
    folder = make.make_continuous(tmp_path / "e")
    names = names_of_figures(folder)
    assert {"predicted_true", "sites_mae", "sites_r2"} <= set(names)
    assert not {"roc", "confusion"} & set(names)
    assert "map_pca_age" not in names, "the target is age: it is drawn once"
    page = parse.Page(render(folder))
    assert "years on average" in page.text
    assert "holds information beyond sex and site" in page.text


@pytest.mark.usefixtures("undrawn")
def test_leave_site_out(tmp_path, make, render, parse):
    folder = make.make_binary(tmp_path / "e", n_boot=5, splits="leave-site-out", n_folds=4)
    predictions = pd.read_csv(folder / "predictions.tsv", sep="\t")
    predictions["fold"] = predictions["site"].astype("category").cat.codes
    predictions.to_csv(folder / "predictions.tsv", sep="\t", index=False)
    folds = pd.read_csv(folder / "folds.tsv", sep="\t").head(4)
    folds["held_out_site"] = sorted(predictions["site"].unique())
    folds.to_csv(folder / "folds.tsv", sep="\t", index=False)
    page = parse.Page(render(folder))
    assert "one site left out at a time" in page.text
    assert "Site left out" in page.text


def test_confusion_counts_agree_with_the_metrics(binary_folder):
    files = open_folder(binary_folder)
    counts = count_confusion(files)
    recalls = counts.diagonal() / counts.sum(axis=1)
    assert recalls.mean() == pytest.approx(files.metrics["balanced_accuracy"].pooled)
    assert counts.sum() == files.summary.n.scans


def test_confusion_over_repeats_is_a_mean(tmp_path, make):
    files = open_folder(make.make_binary(tmp_path / "e", n_repeats=3, n_boot=5))
    assert count_confusion(files).sum() == pytest.approx(files.summary.n.scans)


def test_confusion_follows_the_decisions_of_the_evaluation(tmp_path, make):
    folder = make.make_binary(tmp_path / "e", n_boot=5)
    table = pd.read_csv(folder / "predictions.tsv", sep="\t").assign(y_pred="patient")
    table.to_csv(folder / "predictions.tsv", sep="\t", index=False)
    files = open_folder(folder)
    assert count_confusion(files)[:, 0].sum() == 0


def test_each_repeat_has_its_curve(tmp_path, make):
    files = open_folder(make.make_binary(tmp_path / "e", n_repeats=3, n_boot=5))
    roc = next(p for p in list_pictures(build_sections(files)) if p.name == "roc")
    curves = roc.numbers[roc.numbers["curve"] == "Embedding"].groupby("repeat")
    areas = [np.trapezoid(rows["y"], rows["x"]) for _, rows in curves]
    assert areas == pytest.approx(
        [roc_auc_score(rows["y_true"] == "patient", rows["y_score"]) for _, rows in files.predictions.groupby("repeat")]
    )
    assert "a line for each repeat" in roc.caption


def test_nothing_defined(tmp_path, make, render, parse):
    """A report of an evaluation without a single metric still says what it can."""
    folder = make.make_binary(tmp_path / "e", n_boot=5)
    path = folder / "evaluation.json"
    summary = json.loads(path.read_text())
    absent = {
        "mean": None,
        "sd": None,
        "pooled": None,
        "interval": None,
        "n_folds_defined": 0,
        "reason": "single class",
    }
    summary |= {"metrics": {"auc": absent}, "baseline": {}, "increment": {}, "n": {"scans": 120}, "run": None}
    summary |= {"objective": None, "environment": {}, "bootstrap": {"n": 0}}
    path.write_text(json.dumps(summary))
    for name in ("predictions", "sites", "folds"):
        table = pd.read_csv(folder / f"{name}.tsv", sep="\t")
        if name == "predictions":
            table["y_true"] = "control"
        for column in [c for c in table if "auc" in c]:
            table[column] = None
        table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    page = parse.Page(render(folder))
    assert "No figure of merit could be computed" in page.text
    assert "No curve is defined" in page.text
    assert "single class" in page.text
