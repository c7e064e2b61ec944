"""Tables: rows of values to cells by one set of rules; absent values get a dash and a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from neurocontrast.evaluation.schema import External, Increment, Metric
from neurocontrast.evaluation.schema.sections import ExternalMetric
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
from neurocontrast.reporting.new_sites import (
    CONSTANT,
    constant_estimate,
    estimate,
    is_error,
    new_site_metrics,
    ratio,
    recentred,
    site_rows,
)
from neurocontrast.reporting.strata import Strata
from neurocontrast.reporting.testing import permutation_result


@dataclass(frozen=True)
class Column:
    """How one value of each row is shown.

    `kind` is ``number``, ``count``, ``share``, ``p``, ``text``, ``heading`` or ``interval``; an interval is that of
    `key`, in ``<key>_low`` and ``<key>_high``. With `interval`, the interval stands under the number, with
    ``<key>_n`` where there is one. `reason` says why a value is absent, unless the row has ``<key>_reason``.
    """

    title: str
    key: str
    kind: str = "number"
    digits: int = 3
    signed: bool = False
    interval: bool = False
    reason: str = "not recorded"

    def show(self, row: Mapping[Any, Any]) -> Cell:
        """Return the cell of a row."""
        value: Any = row.get(self.key)
        reason = str(row.get(f"{self.key}_reason") or self.reason)
        ends = interval_text(
            (row.get(f"{self.key}_low"), row.get(f"{self.key}_high")), digits=self.digits, signed=self.signed
        )
        if self.kind == "interval":
            return Cell(ends, reason=reason if ends == DASH else "")
        absent = value is None or pd.isna(value)
        if self.kind == "heading":
            return Cell(
                "not stated" if absent else str(value), heading=True, detail=str(row.get(f"{self.key}_detail") or "")
            )
        if absent:
            return Cell(DASH, reason=reason)
        if self.kind == "number" and not self.interval:
            return cell(value, digits=self.digits, reason=reason, signed=self.signed)
        if self.kind == "number":
            n = row.get(f"{self.key}_n")
            detail = ("no interval" if ends == DASH else ends) + (f"; n = {n:,.0f}" if n and pd.notna(n) else "")
            return Cell(number_text(value, digits=self.digits, signed=self.signed), detail=detail)
        texts = {
            "count": lambda: f"{value:,.0f}",
            "share": lambda: f"{value:.{self.digits}%}",
            "p": lambda: f"{value:.3g}" if value >= 0.0001 else "< 0.0001",
            "text": lambda: str(value),
        }
        return Cell(texts[self.kind](), detail=str(row.get(f"{self.key}_detail") or ""))


def make_table(
    caption: str, rows: pd.DataFrame | Iterable[Mapping[Any, Any]], columns: Sequence[Column], **look: Any
) -> Table:
    """Return a table of rows; `look` is the note and how the table is laid out."""
    records = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
    text_columns = tuple(place for place, column in enumerate(columns) if column.kind in ("text", "heading"))
    cells = [tuple(column.show(row) for column in columns) for row in records]
    return Table(caption, [column.title for column in columns], cells, text_columns=text_columns, **look)


def cell(value: object, *, digits: int = 3, reason: str = "not recorded", signed: bool = False) -> Cell:
    """Return a number as a cell; a dash with its reason where there is none."""
    number = None if value is None or pd.isna(value) else float(value)  # type: ignore[call-overload, arg-type]
    text = number_text(number, digits=digits, signed=signed)
    return Cell(text, reason=reason if text == DASH else "")


def _ends(key: str, interval: Sequence[float] | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {f"{key}_low": low, f"{key}_high": high}


def table_metrics(files: EvaluationFiles) -> Table:
    """Return every metric: pooled, its interval, over folds, the baselines and the differences from them."""
    rows = [_metric_row(files, key, values) for key, values in files.metrics.items()]
    columns = [
        Column("Metric", "metric", "heading"),
        Column("Pooled", "pooled"),
        Column("Interval", "pooled", "interval", reason="not computed"),
        Column("Mean of folds", "mean"),
        Column("SD", "sd"),
        Column("Folds", "n_folds", "count"),
    ]
    for key, beside, gain in (("baseline", "Covariates only", "Difference"), ("voxels", "Voxels only", "Minus voxels")):
        if key == "voxels" and not files.summary.voxels:
            continue
        absent = "no baseline" if key == "baseline" and not files.summary.baseline else "not defined"
        columns += [
            Column(beside, key, reason=absent),
            Column(gain, f"{key}_gain", signed=True, reason=absent),
            Column("Its interval", f"{key}_gain", "interval", signed=True, reason="not computed"),
        ]
        if key == "baseline" and files.summary.permutation:
            columns.append(Column("Perm. p", "p", "p", reason="not tested"))
    if files.summary.voxels:
        reason = "not tested: no better or worse, too few folds, or sites held out"
        columns.append(Column("p", "voxels_p", "p", reason=reason))
    about = (
        "p beside voxels: corrected resampled t-test of embedding and voxels over folds."
        if files.summary.voxels
        else ""
    )
    meanings = [describe_metric(key) for key in files.metrics]
    texts = [*(f"{each.short}: {each.meaning}" for each in meanings if each.meaning), about, _about_p(files)]
    return make_table(
        "All metrics. Pooled: from all out-of-fold predictions at once. SD: spread between folds, not an interval.",
        rows,
        columns,
        note=" ".join(text for text in texts if text),
    )


def _metric_row(files: EvaluationFiles, key: str, values: Metric) -> dict[str, Any]:
    n_defined, about = values.n_folds_defined, describe_metric(key)
    undefined = f"defined in {n_defined} folds only" if n_defined else "no fold has a value of its own"
    tested = permutation_result(files, key) if files.summary.permutation else None
    row = {"metric": about.label, "pooled": values.pooled, **_ends("pooled", values.interval)}
    row |= {"pooled_reason": values.reason or "not defined on pooled predictions", "n_folds": n_defined}
    row |= {"mean": values.mean, "mean_reason": undefined, "sd": values.sd, "sd_reason": undefined}
    row |= {"p": tested.p_value if tested else None}
    if about.ideal is not None:
        row["p_reason"] = "not tested: neither more nor less of it is better"
    for name, values_beside, gains in (
        ("baseline", files.summary.baseline, files.summary.increment),
        ("voxels", files.summary.voxels, files.summary.voxels_increment),
    ):
        gain = gains.get(key) or Increment()
        row |= {name: point_estimate(values_beside.get(key)), f"{name}_gain": gain.difference}
        row |= {f"{name}_p": gain.p_value, **_ends(f"{name}_gain", gain.interval)}
    return row


def _about_p(files: EvaluationFiles) -> str:
    permutation = files.summary.permutation
    if not permutation:
        return ""
    headline = choose_headline(files.kind, files.metrics)
    name = describe_metric(headline).label if headline else ""
    primary = f" {name} is the primary metric; p-values are not adjusted for the others." if name else ""
    held = [unit for unit, within in (("site", permutation.within_site), ("fold", permutation.within_fold)) if within]
    where = f" within {' and '.join(held)}" if held else ""
    return (
        f"Perm. p: permutation p-value (1 + k)/(1 + n), one-sided, from n = {permutation.n or 0:,} permutations "
        f"of labels between {permutation.unit or 'subject'}s{where}; k of them did at least as well.{primary}"
    )


def table_external(files: EvaluationFiles, external: External) -> Table:
    """Return the metrics of the external test set beside those of cross-validation."""
    rows = []
    for key, values in external.metrics.items():
        beside = external.baseline.get(key) or ExternalMetric()
        method = values.interval_method or ""
        row = {
            "metric": describe_metric(key).label,
            "value": values.value,
            **_ends("value", values.interval),
        }
        row |= {"value_reason": values.reason, "method": "DeLong" if method == "delong" else method}
        row |= {"baseline": beside.value, **_ends("baseline", beside.interval)}
        rows.append(row | {"inner": point_estimate(files.metrics.get(key))})
    columns = (
        Column("Metric", "metric", "heading"),
        Column("External", "value", reason="not defined on these scans"),
        Column("Interval", "value", "interval", reason="not computed"),
        Column("Interval by", "method", "text"),
        Column("Covariates only", "baseline", reason="no baseline"),
        Column("Its interval", "baseline", "interval", reason="not computed"),
        Column("Cross-validation", "inner", reason="not computed"),
    )
    return make_table("Metrics of the external test set.", rows, columns)


def table_cohort(files: EvaluationFiles) -> Table | None:
    """Return the number of scans by site and class, or the target's spread by site."""
    if files.cohort is None:
        return None
    site = Column("Site", "site", "heading")
    names = [name for name in files.cohort.columns if name != "site"]
    if files.kind == "continuous":
        titles = {"n": "Scans", "mean": f"Mean {files.target}", "sd": "SD", "min": "Smallest", "max": "Largest"}
        columns = [
            Column(titles.get(name, name), name, "count" if name == "n" else "number", 1, reason="fewer than two scans")
            for name in names
        ]
        caption = f"Scans evaluated at each site, and the spread of {files.target} among them."
        return make_table(caption, files.cohort, [site, *columns])
    columns = [Column("All scans" if name == "total" else name, name, "count") for name in names]
    total, many = {"site": "All sites", **files.cohort[names].sum().to_dict()}, len(files.cohort) > 1
    rows = [*files.cohort.to_dict("records"), *([total] if many else [])]
    caption = f"Scans evaluated at each site, by {files.target}."
    return make_table(caption, rows, [site, *columns], total_rows=int(many))


