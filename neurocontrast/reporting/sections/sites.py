"""Section of the result site by site."""

from collections.abc import Sequence

import pandas as pd

from neurocontrast.evaluation.measure.sites import measure_sites
from neurocontrast.reporting.blocks import Block, Column, Section, Table, make_table, note, pictures
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.result_tables import ResultTables
from neurocontrast.reporting.style import (
    BASELINE,
    INK,
    Picture,
    Series,
    distinct_labels,
    draw_intervals,
    tabulate_estimates,
)
from neurocontrast.reporting.wording import leading_metrics, point_estimate

_SECOND = {"binary": "balanced_accuracy", "multiclass": "auc", "continuous": "r2"}


def show_sites(files: EvaluationFolder) -> Section | None:
    """Return the section of sites: forest plots and a table; None for fewer than two sites."""
    blocks = site_blocks(files)
    return Section("sites", "Site by site", blocks) if blocks else None


def site_blocks(files: ResultTables) -> list[Block]:
    """Return forest plots of two metrics by site, and the table of sites, the largest first.

    Empty for a single site, whose metrics are the metrics of all scans, and for none.
    """
    if len(files.sites) < 2:
        return []
    sites = files.sites.sort_values(["n", "site"], ascending=[False, True], ignore_index=True)
    keys = dict.fromkeys(key for key in (files.headline, _SECOND[files.kind]) if key)
    drawn = pictures(*(_draw_forest(files, sites, key) for key in keys))
    why = note("No metric is defined at each site, so there is no forest plot.")
    # Counts of classes by site are in the cohort table, where there is one.
    classes = [files.positive] if files.table("cohort") is not None else files.classes
    return [
        *(drawn or [why]),
        table_parts(
            files, sites, "site", "at each site", classes=classes, file=f"{files.prefix}sites.tsv"
        ),
    ]


def _draw_forest(files: ResultTables, sites: pd.DataFrame, metric: str) -> Picture | None:
    """Return a figure of a metric at each site, and at all sites in the last row.

    The embedding and the baseline of covariates are drawn. None if the metric is undefined
    everywhere.
    """
    if metric not in sites or sites[metric].isna().all():
        return None
    sources = {
        "value": metric,
        "low": f"{metric}_low",
        "high": f"{metric}_high",
        "baseline": f"baseline_{metric}",
    }
    rows = sites.reindex(columns=["site", "n", *sources.values()])
    rows = rows.set_axis(["site", "n", *sources], axis=1).fillna({"site": "not stated"})
    total = tabulate_estimates([("", files.metrics.get(metric))])
    baseline = point_estimate(files.summary.baseline.get(metric))
    total = total.assign(baseline=baseline).set_axis(total.index + len(rows))
    named = files.describe(metric)
    names = distinct_labels(rows["site"], length=24)
    return draw_intervals(
        f"{files.prefix}sites_{metric}",
        [
            Series(rows, "Embedding"),
            Series(total, color=INK, marker="s"),
            Series(
                pd.concat([rows, total]), "Covariates only", "baseline", BASELINE, "D", filled=False
            ),
        ],
        [
            *(f"{name} (n={n:.0f})" for name, n in zip(names, rows["n"], strict=True)),
            "All sites, pooled",
        ],
        f"{files.opening}{named.label} at each site, with {files.percent} bootstrap intervals.",
        note="Small groups scatter widely by chance alone: read the interval, not the point.",
        xlabel=named.label,
        reference=(files.chance(metric), "Chance"),
        limits=named.limits,
        total=True,
        numbers=rows,
    )


def table_parts(
    files: ResultTables,
    parts: pd.DataFrame,
    column: str,
    where: str,
    *,
    classes: Sequence[str | None],
    file: str,
) -> Table:
    """Return a report's table of metrics and intervals, a row for each part of the cohort.

    `parts` has the values of each part, such as a site, with the part's name in `column`. `where`
    is put after "Metrics" in the caption ("at each site"), `classes` are the classes whose scans
    are counted in a column, and `file` names the table on disk that has all metrics.
    """
    metrics = leading_metrics(files.kind, [key for key in files.metrics if key in parts])
    columns = [Column(column.capitalize(), column, "heading"), Column("n", "n", "count")]
    columns += [Column(str(name), f"n_{name}", "count") for name in classes if f"n_{name}" in parts]
    for key in metrics:
        columns.append(Column(files.describe(key).short, key, digits=2, interval=True))
        columns.append(Column("Cov. only", f"baseline_{key}", digits=2))
    notes = parts["note"].fillna("") if "note" in parts else pd.Series("", parts.index)
    columns += [Column("Note", "note", "text")] if notes.any() else []
    why = notes.map(lambda remark: "see the note of the row" if remark else "not defined there")
    parts = parts.assign(
        note=notes, **{f"{name}{key}_reason": why for key in metrics for name in ("", "baseline_")}
    )
    caption = (
        f"Metrics {where}, with their {files.percent} intervals. Cov. only: the baseline of "
        f"covariates. All metrics are in {file}."
    )
    return make_table(caption, parts, columns)


SITES = Finding("sites", show_sites, measure_sites, of=("scans",))
