"""Models of a comparison by two scores at once: site against target, and accuracy against fairness."""

from __future__ import annotations

from typing import Any

import pandas as pd

from neurocontrast.reporting.blocks import Block, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.comparison import ComparisonFiles
from neurocontrast.reporting.figures.tradeoff import draw_tradeoff
from neurocontrast.reporting.metrics import SHARES, chance_level, describe_metric, interval_text, number_text
from neurocontrast.reporting.naming import join_words
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
    summary = _say(table)
    pictures = [picture for where in _PLACES if (picture := _draw(files, table, where)) is not None]
    blocks: list[Block] = [Paragraph(summary, role="quote")] if summary else []
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
    return Section("tradeoff", title, blocks, lead=lead)


def _say(table: pd.DataFrame) -> str | None:
    """Say what happens from the smallest to the largest weight; None where no weight was varied."""
    rows = table[table["weight"].notna()]
    if rows["weight"].nunique() < 2:
        return None
    means = rows.groupby("weight")[["site_balanced_accuracy", "known", "unseen"]].mean().sort_index()
    about, chance = describe_metric(str(rows["metric"].iloc[0])), rows["site_chance"].mean()
    level = f" (chance: {number_text(chance, digits=2)})" if pd.notna(chance) else ""
    names = {
        "site_balanced_accuracy": f"the balanced accuracy of the site goes from {{}} to {{}}{level}",
        "known": f"the {about.name} at known sites goes from {{}} to {{}}",
        "unseen": f"the {about.name} at unseen sites goes from {{}} to {{}}",
    }
    parts = []
    for column, text in names.items():
        values = means[column].dropna()
        if len(values) == len(means):
            up = about.higher_is_better and column != "site_balanced_accuracy"
            best = int((values if up else -values).to_numpy().argmax())
            text = text.format(*(number_text(values.iloc[place], digits=2) for place in (0, -1)))
            if 0 < best < len(values) - 1:  # the ends alone would hide it
                text += f" (best at {values.index[best]:g}: {number_text(values.iloc[best], digits=2)})"
            parts.append(text)
    if not parts:
        return None
    mean = "In the mean over runs of the same weight, while" if rows["weight"].duplicated().any() else "While"
    name = rows["weight_name"].iloc[0]
    return f"{mean} {name} goes from {means.index[0]:g} to {means.index[-1]:g}, {join_words(parts)}."


def _draw(files: ComparisonFiles, table: pd.DataFrame, where: str) -> Picture | None:
    """Draw site against target at ``known`` or ``unseen`` sites; None with fewer than two models that have both."""
    names = {"site_balanced_accuracy": "x", "site_low": "x_low", "site_high": "x_high", where: "y",
             f"{where}_low": "y_low", f"{where}_high": "y_high"}  # fmt: skip
    rows = table.dropna(subset=["site_balanced_accuracy", where]).reset_index(drop=True)
    if len(rows) < 2:
        return None
    weighted = rows["weight"].notna()
    weights = [
        f"{str(name).split('.')[-1]} = {weight:g}"
        for name, weight in zip(rows["weight_name"], rows["weight"], strict=True)
    ]
    short = pd.Series(weights).where(weighted, rows["model"])
    about, site = describe_metric(str(rows["metric"].iloc[0])), rows["site_chance"].mean()
    target, guess = chance_level(about.key, files.n_classes), "Chance for the target"
    if target is None and where == "unseen" and rows["constant"].notna().any():
        target, guess = float(rows["constant"].mean()), "Constant guess of the target"
    series = rows.loc[weighted, "weight_name"].iloc[0] if weighted.any() else ""
    order = f" The line joins them in the order of {series}." if series else ""
    corner = "upper left" if about.higher_is_better else "lower left"
    parts = [
        f"{name}: site {number_text(row['site_balanced_accuracy'], digits=2)}, target "
        f"{number_text(row[where], digits=2)} ({interval_text((row[f'{where}_low'], row[f'{where}_high']), digits=2)})"
        for name, row in zip(short, rows.to_dict("records"), strict=True)
    ]
    return draw_tradeoff(
        rows.rename(columns=names).assign(label=short),
        f"tradeoff_{where}",
        numbers=rows,
        labels=("Balanced accuracy of the site, told from the embedding", about.label),
        references=(
            (site, "Chance: the site cannot be told") if pd.notna(site) else None,
            (target, guess) if target is not None else None,
        ),
        line=str(series),
        title=_PLACES[where],
        alt=f"{about.label} at {where} sites against how well the site can be told. {'; '.join(parts)}.",
        caption=(
            f"{_PLACES[where]}: {about.label} over how well the site is told from the embedding, one point a model, "
            f"with {files.level:.0%} intervals. Best is the {corner} corner.{order}"
        ),
    )