def table_strata(files: EvaluationFiles, strata: Strata) -> Table | None:
    """Return the metrics at each site or in each group with their intervals; the note says why one is absent."""
    table = strata.ordered()
    if table.empty:
        return None
    metrics = leading_metrics(files.kind, [key for key in files.metrics if key in table])
    # Counts of classes by site are in the cohort table, where there is one.
    classes = [files.positive] if files.cohort is not None and strata.column == "site" else files.classes
    columns = [Column(strata.title, strata.column, "heading"), Column("n", "n", "count")]
    columns += [Column(name, f"n_{name}", "count") for name in classes if f"n_{name}" in table]
    for key in metrics:
        columns.append(Column(describe_metric(key).short, key, digits=2, interval=True))
        columns.append(Column("Cov. only", f"baseline_{key}", digits=2))
    columns.append(Column("Note", "note", "text"))
    notes = table["note"].fillna("") if "note" in table else pd.Series("", table.index)
    why = notes.map(lambda note: "see the note of the row" if note else "not defined there")
    table = table.assign(note=notes, **{f"{name}{key}_reason": why for key in metrics for name in ("", "baseline_")})
    caption = f"Metrics {strata.where}, with their {files.level:.0%} intervals. Cov. only: the baseline of covariates."
    return make_table(caption + _more(files, metrics, strata.file), table, columns)


