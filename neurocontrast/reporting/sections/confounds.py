"""Section of confounds: how well site, age and sex are predicted from the embedding."""

import pandas as pd

from neurocontrast.documents.findings import Confounds, OpenBHB
from neurocontrast.evaluation.measure.confounds import measure_confounds
from neurocontrast.reporting.blocks import Block, Column, Facts, Section, Table, make_table, note
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.naming import name_column
from neurocontrast.reporting.texts import one_line, section
from neurocontrast.reporting.wording import (
    describe_metric,
    estimate_text,
    number_text,
    value_text,
)

_HARMONISED = {
    "none": "none: features were used as the encoder gave them",
    "combat": "ComBat without the target, fitted inside each training fold",
}
_ABSENT = (
    "Not shown: how well site, age and sex can be read off the embedding. confounds.tsv is absent "
    "or empty."
)


def show_confounds(files: EvaluationFolder) -> Section:
    """Return the section on how well site, age and sex are predicted from the embedding.

    The OpenBHB score is shown, too, or the reason why there is none.
    """
    confounds = files.summary.part(Confounds) or Confounds()
    table = column_readings(files)
    readings: Block = note(_ABSENT) if table is None else _table(table)
    blocks: list[Block] = [Facts(list_adjustment(confounds)), readings]
    if confounds.openbhb is not None:
        blocks.append(Facts(list_scores(confounds.openbhb), title="OpenBHB score"))
    blocks.append(note(say_openbhb(confounds)))
    within = ""
    if table is not None and "within" in table and (table["within"] != "all").any():
        within = (
            "“Within” rows ask the same among scans of one class, where the target cannot help."
        )
    return section("confounds", blocks, within=within)


def list_adjustment(confounds: Confounds) -> list[tuple[str, str]]:
    """List how the features were harmonised across sites, and adjusted for columns such as age.

    Returned are pairs of a label and a text.
    """
    facts = [
        (
            "Harmonisation across sites",
            _HARMONISED.get(confounds.harmonise, confounds.harmonise),
        )
    ]
    if confounds.harmonise_preserve:
        facts.append(("Kept by ComBat", value_text(confounds.harmonise_preserve)))
    if confounds.residualise:
        facts.append(("Regressed out, inside each fold", value_text(confounds.residualise)))
    return facts


def list_scores(openbhb: OpenBHB) -> list[tuple[str, str]]:
    """List the OpenBHB score, age error and site accuracy, each with its value by guessing.

    A guess uses no scan: of age it is the median of the training scans, of site a site at random.
    Returned are pairs of a label and a value as text, without values that were not recorded.
    """
    facts = []
    if openbhb.score is not None:
        score = estimate_text(openbhb.score, openbhb.interval)
        facts.append(("Score (lower is better)", score))
    for label, value in (
        ("Score without the scan", openbhb.chance),
        ("Mean absolute error of age at unseen sites, years", openbhb.age_mae),
        ("That error without the scan, years", openbhb.age_mae_chance),
        ("Balanced accuracy of site", openbhb.site_balanced_accuracy),
        ("That of chance", openbhb.site_chance),
    ):
        if value is not None:
            facts.append((label, number_text(value, digits=2)))
    return facts


def say_openbhb(confounds: Confounds) -> str:
    """Return a text that explains the OpenBHB score and its scans, or why there is no score."""
    openbhb = confounds.openbhb
    if openbhb is None:
        reason = confounds.openbhb_reason or "it needs age and two sites or more"
        return one_line(f"The OpenBHB score was not computed: {reason}.")
    sentences = (
        "Mean absolute error of age at sites that were not trained on, times the balanced accuracy "
        "of site to the power of 0.3: age should be known, the scanner not. It is comparable with "
        "published scores only on the data of that challenge."
    )
    n = openbhb.n
    if openbhb.n_site_folds and n.scans and n.sites:
        sentences += (
            f" It is of {n.scans:,} scans of {n.sites} sites, held out in {openbhb.n_site_folds} "
            "folds, and not of the sites and folds of the result above."
        )
    return sentences


def column_readings(files: EvaluationFolder) -> pd.DataFrame | None:
    """Return metrics of predicting site, age and so on from the embedding; None if not measured.

    The table is ``confounds.tsv``, with a row for each column and metric.
    """
    return files.table("confounds", "column", "metric", "value")


def _table(confounds: pd.DataFrame) -> Table:
    rows = confounds.reindex(
        columns=[*confounds, *({"within", "note", "n", "n_levels"} - set(confounds))]
    )
    within = rows["within"].fillna("all")
    remark = rows["note"].fillna("")
    rows = rows.rename(columns={"low": "value_low", "high": "value_high"}).assign(
        column=rows["column"].map(name_column),
        within=("within " + within).where(within != "all", "all scans"),
        metric=[describe_metric(str(key)).label for key in rows["metric"]],
        note=remark,
        value_reason=remark.where(remark != "", "not defined"),
    )
    columns = (
        Column("Column", "column", "heading"),
        Column("Among", "within", "text"),
        Column("Metric", "metric", "text"),
        Column("Value", "value", digits=2, interval=True),
        Column("Chance", "chance", digits=2, reason="not defined"),
        Column("n", "n", "count"),
        Column("Levels", "n_levels", "count", reason="not a column of classes"),
        Column("Note", "note", "text") if remark.any() else None,
    )
    return make_table("Columns predicted from the embedding.", rows, columns)


CONFOUNDS = Finding(
    "confounds",
    show_confounds,
    measure_confounds,
    record=Confounds,
    methods="methods_confounds.j2",
    of=("scans",),
)
