"""A finding from outside the package: one object, measured, recorded in evaluation.json, and shown in the report."""

from dataclasses import replace

import pandas as pd
import pytest
from pydantic import StrictInt

from neurocontrast.documents.findings import Outlyingness
from neurocontrast.documents.notice import Notice
from neurocontrast.documents.section import Part
from neurocontrast.evaluation.measure import check
from neurocontrast.evaluation.measure.finding import Measurement
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import write_json, write_table
from neurocontrast.reporting.blocks import Paragraph, Section
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.findings import FINDINGS, build_sections, open_folder, render_report
from neurocontrast.reporting.texts import section
from tests.evaluation.quick import evaluate_study, make_plan, warnings

METHODS = """
## Headcount.
{{ s.headcount.n_classes }} classes were counted {{ cite("Oldfield RC. The Edinburgh inventory. 1971;9:97–113.") }}.
"""


class Headcount(Part):
    key = "headcount"

    n_classes: StrictInt
    n_tables: StrictInt


def refuse(plan):
    if plan.target.kind == "continuous":
        raise ConfigError("headcount: counts classes")


def count(inputs):
    counts = pd.Series(inputs.plan.target.labels()).value_counts()
    notice = Notice(
        "headcount",
        f"{len(counts)} classes of {sorted(inputs.predictions)}",
        "Nothing follows from this.",
    )
    table = counts.rename_axis("kind").reset_index(name="n")
    record = Headcount(n_classes=len(counts), n_tables=len(inputs.earlier.tables))
    return Measurement({"headcount": record}, {"headcount": table}, [notice])


def show(files):
    found = files.summary.part(Headcount)
    table = files.table("headcount", "kind", "n", text=["kind"])
    if found is None or table is None:
        return None
    text = f"{found.n_classes} kinds of people, {table['n'].sum():.0f} in all, {' and '.join(sorted(table['kind']))}."
    return Section("headcount", "Headcount", [Paragraph(text)])


MINE = Finding("headcount", show, count, refuse, record=Headcount, methods=METHODS, last=True)


def test_a_finding_from_outside_is_one_object(make_cohort, tmp_path):
    cohort = make_cohort(60)
    asked = (*FINDINGS, MINE)
    plan = make_plan(cohort)
    result = evaluate_study(plan, findings=asked)
    assert result.tables["headcount"]["n"].sum() == 60
    counted = result.evaluation.content()["headcount"]
    assert counted["n_classes"] == 2
    assert counted["n_tables"] >= 2  # measurements of earlier findings are at hand
    assert warnings(result)["headcount"] == "2 classes of ['baseline', 'embedding']"
    for name, table in result.tables.items():
        write_table(tmp_path / f"{name}.tsv", table)
    write_json(tmp_path / "evaluation.json", result.evaluation.content())
    for findings, there in ((asked, True), (FINDINGS, False)):
        files = open_folder(tmp_path, findings=findings)
        page = render_report(files, build_sections(files))
        assert (
            ("2 kinds of people, 60 in all, control and patient." in page)
            == ("2 classes were counted [" in page)
            == ("Oldfield" in page)
            == there
        )
    write_table(tmp_path / "headcount.tsv", pd.DataFrame({"kind": ["control"], "n": ["many"]}))
    with pytest.raises(
        DataError, match=r"headcount\.tsv, column 'n': must be numbers, found row 2: 'many'"
    ):
        build_sections(open_folder(tmp_path, findings=asked))
    with pytest.raises(ConfigError, match="headcount: counts classes"):
        check(make_plan(cohort, target="age"), asked)


def test_a_finding_replaces_no_table_and_no_record_of_another(make_cohort):
    plan = make_plan(make_cohort(40))
    for measurement in (
        Measurement({}, {"folds": pd.DataFrame({"fold": [1]})}),
        Measurement({Outlyingness.key: None}),
    ):
        mine = replace(MINE, measure=lambda _, measurement=measurement: measurement)
        with pytest.raises(ValueError, match=r"'(folds|outlyingness)' is there already"):
            evaluate_study(plan, findings=(*FINDINGS, mine))
    with pytest.raises(ValueError, match=r"among 'binary', .*, found 'two classes'"):
        replace(MINE, kinds=("two classes",))
    with pytest.raises(ValueError, match=r"of are among 'scans', 'images', found 'scan'"):
        replace(MINE, of=("scan",))
    with pytest.raises(KeyError, match=r"sections\.yaml has no section 'headcount'"):
        section("headcount", [])


def test_sections_have_names_of_their_own():
    for kind in ("scans", "images"):
        names = [each.name for each in FINDINGS if not each.of or kind in each.of]
        assert len(set(names)) == len(names) > 5
