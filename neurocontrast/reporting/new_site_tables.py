"""The tables of the panel of unseen sites: pooled, and site by site."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from neurocontrast.reporting.blocks import Cell, Table
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, describe_metric, interval_text, number_text
from neurocontrast.reporting.new_sites import (
    CONSTANT,
    Estimate,
    constant_estimate,
    estimate,
    is_error,
    new_site_metrics,
    ratio,
    recentred,
    site_rows,
)
from neurocontrast.reporting.outlyingness import SiteOutside, count_outside
from neurocontrast.reporting.tables import cell, count_cell

__all__ = ["estimate_cell", "table_new_sites", "table_pooled_sites"]

_TRANSDUCTIVE = "Recentred (transductive): "


def estimate_cell(value: Estimate | None, *, reason: str, signed: bool = False, with_n: bool = False) -> Cell:
    """Return a value as a cell, its interval and scans under it; a dash with its reason where there is none."""
    if value is None:
        return Cell(DASH, reason=reason)
    interval = interval_text(value.interval, digits=2, signed=signed)
    detail = ["no interval" if interval == DASH else interval]
    detail += [f"n = {value.n:,}"] if with_n and value.n is not None else []
    return Cell(number_text(value.value, digits=2, signed=signed), detail="; ".join(detail))


def table_pooled_sites(files: EvaluationFiles) -> Table | None:
    """Return every metric at known and at unseen sites, pooled over sites; None where there is none."""
    metrics = [key for key in new_site_metrics(files) if estimate(files, "unseen", "embedding", key) is not None]
    if not metrics:
        return None
    moved = recentred(files)
    rows = []
    for key in metrics:
        signed = describe_metric(key).ideal is not None
        home, unseen = (estimate(files, part, "embedding", key) for part in ("home", "unseen"))
        cells = [
            Cell(describe_metric(key).label, heading=True),
            estimate_cell(home, reason="not computed", signed=signed, with_n=True),
            estimate_cell(unseen, reason="not computed", signed=signed, with_n=True),
            estimate_cell(
                ratio(files, key), reason="a ratio is of errors only" if not is_error(key) else "not computed"
            ),
        ]
        if moved:
            value = estimate(files, "unseen", "recentred", key)
            cells.append(estimate_cell(value, reason="not computed", signed=signed))
        cells.append(estimate_cell(estimate(files, "unseen", "baseline", key), reason="no baseline", signed=signed))
        cells.append(_constant_cell(files, key, signed=signed))
        rows.append(tuple(cells))
    header = ["Metric", "Sites it knows", "Unseen sites", "Unseen ÷ known"]
    header += [_TRANSDUCTIVE + "unseen sites"] if moved else []
    header += ["Covariates only, unseen", "Constant guess, unseen"]
    return Table(
        f"Known and unseen sites, pooled over sites, with {files.level:.0%} intervals.",
        header,
        rows,
        note=f"Constant guess: {CONSTANT[files.kind]}. Pooled metrics of order, such as correlations and AUC, compare "
        "people of different sites too; site by site they are below.",
    )


def _constant_cell(files: EvaluationFiles, key: str, *, signed: bool) -> Cell:
    value = constant_estimate(files, key)
    return estimate_cell(value, reason="the same guess for everybody puts nobody in order", signed=signed)


def table_new_sites(files: EvaluationFiles, metric: str) -> Table | None:
    """Return the leading metric site by site, known and unseen, beside the constant guess; None without sites."""
    rows = site_rows(files, metric)
    if rows.empty:
        return None
    beside = [key for key in ("bias", "spearman") if files.kind == "continuous" and key in new_site_metrics(files)]
    others = {key: site_rows(files, key).set_index("site") for key in beside}
    moved, error = recentred(files), is_error(metric)
    header = ["Site", "n", "Known", "Unseen", *(["Unseen ÷ known"] if error else [])]
    header += ["Unseen, recentred (transductive)"] if moved else []
    header += ["Constant guess"] if error else []
    header += [*(f"{describe_metric(key).short}, unseen" for key in beside), "Note"]
    counted = count_outside(files)
    outside = {site.site: site for site in counted.unseen} if counted else {}
    header[-1:-1] = ["Scans outside, unseen"] if outside else []
    body = []
    for row in rows.to_dict("records"):
        reason = "see the note of the row" if row["note"] else "not defined there"
        cells = [Cell(str(row["site"]), heading=True), _size(row)]
        cells += [_at(row, f"embedding_{part}", reason) for part in ("home", "unseen")]
        cells += [_divided(row, reason)] if error else []
        cells += [_at(row, "recentred_unseen", reason)] if moved else []
        cells += [cell(row["constant_unseen"], digits=2, reason=reason)] if error else []
        for key in beside:
            cells.append(_at(dict(others[key].loc[row["site"]]), "embedding_unseen", reason, signed=key == "bias"))
        cells += [_outside(outside.get(str(row["site"])))] if outside else []
        body.append((*cells, Cell(row["note"])))
    if not (rows["note"] != "").any():
        header, body = header[:-1], [row[:-1] for row in body]
    shown = (metric, *beside)
    more = [key for key in new_site_metrics(files) if key not in shown]
    return Table(
        f"{describe_metric(metric).label} site by site: while the site is known, and while it is left out."
        + (" Further metrics, and the covariates alone, are in new_sites.tsv." if more else ""),
        header,
        body,
        text_columns=(0, len(header) - 1) if header[-1] == "Note" else (0,),
        note=" ".join(f"{describe_metric(key).short}: {describe_metric(key).meaning}" for key in shown),
    )


def _outside(site: SiteOutside | None) -> Cell:
    return Cell(DASH, reason="not scored") if site is None else Cell(f"{site.n_outside / site.n:.0%}")


def _size(row: dict) -> Cell:
    n = count_cell(row["n"])
    return n if n.absent or pd.isna(row["n_train"]) else replace(n, detail=f"trained on {row['n_train']:,.0f}")


def _at(row: dict, column: str, reason: str, *, signed: bool = False) -> Cell:
    value = cell(row[column], digits=2, reason=reason, signed=signed)
    interval = interval_text((row[f"{column}_low"], row[f"{column}_high"]), digits=2, signed=signed)
    return value if value.absent else replace(value, detail="no interval" if interval == DASH else interval)


def _divided(row: dict, reason: str) -> Cell:
    known, unseen = row["embedding_home"], row["embedding_unseen"]
    if pd.isna(known) or pd.isna(unseen) or known <= 0:
        return Cell(DASH, reason=reason)
    return cell(unseen / known, digits=2)
