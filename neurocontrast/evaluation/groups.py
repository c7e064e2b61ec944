"""The same figures for parts of the cohort: per site, per sex, per age band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.intervals import Resamples
from neurocontrast.evaluation.metrics import POOLED_ONLY, explain_undefined, explain_value, finite_or_none
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.table import NO_SITE
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import bootstrap_metrics, pooled_metrics
from neurocontrast.evaluation.units import MIN_SITES, Units
from neurocontrast.seeds import derive_seed

__all__ = ["age_bands", "group_table", "site_table"]

Rows = npt.NDArray[np.intp]


def site_table(
    table: pd.DataFrame,
    target: Target,
    models: Mapping[str, OutOfFold],
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
) -> pd.DataFrame:
    """Return one row a site: counts, pooled out-of-fold metrics with intervals, the baseline's, and a note.

    Intervals resample the subjects of the site; a site with fewer than ``min_site_n`` has none.
    """
    part = _Part(target, models, subjects, Units("subject", subjects, len(set(subjects))), settings)
    if settings.split_column is not None and table["site"].isna().all():  # all images again, under another name
        return pd.DataFrame({"site": [], "n": [], "note": []})
    sites = table["site"].fillna(NO_SITE).to_numpy(dtype=object)
    names = sorted(set(sites[part.tested]))
    return pd.DataFrame([{"site": site} | part.describe(sites == site, key=("site-intervals", site)) for site in names])


def group_table(
    table: pd.DataFrame,
    target: Target,
    models: Mapping[str, OutOfFold],
    subjects: npt.NDArray[np.object_],
    units: Units,
    settings: EvaluationSettings,
) -> pd.DataFrame:
    """Return one row a sex and one an age band that has scans, with what `site_table` gives a site.

    Intervals resample what those of the whole cohort resample. The target itself forms no
    groups, nor does a column that is empty; scans without a value form a group of their own.
    """
    part = _Part(target, models, subjects, units, settings)
    rows: list[dict[str, Any]] = []
    for group_by, labels, order in _groupings(table, settings.age_bands):
        known = {label for label in labels if not label.startswith("(")}
        if not known or (target.name == group_by and target.kind != "continuous"):
            continue
        for group in (name for name in order if name in set(labels[part.tested])):
            figures = part.describe(labels == group, key=("group-intervals", group_by, group))
            rows.append({"group_by": group_by, "group": group} | figures)
    return pd.DataFrame(rows if rows else {"group_by": [], "group": [], "n": [], "note": []})


def age_bands(ages: npt.NDArray[np.float64], edges: Sequence[float]) -> tuple[npt.NDArray[np.object_], list[str]]:
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


_NO_AGE, _NO_SEX = "(no age)", "(no sex)"


def _groupings(table: pd.DataFrame, edges: Sequence[float]) -> list[tuple[str, npt.NDArray[np.object_], list[str]]]:
    sexes = table["sex"].fillna(_NO_SEX).to_numpy(dtype=object)
    found = [("sex", sexes, sorted(set(sexes), key=lambda name: (name == _NO_SEX, name)))]
    if edges:
        found.append(("age_band", *age_bands(table["age"].to_numpy(dtype=float), edges)))
    return found


@dataclass(frozen=True)
class _Part:
    """What the figures of any part of a cohort are made from."""

    target: Target
    models: Mapping[str, OutOfFold]
    subjects: npt.NDArray[np.object_]
    units: Units
    settings: EvaluationSettings

    @property
    def tested(self) -> Rows:
        return self.models["embedding"].tested

    def describe(
        self, belongs: npt.NDArray[np.bool_], *, key: tuple[str, str] | tuple[str, str, str]
    ) -> dict[str, Any]:
        """Return counts, metrics with intervals, those of the baselines and a note; `key` names the randomness."""
        target, members = self.target, self.tested[belongs[self.tested]]
        row: dict[str, Any] = {"n": len(members)}
        if target.kind != "continuous":
            counts = np.bincount(target.values[members], minlength=len(target.classes))
            row |= {f"n_{name}": int(count) for name, count in zip(target.classes, counts, strict=True)}
        names = [name for name in target.metric_names if name not in POOLED_ONLY]
        too_few = self._too_few(members)
        drawn: dict[str, Resamples] = {}
        if self.settings.n_bootstraps and too_few is None:
            drawn = bootstrap_metrics(
                target,
                {"embedding": self.models["embedding"]},
                self.units.labels,
                n_bootstraps=self.settings.n_bootstraps,
                seed=derive_seed(key[0], self.settings.seed, *key[1:]),
                rows=members,
                names=names,
            )["embedding"]
        pooled = {name: pooled_metrics(target, model, rows=members) for name, model in self.models.items()}
        for name in names:
            value = finite_or_none(pooled["embedding"][name][0])
            interval = None
            if value is not None and name in drawn:
                interval = drawn[name].interval(level=self.settings.confidence_level)
            low, high = interval or (None, None)
            row |= {name: value, f"{name}_low": low, f"{name}_high": high}
        for model in (model for model in self.models if model != "embedding"):
            row |= {f"{model}_{name}": finite_or_none(pooled[model][name][0]) for name in names}
        reason = explain_undefined(target.kind, target.values[members], target.classes)
        if reason is None and row.get("calibration_slope", 0.0) is None:
            reason = f"calibration slope: {explain_value('calibration_slope', None)}"
        row["note"] = "; ".join(text for text in (reason, too_few) if text) or None
        return row

    def _too_few(self, members: Rows) -> str | None:
        n, least = len(set(self.subjects[members])), self.settings.min_site_n
        if n < least:
            return f"fewer than {least} subjects ({n}): no interval"
        n = len(set(self.units.labels[members]))
        return (
            f"fewer than {MIN_SITES} sites ({n}): no interval" if self.units.name == "site" and n < MIN_SITES else None
        )
