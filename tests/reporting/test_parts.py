"""The report of an evaluation with every file, and of those where one is missing, damaged or hostile."""

import json
import re

import nibabel
import numpy as np
import pandas as pd
import pytest

from neurocontrast.exceptions import DataError
from neurocontrast.reporting.blocks import list_pictures
from neurocontrast.reporting.findings import build_sections, open_folder, render_report
from neurocontrast.reporting.naming import name_threshold
from neurocontrast.reporting.sections.brain import read_map, share_outside
from neurocontrast.reporting.sections.cohort import list_steps
from neurocontrast.reporting.sections.external import external_tables
from neurocontrast.reporting.sections.warnings import list_warnings
from tests.reporting.folders import edit, rewrite
from tests.reporting.page import Page

EVALUATION = "full_folder"


@pytest.fixture(scope="module")
def sections(full_folder):
    return build_sections(open_folder(full_folder))


@pytest.fixture(scope="module")
def html(full_folder, sections) -> str:
    return render_report(open_folder(full_folder), sections)


def test_every_part_is_there(sections, html):
    page = Page(html)
    for name in ("groups", "calibration", "worst", "learning", "external", "confounds", "brain"):
        assert name in page.headings()
    assert "Not shown" not in page.text
    names = {picture.name for picture in list_pictures(sections)}
    assert {"calibration", "learning_auc", "external_roc", "brain_peak", "brain_slices"} <= names
    assert {"external_precision_recall", "external_confusion"} <= names


def test_the_page_is_sound(html):
    page = Page(html)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert all(a["href"][1:] in ids for a in page.all("a"))
    alts = [image["alt"] for image in page.all("img")]
    assert len(alts) > 10
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
        (
            "prevalence",
            [0.2, 0.4],
            "(0.20 to 0.40 over folds), set to the share of positives in the training fold",
        ),
    ],
)
def test_the_rule_of_the_threshold_is_told(folder, build, rule, values, says):
    files = open_folder(rewrite(folder, threshold={"rule": rule, "values": values}))
    assert says in name_threshold(files)
    assert says.lower() in build("errors", files).blocks[0].pictures[0].caption.lower()


def test_flow_counts_and_tells(folder, build):
    left = {"step": "excluded", "n_scans": "8", "n_subjects": "7", "reason": "image not readable"}
    edit(folder, "flow", lambda table: pd.concat([table, table[:1].assign(**left)]))
    steps = list_steps(open_folder(folder))
    assert steps["n_scans"].tolist() == [120, 120, 8]
    assert steps["left_out"].tolist() == [False, False, True]
    assert steps.loc[2, ["step", "n_subjects"]].tolist() == ["Left out: Image not readable", 7]
    (folder / "flow.tsv").unlink()  # as evaluations of earlier versions have none
    older = build(
        "cohort", open_folder(rewrite(folder, n={"scans": 120, "excluded": {"target missing": 4}}))
    )
    assert ("Left out: Target missing", "4") in older.blocks[0].facts


def test_names_in_every_file_are_escaped(folder, render):
    bad = "<script>alert(1)</script>"
    for name, column in (("sites", "site"), ("confounds", "column"), ("flow", "reason"),
                         ("external_sites", "site"), ("sites", "note"), ("confounds", "note")):  # fmt: skip
        edit(
            folder,
            name,
            lambda table, column=column: table.assign(**{column: [bad, *table[column][1:]]}),
        )
    about = json.loads((folder / "explanation" / "explain.json").read_text())
    about |= {"method": bad, "positive": bad, "warnings": [bad]}
    (folder / "explanation" / "explain.json").write_text(json.dumps(about))
    page = Page(render(rewrite(folder, probe={"name": bad}, threshold={"rule": bad, "values": []})))
    assert not page.all("script")
    assert bad in page.text


def test_a_map_that_cannot_be_shown_is_named(folder, build):
    path = folder / "explanation" / "saliency.nii.gz"
    image = nibabel.load(path)
    nibabel.save(nibabel.Nifti1Image(np.zeros(image.shape, dtype=np.float32), image.affine), path)
    assert "the map is zero everywhere" in str(build("brain", open_folder(folder)))
    path.write_bytes(b"nothing")
    assert "saliency.nii.gz" in str(build("brain", open_folder(folder)))
    path.unlink()
    with pytest.raises(DataError, match="the map of the explanation is missing"):
        open_folder(folder)


def test_a_map_is_only_looked_for_in_its_folder(folder):
    path = folder / "explanation" / "explain.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"map": "../../../elsewhere/saliency.nii.gz"})
    )
    assert open_folder(folder).explanation.map_path == folder / "explanation" / "saliency.nii.gz"


def test_what_lies_outside_the_brain_is_told(full_folder):
    image = read_map(open_folder(full_folder).explanation.map_path)
    assert share_outside(image) < 0.15
    data = np.zeros(image.shape, dtype=np.float32)
    data[:2] = 1.0
    assert share_outside(nibabel.Nifti1Image(data, image.affine)) == pytest.approx(1.0)


# --- scans outside the distribution that a model learned from
# -------------------------------------------------------
def test_counts_are_those_of_the_files(folder, build):
    kinds = {"outside": str, "session": str}
    table = pd.read_csv(folder / "outlyingness.tsv", sep="\t", dtype=kinds, keep_default_na=False)
    table["outside"] = (table["site"] == "site-04").astype(str)
    by_site = [
        {
            "site": site,
            "n": len(part),
            "n_outside": len(part) * (site == "site-04"),
            "median_percentile": 7.0,
        }
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
    codes = ("external_outside_distribution", "external_overlap_unknown")
    rewrite(folder, warnings=[{"code": code, "message": "Look at patient7."} for code in codes])
    files = open_folder(folder)
    assert list_warnings(files)[0][0] == "Look at [id]."
    html = render_report(files, [build("external", files)])
    assert "0 (who was in pretraining could not be checked)" in Page(html).text
    assert not re.search(r"patient\d", html)
    counted = external_tables(files).summary.outlyingness
    assert f"{counted.n_outside} of {counted.n} scans" in Page(html).text
    assert "Each scan is in external_outlyingness.tsv" in Page(html).text


def test_a_scan_without_a_score_is_neither_inside_nor_outside(folder, build):
    def change(table):
        table.loc[:9, ["mahalanobis", "mahalanobis_percentile", "outside"]] = ""

    files = open_folder(edit(folder, "outlyingness", change))
    assert not re.search(
        r"\b(nan|NaN|None|inf)\b", Page(render_report(files, [build("outlyingness", files)])).text
    )
