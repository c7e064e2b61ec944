"""Features of every site moved to a common centre: of a new site too, from its own rows, which need no label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.transformers.covariates import Column, CovariateEncoder, SideColumnTransformer

__all__ = ["ARRAYS", "SiteRecentring", "describe_recentring", "recentre_table", "restore_recentring"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

ARRAYS = {"shifts": "shifts_", "centre": "centre_", "scale": "scale_", "coefficients": "coef_", "means": "means_"}
"""Attributes that a stored probe keeps, by the name of their array."""


class SiteRecentring(SideColumnTransformer):
    """Move the features of every site to a common centre, a site that `fit` has not seen included.

    Sites of `fit` are moved by what was learned of them, other sites by the mean of their own rows in `transform`,
    which needs no label but is transductive: a row's result depends on the other rows of its site that are given with
    it, so transform all rows of a new site at once. Any true difference between sites in what is predicted is lost,
    unless a preserved covariate explains it.

    Parameters
    ----------
    site : str or int, default=None
        Column of the site. With None all rows are of one site, and the features stay as they are.
    subject : str or int, default=None
        Column of the person, whose scans at a site count once together. With None each row is a person.
    preserve : sequence of str or int, default=()
        Covariates in which sites may go on to differ, such as age and sex. Wherever sites differ in age, age belongs
        here, unless it is what is to be predicted: without, the difference in age is taken out with the site.

    Attributes
    ----------
    sites_, shifts_ : array of str, array (n sites, p)
        How far each site lies from the common centre; this and what follows is absent with ``site=None``.
    centre_, scale_ : array (p,)
        Mean of the people at the mean of their covariates; standard deviation within sites, infinite where a feature
        does not vary.
    coef_, means_ : array (q, p), array (q,)
        Change of the features with each covariate within sites, and the means of the covariates.
    encoder_ : CovariateEncoder
        Makes the preserved covariates into numbers.

    References
    ----------
    James & Stein (1961), Estimation with quadratic loss: shifts of small sites are drawn to zero.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from neurocontrast.evaluation import SiteRecentring
    >>> generator = np.random.default_rng(0)
    >>> table = pd.DataFrame(generator.normal(size=(60, 3)), columns=["a", "b", "c"])
    >>> table["site"] = ["london", "paris", "rome"] * 20
    >>> table.loc[table["site"] == "rome", ["a", "b", "c"]] += 5
    >>> rome = table["site"] == "rome"
    >>> recentring = SiteRecentring("site").fit(table[~rome])
    >>> bool(np.abs(recentring.transform(table[rome]).mean(axis=0)).max() < 0.5)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "site": [str, int, None],
        "subject": [str, int, None],
        "preserve": ["array-like"],
    }

    def __init__(
        self, site: Column | None = None, *, subject: Column | None = None, preserve: Sequence[Column] = ()
    ) -> None:
        self.site = site
        self.subject = subject
        self.preserve = preserve

    def side_columns(self) -> tuple[Column, ...]:
        """Return the columns that the adjustment reads."""
        return (*(name for name in (self.site, self.subject) if name is not None), *self.preserve)

    def estimate(self, x: Floats, side: pd.DataFrame) -> None:
        """Learn the shift of each site, other things being equal.

        Features are regressed on site and covariates by least squares, one row a person and site. Each shift is drawn
        to zero by 1 / (people × its mean square in standard deviations): a site of few people moves less.
        """
        if self.site is None:
            return
        covariates = self.learn_covariates(side, self.preserve, add_indicator=False)
        self.sites_, codes = np.unique(self.name_groups(side, self.site), return_inverse=True)
        places, means, extra = _people(codes, self._name_people(side), x, covariates)
        self.means_ = extra.mean(axis=0)
        member, extra = np.eye(len(self.sites_))[places], extra - self.means_
        solved = np.linalg.lstsq(np.column_stack([member, extra]), means, rcond=None)[0]
        own, self.coef_ = solved[: len(self.sites_)], solved[len(self.sites_) :]
        residuals = means - member @ own - extra @ self.coef_
        rank = int(np.linalg.matrix_rank(extra)) if extra.shape[1] else 0
        scale = np.sqrt((residuals**2).sum(axis=0) / max(1, len(means) - len(self.sites_) - rank))
        self.scale_ = np.where(scale > 1e-10 * np.maximum(np.abs(means).max(axis=0), 1e-300), scale, np.inf)
        self.centre_ = member.mean(axis=0) @ own
        counts = member.sum(axis=0)
        self.shifts_ = np.stack([_shrink(*each, self.scale_) for each in zip(own - self.centre_, counts, strict=True)])

    def adjust(self, x: Floats, side: pd.DataFrame) -> Floats:
        """Return scans without the shift of their site: the one that was learned, or that of these scans."""
        if self.site is None:
            return x
        sites, people = self.name_groups(side, self.site), self._name_people(side)
        covariates = self.encode_covariates(side, self.preserve)
        moved, known = x.copy(), dict(zip(self.sites_, self.shifts_, strict=True))
        for site in np.unique(sites):
            rows = sites == site
            moved[rows] -= known[site] if site in known else self._own(x[rows], people[rows], covariates[rows])
        return moved

    def _name_people(self, side: pd.DataFrame) -> npt.NDArray[np.str_]:
        return np.arange(len(side)).astype(str) if self.subject is None else self.name_groups(side, self.subject)

    def _own(self, x: Floats, people: npt.NDArray[np.str_], covariates: Floats) -> Floats:
        """Return the shift of one site from its own scans."""
        places, means, extra = _people(np.zeros(len(x), dtype=np.intp), people, x, covariates)
        away = means - self.centre_ - (extra - self.means_) @ self.coef_
        return _shrink(away.mean(axis=0), len(places), self.scale_)


