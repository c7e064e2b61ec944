"""What else the embedding holds: site, age, sex, and what was done about it."""

from __future__ import annotations

import pandas as pd

from neurocontrast.findings.confounds.measure import Confounds
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.page.blocks import Block, Column, Facts, Section, Table, make_table, note
from neurocontrast.page.wording import describe_metric, estimate_text, number_text, value_text

_HARMONISE = {
    "none": "none: features were used as the encoder gave them",
    "combat": "ComBat without the target, fitted inside each training fold",
    "residualise": "covariates regressed out of the features, fitted inside each training fold",
}
_OPENBHB = {
    "chance": "Score without the scan",
    "age_mae": "Mean absolute error of age at unseen sites, years",
    "age_mae_chance": "That error without the scan, years",
    "site_balanced_accuracy": "Balanced accuracy of site",
    "site_chance": "That of chance",
}
_ABSENT = "Not shown: how well site, age and sex can be read off the embedding. confounds.tsv is absent or empty."


def show_confounds(files: EvaluationFolder) -> Section:
    """Return how well site, age and sex are predicted from the embedding, and the OpenBHB score."""
    about, table = files.summary.part(Confounds) or Confounds(), files.confounds
    blocks = [Facts(_treatment(about)), note(_ABSENT) if table is None else _table(table), *_openbhb(about)]
    lead = (
        "Where the embedding holds the site, and sites differ in the target, a model can look good by recognising "
        "scanners. “Within” rows ask the same among scans of one class, where the target cannot help."
    )
    return Section("confounds", "Confounds", blocks, lead=lead)


def _table(confounds: pd.DataFrame) -> Table:
    rows = confounds.reindex(columns=[*confounds, *({"within", "note", "n", "n_levels"} - set(confounds))])
    within, remark = rows["within"].fillna("all"), rows["note"].fillna("")
    rows = rows.rename(columns={"low": "value_low", "high": "value_high"}).assign(
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


def _openbhb(about: Confounds) -> list[Block]:
    score = about.openbhb
    if score is None:
        reason = about.openbhb_reason or "it needs age and two sites or more"
        return [note(f"The OpenBHB score was not computed: {reason}.")]
    facts = [] if score.score is None else [("Score (lower is better)", estimate_text(score.score, score.interval))]
    values = {label: getattr(score, key) for key, label in _OPENBHB.items()}
    facts += [(label, number_text(value, digits=2)) for label, value in values.items() if value is not None]
    n, where = score.n, ""
    if score.n_site_folds and n.scans and n.sites:
        where = (
            f" It is of {n.scans:,} scans of {n.sites} sites, held out in {score.n_site_folds} folds, and not of the"
        )
        where += " sites and folds of the result above."
    text = (
        "Mean absolute error of age at sites that were not trained on, times the balanced accuracy of site to the "
        "power of 0.3: age should be known, the scanner not. It is comparable with published scores only on the data "
        "of that challenge." + where
    )
    return [Facts(facts, title="OpenBHB score"), note(text)]


def _treatment(about: Confounds) -> list[tuple[str, str]]:
    facts = [("Harmonisation across sites", _HARMONISE.get(about.harmonise, about.harmonise))]
    facts += [("Kept by ComBat", value_text(about.harmonise_preserve))] if about.harmonise_preserve else []
    return facts + ([("Regressed out, inside each fold", value_text(about.residualise))] if about.residualise else [])