def _more(files: EvaluationFiles, shown: Sequence[str], name: str) -> str:
    return f" Further metrics are in {name}." if set(files.metrics) - set(shown) else ""


def table_folds(files: EvaluationFiles) -> Table | None:
    """Return the folds: their sizes, and the metrics of embedding and baselines."""
    folds = files.folds
    if folds.empty:
        return None
    columns = [Column("Repeat", "repeat", "count")] if folds["repeat"].nunique() > 1 else []
    columns.append(Column("Fold", "fold", "count"))
    if "held_out_site" in folds and folds["held_out_site"].notna().any():
        columns.append(Column("Site left out", "held_out_site", "heading"))
    columns += [Column("Train", "n_train", "count"), Column("Test", "n_test", "count")]
    if "n_positive_test" in folds and files.kind == "binary":
        columns.append(Column("Positive in test", "n_positive_test", "count"))
    metrics = leading_metrics(files.kind, [key for key in files.metrics if key in folds])
    models = {"": "", "baseline_": "Cov. only", **({"voxels_": "Voxels"} if files.summary.voxels else {})}
    undefined: Any = {"digits": 2, "reason": "not defined in this fold"}
    for key in metrics:
        columns += [
            Column(title or describe_metric(key).short, name + key, **undefined) for name, title in models.items()
        ]
    penalty = next((name for name in ("C", "alpha") if name in folds and folds[name].notna().any()), None)
    if penalty:
        folds = folds.assign(penalty=folds[penalty].map("{:.3g}".format, na_action="ignore"))
        columns.append(Column(penalty, "penalty", "text"))
    caption = f"Each test fold.{_more(files, metrics, 'folds.tsv')}"
    return make_table(caption, folds, columns, folded=len(folds) > 25)


