"""Differences of sites taken out of features: by ComBat, or by moving every site, a new one too, to a common centre."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils._param_validation import StrOptions

from neurocontrast.evaluation.rows import Floats, Rows
from neurocontrast.evaluation.transformers.covariates import Column, SideColumnTransformer

MIN_SITE_SCANS = 3
"""A site with fewer training scans has no spread that could be estimated."""
MAX_ITERATIONS = 1000
TOLERANCE = 1e-10


# combatlearn (2.3) has fit and transform with covariates too, but needs umap-learn, plotly and seaborn; neuroHarmonize
# (2.5) has functions only, and neither leaves rows of an unknown site as they are.
class ComBat(SideColumnTransformer):
    """Harmonise features between sites by ComBat, estimated on the training rows.

    The mean and the spread of each site are estimated with empirical Bayes and taken out; what the preserved
    covariates explain stays. Rows of a site that `fit` has not seen cannot be harmonised: `SiteRecentring` is for them.

    Parameters
    ----------
    site : str or int, default=None
        Column of the site. With None all rows are of one site, and the features stay as they are.
    preserve : sequence of str or int, default=()
        Covariates whose effect on the features stays. Wherever sites differ in age, age belongs here, or ComBat takes
        the difference in age out with the site. Never what is to be predicted.
    handle_unknown : {"error", "ignore"}, default="error"
        What to do with rows of a site that has fewer than three training rows: raise, or leave them as they are.

    Attributes
    ----------
    sites_, shift_, spread_ : array (n sites,), (n sites, p), (n sites, p)
        Sites, posterior shift in units of `scale_`, and posterior ratio of the variance.
    mean_, coef_, scale_ : array (p,), (q, p), (p,)
        Grand mean, effects of the preserved covariates, and pooled standard deviation within sites.

    References
    ----------
    Johnson, Li & Rabinovic (2007), Biostatistics 8:118. Fortin et al. (2018), NeuroImage 167:104.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from neurocontrast.evaluation import ComBat
    >>> generator = np.random.default_rng(0)
    >>> table = pd.DataFrame(generator.normal(size=(40, 3)), columns=["a", "b", "c"])
    >>> table["site"], table["age"] = ["london", "paris"] * 20, generator.uniform(20, 80, 40)
    >>> table.loc[table["site"] == "paris", ["a", "b", "c"]] += 5
    >>> harmonised = ComBat("site", preserve=["age"]).set_output(transform="pandas").fit_transform(table)
    >>> bool(harmonised.groupby(table["site"]).mean().diff().loc["paris"].abs().max() < 0.5)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "site": [str, int, None],
        "preserve": ["array-like"],
        "handle_unknown": [StrOptions({"error", "ignore"})],
    }
    side_parameters = ("site", "preserve")

    def __init__(
        self, site: Column | None = None, *, preserve: Sequence[Column] = (), handle_unknown: str = "error"
    ) -> None:
        self.site = site
        self.preserve = preserve
        self.handle_unknown = handle_unknown

    def estimate(self, x: Floats, side: pd.DataFrame) -> None:
        """Estimate shift and spread of each site in every feature, drawn towards the site's average over features."""
        if self.site is None:
            return
        sites, covariates = self.name_groups(side, self.site), self.learn_covariates(side, self.preserve)
        places, counts = np.unique(sites, return_counts=True)
        self.sites_ = places[counts >= MIN_SITE_SCANS]
        self._check_known(sites)
        kept = np.isin(sites, self.sites_)
        x, extra, codes = x[kept], covariates[kept], np.searchsorted(self.sites_, sites[kept])
        if not len(x):
            return
        member = np.eye(len(self.sites_))[codes]
        centre = extra.mean(axis=0)  # the constant goes to the sites, whatever the covariates' units
        solved = np.linalg.lstsq(np.column_stack([member, extra - centre]), x, rcond=None)[0]
        own, self.coef_ = solved[: len(self.sites_)], solved[len(self.sites_) :]
        residuals = x - member @ own - (extra - centre) @ self.coef_
        scale = np.sqrt((residuals**2).mean(axis=0))
        varies = scale > 1e-10 * np.maximum(np.abs(x).max(axis=0), 1e-300)
        self.scale_ = np.where(varies, scale, 1.0)
        self.mean_ = member.mean(axis=0) @ own - centre @ self.coef_
        standard = (x - self.mean_ - extra @ self.coef_) / self.scale_
        # What is constant within sites has no spread to share with the others: its plain shift is taken out.
        self.shift_ = np.stack([standard[codes == code].mean(axis=0) for code in range(len(self.sites_))])
        self.spread_ = np.ones_like(self.shift_)
        for code in range(len(self.sites_)) if len(self.sites_) > 1 else ():
            self.shift_[code, varies], self.spread_[code, varies] = _posterior(standard[codes == code][:, varies])

    def adjust(self, x: Floats, side: pd.DataFrame) -> Floats:
        """Return scans as if of the average site; those of a site that was not learned stay as they are."""
        if self.site is None:
            return x
        sites, covariates = self.name_groups(side, self.site), self.encode_covariates(side, self.preserve)
        self._check_known(sites)
        known, adjusted = np.isin(sites, self.sites_), x.copy()
        if not known.any():
            return adjusted
        places, expected = np.searchsorted(self.sites_, sites[known]), self.mean_ + covariates[known] @ self.coef_
        standard = (x[known] - expected) / self.scale_ - self.shift_[places]
        adjusted[known] = standard / np.sqrt(self.spread_[places]) * self.scale_ + expected
        return adjusted

    def _check_known(self, sites: npt.NDArray[np.str_]) -> None:
        unknown = sorted(set(sites) - set(self.sites_))
        if unknown and self.handle_unknown == "error":
            raise ValueError(
                f"ComBat: site '{unknown[0]}' has fewer than {MIN_SITE_SCANS} rows in fit, and cannot be harmonised "
                f"({len(unknown)} such sites). Leave these rows out, set handle_unknown='ignore' to keep them as they "
                "are, or use SiteRecentring, which learns a new site from its own rows."
            )


