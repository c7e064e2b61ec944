"""Voxels beside embedding and covariates, wherever an evaluation has them; and software that ran, by name."""

from __future__ import annotations

import json

import pytest

from neurocontrast.findings import build_sections, open_folder, render_report
from neurocontrast.findings.external import external_part
from neurocontrast.findings.methods import write_methods
from neurocontrast.findings.prose import naming
from neurocontrast.findings.result import draw_headline, rivals, say_result, table_metrics
from neurocontrast.findings.sites import table_folds
from neurocontrast.page.blocks import Citations

ABOUT = {"spacing_mm": 4, "mask": "MNI152 brain", "n_voxels": 29398, "n_components": 60, "standardised": "each scan"}


@pytest.fixture
def changed(full_folder, changing):
    return changing(full_folder)


@pytest.fixture
def with_voxels(changed, full_folder):
    def add(difference=-0.05, interval=(-0.09, -0.01), p_value=0.02):
        metrics = json.loads((full_folder / "evaluation.json").read_text())["metrics"]
        increment = {"difference": difference, "interval": interval and list(interval), "p_value": p_value}
        software = ["scikit-learn", "nilearn"]
        return changed(
            voxels=metrics, voxels_increment=dict.fromkeys(metrics, increment), voxels_about=ABOUT, software=software
        )

    return add


def methods_of(files) -> str:
    return " ".join(text for _, text in write_methods(files, Citations()))


def test_the_headline_has_three_models(with_voxels, full_folder):
    rows = draw_headline(with_voxels()).numbers
    assert list(rows["model"]) == ["Embedding", "Only age + sex + site", "Only voxels"]
    assert list(draw_headline(open_folder(full_folder)).numbers["model"]) == ["Embedding", "Only age + sex + site"]


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ((-0.09, -0.01), "the embedding does worse"),
        ((-0.09, 0.01), "that the embedding does better is not shown"),
        ((0.01, 0.09), "the embedding does better"),
        (None, "no interval of the difference was computed"),
    ],
)
def test_the_comparison_is_read_by_its_interval(with_voxels, interval, words):
    text = say_result(with_voxels(interval=interval), "plain")
    assert "without any encoder, reach AUC" in text
    assert words in text


def test_a_reviewer_is_told_the_test_and_the_components(with_voxels):
    text = say_result(with_voxels(), "reviewer")
    assert "60 principal components of the voxels" in text
    assert "difference −0.050 (−0.090 to −0.010), corrected resampled t-test over folds p = 0.02" in text
    assert "t-test over folds" not in say_result(with_voxels(p_value=None), "reviewer")


def test_tables_and_methods_have_them(with_voxels):
    files = with_voxels()
    assert "Voxels only" in table_metrics(files).header
    assert "Voxels" in table_folds(files).header
    text = methods_of(files)
    assert "first 60 principal components of the voxels (29398 at 4 mm, MNI152 brain" in text
    assert "compared over folds by the corrected resampled t-test" in text
    assert "compared over folds" not in methods_of(with_voxels(p_value=None))


def test_regional_measures_stand_beside_them(changed, full_folder):
    metrics = json.loads((full_folder / "evaluation.json").read_text())["metrics"]
    increment = {"difference": 0.05, "interval": [0.01, 0.09], "p_value": 0.02}
    columns = [f"vol_{number}" for number in range(12)]
    files = changed(regional=metrics, regional_increment=dict.fromkeys(metrics, increment), regional_columns=columns)
    assert list(draw_headline(files).numbers["model"])[2:] == ["Only regions"]
    assert {"Regions only", "Minus regions"} <= set(table_metrics(files).header)
    assert "Regions" in table_folds(files).header
    assert "12 regional measures, without any encoder, reach" in say_result(files, "plain")
    assert "; 12 regional measures " in say_result(files, "reviewer")
    assert "used 12 regional measures (vol_0, " in methods_of(files)
    assert "Regions only" in render_report(files, build_sections(files))
    assert not rivals(external_part(files).summary)


def test_nilearn_is_named_only_where_it_ran(changed, changing, binary_folder):
    environment = {"neurocontrast": "0.1.0", "packages": {"scikit-learn": "1.9.0", "nilearn": "0.14.1"}}
    assert "nilearn 0.14.1" in methods_of(changed(environment=environment, software=["scikit-learn", "nilearn"]))
    assert "nilearn 0.14.1" in methods_of(changed(environment=environment, software=None))  # which shows a map
    text = methods_of(changing(binary_folder)(environment=environment, software=None))
    assert "nilearn" not in text
    assert "scikit-learn 1.9.0" in text


def test_a_splitter_of_the_user_s_is_named(changed):
    files = changed(splits="custom", splitter="StratifiedGroupKFold(n_splits=5)")
    assert naming("splits", files) == "5 folds, made by StratifiedGroupKFold(n_splits=5)"
    assert "5 folds, made by StratifiedGroupKFold(n_splits=5)" in methods_of(files)
