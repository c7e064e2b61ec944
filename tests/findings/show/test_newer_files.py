"""The report of an evaluation with every file, and of those where one is missing, damaged or hostile."""

from __future__ import annotations

import json
import re
import shutil

import nibabel
import numpy as np
import pandas as pd
import pytest

from neurocontrast.exceptions import DataError
from neurocontrast.findings import build_sections, open_folder, render_report
from neurocontrast.findings.brain import read_map, share_outside
from neurocontrast.findings.cohort import list_steps
from neurocontrast.findings.prose import threshold_text
from neurocontrast.page.blocks import list_pictures


@pytest.fixture(scope="module")
def sections(full_folder):
    return build_sections(open_folder(full_folder))


@pytest.fixture(scope="module")
def html(full_folder, sections) -> str:
    return render_report(open_folder(full_folder), sections)


@pytest.fixture
def folder(full_folder, tmp_path):
    return shutil.copytree(full_folder, tmp_path / "evaluation")


def build(name, files):
    """Build one section by its name."""
    return next(each for each in files.findings if each.name == name and each.fits(files)).show(files)


def change(folder, **keys):
    path = folder / "evaluation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    return open_folder(folder)


def test_every_part_is_there(sections, html, parse):
    page = parse.Page(html)
    for name in ("groups", "calibration", "worst", "learning", "external", "confounds", "brain"):
        assert name in page.headings()
    assert "Not shown" not in page.text
    names = {picture.name for picture in list_pictures(sections)}
    assert {
        "groups_sex_auc", "groups_age_band_auc", "calibration", "learning_auc", "external_roc",
        "external_precision_recall", "external_confusion", "brain_peak",
        "brain_slices",
    } <= names  # fmt: skip


def test_the_page_is_sound(html, parse):
    page = parse.Page(html)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert all(a["href"][1:] in ids for a in page.all("a"))
    alts = [image["alt"] for image in page.all("img")]
    assert len(set(alts)) == len(alts)
    assert all(re.search(r"\d", alt) for alt in alts), "an alternative text tells numbers"
    assert not re.search(r"\b(nan|NaN|None|inf)\b", page.text + " ".join(alts))
    assert not re.search(r"sub-\d{4}", html)
    assert len(html) < 6_000_000


@pytest.mark.parametrize(
    ("rule", "values", "says"),
    [
        ("half", [0.5], "at the threshold 0.5"),
        (0.3, [0.3], "at the threshold 0.3"),
        ("prevalence", [0.2, 0.4], "(0.20 to 0.40 over folds), set to the share of positives in the training fold"),
    ],
)
def test_the_rule_of_the_threshold_is_told(folder, rule, values, says):
    files = change(folder, threshold={"rule": rule, "values": values})
    assert says in threshold_text(files)
    assert says.lower() in build("errors", files).blocks[0].pictures[0].caption.lower()


def test_flow_counts_and_tells(full_folder, binary_folder):
    files = open_folder(full_folder)
    steps = list_steps(files.flow)
    assert steps["n_scans"].tolist() == [132, 8, 4, 120]
    assert steps["left_out"].tolist() == [False, True, True, False]
    assert steps.loc[1, ["step", "n_subjects"]].tolist() == ["Left out: Image not readable", 7]
    older = build("cohort", open_folder(binary_folder))
    assert ("Left out: Target missing", "4") in older.blocks[0].facts


def test_names_in_newer_files_are_escaped(folder, render, parse):
    bad = "<script>alert(1)</script>"
    for name, column in (("groups", "group"), ("confounds", "column"), ("flow", "reason"),
                         ("external_sites", "site"), ("groups", "note"), ("confounds", "note")):  # fmt: skip
        table = pd.read_csv(folder / f"{name}.tsv", sep="\t", dtype=str)
        table.loc[0, column] = bad
        table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    about = json.loads((folder / "explanation" / "explain.json").read_text())
    about |= {"method": bad, "positive": bad, "warnings": [bad]}
    (folder / "explanation" / "explain.json").write_text(json.dumps(about))
    change(folder, probe={"name": bad}, threshold={"rule": bad, "values": []})
    page = parse.Page(render(folder))
    assert not page.all("script")
    assert bad in page.text


def test_a_map_that_cannot_be_shown_is_named(folder):
    path = folder / "explanation" / "saliency.nii.gz"
    image = nibabel.load(path)
    nibabel.save(nibabel.Nifti1Image(np.zeros(image.shape, dtype=np.float32), image.affine), path)
    said = [b.text for b in build("brain", open_folder(folder)).blocks if b.block == "paragraph"]
    assert "the map is zero everywhere" in said[0]
    path.write_bytes(b"nothing")
    said = [b.text for b in build("brain", open_folder(folder)).blocks if b.block == "paragraph"]
    assert "saliency.nii.gz" in said[0]
    path.unlink()
    with pytest.raises(DataError, match="the map of the explanation is missing"):
        open_folder(folder)


def test_a_map_is_only_looked_for_in_its_folder(folder):
    path = folder / "explanation" / "explain.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"map": "../../../elsewhere/saliency.nii.gz"}))
    assert open_folder(folder).explanation.map_path == folder / "explanation" / "saliency.nii.gz"


@pytest.mark.parametrize("maker", ["make_multiclass", "make_continuous"])
def test_other_kinds_of_target(tmp_path, make, add_newer_files, maker, parse):
    folder = add_newer_files(getattr(make, maker)(tmp_path / "e"))
    files = open_folder(folder)
    sections = build_sections(files)
    page, names = parse.Page(render_report(files, sections)), {picture.name for picture in list_pictures(sections)}
    if maker == "make_multiclass":
        assert {"calibration_1", "calibration_4", "external_confusion"} <= names
    else:
        assert {"external_predicted_true", "learning_mae", "groups_sex_mae"} <= names
        assert not {"calibration", "curves"} & set(page.headings())


def test_what_lies_outside_the_brain_is_told(full_folder):
    image = read_map(open_folder(full_folder).explanation)
    assert share_outside(image) < 0.15
    data = np.zeros(image.shape, dtype=np.float32)
    data[:2] = 1.0
    assert share_outside(nibabel.Nifti1Image(data, image.affine)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"learning_curve": {"metrics": {"auc": 3}}}, "'learning_curve.metrics.auc': must be a"),
        ({"learning_curve": {"metrics": {"auc": [{"n_train": "x"}]}}}, "'learning_curve.metrics.auc.0.n_train'"),
        ({"permutation": {"n": 9, "p_values": {"auc": "small"}}}, "'permutation.p_values.auc'"),
        ({"threshold": {"rule": "half", "values": 3}}, "'threshold.values'"),
        ({"probe": "logistic"}, "'probe'"),
        ({"external": {"metrics": {"auc": {"value": "high"}}}}, "'external.metrics.auc.value'"),
        ({"new_site": {"unseen": {"embedding": {"mae": "low"}}}}, "'new_site.unseen.embedding.mae'"),
        ({"split": {"n": {"train": "many"}}}, "split.n.train"),
    ],
)
def test_parts_that_hold_something_else(folder, keys, named):
    with pytest.raises(DataError, match=re.escape(named)):
        change(folder, **keys)