def _posterior(standard: Floats) -> tuple[Floats, Floats]:
    """Return posterior shift and variance of one site's standardised features (Johnson et al., 2007, section 3.2)."""
    n = len(standard)
    shift, variance = standard.mean(axis=0), standard.var(axis=0, ddof=1)
    if standard.shape[1] < 2 or variance.var(ddof=1) <= 1e-24:  # no prior to draw towards
        return shift, np.maximum(variance, 1e-12)
    prior_shift, prior_spread = shift.mean(), shift.var(ddof=1)
    middle, around = variance.mean(), variance.var(ddof=1)
    shape, rate = (2 * around + middle**2) / around, (middle * around + middle**3) / around
    squares = (standard**2).sum(axis=0)
    found, spread = shift, variance
    for _ in range(MAX_ITERATIONS):
        moved = (n * prior_spread * shift + spread * prior_shift) / (n * prior_spread + spread)
        about = squares - 2 * moved * n * shift + n * moved**2  # sum of squares about the moved shift
        wider = (about / 2 + rate) / (n / 2 + shape - 1)
        change = max(np.abs(moved - found).max(), np.abs(wider - spread).max())
        found, spread = moved, wider
        if change <= TOLERANCE:
            break
    return found, spread


class SiteRecentring(SideColumnTransformer):
    """Move the features of every site to a common centre, a site that `fit` has not seen included.

    Sites of `fit` are moved by what was learned of them, other sites by the mean of their own rows in `transform`. No
    label is needed, but the result of a row depends on the other rows of its site: transform all rows of a new site at
    once. Any true difference between sites in what is predicted is lost, unless a preserved covariate explains it.

    Parameters
    ----------
    site : str or int, default=None
        Column of the site. With None all rows are of one site, and the features stay as they are.
    subject : str or int, default=None
        Column of the person, whose scans at a site count once together. With None each row is a person.
    preserve : sequence of str or int, default=()
        Covariates in which sites may go on to differ. Wherever sites differ in age, age belongs here, unless age is
        what is to be predicted, or the difference in age is taken out with the site.

    Attributes
    ----------
    sites_, shifts_ : array of str, array (n sites, p)
        Distance of each site from the common centre.
    centre_, scale_ : array (p,)
        Mean of the people at the mean of their covariates; standard deviation within sites.
    coef_, means_ : array (q, p), array (q,)
        Change of the features with each covariate within sites, and the means of the covariates.

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
    side_parameters = ("site", "subject", "preserve")

    def __init__(
        self, site: Column | None = None, *, subject: Column | None = None, preserve: Sequence[Column] = ()
    ) -> None:
        self.site = site
        self.subject = subject
        self.preserve = preserve

    def estimate(self, x: Floats, side: pd.DataFrame) -> None:
        """Learn the shift of each site, other things being equal.

        Features are regressed on site and covariates by least squares, one row a person and site. Each shift is drawn
        to zero by 1 / (people × its mean square in standard deviations): a site of few people moves less.
        """
        if self.site is None:
            return
        covariates = self.learn_covariates(side, self.preserve)
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
        """Return scans without the shift of their site: the learned shift, or for a new site that of these scans."""
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
