"""The result in parts: site by site, by sex and age, and fold by fold."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.metrics import POOLED_ONLY, explain_undefined, explain_value
from neurocontrast.evaluation.models import OutOfFold
from neurocontrast.evaluation.rows import Rows
from neurocontrast.evaluation.study import Study
from neurocontrast.evaluation.uncertainty import (
    MIN_SITES,
    Resamples,
    bootstrap_metrics,
    count_resamples,
)
from neurocontrast.findings.finding import Finding, Found, Inputs
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.prose import section
from neurocontrast.findings.rivals import rivals
from neurocontrast.page.blocks import Block, Column, Section, Table, make_table, note, pictures
from neurocontrast.page.style import (
    BASELINE,
    INK,
    Picture,
    Series,
    distinct_labels,
    draw_intervals,
    tabulate_estimates,
)
from neurocontrast.page.wording import leading_metrics, point_estimate
from neurocontrast.seeds import derive_seed

Models = dict[str, OutOfFold]
Names = npt.NDArray[np.object_]

AGE_BANDS = (18.0, 30.0, 45.0, 60.0, 75.0)
"""Edges of the age bands in years; a band holds its lower edge."""
_UNKNOWN = "not stated"


def measure_sites(inputs: Inputs) -> Found:
    """Return the table of sites."""
    return Found(tables={"sites": site_table(inputs.study, inputs.models)})


def site_table(study: Study, models: Models) -> pd.DataFrame:
    """Return one row a site: counts, pooled out-of-fold metrics with intervals, the baseline's, and a note.

    Intervals resample the subjects of the site; a site with fewer than ``min_site_n`` has none.
    """
    if study.fixed and study.table["site"].isna().all():  # all images again, under another name
        return pd.DataFrame({"site": [], "n": [], "note": []})
    sites = study.sites
    tested = models["embedding"].tested
    names = sorted(set(sites[tested]))
    return pd.DataFrame(
        [
            {"site": name}
            | describe_part(study, models, tested[sites[tested] == name], "site-intervals", name)
            for name in names
        ]
    )


def describe_part(
    study: Study, models: Models, members: Rows, *keys: str, units: Names | None = None
) -> dict[str, Any]:
    """Return counts, metrics with intervals, those of the baselines and a note of some tested scans.

    The intervals resample `units`, by default the subjects, with a seed derived from `keys`.
    """
    target = study.target
    row = dict[str, Any](n=len(members))
    if target.kind != "continuous":
        counts = np.bincount(target.values[members], minlength=len(target.classes))
        row |= {f"n_{name}": int(count) for name, count in zip(target.classes, counts, strict=True)}
    names = [name for name in target.metric_names if name not in POOLED_ONLY]
    units = study.subjects if units is None else units
    too_few = why_no_interval(study, members, units)
    for model, predictions in models.items():
        bounded = model == "embedding" and too_few is None
        drawn = resample(
            study, {model: predictions}, members, names, units, *keys, bounded=bounded
        )[model]
        found = tabulate_figures(study, drawn)
        row |= found if model == "embedding" else {f"{model}_{name}": found[name] for name in names}
    reason = explain_undefined(target.kind, target.values[members], target.classes)
    if reason is None and row.get("calibration_slope", 0.0) is None:
        reason = f"calibration slope: {explain_value('calibration_slope', None)}"
    row["note"] = "; ".join(filter(None, (reason, too_few))) or None
    return row


def resample(
    study: Study,
    models: Models,
    members: Rows,
    names: Sequence[str],
    units: Names,
    *keys: str,
    bounded: bool = True,
) -> dict[str, dict[str, Resamples]]:
    """Return metrics of some tested scans by every model, with the resamples of their intervals where `bounded`.

    Calls with the same scans, `units` and `keys`, from which the seed is derived, share the
    resamples.
    """
    n = count_resamples(study.settings.n_bootstraps, len(members)) if bounded else 0
    seed = derive_seed(keys[0], study.settings.seed, *keys[1:])
    return bootstrap_metrics(
        study.target, models, units, n_bootstraps=n, seed=seed, rows=members, names=names
    )


def tabulate_figures(
    study: Study, drawn: Mapping[str, Resamples], *, prefix: str = ""
) -> dict[str, float | None]:
    """Return metrics as columns of a row: ``name``, ``name_low`` and ``name_high``."""
    figures = {
        prefix + name: each.figure(level=study.settings.confidence_level)
        for name, each in drawn.items()
    }
    ends = {"value": "", "low": "_low", "high": "_high"}
    return {
        name + end: figure[key] for name, figure in figures.items() for key, end in ends.items()
    }


def why_no_interval(study: Study, members: Rows, units: Names) -> str | None:
    """Return why some scans have no interval: too few subjects, or too few sites where sites are resampled."""
    n = len(set(study.subjects[members]))
    least = study.settings.min_site_n
    if n < least:
        return f"fewer than {least} subjects ({n}): no interval"
    n = len(set(units[members]))
    of_sites = study.units.name == "site" and units is study.units.labels
    return (
        f"fewer than {MIN_SITES} sites ({n}): no interval" if of_sites and n < MIN_SITES else None
    )


def measure_groups(inputs: Inputs) -> Found:
    """Return one row a sex and one an age band that has scans, with the columns of ``sites.tsv``.

    Intervals resample the units of the whole cohort. The target itself forms no groups, nor does an
    empty column.
    """
    study = inputs.study
    tested = inputs.models["embedding"].tested
    sexes = study.table["sex"].fillna(_UNKNOWN).to_numpy(dtype=object)
    bands, order = age_bands(study.table["age"].to_numpy(dtype=float))
    rows = []
    for group_by, labels, names in (
        ("sex", sexes, [*sorted(set(sexes) - {_UNKNOWN}), _UNKNOWN]),
        ("age", bands, order),
    ):
        found = set(labels[tested])
        if found == {_UNKNOWN} or (
            study.target.name == group_by and study.target.kind != "continuous"
        ):
            continue
        for group in (name for name in names if name in found):
            keys = ("group-intervals", group_by, group)
            members = tested[labels[tested] == group]
            described = describe_part(
                study, inputs.models, members, *keys, units=study.units.labels
            )
            rows.append({"group_by": group_by, "group": group} | described)
    return Found(tables={"groups": pd.DataFrame(rows or {"group_by": [], "group": [], "n": []})})


def age_bands(ages: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.object_], list[str]]:
    """Return the band of each age, and the names of all bands from young to old.

    Examples
    --------
    >>> import numpy as np
    >>> age_bands(np.array([17.0, 18.0, 80.0]))[0].tolist()
    ['under 18', '18 to <30', '75 and over']
    """
    shown = [f"{edge:g}" for edge in AGE_BANDS]
    between = [f"{low} to <{high}" for low, high in pairwise(shown)]
    names = [f"under {shown[0]}", *between, f"{shown[-1]} and over"]
    bands = pd.Series(
        pd.cut(ages, [-np.inf, *AGE_BANDS, np.inf], right=False, labels=names), dtype=object
    )
    return bands.fillna(_UNKNOWN).to_numpy(), [*names, _UNKNOWN]


_SECOND = {"binary": "balanced_accuracy", "multiclass": "auc", "continuous": "r2"}


def show_sites(files: EvaluationFolder) -> Section | None:
    """Return forest plots and a table of the sites; None with fewer than two."""
    blocks = site_blocks(files)
    return Section("sites", "Site by site", blocks) if blocks else None


def site_blocks(files: EvaluationFolder, *, file: str = "sites.tsv") -> list[Block]:
    """Return the forest plots of the two leading metrics at each site, the largest first, and the table.

    One site, or none that is known, has no blocks: its figures are those of everybody.
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
        table_parts(files, sites, "site", "at each site", classes=classes, file=file),
    ]


