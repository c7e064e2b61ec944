"""Features of every site moved to a common centre: of a new site too, from its own scans, which need no label.

That is transductive: what is said of a scan depends on the other scans of its site that are at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.covariates import choose_covariates
from neurocontrast.evaluation.probes import Design
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.table import cell_texts, is_number
from neurocontrast.evaluation.target import Target

__all__ = [
    "FEW_SUBJECTS",
    "RecentredDesign",
    "Recentring",
    "SiteShifts",
    "choose_kept",
    "encode_columns",
    "fit_site_shifts",
    "learn_columns",
    "learn_recentring",
]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Columns = list[dict[str, Any]]

FEW_SUBJECTS = 10
"""The mean of a site with fewer subjects is mostly these people, not the site: warned about."""
MIN_STORED_SUBJECTS = 5
"""Shifts of training sites with fewer subjects do not leave the evaluation."""


@dataclass(frozen=True, eq=False)
class SiteShifts:
    """How far each training site lies from the common centre, and how to tell that of another one.

    Attributes
    ----------
    sites : tuple of str
        Training sites.
    shifts : array (n sites, p)
        Of each from `centre`.
    centre : array (p,)
        Mean of the training people at the mean of their covariates.
    scale : array (p,)
        Standard deviation within sites; infinite where a feature does not vary.
    coefficients : array (q, p)
        Change of the features with each covariate, within sites.
    means : array (q,)
        Of the covariates in training.
    """

    sites: tuple[str, ...]
    shifts: Floats
    centre: Floats
    scale: Floats
    coefficients: Floats
    means: Floats

    def apply(
        self, x: npt.NDArray[np.floating], sites: npt.ArrayLike, subjects: npt.ArrayLike, covariates: Floats
    ) -> Floats:
        """Return scans without the shift of their site: the one that was learned, or that of these scans.

        Parameters
        ----------
        x : array (n, p)
            Features.
        sites, subjects : array of str (n,)
            Of each scan.
        covariates : array (n, q)
            What may go on to differ between sites, as when fitting.
        """
        moved = np.array(x, dtype=np.float64)
        names, owners = np.asarray(sites, dtype=object).astype(str), np.asarray(subjects, dtype=object).astype(str)
        known = dict(zip(self.sites, self.shifts, strict=True))
        for site in np.unique(names):
            rows = names == site
            moved[rows] -= known[site] if site in known else self._own(moved[rows], owners[rows], covariates[rows])
        return moved

    def _own(self, x: Floats, owners: npt.NDArray[np.str_], covariates: Floats) -> Floats:
        people, (means, extra) = _people(np.zeros(len(x), dtype=np.intp), owners, x, covariates)
        away = means - self.centre - (extra - self.means) @ self.coefficients
        return _shrink(away.mean(axis=0), self.scale, len(people))


def fit_site_shifts(x: Floats, sites: npt.ArrayLike, subjects: npt.ArrayLike, covariates: Floats) -> SiteShifts:
    """Learn the shift of each training site, other things being equal.

    Features are regressed on site and covariates by least squares, one row a person and site. Each shift is drawn
    to zero after James and Stein (1961): by 1 / (people × its mean square in standard deviations), so that a site
    of few people, whose mean is mostly theirs, moves less.

    Parameters
    ----------
    x : array (n, p)
        Features.
    sites, subjects : array of str (n,)
        Of each scan.
    covariates : array (n, q)
        What sites may go on to differ in.
    """
    names, codes = np.unique(np.asarray(sites, dtype=object).astype(str), return_inverse=True)
    places, (means, extra) = _people(codes, np.asarray(subjects, dtype=object).astype(str), x, covariates)
    member = np.eye(len(names))[places]
    middle = extra.mean(axis=0)
    solved = np.linalg.lstsq(np.column_stack([member, extra - middle]), means, rcond=None)[0]
    own, coefficients = solved[: len(names)], solved[len(names) :]
    residuals = means - member @ own - (extra - middle) @ coefficients
    n_free = (
        len(means) - len(names) - np.linalg.matrix_rank(extra - middle) if extra.shape[1] else len(means) - len(names)
    )
    scale = np.sqrt((residuals**2).sum(axis=0) / max(1, n_free))
    scale = np.where(scale > 1e-10 * np.maximum(np.abs(means).max(axis=0), 1e-300), scale, np.inf)
    centre, counts = member.mean(axis=0) @ own, member.sum(axis=0)
    shifts = [_shrink(own[code] - centre, scale, int(counts[code])) for code in range(len(names))]
    return SiteShifts(tuple(map(str, names)), np.stack(shifts), centre, scale, coefficients, middle)


@dataclass(frozen=True, eq=False)
class Recentring:
    """What a stored probe needs to recentre a table: shifts of the training sites, and how covariates are read.

    Attributes
    ----------
    shifts : SiteShifts
        Of training sites with `MIN_STORED_SUBJECTS` subjects or more; of fewer, the mean would be nearly a person.
    columns : list of dict
        As `learn_columns` returned them.
    """

    shifts: SiteShifts
    columns: Columns

    def apply(self, x: npt.NDArray[np.floating], table: pd.DataFrame) -> Floats:
        """Return the features of a table's scans, each of which has a site, without the shifts of their sites."""
        covariates = encode_columns(table, self.columns)
        return self.shifts.apply(x, list(table["site"]), list(table["subject_id"]), covariates)


