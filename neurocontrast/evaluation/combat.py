"""ComBat: site differences in mean and spread, estimated with empirical Bayes and taken out.

Johnson, Li and Rabinovic (2007) define it for batches of gene expression, Fortin et al. (2018) bring
it to imaging sites. What is estimated on some scans can be applied to others of the same sites.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["MIN_SITE_SCANS", "Combat", "fit_combat"]

Floats = npt.NDArray[np.float64]

MIN_SITE_SCANS = 3
"""A site with fewer scans to learn from is left as it is: it has no spread to speak of."""
MAX_ITERATIONS = 1000
TOLERANCE = 1e-10


@dataclass(frozen=True)
class Combat:
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


def fit_combat(x: Floats, sites: npt.ArrayLike, covariates: Floats | None = None) -> Combat:
    """Estimate each site's shift and spread in every feature, drawn towards the site's average over features.

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
        return Combat((), x.mean(axis=0), np.zeros((n_columns, x.shape[1])), np.ones(x.shape[1]), empty, empty)
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
    for code in range(len(learned)):
        shift[code, varies], spread[code, varies] = _posterior(standard[codes == code][:, varies])
    return Combat(learned, mean, coefficients, scale, shift, spread)


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
