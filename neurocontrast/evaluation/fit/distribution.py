"""Measure how far scans lie from the scans that a probe was fitted on.

A distance is that of Mahalanobis to the nearest training site, in the covariance within sites (Lee
et al., 2018). The covariance has principal axes with a variance each, shrunk by the estimator of
Ledoit and Wolf (2004), and the mean variance of a feature in all other directions.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from scipy.spatial.distance import cdist
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.decomposition import PCA
from sklearn.utils import gen_batches

from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.rows import NO_SITE, Floats, Rows, Texts, draw_subjects, site_names
from neurocontrast.evaluation.splits import SiteStratifiedGroupKFold, Split
from neurocontrast.seeds import derive_seed

MIN_SUBJECTS = 20
"""Fewest training subjects from whom a distribution of features and distances is learned."""
MIN_SITE_SUBJECTS = 5
"""Fewest subjects of a training site with its own mean; smaller sites share one mean."""
MAX_AXES = 50
"""Most principal axes whose variance is estimated; at most a fifth as many as training scans."""
MAX_REFERENCE = 1000
"""Most training scans from which the distribution is learned; with more, subjects are drawn at
random."""
N_FOLDS = 5
ENOUGH = 0.75
"""Share of the scans of `Reference` that a training fold must hold so that distances measured once
for all folds are used for its scans. In a smaller fold distances are larger, and are measured
anew."""
RARE = 0.001
"""Largest p-value at which a warning says that more scans are outside than expected by chance."""
_OTHER = "(other sites)"
LEVELS = np.linspace(0.0, 100.0, 201)
"""Percentiles at which the distances of training scans are kept."""
_BLOCK_ROWS = 4096


class DistributionError(ValueError):
    """Training scans are too few or too alike to learn the distribution of the scans' features."""


@dataclass(frozen=True, eq=False)
class TrainingDistribution:
    """Site means, spread and usual distances of training scans' features; nothing of single people.

    A distance is that of a scan to the nearest site's mean. `centres` (n sites, p) holds the mean
    features of each site in `sites`. `scale` (p,) is the standard deviation of each feature within
    sites, infinite for a feature that does not vary there. The columns of `axes` (p, k) are the
    principal axes of the scaled features within sites, `variances` (k,) are the variances along the
    axes, and `remainder` is the variance along every direction orthogonal to the axes. `usual` (n
    sites, 201) holds the distances of training scans at percentiles 0, 0.5 … 100: percentiles over
    the scans of all sites, so that all rows are identical. In probes stored by earlier versions
    each row has the percentiles of one site's scans.
    """

    sites: tuple[str, ...]
    centres: Floats
    scale: Floats
    axes: Floats
    variances: Floats
    remainder: float
    usual: Floats

    def nearest(self, x: npt.NDArray[np.floating]) -> tuple[Floats, Rows]:
        """Return two arrays (n,): each scan's distance to the nearest site's mean, and the site.

        The site is given as its index in the attribute `sites`. `x` has the features (n, p) of the
        scans.
        """
        centres = self._whiten(self.centres)
        batches = gen_batches(max(1, len(x)), _BLOCK_ROWS)
        distances = np.concatenate([cdist(self._whiten(x[rows]), centres) for rows in batches])
        return distances.min(axis=1), distances.argmin(axis=1)

    def percentiles(self, x: npt.NDArray[np.floating]) -> tuple[Floats, Floats]:
        """Return two arrays (n,): distance of each scan to the nearest site's mean, and percentile.

        `x` has the features (n, p) of the scans; distances are those of `nearest`. A percentile of
        99 says that 99 % of training scans are nearer to a site's mean.
        """
        distances, centres = self.nearest(x)
        percentiles = np.empty(len(distances))
        for row, distance in enumerate(distances):
            percentiles[row] = place(distance, self.usual[centres[row]])
        return distances, percentiles

    def _whiten(self, x: npt.NDArray[np.floating]) -> Floats:
        """Whiten features (n, p): Euclidean distances of the results are Mahalanobis distances."""
        scaled = x / self.scale
        along = scaled @ self.axes
        rest = (scaled - along @ self.axes.T) / np.sqrt(self.remainder)
        return np.hstack([along / np.sqrt(self.variances), rest])


def place(distance: npt.ArrayLike, usual: Floats) -> Floats:
    """Return percentiles of distances, interpolated between 201 percentiles of training distances.

    `usual` has the 201 distances. A distance that training scans have at several percentiles gets
    the middle of these percentiles.
    """
    distances = np.asarray(distance)
    return (
        np.interp(distances, usual, LEVELS) + 100.0 - np.interp(-distances, -usual[::-1], LEVELS)
    ) / 2


