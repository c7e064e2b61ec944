"""Tables built from the evaluation's files: absent values get a dash and a reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from neurocontrast.reporting.blocks import Cell, Table
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import (
    DASH,
    choose_headline,
    describe_metric,
    interval_text,
    leading_metrics,
    number_text,
    point_estimate,
)
from neurocontrast.reporting.strata import Strata
from neurocontrast.reporting.testing import permutation_result

__all__ = ["cell", "count_cell", "table_cohort", "table_external", "table_folds", "table_metrics", "table_strata"]

_NOT_RECORDED = "not recorded"


def cell(value: object, *, digits: int = 3, reason: str = _NOT_RECORDED, signed: bool = False) -> Cell:
    """Return a number as a cell; a dash with its reason where there is none."""
    number = None if value is None or pd.isna(value) else float(value)  # type: ignore[call-overload, arg-type]
    text = number_text(number, digits=digits, signed=signed)
    return Cell(text, reason=reason if text == DASH else "")


def count_cell(value: object, *, reason: str = _NOT_RECORDED) -> Cell:
    """Return a count as a cell."""
    if value is None or pd.isna(value):  # type: ignore[call-overload]
        return Cell(DASH, reason=reason)
    return Cell(f"{float(value):,.0f}")  # type: ignore[arg-type]


def _interval_cell(interval: object, *, reason: str, signed: bool = False) -> Cell:
    text = interval_text(interval, signed=signed)
    return Cell(text, reason=reason if text == DASH else "")


def table_metrics(files: EvaluationFiles) -> Table:
    """Return every metric: pooled, its interval, over folds, the baseline and the difference."""
    rows, tested = [], bool(files.summary.get("permutation"))
    for key, values in files.metrics.items():
        increment = files.increment.get(key) or {}
        n_defined = values.get("n_folds_defined")
        undefined = "no fold has a value of its own" if not n_defined else f"defined in {n_defined} folds only"
        why = str(values.get("reason") or "not defined on pooled predictions")
        no_baseline = "no baseline" if not files.baseline else "not defined"
        rows.append(
            (
                Cell(describe_metric(key).label, heading=True),
                cell(values.get("pooled"), reason=why),
                _interval_cell(values.get("interval"), reason="not computed"),
                cell(values.get("mean"), reason=undefined),
                cell(values.get("sd"), reason=undefined),
                count_cell(n_defined),
                cell(point_estimate(files.baseline.get(key)), reason=no_baseline),
                cell(increment.get("difference"), reason=no_baseline, signed=True),
                _interval_cell(increment.get("interval"), reason="not computed", signed=True),
                *_p_value(files, key),
                *_voxel_cells(files, key),
            )
        )
    about = "p beside voxels: corrected resampled t-test of embedding and voxels over folds." if files.voxels else ""
    meanings = [f"{describe_metric(key).short}: {describe_metric(key).meaning}" for key in files.metrics]
    return Table(
        "All metrics. Pooled: from all out-of-fold predictions at once. SD: spread between folds, not an interval.",
        (
            "Metric",
            "Pooled",
            "Interval",
            "Mean of folds",
            "SD",
            "Folds",
            "Covariates only",
            "Difference",
            "Its interval",
            *(("Perm. p",) if tested else ()),
            *(("Voxels only", "Minus voxels", "Its interval", "p") if files.voxels else ()),
        ),
        rows,
        note=" ".join(text for text in [*meanings, about, _about_p(files)] if text and not text.endswith(": ")),
    )


def _voxel_cells(files: EvaluationFiles, key: str) -> tuple[Cell, ...]:
    """Return the voxels' metric, and how the embedding compares; none where the scans were not at hand."""
    if not files.voxels:
        return ()
    increment = files.voxels_increment.get(key) or {}
    p_value = increment.get("p_value")
    return (
        cell(point_estimate(files.voxels.get(key)), reason="not defined"),
        cell(increment.get("difference"), reason="not defined", signed=True),
        _interval_cell(increment.get("interval"), reason="not computed", signed=True),
        Cell(DASH, reason="not tested: no better or worse, too few folds, or sites held out")
        if p_value is None
        else Cell(f"{p_value:.3g}"),
    )