def learn_recentring(table: pd.DataFrame, features: npt.NDArray[np.floating], keep: Sequence[str]) -> Recentring:
    """Learn from all scans of a table what a stored probe needs."""
    columns, sites = learn_columns(table, keep), table["site"].to_numpy(dtype=object)
    x = np.asarray(features, dtype=np.float64)
    shifts = fit_site_shifts(x, list(sites), list(table["subject_id"]), encode_columns(table, columns))
    counts = table.groupby("site")["subject_id"].nunique()
    kept = [place for place, site in enumerate(shifts.sites) if counts[site] >= MIN_STORED_SUBJECTS]
    names = tuple(shifts.sites[place] for place in kept)
    return Recentring(replace(shifts, sites=names, shifts=shifts.shifts[kept]), columns)


@dataclass(frozen=True, eq=False)
class RecentredDesign:
    """Matrices of another design with every site moved to a common centre.

    Training sites by what the training rows say, sites that these do not have by their test rows. No label is
    looked at.

    Attributes
    ----------
    base : callable
        Gives the matrices to recentre.
    table : DataFrame
        Metadata of all scans; each has a site.
    keep : tuple of str
        Columns whose effect on the features may go on to differ between sites; never the target.
    """

    base: Design
    table: pd.DataFrame
    keep: tuple[str, ...] = ()

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the matrices of training and test rows."""
        x_train, x_test = self.base(train, test)
        columns, (sites, subjects) = learn_columns(self.table.iloc[train], self.keep), self._labels()
        covariates = encode_columns(self.table, columns)
        shifts = fit_site_shifts(x_train, sites[train], subjects[train], covariates[train])
        return (
            shifts.apply(x_train, sites[train], subjects[train], covariates[train]),
            shifts.apply(x_test, sites[test], subjects[test], covariates[test]),
        )

    def within_sites(self, target: Target, train: Rows) -> Target:
        """Return the target to fit: numbers without what sites differ in, which recentred features cannot tell.

        Left in, that difference would be noise to the fit and drive the penalty up. Classes stay as they are.
        """
        if target.kind != "continuous":
            return target
        sites, subjects = self._labels()
        covariates = encode_columns(self.table, learn_columns(self.table.iloc[train], self.keep))[train]
        values = target.values.astype(float)
        shifts = fit_site_shifts(values[train, None], sites[train], subjects[train], covariates)
        values[train] = shifts.apply(values[train, None], sites[train], subjects[train], covariates)[:, 0]
        return replace(target, values=values)

    def _labels(self) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
        return self.table["site"].to_numpy(dtype=object), self.table["subject_id"].to_numpy(dtype=object)


def choose_kept(table: pd.DataFrame, settings: EvaluationSettings, *, target: str) -> tuple[str, ...]:
    """Return the covariates in which recentred sites may go on to differ: there, varying, never the target."""
    if settings.recentre == "none":
        return ()
    return choose_covariates(table, settings.recentre_preserve, target=target, sites_held_out=True)[0]


def learn_columns(table: pd.DataFrame, names: Sequence[str]) -> Columns:
    """Return how covariates become numbers, as the training rows have it: JSON-ready.

    A number stays one column, missing values at the training mean; text becomes a column for each value of
    training.
    """
    columns: Columns = []
    for name in names:
        if is_number(table[name]):
            known = table[name].to_numpy(dtype=float)
            known = known[np.isfinite(known)]
            columns.append({"name": name, "mean": float(known.mean()) if len(known) else 0.0})
        else:
            levels = sorted({text for text in cell_texts(table[name]) if text is not None})
            columns += [{"name": name, "level": level} for level in levels]
    return columns


def encode_columns(table: pd.DataFrame, columns: Columns) -> Floats:
    """Return covariates as a matrix (n, q); a column that the table lacks is at its mean, or at no level."""
    found = np.zeros((len(table), len(columns)))
    for place, column in enumerate(columns):
        values: pd.Series | None = table[str(column["name"])] if column["name"] in table else None
        if "level" in column:
            if values is not None:
                found[:, place] = [text == column["level"] for text in cell_texts(values)]
            continue
        numbers = np.full(len(table), np.nan)
        if values is not None:
            numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float)
        found[:, place] = np.where(np.isfinite(numbers), numbers, column["mean"])
    return found


def _people(codes: Rows, owners: npt.NDArray[np.str_], *parts: Floats) -> tuple[Rows, list[Floats]]:
    """Return the site of each person at each site, and the mean of their scans there."""
    pairs = np.unique(owners, return_inverse=True)[1].astype(np.int64) * (int(codes.max()) + 1) + codes
    first, where = np.unique(pairs, return_index=True, return_inverse=True)[1:]
    counts = np.bincount(where)[:, None]
    sums = [np.zeros((len(first), part.shape[1])) for part in parts]
    for total, part in zip(sums, parts, strict=True):
        np.add.at(total, where, part)
    return codes[first], [total / counts for total in sums]


def _shrink(shift: Floats, scale: Floats, n: int) -> Floats:
    varies = np.isfinite(scale)
    size = float(((shift[varies] / scale[varies]) ** 2).mean()) if varies.any() else 0.0
    return shift * (max(0.0, 1 - 1 / (n * size)) if size > 0 else 0.0)
