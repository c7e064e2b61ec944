"""The result in parts: by site, by sex, by age band, by fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.fitting import OutOfFold
from neurocontrast.evaluation.metrics import POOLED_ONLY, explain_undefined, explain_value
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.uncertainty import MIN_SITES, bootstrap_metrics, count_resamples
from neurocontrast.findings.finding import Finding, Found, Inputs
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.result import rivals
from neurocontrast.page.blocks import Block, Column, Section, Table, make_table, note, pictures
from neurocontrast.page.style import BASELINE, INK, Picture, Series, distinct_labels, draw_intervals, tabulate_estimates
from neurocontrast.page.wording import capitalise, leading_metrics, point_estimate
from neurocontrast.seeds import derive_seed

Models = Mapping[str, OutOfFold]
Texts = npt.NDArray[np.object_]
_NO_AGE, _NO_SEX = "(no age)", "(no sex)"


def measure_groups(inputs: Inputs) -> Found:
    """Return the tables of sites and of groups."""
    study, models = inputs.study, inputs.models
    with inputs.progress.task("Sites and groups", 2, "table") as task:
        sites = site_table(study, models)
        task.advance()
        return Found(tables={"sites": sites, "groups": _group_table(study, models)})


def site_table(study: Study, models: Models) -> pd.DataFrame:
    """Return one row a site: counts, pooled out-of-fold metrics with intervals, the baseline's, and a note.

    Intervals resample the subjects of the site; a site with fewer than ``min_site_n`` has none.
    """
    if study.fixed and study.table["site"].isna().all():  # all images again, under another name
        return pd.DataFrame({"site": [], "n": [], "note": []})
    sites, tested = study.sites, models["embedding"].tested
    return pd.DataFrame(
        [
            {"site": site} | _describe(study, models, sites == site, study.subjects, "site-intervals", site)
            for site in sorted(set(sites[tested]))
        ]
    )


def _group_table(study: Study, models: Models) -> pd.DataFrame:
    """Return one row a sex and one an age band that has scans, with the columns of `site_table`.

    Intervals resample the units of the whole cohort. The target itself forms no groups, nor does an empty
    column; scans without a value form a group of their own.
    """
    table, target, rows = study.table, study.target, list[dict[str, Any]]()
    sexes = table["sex"].fillna(_NO_SEX).to_numpy(dtype=object)
    groupings = {"sex": (sexes, sorted(set(sexes), key=lambda name: (name == _NO_SEX, name)))}
    if study.settings.age_bands:
        groupings["age_band"] = age_bands(table["age"].to_numpy(dtype=float), study.settings.age_bands)
    for group_by, (labels, order) in groupings.items():
        if set(labels) <= {_NO_AGE, _NO_SEX} or (target.name == group_by and target.kind != "continuous"):
            continue
        for group in (name for name in order if name in set(labels[models["embedding"].tested])):
            key = ("group-intervals", group_by, group)
            figures = _describe(study, models, labels == group, study.units.labels, *key)
            rows.append({"group_by": group_by, "group": group} | figures)
    return pd.DataFrame(rows or {"group_by": [], "group": [], "n": [], "note": []})


def age_bands(ages: npt.NDArray[np.float64], edges: Sequence[float]) -> tuple[Texts, list[str]]:
    """Return the band of each age, and the names of all bands from young to old.

    A band holds its lower edge and not its upper one.

    Examples
    --------
    >>> import numpy as np
    >>> age_bands(np.array([17.0, 18.0, 80.0]), (18, 60))[0].tolist()
    ['under 18', '18 to <60', '60 and over']
    """
    shown = [f"{edge:g}" for edge in edges]
    between = [f"{low} to <{high}" for low, high in pairwise(shown)]
    names = [f"under {shown[0]}", *between, f"{shown[-1]} and over"]
    bands = np.array(names, dtype=object)[np.searchsorted(edges, ages, side="right")]
    return np.where(np.isfinite(ages), bands, _NO_AGE), [*names, _NO_AGE]


def _describe(
    study: Study, models: Models, belongs: npt.NDArray[np.bool_], units: Texts, key: str, *keys: str
) -> dict[str, Any]:
    """Return counts, metrics with intervals over `units`, those of the baselines and a note; keys name the seed."""
    target, settings = study.target, study.settings
    tested = models["embedding"].tested
    members = tested[belongs[tested]]
    row: dict[str, Any] = {"n": len(members)}
    if target.kind != "continuous":
        counts = np.bincount(target.values[members], minlength=len(target.classes))
        row |= {f"n_{name}": int(count) for name, count in zip(target.classes, counts, strict=True)}
    names = [name for name in target.metric_names if name not in POOLED_ONLY]
    too_few = why_no_interval(study, members, units)
    seed = derive_seed(key, settings.seed, *keys)
    for model, predictions in models.items():
        embedding = model == "embedding"
        n_bootstraps = count_resamples(settings.n_bootstraps, len(members)) if embedding and too_few is None else 0
        drawn = bootstrap_metrics(
            target, {model: predictions}, units, n_bootstraps=n_bootstraps, seed=seed, rows=members, names=names
        )[model]
        for name in names:
            figure = drawn[name].figure(level=settings.confidence_level)
            row[name if embedding else f"{model}_{name}"] = figure["value"]
            if embedding:
                row |= {f"{name}_low": figure["low"], f"{name}_high": figure["high"]}
    reason = explain_undefined(target.kind, target.values[members], target.classes)
    if reason is None and row.get("calibration_slope", 0.0) is None:
        reason = f"calibration slope: {explain_value('calibration_slope', None)}"
    row["note"] = "; ".join(text for text in (reason, too_few) if text) or None
    return row


def why_no_interval(study: Study, members: npt.NDArray[np.intp], units: Texts) -> str | None:
    """Return why scans have no interval: too few subjects, or too few sites where sites are resampled."""
    n, least = len(set(study.subjects[members])), study.settings.min_site_n
    if n < least:
        return f"fewer than {least} subjects ({n}): no interval"
    n = len(set(units[members]))
    by_site = study.units.name == "site" and units is study.units.labels
    return f"fewer than {MIN_SITES} sites ({n}): no interval" if by_site and n < MIN_SITES else None


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


def show_sites(files: EvaluationFolder) -> Section | None:
    """Return forest plots and a table of the sites; None with fewer than two."""
    blocks = site_blocks(files)
    return Section("sites", "Site by site", blocks) if blocks else None


def site_blocks(files: EvaluationFolder, *, file: str = "sites.tsv") -> list[Block]:
    """Return the forest plots of the two leading metrics at each site, the largest first, and the table.

    One site, or none that is known, has no blocks: its figures are those of everybody.
    """
    table = files.sites
    if len(table) < 2:
        return []
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


SITES = Finding("sites", show_sites, measure_groups, of=("scans",))
GROUPS = Finding("groups", show_groups, of=("scans",))
FOLDS = Finding("folds", show_folds)