def _p_value(files: EvaluationFiles, key: str) -> tuple[Cell, ...]:
    if not files.summary.get("permutation"):
        return ()
    result = permutation_result(files, key)
    reason = (
        "not tested: neither more nor less of it is better" if describe_metric(key).ideal is not None else "not tested"
    )
    return (Cell(DASH, reason=reason) if result is None else Cell(f"{result.p_value:.3g}"),)


def _about_p(files: EvaluationFiles) -> str:
    permutation = files.summary.get("permutation")
    if not permutation:
        return ""
    headline = choose_headline(files.kind, files.metrics)
    primary = ""
    if headline is not None:
        primary = f" {describe_metric(headline).label} is the primary metric; p-values are not adjusted for the others."
    held = [name for name in ("site", "fold") if permutation.get(f"within_{name}")]
    where = f" within {' and '.join(held)}" if held else ""
    return (
        f"Perm. p: permutation p-value (1 + k)/(1 + n), one-sided, from n = {permutation.get('n') or 0:,} permutations "
        f"of labels between {permutation.get('unit', 'subject')}s{where}; k of them did at least as well.{primary}"
    )


def table_external(files: EvaluationFiles, external: Mapping[str, Any]) -> Table:
    """Return the metrics of the external test set beside those of cross-validation."""
    names = {"delong": "DeLong", "bootstrap": "bootstrap"}
    baseline = external.get("baseline") or {}
    rows = []
    for key, values in (external.get("metrics") or {}).items():
        beside = baseline.get(key) or {}
        rows.append(
            (
                Cell(describe_metric(key).label, heading=True),
                cell(values.get("value"), reason=str(values.get("reason") or "not defined on these scans")),
                _interval_cell(values.get("interval"), reason="not computed"),
                Cell(names.get(str(values.get("interval_method")), str(values.get("interval_method") or ""))),
                cell(beside.get("value"), reason="no baseline"),
                _interval_cell(beside.get("interval"), reason="not computed"),
                cell(point_estimate(files.metrics.get(key)), reason="not computed"),
            )
        )
    header = ("Metric", "External", "Interval", "Interval by", "Covariates only", "Its interval", "Cross-validation")
    return Table("Metrics of the external test set.", header, rows, text_columns=(0, 3))


def table_cohort(files: EvaluationFiles) -> Table | None:
    """Return the number of scans by site and class, or the target's spread by site."""
    cohort = files.cohort
    if cohort is None:
        return None
    columns = [name for name in cohort.columns if name != "site"]
    if files.kind == "continuous":
        header = {"n": "Scans", "mean": f"Mean {files.target}", "sd": "SD", "min": "Smallest", "max": "Largest"}
        rows = [
            (_site_cell(row["site"]), *(_cohort_cell(name, row[name]) for name in columns))
            for _, row in cohort.iterrows()
        ]
        caption = f"Scans evaluated at each site, and the spread of {files.target} among them."
        return Table(caption, ("Site", *(header.get(name, name) for name in columns)), rows)
    rows = [(_site_cell(row["site"]), *(count_cell(row[name]) for name in columns)) for _, row in cohort.iterrows()]
    if len(cohort) > 1:
        sums = [count_cell(pd.to_numeric(cohort[name], errors="coerce").sum()) for name in columns]
        rows.append((Cell("All sites", heading=True), *sums))
    header_row = ("Site", *("All scans" if name == "total" else name for name in columns))
    return Table(
        f"Scans evaluated at each site, by {files.target}.", header_row, rows, total_rows=1 if len(cohort) > 1 else 0
    )


def _cohort_cell(name: str, value: object) -> Cell:
    return count_cell(value) if name == "n" else cell(value, digits=1, reason="fewer than two scans")


def table_strata(files: EvaluationFiles, strata: Strata) -> Table | None:
    """Return the metrics at each site or in each group with their intervals; the note says why one is absent."""
    table = strata.table
    if table.empty:
        return None
    metrics = leading_metrics(files.kind, [key for key in files.metrics if key in table])
    counts = _count_columns(files, strata)
    ordered = table.sort_values(["n", strata.column], ascending=[False, True]) if strata.by_size else table
    rows = [_stratum_row(row, strata, metrics, counts) for _, row in ordered.iterrows()]
    header = [strata.title, "n", *(name.removeprefix("n_") for name in counts)]
    for key in metrics:
        header += [describe_metric(key).short, "Cov. only"]
    header.append("Note")
    caption = f"Metrics {strata.where}, with their {files.level:.0%} intervals. Cov. only: the baseline of covariates."
    return Table(
        caption + _more(files, metrics, strata.file),
        header,
        rows,
        text_columns=(0, len(header) - 1),
    )


