"""Models of a comparison by two scores at once: site against target, and accuracy against fairness."""

from __future__ import annotations

from typing import Any

import pandas as pd

from neurocontrast.reporting import style
from neurocontrast.reporting.comparison import ComparisonFiles
from neurocontrast.reporting.page import Section, Table, note, pictures
from neurocontrast.reporting.tables import Column, make_table
from neurocontrast.reporting.wording import IMAGES, SHARES, describe_metric, interval_text, is_error, number_text

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
    shown = pictures(*(_draw_sites(files, table, where) for where in _PLACES)) or [note(text)]
    lead = (
        "An embedding from which the site cannot be told cannot lean on it; what that costs or brings for the target "
        "is seen here. Each point is one pretraining: another seed may move it further than a step of the weight."
    )
    return Section("tradeoff", title, [*shown, _table(table)], lead=lead)


def _draw_sites(files: ComparisonFiles, table: pd.DataFrame, where: str) -> style.Picture | None:
    """Draw site against target at ``known`` or ``unseen`` sites; None with fewer than two models that have both."""
    rows = table.dropna(subset=["site_balanced_accuracy", where]).reset_index(drop=True)
    if len(rows) < 2:
        return None
    about = describe_metric(str(rows["metric"].iloc[0]))
    target, guess = files.chance(about.key), "Chance for the target"
    if target is None and where == "unseen":
        target, guess = rows["constant"].mean(), "Constant guess of the target"
    corner = "upper left" if about.higher_is_better else "lower left"
    return _draw_points(
        rows,
        f"tradeoff_{where}",
        x="site_balanced_accuracy",
        y=where,
        labels=("Balanced accuracy of the site, told from the embedding", about.label),
        references=((rows["site_chance"].mean(), "Chance: the site cannot be told"), (target, guess)),
        caption=(
            f"{_PLACES[where]}: {about.label} over how well the site is told from the embedding, one point a model, "
            f"with {files.level:.0%} intervals. Best is the {corner} corner."
        ),
    )


@style.styled
def _draw_points(
    rows: pd.DataFrame,
    name: str,
    *,
    x: str,
    y: str,
    labels: tuple[str, str],
    references: tuple[tuple[float | None, str], tuple[float | None, str]],
    caption: str,
) -> style.Picture:
    """Draw one point a model with its intervals both ways; models of a varied weight are joined by a line.

    `rows` holds ``model, weight, weight_name`` and the columns `x` and `y` with their ends; `references` are lines
    across the axes with their labels.
    """
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
        digits = 4 if x == "mse" else 2
        ends = interval_text((row[f"{y}_low"], row[f"{y}_high"]), digits=2)
        parts.append(f"{label}: {number_text(row[x], digits=digits)} and {number_text(row[y], digits=2)} ({ends})")
    for draw, (value, about), line in zip((axes.axvline, axes.axhline), references, (":", "--"), strict=True):
        if value is not None and pd.notna(value):
            draw(value, color=style.CHANCE, linestyle=line, linewidth=1.2, label=about)
    axes.margins(0.09)
    axes.set(xlabel=labels[0], ylabel=labels[1])
    style.legend_below(figure, axes, n_columns=1)
    alt = (
        f"{caption.partition(':')[0]}: {labels[1]} against {labels[0]}. Each model, across and up: {'; '.join(parts)}."
    )
    return style.Picture(name, figure, alt=alt, caption=caption, numbers=rows)


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
    """Build accuracy against the error of the sensitive variable; None for scans."""
    title, key = "Accuracy against fairness", next((key for key in files.leading if key in SHARES), None)
    if files.words is not IMAGES:
        return None
    if files.sensitive is None or key is None or "all" not in set(files.sensitive["column"]):
        text = "Not shown: not all evaluations measured a sensitive variable (`evaluation.sensitive`)."
        return Section("fairness", title, [note(text)])
    errors = files.sensitive.rename(columns={"low": "mse_low", "high": "mse_high"})
    values = files.models[files.models["metric"] == key]
    values = values.rename(columns={"low": "value_low", "high": "value_high"}).drop(columns="metric")
    rows = values.merge(errors[errors["column"] == "all"], on="model").dropna(subset=["value", "mse"])
    label = files.describe(key).label
    picture = _draw_points(
        rows.assign(weight=None),
        "fairness",
        x="mse",
        y="value",
        labels=("MSE of the sensitive variable (right: fairer)", label),
        references=((rows["constant_mse"].mean(), "MSE of a constant"), (None, "")),
        caption=(
            f"Fairness: {label} over the mean squared error of the sensitive variable, with {files.level:.0%} "
            "bootstrap intervals over images. Best is the upper right corner: the class is known, the sensitive "
            "variable not."
        ),
    )
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
    return Section("fairness", title, [*pictures(picture if len(rows) > 1 else None), table], lead=lead)