def _draw_forest(files: EvaluationFolder, sites: pd.DataFrame, metric: str) -> Picture | None:
    """Draw a metric by site, everybody in the last row; None if it has no value anywhere."""
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
    about = files.describe(metric)
    names = distinct_labels(rows["site"], length=24)
    return draw_intervals(
        f"sites_{metric}",
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
        f"{about.label} at each site, with {files.percent} bootstrap intervals.",
        note="Small groups scatter widely by chance alone: read the interval, not the point.",
        xlabel=about.label,
        reference=(files.chance(metric), "Chance"),
        limits=about.limits,
        total=True,
        numbers=rows,
    )


def table_parts(
    files: EvaluationFolder,
    parts: pd.DataFrame,
    column: str,
    where: str,
    *,
    classes: Sequence[str | None],
    file: str,
) -> Table:
    """Return the metrics of each part of the cohort with their intervals; the note says why one is absent.

    `column` names the part, `where` says it in running text, `classes` are those whose scans are
    counted.
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
    caption = f"Metrics {where}, with their {files.percent} intervals. Cov. only: the baseline of covariates."
    return make_table(f"{caption} All metrics are in {file}.", parts, columns)


def show_groups(files: EvaluationFolder) -> Section | None:
    """Return a table of the sexes and one of the age bands; None without groups."""
    groups = files.table("groups", "group_by", "group", "n", text=("group_by", "group"))
    if groups is None:
        return None
    tables = [
        table_parts(
            files,
            part.reset_index(drop=True),
            "group",
            f"by {name}",
            classes=files.classes,
            file="groups.tsv",
        )
        for name, part in groups.groupby("group_by", sort=False)
    ]
    return section("groups", tables)


def show_folds(files: EvaluationFolder) -> Section | None:
    """Return the table of folds; None for one test set."""
    table = None if files.fixed or files.folds.empty else table_folds(files)
    return Section("folds", "Fold by fold", [table]) if table else None


def table_folds(files: EvaluationFolder) -> Table:
    """Return the folds: their sizes, and the metrics of embedding and baselines."""
    folds = files.folds
    penalty = next(
        (name for name in ("C", "alpha") if name in folds and folds[name].notna().any()), ""
    )
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
            Column(
                title or files.describe(key).short,
                name + key,
                digits=2,
                reason="not defined in this fold",
            )
            for key in metrics
            for name, title in models.items()
        ),
        Column(penalty, "penalty", "text") if penalty else None,
    )
    return make_table(
        "Each test fold. All metrics are in folds.tsv.", folds, columns, folded=len(folds) > 25
    )


SITES = Finding("sites", show_sites, measure_sites, of=("scans",))
GROUPS = Finding("groups", show_groups, measure_groups, of=("scans",))
FOLDS = Finding("folds", show_folds)
