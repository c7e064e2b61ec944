"""The same figures for parts of the cohort: per site, per sex, per age band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.fitting import OutOfFold
from neurocontrast.evaluation.metrics import POOLED_ONLY, explain_undefined, explain_value
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.uncertainty import MIN_SITES, bootstrap_metrics, count_resamples
from neurocontrast.findings.finding import Found, Inputs
from neurocontrast.seeds import derive_seed

__all__ = ["age_bands", "site_table", "why_no_interval"]

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
    sites, tested = study.table["site"].fillna(NO_SITE).to_numpy(dtype=object), models["embedding"].tested
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