def _estimate_row(key: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {key: value.value, f"{key}_n": value.n, **_ends(key, value.interval)}


def table_pooled_sites(files: EvaluationFiles) -> Table | None:
    """Return every metric at known and at unseen sites, pooled over sites; None where there is none."""
    rows, moved = [], recentred(files)
    for key in new_site_metrics(files):
        row = {
            "metric": describe_metric(key).label,
            **_estimate_row("unseen", estimate(files, "unseen", "embedding", key)),
        }
        if "unseen" not in row:
            continue
        row |= _estimate_row("home", estimate(files, "home", "embedding", key))
        row |= _estimate_row("ratio", ratio(files, key)) | _estimate_row("constant", constant_estimate(files, key))
        row["ratio_reason"] = "not computed" if is_error(key) else "a ratio is of errors only"
        for model in ("recentred", "baseline"):
            row |= _estimate_row(model, estimate(files, "unseen", model, key))
        for name in ("ratio", "recentred", "baseline", "constant"):
            row[f"{name}_n"] = None
        rows.append(row)
    columns = [
        Column("Metric", "metric", "heading"),
        Column("Sites it knows", "home", digits=2, interval=True, reason="not computed"),
        Column("Unseen sites", "unseen", digits=2, interval=True),
        Column("Unseen ÷ known", "ratio", digits=2, interval=True),
        *([Column("Recentred (transductive): unseen sites", "recentred", digits=2, interval=True)] if moved else []),
        Column("Covariates only, unseen", "baseline", digits=2, interval=True, reason="no baseline"),
        Column("Constant guess, unseen", "constant", digits=2, interval=True,
               reason="the same guess for everybody puts nobody in order"),
    ]  # fmt: skip
    note = (
        f"Constant guess: {CONSTANT[files.kind]}. Pooled metrics of order, such as correlations and AUC, compare "
        "people of different sites too; site by site they are below."
    )
    caption = f"Known and unseen sites, pooled over sites, with {files.level:.0%} intervals."
    return make_table(caption, rows, columns, note=note) if rows else None


def table_new_sites(files: EvaluationFiles, metric: str) -> Table | None:
    """Return the leading metric site by site, known and unseen, beside the constant guess; None without sites."""
    rows = site_rows(files, metric)
    if rows.empty:
        return None
    beside = [key for key in ("bias", "spearman") if files.kind == "continuous" and key in new_site_metrics(files)]
    for key in beside:
        other = site_rows(files, key).set_index("site")
        for end in ("", "_low", "_high"):
            rows[f"{key}{end}"] = rows["site"].map(other[f"embedding_unseen{end}"])
    known = rows["embedding_home"].where(rows["embedding_home"] > 0)
    sites = files.summary.outlyingness.unseen_by_site if files.summary.outlyingness else []
    outside = {site.site: (site.n_outside or 0) / site.n for site in sites if site.n}
    trained = [f"trained on {n:,.0f}" if pd.notna(n) else "" for n in rows["n_train"]]
    rows = rows.assign(ratio=rows["embedding_unseen"] / known, outside=rows["site"].map(outside), n_detail=trained)
    error = is_error(metric)
    short: Any = {"digits": 2, "reason": "not defined there: see the note of the row"}
    columns = [
        Column("Site", "site", "heading"),
        Column("n", "n", "count"),
        Column("Known", "embedding_home", interval=True, **short),
        Column("Unseen", "embedding_unseen", interval=True, **short),
    ]
    columns += [Column("Unseen ÷ known", "ratio", **short)] if error else []
    columns += (
        [Column("Unseen, recentred (transductive)", "recentred_unseen", interval=True, **short)]
        if recentred(files)
        else []
    )
    columns += [Column("Constant guess", "constant_unseen", **short)] if error else []
    columns += [
        Column(f"{describe_metric(key).short}, unseen", key, signed=key == "bias", interval=True, **short)
        for key in beside
    ]
    columns += [Column("Scans outside, unseen", "outside", "share", 0, reason="not scored")] if outside else []
    columns += [Column("Note", "note", "text")] if (rows["note"] != "").any() else []
    more = set(new_site_metrics(files)) - {metric, *beside}
    return make_table(
        f"{describe_metric(metric).label} site by site: while the site is known, and while it is left out."
        + (" Further metrics, and the covariates alone, are in new_sites.tsv." if more else ""),
        rows,
        columns,
        note=" ".join(f"{describe_metric(key).short}: {describe_metric(key).meaning}" for key in (metric, *beside)),
    )
