"""ComBat: site differences in mean and spread, estimated with empirical Bayes and taken out.

Johnson, Li and Rabinovic (2007) define it for batches of gene expression, Fortin et al. (2018) bring
it to imaging sites. What is estimated on some scans can be applied to others of the same sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils._param_validation import StrOptions

from neurocontrast.evaluation.transformers.covariates import CovariateEncoder
from neurocontrast.evaluation.transformers.side_columns import Column, SideColumnTransformer, group_names, preserved

__all__ = ["MIN_SITE_SCANS", "ComBat", "SiteEffects", "fit_combat"]

Floats = npt.NDArray[np.float64]

MIN_SITE_SCANS = 3
"""A site with fewer training scans has no spread that could be estimated."""
MAX_ITERATIONS = 1000
TOLERANCE = 1e-10


@dataclass(frozen=True)
class SiteEffects:
    """Site parameters of every feature.

    Attributes
    ----------
    sites : tuple of str
        Sites that were learned.
    mean : array (p,)
        Grand mean, every site counting by its scans.
    coefficients : array (q, p)
        Of the preserved covariates.
    scale : array (p,)
        Pooled standard deviation within sites.
    shift, spread : array (n sites, p)
        Posterior mean shift of each site, in units of `scale`, and posterior ratio of its variance.
    """

    sites: tuple[str, ...]
    mean: Floats
    coefficients: Floats
    scale: Floats
    shift: Floats
    spread: Floats

    def apply(self, x: Floats, sites: npt.ArrayLike, covariates: Floats | None = None) -> Floats:
        """Return scans as if of the average site; those of a site that was not learned stay as they are.

        Parameters
        ----------
        x : array (n, p)
            Features.
        sites : array of str (n,)
            Site of each scan.
        covariates : array (n, q), optional
            Those that were preserved, as when fitting.
        """
        expected = self.mean + _columns(covariates, len(x)) @ self.coefficients
        standard = (x - expected) / self.scale
        place_of = {site: place for place, site in enumerate(self.sites)}
        places = np.array([place_of.get(site, -1) for site in _names(sites)])
        known = places >= 0
        adjusted = x.copy()
        standard = (standard[known] - self.shift[places[known]]) / np.sqrt(self.spread[places[known]])
        adjusted[known] = standard * self.scale + expected[known]
        return adjusted


def fit_combat(x: Floats, sites: npt.ArrayLike, covariates: Floats | None = None) -> SiteEffects:
    """Estimate each site's shift and spread in every feature, drawn towards the site's average over features.

    A single site has neither.

    Parameters
    ----------
    x : array (n, p)
        Features. With one only, nothing can be borrowed between features, and the plain estimates
        stand.
    sites : array of str (n,)
        Site of each scan. Sites with fewer than `MIN_SITE_SCANS` are left out.
    covariates : array (n, q), optional
        What the features may go on to depend on: age, sex. Never what is to be predicted.
    """
    names = _names(sites)
    places, counts = np.unique(names, return_counts=True)
    learned = tuple(str(site) for site, count in zip(places, counts, strict=True) if count >= MIN_SITE_SCANS)
    kept = np.isin(names, learned)
    n_columns = 0 if covariates is None else covariates.shape[1]
    if not learned:
        empty = np.zeros((0, x.shape[1]))
        return SiteEffects((), x.mean(axis=0), np.zeros((n_columns, x.shape[1])), np.ones(x.shape[1]), empty, empty)
    x, extra = x[kept], _columns(covariates, len(kept))[kept]
    codes = np.searchsorted(np.array(learned), names[kept])
    member = np.eye(len(learned))[codes]
    centre = extra.mean(axis=0)  # the constant goes to the sites, whatever the covariates' units
    solved = np.linalg.lstsq(np.column_stack([member, extra - centre]), x, rcond=None)[0]
    own, coefficients = solved[: len(learned)], solved[len(learned) :]
    shares = member.mean(axis=0)
    residuals = x - member @ own - (extra - centre) @ coefficients
    scale = np.sqrt((residuals**2).mean(axis=0))
    varies = scale > 1e-10 * np.maximum(np.abs(x).max(axis=0), 1e-300)
    scale = np.where(varies, scale, 1.0)
    mean = shares @ own - centre @ coefficients
    standard = (x - mean - extra @ coefficients) / scale
    # What is constant within sites has no spread to share with the others: its plain shift is taken out.
    shift = np.stack([standard[codes == code].mean(axis=0) for code in range(len(learned))])
    spread = np.ones_like(shift)
    for code in range(len(learned)) if len(learned) > 1 else ():
        shift[code, varies], spread[code, varies] = _posterior(standard[codes == code][:, varies])
    return SiteEffects(learned, mean, coefficients, scale, shift, spread)


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
        # Sum of squares about the shift, from sums that are known.
        about = squares - 2 * moved * n * shift + n * moved**2
        wider = (about / 2 + rate) / (n / 2 + shape - 1)
        change = max(np.abs(moved - found).max(), np.abs(wider - spread).max())
        found, spread = moved, wider
        if change <= TOLERANCE:
            break
    return found, spread


def _names(sites: npt.ArrayLike) -> npt.NDArray[np.str_]:
    return np.asarray(sites, dtype=object).astype(str)


def _columns(covariates: Floats | None, n: int) -> Floats:
    return np.zeros((n, 0)) if covariates is None else covariates


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
    passthrough : sequence of str or int, default=()
        Columns that are no features and stand unchanged at the end of the output, for a later step.

    Attributes
    ----------
    effects_ : SiteEffects
        Shift and spread of each site; absent with ``site=None``.
    encoder_ : CovariateEncoder
        Makes the preserved covariates into numbers; absent with ``site=None``.
    n_features_in_ : int
        Number of columns of `X`, side columns among them.
    feature_names_in_ : array of str
        Their names, where all of them are text.

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
        "passthrough": ["array-like"],
    }

    def __init__(
        self,
        site: Column | None = None,
        *,
        preserve: Sequence[Column] = (),
        handle_unknown: str = "error",
        passthrough: Sequence[Column] = (),
    ) -> None:
        self.site = site
        self.preserve = preserve
        self.handle_unknown = handle_unknown
        self.passthrough = passthrough

    def side_columns(self) -> tuple[Column, ...]:
        """Return the columns that the adjustment reads."""
        return (*(() if self.site is None else (self.site,)), *self.preserve)

    def encode(self, side: pd.DataFrame, *, learn: bool) -> tuple[Any, ...]:
        """Return what `estimate` and `adjust` need of side columns; `learn` says to learn first how to read them."""
        if self.site is None:
            return ()
        kept = preserved(side, self.preserve)
        if learn:
            self.encoder_ = CovariateEncoder().fit(kept)
        return group_names(side, self.site, owner=self), self.encoder_.transform(kept)

    def estimate(self, x: Floats, *encoded: Any) -> None:
        """Do what `fit` does, of features (n, n features) and what `encode` returned of their side columns."""
        if encoded:
            self.effects_ = fit_combat(x, *encoded)
            self._check_known(encoded[0])

    def adjust(self, x: Floats, *encoded: Any) -> Floats:
        """Do what `transform` does, of features (n, n features) and what `encode` returned of their side columns."""
        if not encoded:
            return x
        self._check_known(encoded[0])
        return self.effects_.apply(x, *encoded)

    def _check_known(self, sites: npt.NDArray[np.str_]) -> None:
        unknown = sorted(set(sites) - set(self.effects_.sites))
        if unknown and self.handle_unknown == "error":
            raise ValueError(
                f"ComBat: site '{unknown[0]}' has fewer than {MIN_SITE_SCANS} rows in fit, and cannot be harmonised "
                f"({len(unknown)} such sites). Leave these rows out, set handle_unknown='ignore' to keep them as they "
                "are, or use SiteRecentring, which learns a new site from its own rows."
            )
