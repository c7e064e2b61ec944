"""What else the embedding holds: site, age, sex, and what was done about it."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from neurocontrast.reporting.blocks import Block, Cell, Facts, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.scores import confound_metrics, draw_confounds, draw_dependence
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.inputs import missing_note
from neurocontrast.reporting.metrics import DASH, describe_metric, interval_text, number_text
from neurocontrast.reporting.naming import value_text
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.tables import cell, count_cell

__all__ = ["build_confounds"]

_HARMONISE = {
    "none": "none: features were used as the encoder gave them",
    "combat": "ComBat without the target, fitted inside each training fold",
    "residualise": "covariates regressed out of the features, fitted inside each training fold",
}


def build_confounds(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build how well site, age and sex are predicted from the embedding, the OpenBHB score and HSIC."""
    del options
    about = files.summary.get("confounds") or {}
    blocks: list[Block] = []
    if about.get("harmonise"):
        blocks.append(Facts(_treatment(about)))
    drawn = [*(draw_confounds(files, metric) for metric in confound_metrics(files)), draw_dependence(files)]
    pictures = [picture for picture in drawn if picture is not None]
    if pictures:
        blocks.append(Pictures(pictures))
    if files.confounds is None:
        blocks.append(Paragraph(missing_note("confounds"), role="note"))
    else:
        blocks.append(_table(files.confounds))
    if files.dependence is None:
        blocks.append(Paragraph(missing_note("dependence"), role="note"))
    blocks += _openbhb(about)
    lead = (
        "Where the embedding holds the site, and sites differ in the target, a model can look good by recognising "
        "scanners. “Within” rows ask the same among scans of one class, where the target cannot help."
    )
    return Section("confounds", "Confounds", blocks, lead=lead if files.confounds is not None else "")


def _table(confounds: pd.DataFrame) -> Table:
    rows = []
    for row in confounds.to_dict("records"):
        within = row.get("within")
        note = row.get("note")
        note = "" if note is None or pd.isna(note) else str(note)
        reason = note or "not defined"
        rows.append(
            (
                Cell(str(row["column"]), heading=True),
                Cell("all scans" if within is None or pd.isna(within) or within == "all" else f"within {within}"),
                Cell(describe_metric(str(row["metric"])).label),
                cell(row["value"], digits=2, reason=reason),
                Cell(interval_text((row.get("low"), row.get("high")), digits=2), reason="not computed"),
                cell(row.get("chance"), digits=2, reason="not defined"),
                count_cell(row.get("n")),
                count_cell(row.get("n_levels"), reason="not a column of classes"),
                Cell(note),
            )
        )
    header = ("Column", "Among", "Metric", "Value", "Interval", "Chance", "n", "Levels", "Note")
    return Table("Columns predicted from the embedding.", header, rows, text_columns=(0, 1, 2, 8))


def _openbhb(about: Mapping) -> list[Block]:
    score = about.get("openbhb")
    if not isinstance(score, Mapping) or not score:
        reason = about.get("openbhb_reason") or "it needs age and two sites or more"
        return [Paragraph(f"The OpenBHB score was not computed: {reason}.", role="note")] if about else []
    names = {
        "score": "Score (lower is better)",
        "chance": "Score without the scan",
        "age_mae": "Mean absolute error of age at unseen sites, years",
        "age_mae_chance": "That error without the scan, years",
        "site_balanced_accuracy": "Balanced accuracy of site",
        "site_chance": "That of chance",
    }
    facts = [
        (label, number_text(score[key], digits=2))
        for key, label in names.items()
        if isinstance(score.get(key), int | float)
    ]
    interval = interval_text(score.get("interval"), digits=2)
    if facts and interval != DASH:
        facts[0] = (facts[0][0], f"{facts[0][1]} [{interval}]")
    about_it = (
        "Mean absolute error of age at sites that were not trained on, times the balanced accuracy of site to the "
        "power of 0.3: age should be known, the scanner not. It is comparable with published scores only on the data "
        "of that challenge."
    )
    return [Facts(facts, title="OpenBHB score"), Paragraph(about_it, role="note")]


def _treatment(about: Mapping) -> list[tuple[str, str]]:
    how = str(about["harmonise"])
    facts = [("Harmonisation across sites", _HARMONISE.get(how, how))]
    for key, label in (("harmonise_preserve", "Kept by ComBat"), ("residualise", "Regressed out, inside each fold")):
        if about.get(key):
            facts.append((label, value_text(about[key])))
    return facts
