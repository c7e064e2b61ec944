"""Models of a comparison by two scores at once: site against target, and accuracy against fairness."""

from __future__ import annotations

from typing import Any

import pandas as pd

from neurocontrast.reporting.blocks import Block, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.comparison import ComparisonFiles
from neurocontrast.reporting.figures.tradeoff import draw_tradeoff
from neurocontrast.reporting.metrics import SHARES, chance_level, describe_metric
from neurocontrast.reporting.new_sites import is_error
from neurocontrast.reporting.style import Picture
from neurocontrast.reporting.tables import Column, make_table
from neurocontrast.reporting.words import IMAGES

__all__ = ["build_fairness", "build_tradeoff"]

_MEASURED = ["site_balanced_accuracy", "unseen", "n_outside"]
_PLACES = {"known": "Sites that were trained on", "unseen": "Sites that were left out"}


def build_tradeoff(files: ComparisonFiles) -> Section | None:
    """Build the table of new sites, and the curve of site against target; None for images."""
    title, table = "New sites, and site against target", files.tradeoff
    if files.words is IMAGES:
        return None
    if table is None or table[_MEASURED].isna().all(axis=None):
        text = (
            "Not shown: none of the evaluations says how well the site can be told, or how the model does at sites "
            "that it has not seen. `neurocontrast evaluate` of this version says both from two sites on."
        )
        return Section("tradeoff", title, [Paragraph(text, role="note")])
    pictures = [picture for where in _PLACES if (picture := _draw_sites(files, table, where)) is not None]
    text = "No curve: fewer than two of the evaluations say both how well the site and how well the target is told."
    blocks: list[Block] = [Pictures(pictures) if pictures else Paragraph(text, role="note"), _table(table)]
    lead = (
        "An embedding from which the site cannot be told cannot lean on it; what that costs or brings for the target "
        "is seen here. Each point is one pretraining: another seed may move it further than a step of the weight."
    )
    return Section("tradeoff", title, blocks, lead=lead)


def _draw_sites(files: ComparisonFiles, table: pd.DataFrame, where: str) -> Picture | None:
    """Draw site against target at ``known`` or ``unseen`` sites; None with fewer than two models that have both."""
    rows = table.dropna(subset=["site_balanced_accuracy", where]).reset_index(drop=True)
    if len(rows) < 2:
        return None
    about, site = describe_metric(str(rows["metric"].iloc[0])), rows["site_chance"].mean()
    target, guess = chance_level(about.key, files.n_classes), "Chance for the target"
    if target is None and where == "unseen" and rows["constant"].notna().any():
        target, guess = float(rows["constant"].mean()), "Constant guess of the target"
    corner = "upper left" if about.higher_is_better else "lower left"
    return draw_tradeoff(
        rows.rename(columns={"site_low": "site_balanced_accuracy_low", "site_high": "site_balanced_accuracy_high"}),
        f"tradeoff_{where}",
        x="site_balanced_accuracy",
        y=where,
        labels=("Balanced accuracy of the site, told from the embedding", about.label),
        references=(
            (site, "Chance: the site cannot be told") if pd.notna(site) else None,
            (target, guess) if target is not None else None,
        ),
        title=_PLACES[where],
        caption=(
            f"{_PLACES[where]}: {about.label} over how well the site is told from the embedding, one point a model, "
            f"with {files.level:.0%} intervals. Best is the {corner} corner."
        ),
    )


def _table(table: pd.DataFrame) -> Table:
    about = describe_metric(str(table["metric"].iloc[0]))
    rows = table.rename(columns={"site_low": "site_balanced_accuracy_low", "site_high": "site_balanced_accuracy_high"})
    rows["weight"], rows["weight_detail"] = rows["weight"].map("{:g}".format, na_action="ignore"), rows["weight_name"]
    for name, n, n_outside in (("outside", "n", "n_outside"), ("outside_unseen", "n_unseen", "n_unseen_outside")):
        rows[name], counts = rows[n_outside] / rows[n].where(rows[n] > 0), zip(rows[n_outside], rows[n], strict=True)
        rows[f"{name}_detail"] = [f"{part:.0f} of {whole:.0f}" for part, whole in counts]
    weight = Column("Weight", "weight", "text", reason="not of the series in which one weight was varied")
    short: Any = {"digits": 2, "interval": True}
    columns = [
        Column("Model", "model", "heading"),
        *([weight] if rows["weight"].notna().any() else []),
        Column("Site told (bal. acc.)", "site_balanced_accuracy", **short),
        Column("Chance", "site_chance", digits=2),
        Column(f"{about.short}, known sites", "known", **short),
        Column(f"{about.short}, unseen sites", "unseen", **short),
        *([Column("Unseen ÷ known", "ratio", **short)] if is_error(about.key) else []),
        Column("Constant guess, unseen", "constant", digits=2),
        Column("Scans outside", "outside", "share", 1),
        Column("Scans outside, unseen", "outside_unseen", "share", 1),
    ]
    note = (
        "Scans outside: outside the distribution of what the probe was fitted on; unseen: while their site was left "
        "out, where the check is to warn."
    )
    caption = "Every model at new sites (tradeoff.tsv; all metrics are in models.tsv)."
    return make_table(caption, rows, columns, note=note)


def build_fairness(files: ComparisonFiles) -> Section | None:
    """Build accuracy against the error of the sensitive variable; None for scans."""
    title, key = "Accuracy against fairness", next((key for key in files.leading if key in SHARES), None)
    if files.words is not IMAGES:
        return None
    if files.sensitive is None or key is None or "all" not in set(files.sensitive["column"]):
        text = "Not shown: not all evaluations measured a sensitive variable (`evaluation.sensitive`)."
        return Section("fairness", title, [Paragraph(text, role="note")])
    errors = files.sensitive.rename(columns={"low": "mse_low", "high": "mse_high"})
    values = files.models[files.models["metric"] == key]
    values = values.rename(columns={"low": "value_low", "high": "value_high"}).drop(columns="metric")
    rows = values.merge(errors[errors["column"] == "all"], on="model").dropna(subset=["value", "mse"])
    constant = rows["constant_mse"].mean()
    blocks: list[Block] = [_sensitive_table(errors, files.reference)]
    if len(rows) > 1:
        label = describe_metric(key, files.words).label
        picture = draw_tradeoff(
            rows.assign(weight=None),
            "fairness",
            x="mse",
            y="value",
            labels=("MSE of the sensitive variable (right: fairer)", label),
            references=((constant, "MSE of a constant") if pd.notna(constant) else None, None),
            caption=(
                f"{label} over the mean squared error of the sensitive variable, with {files.level:.0%} bootstrap "
                "intervals over images. Best is the upper right corner: the class is known, the sensitive variable not."
            ),
        )
        blocks.insert(0, Pictures([picture]))
    lead = "The error of a linear model that predicts the sensitive variable from the features: higher is fairer."
    return Section("fairness", title, blocks, lead=lead)


def _sensitive_table(sensitive: pd.DataFrame, reference: str) -> Table:
    reasons = (sensitive["model"] == reference).map({True: "the reference itself", False: "not computed"})
    columns = sensitive["column"].replace("all", "mean of the columns")
    return make_table(
        "The sensitive variable (sensitive.tsv).",
        sensitive.assign(column=columns, difference_reason=reasons),
        (
            Column("Model", "model", "heading"),
            Column("Column", "column", "text"),
            Column("MSE", "mse", digits=4, interval=True),
            Column("MSE of a constant", "constant_mse", digits=4),
            Column("Difference", "difference", digits=4, signed=True, interval=True),
        ),
    )