@dataclass(frozen=True, eq=False)
class Reference:
    """Distribution of the features that a probe is fitted on, with each scan's own distance.

    `distribution` is learned from all scans `rows`, given as rows (n,) of the plan's table. New
    scans are measured by `distribution`. The distances (n,) of the scans `rows` themselves are
    cross-fitted: subjects are in five parts, and a scan's entry in `distances` is the Mahalanobis
    distance from the nearest site's mean in a second distribution, learned from the four parts
    without the scan's subject.
    """

    distribution: TrainingDistribution
    rows: Rows
    distances: Floats

    def score(self, plan: Plan, rows: Rows) -> Floats:
        """Return a distance and its percentile (n, 2) for each scan of `rows`.

        `rows` are positions in the plan's table. Distances are Mahalanobis distances from the
        nearest training site's mean. They are measured in `distribution`, except for scans that
        `distribution` was learned from: such a scan gets its cross-fitted distance, kept in the
        attribute `distances`. For both kinds of scans, the percentile is the distance's place among
        the cross-fitted distances of the scans that `distribution` was learned from.
        """
        scores = np.column_stack(
            self.distribution.percentiles(plan.design_of_distances()(plan.fitted_rows, rows)[1])
        )
        is_reference = np.isin(rows, self.rows)
        scores[is_reference, 0] = self.distances[np.searchsorted(self.rows, rows[is_reference])]
        scores[is_reference, 1] = place(scores[is_reference, 0], self.distribution.usual[0])
        return scores

    def score_held_out(self, plan: Plan, split: Split) -> Floats:
        """Return a distance and its percentile (n, 2) for each test row of a split.

        The distance is from the nearest site's mean in a distribution that is learned anew, from
        the training rows of `split` that are in the attribute `rows` too. The percentile is among
        the cross-fitted distances of these training rows. If they are at least the share `ENOUGH`
        of `rows`, their distances are taken from the attribute `distances`; if fewer, they are
        measured anew.
        """
        drawn = np.isin(split.train, self.rows)
        x_train, x_test = plan.design_of_distances()(split.train, split.test)
        rows = split.train[drawn]
        seed = derive_seed("outlyingness", plan.settings.seed, split.fold)
        earlier: dict[str, Any] = {}
        if len(rows) >= ENOUGH * len(self.rows):
            earlier["n_axes"] = len(self.distribution.variances)
            earlier["distances"] = self.distances[np.isin(self.rows, rows)]
        distribution = fit_distribution(
            x_train[drawn], plan.sites[rows], plan.subjects[rows], seed=seed, **earlier
        )[0]
        return np.column_stack(distribution.percentiles(x_test))


def training_reference(plan: Plan) -> Reference | str | None:
    """Return the distribution of the features of the scans that a plan's probe is fitted on.

    With more than `MAX_REFERENCE` scans, the distribution is learned from subjects drawn at random.
    Return the reason as text where no distribution can be learned, and None with
    ``outlyingness=false``.
    """
    if not plan.settings.outlyingness:
        return None
    fitted = plan.fitted_rows
    seed = derive_seed("outlyingness", plan.settings.seed)
    rows = fitted[draw_subjects(plan.subjects[fitted], seed=seed, n_scans=MAX_REFERENCE)[0]]
    design = plan.design_of_distances()
    x = design(fitted if design.steps else rows, rows)[
        1
    ]  # steps are estimated on all scans, as those of the probe
    try:
        distribution, distances = fit_distribution(
            x, plan.sites[rows], plan.subjects[rows], seed=seed
        )
    except DistributionError as error:
        return str(error)
    return Reference(distribution, rows, distances)


