"""Models of a comparison at new sites, site against target, and by what they hold of a sensitive variable."""

from __future__ import annotations

from typing import Any

import pandas as pd

from neurocontrast.reporting import style
from neurocontrast.reporting.comparison import ComparisonFiles
from neurocontrast.reporting.page import Section, Table, note, pictures
from neurocontrast.reporting.tables import Column, make_table
from neurocontrast.reporting.wording import IMAGES, describe_metric, estimate_text, is_error, number_text

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
        return Section("tradeoff", title, [note(text)])
    table = table.rename(columns={"site_low": "site_balanced_accuracy_low", "site_high": "site_balanced_accuracy_high"})
    text = "No curve: fewer than two of the evaluations say both how well the site and how well the target is told."
    shown = pictures(*(_draw(files, table, where) for where in _PLACES)) or [note(text)]
    lead = (
        "An embedding from which the site cannot be told cannot lean on it; what that costs or brings for the target "
        "is seen here. Each point is one pretraining: another seed may move it further than a step of the weight."
    )
    return Section("tradeoff", title, [*shown, _table(table)], lead=lead)


@style.styled
def _draw(files: ComparisonFiles, table: pd.DataFrame, where: str) -> style.Picture | None:
    """Draw site against target at ``known`` or ``unseen`` sites; None with fewer than two models that have both.

    One point a model with its intervals both ways; models of a varied weight are joined by a line.
    """
    x, y = "site_balanced_accuracy", where
    rows = table.dropna(subset=[x, y]).reset_index(drop=True)
    if len(rows) < 2:
        return None
    about = describe_metric(str(rows["metric"].iloc[0]))
    corner = "upper left" if about.higher_is_better else "lower left"
    caption = (
        f"{_PLACES[where]}: {about.label} over how well the site is told from the embedding, one point a model, "
        f"with {files.level:.0%} intervals. Best is the {corner} corner."
    )
    figure, axes = style.new_figure(height=4.2 + 0.17 * rows["weight"].isna().sum())
    curve, parts = rows[rows["weight"].notna()], []
    if len(curve):
        means, weight = curve.groupby("weight")[[x, y]].mean().sort_index(), curve["weight_name"].iloc[0]
        axes.plot(means[x], means[y], color=style.MAIN, linewidth=1.8, marker="o",
                  label=f"By weight: {style.plain_label(weight)}")  # fmt: skip
        caption += f" The line joins them in the order of {weight}."
    for place, row in enumerate(rows.to_dict("records")):
        label, shown = str(row["model"]), style.plain_label(row["model"], length=40)
        look = style.look_of(place) | {"linestyle": "none"}
        if pd.notna(row["weight"]):
            label, look = f"{str(row['weight_name']).split('.')[-1]} = {row['weight']:g}", look | style.look_of(0)
            axes.annotate(style.plain_label(label), (row[x], row[y]), (8, 5), textcoords="offset points", size=8.5)
            shown = ""
        axes.plot([row[f"{x}_low"], row[f"{x}_high"]], [row[y]] * 2, color=look["color"], linewidth=1.2, alpha=0.6)
        axes.plot([row[x]] * 2, [row[f"{y}_low"], row[f"{y}_high"]], color=look["color"], linewidth=1.2, alpha=0.6)
        axes.plot(row[x], row[y], markersize=7, label=shown or None, **look)
        ends = row[f"{y}_low"], row[f"{y}_high"]
        parts.append(f"{label}: {number_text(row[x], digits=2)} and {estimate_text(row[y], ends)}")
    axes.axvline(rows["site_chance"].mean(), color=style.CHANCE, linestyle=":", label="Chance: the site cannot be told")
    chance = files.chance(about.key)
    guess = rows["constant"].mean() if chance is None and where == "unseen" else chance
    if guess is not None and pd.notna(guess):
        axes.axhline(guess, color=style.CHANCE, linestyle="--", label="Guess of the target without the scan")
    axes.margins(0.09)
    axes.set(xlabel="Balanced accuracy of the site, told from the embedding", ylabel=about.label)
    style.legend_below(figure, axes, n_columns=1)
    alt = f"{_PLACES[where]}: {about.label} against balanced accuracy of the site, across and up: {'; '.join(parts)}."
    return style.Picture(f"tradeoff_{where}", figure, alt=alt, caption=caption, numbers=rows)


def _table(rows: pd.DataFrame) -> Table:
    about = describe_metric(str(rows["metric"].iloc[0]))
    rows = rows.assign(weight=rows["weight"].map("{:g}".format, na_action="ignore"), weight_detail=rows["weight_name"])
    for name, n, n_outside in (("outside", "n", "n_outside"), ("outside_unseen", "n_unseen", "n_unseen_outside")):
        rows[name], counts = rows[n_outside] / rows[n].where(rows[n] > 0), zip(rows[n_outside], rows[n], strict=True)
        rows[f"{name}_detail"] = [f"{part:.0f} of {whole:.0f}" for part, whole in counts]
    weight = Column("Weight", "weight", "text", reason="not of the series in which one weight was varied")
    short: Any = {"digits": 2, "interval": True}
    columns = (
        Column("Model", "model", "heading"),
        weight if rows["weight"].notna().any() else None,
        Column("Site told (bal. acc.)", "site_balanced_accuracy", **short),
        Column("Chance", "site_chance", digits=2),
        Column(f"{about.short}, known sites", "known", **short),
        Column(f"{about.short}, unseen sites", "unseen", **short),
        Column("Unseen ÷ known", "ratio", **short) if is_error(about.key) else None,
        Column("Constant guess, unseen", "constant", digits=2),
        Column("Scans outside", "outside", "share", 1),
        Column("Scans outside, unseen", "outside_unseen", "share", 1),
    )
    about_outside = (
        "Scans outside: outside the distribution of what the probe was fitted on; unseen: while their site was left "
        "out, where the check is to warn."
    )
    caption = "Every model at new sites (tradeoff.tsv; all metrics are in models.tsv)."
    return make_table(caption, rows, columns, note=about_outside)


def build_fairness(files: ComparisonFiles) -> Section | None:
    """Build the error of the sensitive variable; None for scans."""
    title = "Fairness"
    if files.words is not IMAGES:
        return None
    if files.sensitive is None or "all" not in set(files.sensitive["column"]):
        text = "Not shown: not all evaluations measured a sensitive variable (`evaluation.sensitive`)."
        return Section("fairness", title, [note(text)])
    errors = files.sensitive.rename(columns={"low": "mse_low", "high": "mse_high"})
    lead = "The error of a linear model that predicts the sensitive variable from the features: higher is fairer."
    reasons = (errors["model"] == files.reference).map({True: "the reference itself", False: "not computed"})
    columns = (
        Column("Model", "model", "heading"),
        Column("Column", "column", "text"),
        Column("MSE", "mse", digits=4, interval=True),
        Column("MSE of a constant", "constant_mse", digits=4),
        Column("Difference", "difference", digits=4, signed=True, interval=True),
    )
    errors = errors.assign(column=errors["column"].replace("all", "mean of the columns"), difference_reason=reasons)
    table = make_table("The sensitive variable (sensitive.tsv).", errors, columns)
    return Section("fairness", title, [table], lead=lead)
