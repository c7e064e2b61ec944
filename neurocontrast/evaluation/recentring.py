"""Recentring of an evaluation: which covariates it keeps, the target to fit, and what a stored probe needs of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.adjustment import AdjustedDesign
from neurocontrast.evaluation.covariates import choose_covariates
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.transformers.covariates import CovariateEncoder
from neurocontrast.evaluation.transformers.recentring import SiteRecentring, SiteShifts
from neurocontrast.evaluation.transformers.side_columns import SideColumnTransformer

__all__ = ["FEW_SUBJECTS", "RecentredDesign", "Recentring", "SiteShifts", "choose_kept", "learn_recentring"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Columns = list[dict[str, Any]]

FEW_SUBJECTS = 10
"""The mean of a site with fewer subjects is mostly these people, not the site: warned about."""
MIN_STORED_SUBJECTS = 5
"""Shifts of training sites with fewer subjects do not leave the evaluation."""


@dataclass(frozen=True, eq=False)
class RecentredDesign(AdjustedDesign):
    """Matrices of an embedding, adjusted on request, with every site moved to a common centre.

    Attributes
    ----------
    keep : tuple of str
        Columns whose effect on the features may go on to differ between sites; never the target.
    """

    keep: tuple[str, ...] = ()

    def transformers(self) -> list[SideColumnTransformer]:
        """Return the steps, not fitted yet."""
        return [*super().transformers(), _recentring(self.keep)]

    def within_sites(self, target: Target, train: Rows) -> Target:
        """Return the target to fit: numbers without what sites differ in, which recentred features cannot tell.

        Left in, that difference would be noise to the fit and drive the penalty up. Classes stay as they are.
        """
        if target.kind != "continuous":
            return target
        values, recentring = target.values.astype(float), _recentring(self.keep)
        numbers, known = values[train, None], recentring.encode(self.table.iloc[train], learn=True)
        recentring.estimate(numbers, *known)
        values[train] = recentring.adjust(numbers, *known)[:, 0]
        return replace(target, values=values)


def choose_kept(table: pd.DataFrame, settings: EvaluationSettings, *, target: str) -> tuple[str, ...]:
    """Return the covariates in which recentred sites may go on to differ: there, varying, never the target."""
    if settings.recentre == "none":
        return ()
    return choose_covariates(table, settings.recentre_preserve, target=target, sites_held_out=True)[0]


@dataclass(frozen=True, eq=False)
class Recentring:
    """What a stored probe needs to recentre a table: shifts of the training sites, and how covariates are read.

    Attributes
    ----------
    shifts : SiteShifts
        Of training sites with `MIN_STORED_SUBJECTS` subjects or more; of fewer, the mean would be nearly a person.
    columns : list of dict
        A column of the covariates each: ``name``, and the training ``mean`` of a number or the ``level`` of text.
    """

    shifts: SiteShifts
    columns: Columns

    def apply(self, x: npt.NDArray[np.floating], table: pd.DataFrame) -> Floats:
        """Return the features of a table's scans, each of which has a site, without the shifts of their sites.

        A covariate that the table lacks is at its mean, or has no value.
        """
        known = _table_of(self.columns)
        given = table.reindex(columns=known.columns)
        for name in known.select_dtypes("number"):
            given[name] = pd.to_numeric(given[name], errors="coerce")
        covariates = CovariateEncoder(add_indicator=False).fit(known).transform(given)
        return self.shifts.apply(x, list(table["site"]), list(table["subject_id"]), covariates)


def learn_recentring(table: pd.DataFrame, features: npt.NDArray[np.floating], keep: Sequence[str]) -> Recentring:
    """Learn from all scans of a table what a stored probe needs."""
    fitted = _recentring(keep)
    fitted.estimate(np.asarray(features, dtype=np.float64), *fitted.encode(table, learn=True))
    shifts, counts = fitted.shifts_, table.groupby("site")["subject_id"].nunique()
    kept = [place for place, site in enumerate(shifts.sites) if counts[site] >= MIN_STORED_SUBJECTS]
    names = tuple(shifts.sites[place] for place in kept)
    return Recentring(replace(shifts, sites=names, shifts=shifts.shifts[kept]), _describe_columns(fitted))


def _recentring(keep: Sequence[str]) -> SiteRecentring:
    return SiteRecentring("site", subject="subject_id", preserve=tuple(keep))


def _describe_columns(fitted: SiteRecentring) -> Columns:
    """Return how covariates become numbers: JSON-ready."""
    encoder, columns = fitted.encoder_, list[dict[str, Any]]()
    if encoder.numbers_:
        means = zip(encoder.numbers_, encoder.imputer_.statistics_, strict=True)
        columns += [{"name": name, "mean": float(mean)} for name, mean in means]
    if encoder.texts_:
        known = zip(encoder.texts_, encoder.one_hot_.categories_, strict=True)
        columns += [{"name": name, "level": str(level)} for name, levels in known for level in levels]
    return columns


def _table_of(columns: Columns) -> pd.DataFrame:
    """Return the smallest table whose encoder has these columns."""
    found: dict[str, Any] = {}
    for column in columns:
        found.setdefault(column["name"], []).append(column.get("level", column.get("mean")))
    return pd.DataFrame({name: pd.Series(values) for name, values in found.items()})