def _people(codes: Rows, people: npt.NDArray[np.str_], x: Floats, covariates: Floats) -> tuple[Rows, Floats, Floats]:
    """Return the site of each person at each site, and the means of their scans and covariates there."""
    pairs = np.unique(people, return_inverse=True)[1].astype(np.int64) * (int(codes.max()) + 1) + codes
    first, where = np.unique(pairs, return_index=True, return_inverse=True)[1:]
    sums = [np.zeros((len(first), part.shape[1])) for part in (x, covariates)]
    for total, part in zip(sums, (x, covariates), strict=True):
        np.add.at(total, where, part)
    counts = np.bincount(where)[:, None]
    return codes[first], sums[0] / counts, sums[1] / counts


def _shrink(shift: Floats, n: float, scale: Floats) -> Floats:
    varies = np.isfinite(scale)
    size = float(((shift[varies] / scale[varies]) ** 2).mean()) if varies.any() else 0.0
    return shift * (max(0.0, 1 - 1 / (n * size)) if size > 0 else 0.0)


def recentre_table(recentring: SiteRecentring, x: npt.NDArray[np.floating], table: pd.DataFrame) -> Floats:
    """Return the features of a table's scans without the shifts of their sites; absent covariates are at their mean."""
    given = table.reindex(columns=["site", "subject_id", *recentring.preserve])
    for name in recentring.encoder_.numbers_:
        given[name] = pd.to_numeric(given[name], errors="coerce")
    return recentring.adjust(np.asarray(x, dtype=np.float64), given)


def describe_recentring(recentring: SiteRecentring) -> list[dict[str, Any]]:
    """Return how covariates become numbers: for each ``name`` the ``mean`` of a number, or a ``level`` of text."""
    encoder, columns = recentring.encoder_, list[dict[str, Any]]()
    if encoder.numbers_:
        means = zip(encoder.numbers_, encoder.imputer_.statistics_, strict=True)
        columns += [{"name": name, "mean": float(mean)} for name, mean in means]
    if encoder.texts_:
        known = zip(encoder.texts_, encoder.one_hot_.categories_, strict=True)
        columns += [{"name": name, "level": str(level)} for name, levels in known for level in levels]
    return columns


def restore_recentring(
    sites: Sequence[str], arrays: Mapping[str, Floats], columns: Sequence[Mapping[str, Any]]
) -> SiteRecentring:
    """Return the fitted transformer of which `ARRAYS` and `describe_recentring` were stored."""
    values: dict[str, list[Any]] = {}
    for column in columns:
        values.setdefault(column["name"], []).append(column.get("level", column.get("mean")))
    smallest = pd.DataFrame({name: pd.Series(found) for name, found in values.items()})
    recentring = SiteRecentring("site", subject="subject_id", preserve=tuple(values))
    recentring.encoder_ = CovariateEncoder(add_indicator=False).fit(smallest)
    recentring.sites_ = np.array(list(sites), dtype=str)
    for name, attribute in ARRAYS.items():
        setattr(recentring, attribute, arrays[name])
    return recentring