def fit_distribution(
    x: npt.NDArray[np.floating],
    sites: Texts,
    subjects: Texts,
    *,
    seed: int,
    n_axes: int | None = None,
    distances: Floats | None = None,
) -> tuple[TrainingDistribution, Floats]:
    """Return the distribution of training scans' features, and the scans' distances (n,).

    `x` has the features (n, p) of the training scans, `sites` and `subjects` have an entry for each
    scan. The returned distribution is learned from all scans. The returned distances are
    Mahalanobis distances from the nearest site's mean: subjects are put into five parts, and a
    scan's distance is measured by a second distribution, learned from the four parts without the
    scan's subject. If `distances` were measured before, they are returned, and no scan is measured
    again.

    `n_axes` is the number of principal axes of the features whose variances are estimated, in every
    distribution; None: a fifth of the number of scans, at most `MAX_AXES`. With `distances` give
    the number by which these were measured. Too few subjects, or features that do not vary within
    sites, raise a `DistributionError`.
    """
    n_subjects = len(set(subjects))
    if n_subjects < MIN_SUBJECTS:
        raise DistributionError(f"fewer than {MIN_SUBJECTS} training subjects ({n_subjects})")
    n_axes = n_axes or max(1, min(MAX_AXES, len(x) // 5))
    whole = _fit_shape(x, sites, subjects, n_axes)
    if distances is None:
        distances = np.empty(len(x))
        folds = SiteStratifiedGroupKFold(N_FOLDS, kind="categorical", random_state=seed)
        for train, test in folds.split(x, sites, subjects, sites):
            distances[test] = _fit_shape(x[train], sites[train], subjects[train], n_axes).nearest(
                x[test]
            )[0]
    return replace(
        whole, usual=np.tile(np.percentile(distances, LEVELS), (len(whole.sites), 1))
    ), distances


def _fit_shape(
    x: npt.NDArray[np.floating], sites: Texts, subjects: Texts, n_axes: int
) -> TrainingDistribution:
    """Estimate the sites' means and the covariance within sites as a `TrainingDistribution`.

    Its attribute `usual` is empty; the caller fills it. `x` has the features (n, p) of the training
    scans, and `n_axes` is the number of principal axes of the features whose variances are
    estimated: only distances by the same number can be compared.
    """
    features: Floats = np.asarray(x, dtype=np.float64)
    names = np.where(sites == NO_SITE, _OTHER, sites).astype(str)
    n_subjects = pd.Series(subjects).groupby(names).transform("nunique")
    names, codes = np.unique(
        np.where(n_subjects < MIN_SITE_SUBJECTS, _OTHER, names), return_inverse=True
    )
    centres = np.stack([features[codes == code].mean(axis=0) for code in range(len(names))])
    residuals = features - centres[codes]
    scale = np.sqrt((residuals**2).sum(axis=0) / max(1, len(features) - len(names)))
    scale = np.where(
        scale > 1e-10 * np.maximum(np.abs(features).max(axis=0), 1e-300), scale, np.inf
    )
    varying = np.isfinite(scale)
    if not varying.any():
        raise DistributionError("no feature varies within the training sites")
    scaled = residuals[:, varying] / scale[varying]
    pca = PCA(min(n_axes, *scaled.shape), random_state=0)
    along = pca.fit_transform(scaled)
    drawn = float(ledoit_wolf_shrinkage(along, assume_centered=True))
    learned = pca.explained_variance_
    variances = (1 - drawn) * learned + drawn * learned.mean()
    axes = np.zeros((features.shape[1], len(learned)))
    axes[varying] = pca.components_.T
    # The scaled features have a variance of 1; what is left in sample, after the axes were fitted
    # to it, is too small.
    return TrainingDistribution(
        tuple(map(str, names)), centres, scale, axes, variances, 1.0, np.empty((0, 201))
    )


def count_outside(
    scans: pd.DataFrame, percentiles: npt.ArrayLike, *, reference: str, threshold: float
) -> tuple[dict[str, Any], list[Notice]]:
    """Count scans above a percentile of the training scans' distances, in all and by site.

    `scans` is a table with a column ``site``; `percentiles` has the percentile of each scan's
    distance, NaN if none was measured; such scans are not counted. `threshold` is the percentile to
    be above. Return the counts as a dictionary, whose key ``by_site`` lists the counts of each
    site, and a list of one warning if more scans are above than expected by chance; if not, the
    list is empty.
    """
    values = np.asarray(percentiles, dtype=float)
    measured = pd.DataFrame({"site": site_names(scans["site"]), "percentile": values}).dropna()
    measured["outside"] = measured["percentile"] > threshold
    sites = measured.groupby("site").agg(
        n=("outside", "size"),
        n_outside=("outside", "sum"),
        median_percentile=("percentile", "median"),
    )
    n = len(measured)
    n_outside = int(measured["outside"].sum())
    share = 1 - threshold / 100
    totals = {
        "reference": reference,
        "threshold_percentile": threshold,
        "n_outside": n_outside,
        "n": n,
    }
    counts = totals | {"by_site": sites.reset_index().to_dict("records")}
    if not n or stats.binomtest(n_outside, n, share, alternative="greater").pvalue > RARE:
        return counts, []
    where = [
        f"{site.Index} {site.n_outside} of {site.n}"
        for site in sites[sites["n_outside"] > 0].itertuples()
    ]
    numbers = {"n_outside": n_outside, "n": n, "threshold": threshold, "expected": share * n}
    return counts, [Notice.of("outside_distribution", where=", ".join(where[:8]), **numbers)]