def _table(table: pd.DataFrame) -> Table:
    about = describe_metric(str(table["metric"].iloc[0]))
    rows = table.rename(columns={"site_low": "site_balanced_accuracy_low", "site_high": "site_balanced_accuracy_high"})
    for name, n, n_outside in (("outside", "n", "n_outside"), ("outside_unseen", "n_unseen", "n_unseen_outside")):
        rows[name] = rows[n_outside] / rows[n].where(rows[n] > 0)
        counts = zip(rows[n_outside], rows[n], strict=True)
        rows[f"{name}_detail"] = [f"{part:.0f} of {whole:.0f}" for part, whole in counts]
    short: Any = {"digits": 2, "interval": True}
    weight = Column("Weight", "weight_text", "text", reason="not of the series in which one weight was varied")
    rows["weight_text"] = rows["weight"].map("{:g}".format, na_action="ignore")
    rows["weight_text_detail"] = rows["weight_name"]
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
    means = None if files.sensitive is None else files.sensitive[files.sensitive["column"] == "all"]
    if means is None or means.empty or key is None or files.sensitive is None:
        text = "Not shown: not all evaluations measured a sensitive variable (`evaluation.sensitive`)."
        return Section("fairness", title, [Paragraph(text, role="note")])
    errors = means.rename(columns={"low": "mse_low", "high": "mse_high"}).drop_duplicates("model")
    values = files.models[files.models["metric"] == key][["model", "value", "low", "high"]]
    rows = values.merge(errors[["model", "mse", "mse_low", "mse_high", "constant_mse"]], on="model")
    rows = rows.dropna(subset=["value", "mse"])
    label, constant = describe_metric(key, files.words).label, rows["constant_mse"].mean()
    parts = [f"{row.model}: {row.value:.1%} at an MSE of {number_text(row.mse, digits=4)}" for row in rows.itertuples()]
    blocks: list[Block] = []
    if len(rows) > 1:
        names = {"mse": "x", "mse_low": "x_low", "mse_high": "x_high", "value": "y", "low": "y_low", "high": "y_high"}
        picture = draw_tradeoff(
            rows.rename(columns=names).assign(weight=None, label=rows["model"]),
            "fairness",
            numbers=rows,
            labels=("MSE of the sensitive variable (right: fairer)", label),
            references=((constant, "MSE of a constant") if pd.notna(constant) else None, None),
            alt=f"{label} against the error of the sensitive variable. {'; '.join(parts)}.",
            caption=(
                f"{label} over the mean squared error of the sensitive variable, with {files.level:.0%} bootstrap "
                "intervals over images. Best is the upper right corner: the class is known, the sensitive variable not."
            ),
        )
        blocks.append(Pictures([picture]))
    blocks.append(_sensitive_table(files.sensitive, files.reference))
    lead = "The error of a linear model that predicts the sensitive variable from the features: higher is fairer."
    return Section("fairness", title, blocks, lead=lead)


def _sensitive_table(sensitive: pd.DataFrame, reference: str) -> Table:
    rows = sensitive.rename(columns={"low": "mse_low", "high": "mse_high"})
    rows = rows.assign(column=rows["column"].replace("all", "mean of the columns"))
    is_reference = rows["model"] == reference
    rows["difference_reason"] = is_reference.map({True: "the reference itself", False: "not computed"})
    columns = (
        Column("Model", "model", "heading"),
        Column("Column", "column", "text"),
        Column("MSE", "mse", digits=4, interval=True),
        Column("MSE of a constant", "constant_mse", digits=4),
        Column("Difference", "difference", digits=4, signed=True, interval=True),
    )
    return make_table("The sensitive variable (sensitive.tsv).", rows, columns)
