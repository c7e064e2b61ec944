"""The result in parts: site by site, by sex, by age band, fold by fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.result import rivals
from neurocontrast.page.blocks import Block, Column, Section, Table, make_table, note, pictures
from neurocontrast.page.style import BASELINE, INK, Picture, Series, distinct_labels, draw_intervals, tabulate_estimates
from neurocontrast.page.wording import capitalise, leading_metrics, point_estimate

__all__ = ["show_folds", "show_groups", "show_sites", "site_blocks", "table_folds"]

_SECOND = {"binary": "balanced_accuracy", "multiclass": "auc", "continuous": "r2"}


@dataclass(frozen=True)
class _Strata:
    """Rows of a forest plot and of a table, a part each: ``n``, the metrics, their ends, the baseline and a note.

    `column` names the part, `name` begins the figure's name, `title` says what a part is ("Site"), `where` says so in
    running text ("at each site"), `total` names everybody, and `file` is where the table comes from.
    """

    table: pd.DataFrame
    column: str
    name: str
    title: str
    where: str
    total: str
    file: str


def show_sites(files: EvaluationFolder) -> Section:
    """Return forest plots and a table of the sites."""
    return Section("sites", "Site by site", site_blocks(files))


def site_blocks(files: EvaluationFolder, *, file: str = "sites.tsv") -> list[Block]:
    """Return the forest plots of the two leading metrics at each site, the largest first, and the table."""
    table = files.sites
    if table.empty:
        return [note(f"{file} holds no site, so there is no forest plot.")]
    table = table.sort_values(["n", "site"], ascending=[False, True], ignore_index=True)
    sites = _Strata(table, "site", "sites", "Site", "at each site", "All sites, pooled", file)
    keys = dict.fromkeys(key for key in (files.headline, _SECOND[files.kind]) if key)
    drawn = pictures(*(_draw_forest(files, sites, key) for key in keys))
    why = note("No metric is defined at each site, so there is no forest plot.")
    return [*(drawn or [why]), _table(files, sites)]


def show_groups(files: EvaluationFolder) -> Section | None:
    """Return the forest plots and tables of each sex and age band; None without groups."""
    if files.groups is None:
        return None
    strata = []
    for name, table in files.groups.groupby("group_by", sort=False):
        title = str(name).replace("_", " ")
        rows = table.reset_index(drop=True)
        about = (f"groups_{name}", capitalise(title), f"by {title}", "Everybody, pooled", "groups.tsv")
        strata.append(_Strata(rows, "group", *about))
    drawn = pictures(*(_draw_forest(files, each, files.headline) for each in strata if files.headline))
    lead = "A model that works for everybody works in every row. Differences between rows are not tested."
    return Section("groups", "By sex and age", [*drawn, *(_table(files, each) for each in strata)], lead=lead)


def _draw_forest(files: EvaluationFolder, strata: _Strata, metric: str) -> Picture | None:
    """Draw a metric by site or group, everybody in the last row; None if it has no value anywhere."""
    table = strata.table
    if metric not in table or table[metric].isna().all():
        return None
    sources = {"value": metric, "low": f"{metric}_low", "high": f"{metric}_high", "baseline": f"baseline_{metric}"}
    rows = table.reindex(columns=[strata.column, "n", *sources.values()])
    rows = rows.set_axis([strata.column, "n", *sources], axis=1).fillna({strata.column: "not stated"})
    total = tabulate_estimates([("", files.metrics.get(metric))])
    baseline = point_estimate(files.summary.baseline.get(metric))
    total = total.assign(baseline=baseline).set_axis(total.index + len(rows))
    about, names = files.describe(metric), distinct_labels(rows[strata.column], length=24)
    return draw_intervals(
        f"{strata.name}_{metric}",
        [
            Series(rows, "Embedding"),
            Series(total, color=INK, marker="s"),
            Series(pd.concat([rows, total]), "Covariates only", "baseline", BASELINE, "D", filled=False),
        ],
        [*(f"{name} (n={n:.0f})" for name, n in zip(names, rows["n"], strict=True)), strata.total],
        f"{about.label} {strata.where}, with {files.level:.0%} bootstrap intervals.",
        note="Small groups scatter widely by chance alone: read the interval, not the point.",
        xlabel=about.label,
        reference=(files.chance(metric), "Chance"),
        limits=about.limits,
        total=True,
        numbers=rows,
    )


def _table(files: EvaluationFolder, strata: _Strata) -> Table:
    """Return the metrics at each site or in each group with their intervals; the note says why one is absent."""
    table = strata.table
    metrics = leading_metrics(files.kind, [key for key in files.metrics if key in table])
    # Counts of classes by site are in the cohort table, where there is one.
    classes = [files.positive] if files.cohort is not None and strata.column == "site" else files.classes
    columns = [Column(strata.title, strata.column, "heading"), Column("n", "n", "count")]
    columns += [Column(name, f"n_{name}", "count") for name in classes if f"n_{name}" in table]
    for key in metrics:
        columns.append(Column(files.describe(key).short, key, digits=2, interval=True))
        columns.append(Column("Cov. only", f"baseline_{key}", digits=2))
    notes = table["note"].fillna("") if "note" in table else pd.Series("", table.index)
    columns += [Column("Note", "note", "text")] if notes.any() else []
    why = notes.map(lambda remark: "see the note of the row" if remark else "not defined there")
    table = table.assign(note=notes, **{f"{name}{key}_reason": why for key in metrics for name in ("", "baseline_")})
    caption = f"Metrics {strata.where}, with their {files.level:.0%} intervals. Cov. only: the baseline of covariates."
    return make_table(caption + _more(files, metrics, strata.file), table, columns)


def _more(files: EvaluationFolder, shown: Sequence[str], name: str) -> str:
    return f" Further metrics are in {name}." if set(files.metrics) - set(shown) else ""


def show_folds(files: EvaluationFolder) -> Section | None:
    """Return the table of folds; None for one test set."""
    table = None if files.fixed or files.folds.empty else table_folds(files)
    return Section("folds", "Fold by fold", [table]) if table else None


def table_folds(files: EvaluationFolder) -> Table:
    """Return the folds: their sizes, and the metrics of embedding and baselines."""
    folds = files.folds
    penalty = next((name for name in ("C", "alpha") if name in folds and folds[name].notna().any()), "")
    if penalty:
        folds = folds.assign(penalty=folds[penalty].map("{:.3g}".format, na_action="ignore"))
    left_out = "held_out_site" in folds and folds["held_out_site"].notna().any()
    positive = "n_positive_test" in folds and files.kind == "binary"
    metrics = leading_metrics(files.kind, [key for key in files.metrics if key in folds])
    models = {"": "", "baseline_": "Cov. only"}
    models |= {f"{each.key}_": each.name.capitalize() for each in rivals(files.summary)}
    columns = (
        Column("Repeat", "repeat", "count") if folds["repeat"].nunique() > 1 else None,
        Column("Fold", "fold", "count"),
        Column("Site left out", "held_out_site", "heading") if left_out else None,
        Column("Train", "n_train", "count"),
        Column("Test", "n_test", "count"),
        Column("Positive in test", "n_positive_test", "count") if positive else None,
        *(
            Column(title or files.describe(key).short, name + key, digits=2, reason="not defined in this fold")
            for key in metrics
            for name, title in models.items()
        ),
        Column(penalty, "penalty", "text") if penalty else None,
    )
    caption = f"Each test fold.{_more(files, metrics, 'folds.tsv')}"
    return make_table(caption, folds, columns, folded=len(folds) > 25)
