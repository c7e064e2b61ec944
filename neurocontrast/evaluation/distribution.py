"""How far scans lie from those that a probe was fitted on.

A distance is that of Mahalanobis to the nearest training site, in the covariance within sites (Lee et al., 2018). The
covariance has principal axes with a variance each, shrunk by the estimator of Ledoit and Wolf (2004), and the mean
variance of a feature in all other directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.decomposition import PCA

from neurocontrast.evaluation.record import Notice
from neurocontrast.evaluation.rows import NO_SITE, Floats, Rows, Texts, draw_subjects, site_names
from neurocontrast.evaluation.splits import Split, deal_subjects, subject_values
from neurocontrast.evaluation.study import Study
from neurocontrast.seeds import derive_generator, derive_seed

MIN_SUBJECTS = 20
"""Fewer training subjects cannot say what is usual."""
MIN_SITE_SUBJECTS = 5
"""A site with fewer subjects has no centre of its own; such sites share one."""
MAX_AXES = 50
"""Principal axes with a variance of their own; a fifth of the scans at most."""
MAX_REFERENCE = 1000
"""Of more training scans this many are drawn, by subject."""
N_FOLDS = 5
ENOUGH = 0.75
"""Training folds with a smaller share of the scans learn usual distances of their own, which are larger."""
RARE = 0.001
"""More scans outside than chance gives with this probability are warned about."""
_OTHER = "(other sites)"
LEVELS = np.linspace(0.0, 100.0, 201)
"""Percentiles at which the distances of training scans are kept."""
_BLOCK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class TrainingDistribution:
    """Centres, spread and usual distances of training scans; nothing of a single person.

    `centres` (n sites, p); `scale` (p,) is the standard deviation within sites, infinite for a feature that does not
    vary there. `axes` (p, k) and `variances` (k,) are of the principal axes of the scaled features within sites,
    `remainder` of every direction orthogonal to them. `usual` (n sites, 201) are distances of training scans at
    percentiles 0, 0.5 … 100: the same for every site, but of each site its own in probes of earlier versions.
    """

    sites: tuple[str, ...]
    centres: Floats
    scale: Floats
    axes: Floats
    variances: Floats
    remainder: float
    usual: Floats

    def distances(self, x: npt.NDArray[np.floating]) -> Floats:
        """Return the distance of each scan (n, p) to the nearest centre (n,)."""
        return self._from_centres(x).min(axis=0)

    def percentiles(self, x: npt.NDArray[np.floating]) -> tuple[Floats, Floats]:
        """Return the distance of each scan, and its percentile among usual distances from the same centre."""
        found = self._from_centres(x)
        distances, usual = found.min(axis=0), self.usual[found.argmin(axis=0)]
        return distances, np.array([place(*each) for each in zip(distances, usual, strict=True)], dtype=float)

    def _from_centres(self, x: npt.NDArray[np.floating]) -> Floats:
        """Return the distance of each scan from every centre, (n sites, n)."""
        blocks = [np.asarray(x[start : start + _BLOCK_ROWS]) for start in range(0, max(1, len(x)), _BLOCK_ROWS)]
        return np.concatenate([[self._distance(rows - each) for each in self.centres] for rows in blocks], axis=1)

    def _distance(self, deviations: Floats) -> Floats:
        scaled = deviations / self.scale
        along = scaled @ self.axes
        rest = np.einsum("ij,ij->i", scaled, scaled) - np.einsum("ij,ij->i", along, along)
        return np.sqrt((along**2 / self.variances).sum(axis=1) + np.maximum(rest, 0.0) / self.remainder)


def place(distance: float, usual: Floats) -> float:
    """Return the percentile of a distance among usual ones, ties in their middle."""
    low, high = (np.searchsorted(usual, distance, side=side) for side in ("left", "right"))
    if low < high:
        return float((LEVELS[low] + LEVELS[high - 1]) / 2)
    return float(np.interp(distance, usual, LEVELS))


@dataclass(frozen=True, eq=False)
class Reference:
    """The distribution of all scans that a probe is fitted on, and the distance of each, its subject left out.

    `rows` (n,) are those of the study, `distances` (n,) are measured by the distribution of other subjects.
    """

    distribution: TrainingDistribution
    rows: Rows
    distances: Floats

    def score(self, study: Study, rows: Rows) -> Floats:
        """Return distance and percentile (n, 2) of rows of a study, each measured without its own subject."""
        scores = np.column_stack(self.distribution.percentiles(study.design()(study.fitted_rows, rows)[1]))
        own = np.isin(rows, self.rows)
        scores[own, 0] = self.distances[np.searchsorted(self.rows, rows[own])]
        scores[own, 1] = [place(distance, self.distribution.usual[0]) for distance in scores[own, 0]]
        return scores

    def score_held_out(self, study: Study, split: Split) -> Floats | str:
        """Return distance and percentile (n, 2) of the test rows from the training rows, or why they have none."""
        drawn = np.isin(split.train, self.rows)
        x_train, x_test = study.design()(split.train, split.test)
        rows = split.train[drawn]
        x_train, sites, subjects = x_train[drawn], study.sites[rows], study.subjects[rows]
        if len(rows) < ENOUGH * len(self.rows):
            seed = derive_seed("outlyingness", study.settings.seed, split.fold)
            own = fit_distribution(x_train, sites, subjects, seed=seed)
            return own if isinstance(own, str) else np.column_stack(own[0].percentiles(x_test))
        found = fit_shape(x_train, sites, subjects, n_axes=len(self.distribution.variances))
        if isinstance(found, str):
            return found
        usual = np.percentile(self.distances[np.isin(self.rows, rows)], LEVELS)
        return np.column_stack(replace(found, usual=np.tile(usual, (len(found.sites), 1))).percentiles(x_test))


def training_reference(study: Study) -> Reference | str | None:
    """Return where the scans of a study lie, or why that is not known; None if the settings leave it out."""
    if not study.settings.outlyingness:
        return None
    fitted, seed = study.fitted_rows, derive_seed("outlyingness", study.settings.seed)
    rows = fitted[draw_subjects(study.subjects[fitted], seed=seed, n_scans=MAX_REFERENCE)[0]]
    design = study.design()
    x = design(fitted if design.steps else rows, rows)[1]  # steps are estimated on all scans, as those of the probe
    found = fit_distribution(x, study.sites[rows], study.subjects[rows], seed=seed)
    return found if isinstance(found, str) else Reference(found[0], rows, found[1])


def fit_distribution(
    x: npt.NDArray[np.floating], sites: Texts, subjects: Texts, *, seed: int
) -> tuple[TrainingDistribution, Floats] | str:
    """Learn where training scans lie, or say why that cannot be.

    Returns the distribution, and the distance of each scan from the distribution of the other four fifths of subjects.
    """
    whole, owners = fit_shape(x, sites, subjects), subjects.astype(str)
    if isinstance(whole, str):
        return whole
    groups = np.unique(_groups(sites, owners), return_inverse=True)[1]
    generator = derive_generator("outlyingness", seed)
    fold_of = deal_subjects([subject_values(groups, owners.astype(object))], N_FOLDS, generator)
    fold_of_row = fold_of[np.unique(owners, return_inverse=True)[1]]
    distances = np.empty(len(x))
    for fold in range(N_FOLDS):
        tested = fold_of_row == fold
        part = fit_shape(x[~tested], sites[~tested], subjects[~tested], n_axes=len(whole.variances), least=1)
        if isinstance(part, str):
            return part
        distances[tested] = part.distances(x[tested])
    usual = np.tile(np.percentile(distances, LEVELS), (len(whole.sites), 1))
    return replace(whole, usual=usual), distances


def fit_shape(
    x: npt.NDArray[np.floating],
    sites: Texts,
    subjects: Texts,
    *,
    n_axes: int | None = None,
    least: int = MIN_SUBJECTS,
) -> TrainingDistribution | str:
    """Return centres and covariance, without usual distances, or why there are none.

    Distances are alike only with as many axes: `n_axes` is that of the distribution that others are compared with.
    """
    features: Floats = np.asarray(x, dtype=np.float64)
    n_subjects = len(set(subjects))
    if n_subjects < least:
        return f"fewer than {least} training subjects ({n_subjects})"
    names, codes = np.unique(_groups(sites, subjects.astype(str)), return_inverse=True)
    centres = np.stack([features[codes == code].mean(axis=0) for code in range(len(names))])
    residuals = features - centres[codes]
    scale = np.sqrt((residuals**2).sum(axis=0) / max(1, len(features) - len(names)))
    scale = np.where(scale > 1e-10 * np.maximum(np.abs(features).max(axis=0), 1e-300), scale, np.inf)
    varying = np.isfinite(scale)
    if not varying.any():
        return "no feature varies within the training sites"
    scaled = residuals[:, varying] / scale[varying]
    n_axes = min(n_axes or max(1, min(MAX_AXES, len(scaled) // 5)), *scaled.shape)
    pca = PCA(n_axes, random_state=0)
    along = pca.fit_transform(scaled)
    drawn, own = float(ledoit_wolf_shrinkage(along, assume_centered=True)), pca.explained_variance_
    variances = (1 - drawn) * own + drawn * own.mean()
    axes = np.zeros((features.shape[1], len(own)))
    axes[varying] = pca.components_.T
    # The scaled features have a variance of 1; what is left in sample, after the axes were fitted to it, is too small.
    return TrainingDistribution(tuple(map(str, names)), centres, scale, axes, variances, 1.0, np.empty((0, 201)))


def _groups(sites: Texts, owners: npt.NDArray[np.str_]) -> npt.NDArray[Any]:
    names = np.where(sites == NO_SITE, _OTHER, sites).astype(str)
    small = [site for site in set(names) if len(set(owners[names == site])) < MIN_SITE_SUBJECTS]
    return np.where(np.isin(names, small), _OTHER, names)


def count_outside(
    scans: pd.DataFrame, percentiles: npt.ArrayLike, *, reference: str, threshold: float
) -> dict[str, Any]:
    """Return the number of scans outside, of all and by site; scans without a percentile are not counted."""
    values = np.asarray(percentiles, dtype=float)
    frame = pd.DataFrame({"site": site_names(scans["site"]), "percentile": values}).dropna()
    by_site = [
        {"site": site, "n": len(part), "n_outside": int((part > threshold).sum()), "median_percentile": part.median()}
        for site, part in frame.groupby("site", sort=True)["percentile"]
    ]
    n_outside, n = int((frame["percentile"] > threshold).sum()), len(frame)
    about = {"reference": reference, "threshold_percentile": threshold}
    return about | {"n_outside": n_outside, "n": n, "by_site": by_site}


def look_outside(counts: Mapping[str, Any]) -> list[Notice]:
    """Return the warning about scans that lie outside, if there are more of them than training scans have."""
    n_outside, n, threshold = counts["n_outside"], counts["n"], counts["threshold_percentile"]
    share = 1 - threshold / 100
    if not n or stats.binomtest(n_outside, n, share, alternative="greater").pvalue > RARE:
        return []
    where = [f"{each['site']} {each['n_outside']} of {each['n']}" for each in counts["by_site"] if each["n_outside"]]
    about = {"where": ", ".join(where[:8]), "threshold": threshold, "expected": share * n}
    return [Notice.of("outside_distribution", n_outside=n_outside, n=n, **about)]