def _count_columns(files: EvaluationFiles, strata: Strata) -> list[str]:
    """Return the counts by class worth a column: those of sites are in the cohort table, where there is one."""
    if files.cohort is None or strata.column != "site":
        return [
            name for name in strata.table.columns if name.startswith("n_") and name.removeprefix("n_") in files.classes
        ]
    positive = f"n_{files.positive}"
    return [positive] if files.kind == "binary" and positive in strata.table else []


def _more(files: EvaluationFiles, shown: Sequence[str], name: str) -> str:
    hidden = [key for key in files.metrics if key not in shown]
    return f" Further metrics are in {name}." if hidden else ""


def _stratum_row(row: pd.Series, strata: Strata, metrics: Sequence[str], counts: Sequence[str]) -> tuple[Cell, ...]:
    note = str(row["note"]) if "note" in row and pd.notna(row["note"]) else ""
    reason = "see the note of the row" if note else "not defined there"
    cells = [_site_cell(row[strata.column]), count_cell(row["n"]), *(count_cell(row[name]) for name in counts)]
    for key in metrics:
        interval = (row.get(f"{key}_low"), row.get(f"{key}_high"))
        known = all(end is not None and not pd.isna(end) for end in interval)
        value = cell(row[key], digits=2, reason=reason)
        detail = interval_text(interval, digits=2) if known else "no interval"
        cells.append(value if value.absent else replace(value, detail=detail))
        cells.append(cell(row.get(f"baseline_{key}"), digits=2, reason=reason))
    return (*cells, Cell(note))


def _site_cell(name: object) -> Cell:
    return Cell("not stated" if pd.isna(name) else str(name), heading=True)  # type: ignore[call-overload]


def table_folds(files: EvaluationFiles) -> Table | None:
    """Return the folds: their sizes, and the metrics of embedding and baseline."""
    folds = files.folds
    if folds.empty:
        return None
    metrics = leading_metrics(files.kind, [key for key in files.metrics if key in folds])
    many = "repeat" in folds and folds["repeat"].nunique() > 1
    left_out = "held_out_site" in folds and folds["held_out_site"].notna().any()
    positive = "n_positive_test" in folds and files.kind == "binary"
    penalty = next((name for name in ("C", "alpha") if name in folds and folds[name].notna().any()), None)
    header = (["Repeat"] if many else []) + ["Fold"] + (["Site left out"] if left_out else []) + ["Train", "Test"]
    header += ["Positive in test"] if positive else []
    for key in metrics:
        header += [describe_metric(key).short, "Cov. only", *(["Voxels"] if files.voxels else [])]
    header += [penalty] if penalty else []
    rows = []
    for _, row in folds.iterrows():
        cells = [count_cell(row["repeat"])] if many else []
        cells.append(count_cell(row["fold"]))
        cells += [_site_cell(row["held_out_site"])] if left_out else []
        cells += [count_cell(row["n_train"]), count_cell(row["n_test"])]
        cells += [count_cell(row["n_positive_test"])] if positive else []
        for key in metrics:
            cells.append(cell(row[key], digits=2, reason="not defined in this fold"))
            for model in ("baseline", *(["voxels"] if files.voxels else [])):
                cells.append(cell(row.get(f"{model}_{key}"), digits=2, reason="not defined in this fold"))
        cells += [Cell(_short_number(row[penalty]))] if penalty else []
        rows.append(tuple(cells))
    text_columns = (header.index("Site left out"),) if left_out else ()
    return Table(
        f"Each test fold.{_more(files, metrics, 'folds.tsv')}",
        header,
        rows,
        text_columns=text_columns,
        folded=len(rows) > 25,
    )


def _short_number(value: object) -> str:
    number = float(value)  # type: ignore[arg-type]
    return f"{number:.3g}" if math.isfinite(number) else DASH
