"""The models of a comparison at new sites, and what a weight of the objective buys there."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting.blocks import Block, Cell, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.comparison import ComparisonFiles
from neurocontrast.reporting.figures import draw_tradeoff
from neurocontrast.reporting.metrics import DASH, describe_metric, interval_text, number_text
from neurocontrast.reporting.naming import join_words
from neurocontrast.reporting.new_site_tables import estimate_cell
from neurocontrast.reporting.new_sites import Estimate, is_error
from neurocontrast.reporting.tables import cell

__all__ = ["build_tradeoff"]

_TITLE = "New sites, and site against target"
_MEASURED = ["site_balanced_accuracy", "unseen", "n_outside"]


def build_tradeoff(files: ComparisonFiles) -> Section:
    """Build the table of new sites, and the curve of site against target."""
    table = files.tradeoff
    if table is None or table[_MEASURED].isna().all(axis=None):
        text = (
            "Not shown: none of the evaluations says how well the site can be told, or how the model does at sites "
            "that it has not seen. `neurocontrast evaluate` of this version says both from two sites on."
        )
        return Section("tradeoff", _TITLE, [Paragraph(text, role="note")])
    blocks: list[Block] = []
    said = _say(table)
    if said:
        blocks.append(Paragraph(said, role="quote"))
    drawn = [draw_tradeoff(table, where, n_classes=files.n_classes, level=files.level) for where in ("known", "unseen")]
    pictures = [picture for picture in drawn if picture is not None]
    if pictures:
        blocks.append(Pictures(pictures))
    else:
        text = "No curve: fewer than two of the evaluations say both how well the site and how well the target is told."
        blocks.append(Paragraph(text, role="note"))
    blocks.append(_table(table))
    lead = (
        "An embedding from which the site cannot be told cannot lean on it; what that costs or brings for the target "
        "is seen here. Each point is one pretraining: another seed may move it further than a step of the weight."
    )
    return Section("tradeoff", _TITLE, blocks, lead=lead)


def _say(table: pd.DataFrame) -> str | None:
    """Say what happens from the smallest to the largest weight; None where no weight was varied."""
    rows = table[table["weight"].notna()]
    if rows["weight"].nunique() < 2:
        return None
    columns = ["site_balanced_accuracy", "known", "unseen"]
    means = rows.groupby("weight")[columns].mean().sort_index()
    first, last = means.iloc[0], means.iloc[-1]
    about = describe_metric(str(rows["metric"].iloc[0]))
    chance = rows["site_chance"].dropna()
    level = f" (chance: {number_text(chance.mean(), digits=2)})" if len(chance) else ""
    names = {
        "site_balanced_accuracy": ("the balanced accuracy of the site", level),
        "known": (f"the {about.name} at known sites", ""),
        "unseen": (f"the {about.name} at unseen sites", ""),
    }
    parts = [
        f"{what} goes from {number_text(first[column], digits=2)} to {number_text(last[column], digits=2)}{after}"
        + _best_between(means[column], higher_is_better=about.higher_is_better and column != columns[0])
        for column, (what, after) in names.items()
        if pd.notna(first[column]) and pd.notna(last[column])
    ]
    if not parts:
        return None
    name, low, high = rows["weight_name"].iloc[0], means.index[0], means.index[-1]
    mean = "In the mean over runs of the same weight, while" if rows["weight"].duplicated().any() else "While"
    return f"{mean} {name} goes from {low:g} to {high:g}, {join_words(parts)}."


def _best_between(means: pd.Series, *, higher_is_better: bool) -> str:
    """Say where a curve is best, if that is at neither end: its ends alone would hide it."""
    values = means.dropna()
    best = int((values if higher_is_better else -values).to_numpy().argmax())
    if best in (0, len(values) - 1):
        return ""
    return f" (best at {values.index[best]:g}: {number_text(values.iloc[best], digits=2)})"


def _table(table: pd.DataFrame) -> Table:
    about = describe_metric(str(table["metric"].iloc[0]))
    weighted = table["weight"].notna().any()
    header = ["Model", *(["Weight"] if weighted else []), "Site told (bal. acc.)", "Chance"]
    header += [f"{about.short}, known sites", f"{about.short}, unseen sites"]
    header += ["Unseen ÷ known"] if is_error(about.key) else []
    header += ["Constant guess, unseen", "Scans outside", "Scans outside, unseen"]
    rows = []
    for row in table.to_dict("records"):
        cells = [Cell(str(row["model"]), heading=True)]
        cells += [_weight(row)] if weighted else []
        cells += [_estimate(row, "site_balanced_accuracy", "site"), cell(row["site_chance"], digits=2)]
        cells += [_estimate(row, name, name) for name in ("known", "unseen")]
        cells += [_estimate(row, "ratio", "ratio")] if is_error(about.key) else []
        cells += [cell(row["constant"], digits=2), _outside(row, "n", "n_outside")]
        cells += [_outside(row, "n_unseen", "n_unseen_outside")]
        rows.append(tuple(cells))
    return Table(
        "Every model at new sites (tradeoff.tsv; all metrics are in models.tsv).",
        header,
        rows,
        note="Scans outside: outside the distribution of what the probe was fitted on; unseen: while their site was "
        "left out, where the check is to warn.",
    )


def _weight(row: dict) -> Cell:
    if pd.isna(row["weight"]):
        return Cell(DASH, reason="not of the series in which one weight was varied")
    return Cell(f"{row['weight']:g}", detail=str(row["weight_name"]))


def _estimate(row: dict, name: str, ends: str) -> Cell:
    if pd.isna(row[name]):
        return Cell(DASH, reason="not recorded")
    low, high = row[f"{ends}_low"], row[f"{ends}_high"]
    known = interval_text((low, high)) != DASH
    return estimate_cell(Estimate(row[name], *((low, high) if known else (None, None))), reason="not recorded")


def _outside(row: dict, n: str, n_outside: str) -> Cell:
    if pd.isna(row[n_outside]) or pd.isna(row[n]) or row[n] < 1:
        return Cell(DASH, reason="not recorded")
    return Cell(f"{row[n_outside] / row[n]:.1%}", detail=f"{row[n_outside]:.0f} of {row[n]:.0f}")
