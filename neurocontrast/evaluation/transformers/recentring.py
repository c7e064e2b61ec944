"""Features of every site moved to a common centre: of a new site too, from its own rows, which need no label.

That is transductive: what is said of a row depends on the other rows of its site that are at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.transformers.covariates import CovariateEncoder
from neurocontrast.evaluation.transformers.side_columns import Column, SideColumnTransformer, group_names, preserved

__all__ = ["SiteRecentring", "SiteShifts", "fit_site_shifts"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


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
    passthrough : sequence of str or int, default=()
        Columns that are no features and stand unchanged at the end of the output, for a later step.

    Attributes
    ----------
    shifts_ : SiteShifts
        How far each site lies from the common centre; absent with ``site=None``.
    encoder_ : CovariateEncoder
        Makes the preserved covariates into numbers; absent with ``site=None``.
    n_features_in_ : int
        Number of columns of `X`, side columns among them.
    feature_names_in_ : array of str
        Their names, where all of them are text.

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
        "passthrough": ["array-like"],
    }

    def __init__(
        self,
        site: Column | None = None,
        *,
        subject: Column | None = None,
        preserve: Sequence[Column] = (),
        passthrough: Sequence[Column] = (),
    ) -> None:
        self.site = site
        self.subject = subject
        self.preserve = preserve
        self.passthrough = passthrough

    def side_columns(self) -> tuple[Column, ...]:
        """Return the columns that the adjustment reads."""
        return (*(name for name in (self.site, self.subject) if name is not None), *self.preserve)

    def encode(self, side: pd.DataFrame, *, learn: bool) -> tuple[Any, ...]:
        """Return what `estimate` and `adjust` need of side columns; `learn` says to learn first how to read them."""
        if self.site is None:
            return ()
        kept, names = preserved(side, self.preserve), (self.site, self.subject)
        if learn:
            self.encoder_ = CovariateEncoder(add_indicator=False).fit(kept)
        groups = [np.arange(len(side)) if name is None else group_names(side, name, owner=self) for name in names]
        return *groups, self.encoder_.transform(kept)

    def estimate(self, x: Floats, *encoded: Any) -> None:
        """Do what `fit` does, of features (n, n features) and what `encode` returned of their side columns."""
        if encoded:
            self.shifts_ = fit_site_shifts(x, *encoded)

    def adjust(self, x: Floats, *encoded: Any) -> Floats:
        """Do what `transform` does, of features (n, n features) and what `encode` returned of their side columns."""
        return self.shifts_.apply(x, *encoded) if encoded else x
