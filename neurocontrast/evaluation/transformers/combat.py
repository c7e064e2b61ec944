"""ComBat: differences of sites in mean and spread, estimated with empirical Bayes and taken out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils._param_validation import StrOptions

from neurocontrast.evaluation.transformers.covariates import Column, SideColumnTransformer

__all__ = ["MIN_SITE_SCANS", "ComBat"]

Floats = npt.NDArray[np.float64]

MIN_SITE_SCANS = 3
"""A site with fewer training scans has no spread that could be estimated."""
MAX_ITERATIONS = 1000
TOLERANCE = 1e-10


class ComBat(SideColumnTransformer):
    """Harmonise features between sites by ComBat, estimated on the training rows.

    The mean and the spread of each site are estimated with empirical Bayes and taken out; what the preserved
    covariates explain stays. Rows of a site that `fit` has not seen cannot be harmonised: `SiteRecentring` is for them.

    Parameters
    ----------
    site : str or int, default=None
        Column of the site. With None all rows are of one site, and the features stay as they are.
    preserve : sequence of str or int, default=()
        Covariates whose effect on the features stays, such as age and sex. Wherever sites differ in age, age belongs
        here: without, ComBat takes the difference in age out with the site. Never what is to be predicted.
    handle_unknown : {"error", "ignore"}, default="error"
        What to do with rows of a site that has fewer than three training rows: raise, or leave them as they are.

    Attributes
    ----------
    sites_ : array of str
        Sites that were learned; this and what follows is absent with ``site=None``.
    mean_, coef_, scale_ : array (p,), (q, p), (p,)
        Grand mean, effects of the preserved covariates, and pooled standard deviation within sites.
    shift_, spread_ : array (n sites, p)
        Posterior shift of each site in units of `scale_`, and posterior ratio of its variance.
    encoder_ : CovariateEncoder
        Makes the preserved covariates into numbers.

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

    def __init__(
        self, site: Column | None = None, *, preserve: Sequence[Column] = (), handle_unknown: str = "error"
    ) -> None:
        self.site = site
        self.preserve = preserve
        self.handle_unknown = handle_unknown

    def side_columns(self) -> tuple[Column, ...]:
        """Return the columns that the adjustment reads."""
        return (*(() if self.site is None else (self.site,)), *self.preserve)

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
