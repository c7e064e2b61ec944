"""Where the scans lie that a probe was fitted on, so that one that lies elsewhere is known as such.

A scan's distance is that of Mahalanobis to the nearest training site, in the covariance that all sites share
within themselves (as Lee et al., 2018, have it for classes), drawn to a multiple of the identity after Ledoit and
Wolf (2004). How far is far, training people tell: each is measured from a reference without him.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from neurocontrast.evaluation.splits import deal_subjects, subject_values
from neurocontrast.seeds import derive_generator

__all__ = ["MIN_SUBJECTS", "N_NEIGHBOURS", "TrainingDistribution", "fit_distribution", "neighbour_percentiles"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

MIN_SUBJECTS = 20
"""Fewer training subjects cannot say what is usual; a site with fewer is judged by the scans of all sites."""
MIN_SITE_SUBJECTS = 5
"""A site with fewer subjects has no centre of its own; such sites share one."""
MAX_AXES = 50
"""Principal axes with a variance of their own; the other directions share theirs."""
N_FOLDS = 5
N_NEIGHBOURS = 5
"""The distance to the nearest neighbours is the mean of so many."""
LEVELS = np.linspace(0.0, 100.0, 201)
"""Percentiles at which the distances of training scans are kept."""
_OTHER = "(other sites)"
_BLOCK_VALUES = 4_000_000


@dataclass(frozen=True, eq=False)
class TrainingDistribution:
    """Centres, spread and usual distances of training scans; nothing of a single person.

    Attributes
    ----------
    sites : tuple of str
        Of the centres.
    centres : array (n centres, p)
        Mean features of each site.
    scale : array (p,)
        Standard deviation within sites; infinite for a feature that does not vary there, which is then left out.
    axes, variances : array (p, k), (k,)
        Principal axes of the scaled features within sites, and the (shrunk) variance along each.
    remainder : float
        Variance along every direction that is orthogonal to the axes.
    usual : array (n centres, 201)
        Distances, at percentiles 0, 0.5 … 100, of training scans nearest to each centre.
    """

    sites: tuple[str, ...]
    centres: Floats
    scale: Floats
    axes: Floats
    variances: Floats
    remainder: float
    usual: Floats

    def distances(self, x: npt.NDArray[np.floating]) -> tuple[Floats, Rows]:
        """Return the distance of each scan to the nearest centre, and which that is."""
        x = np.asarray(x, dtype=np.float64)
        found = np.stack([self._distance(x - centre) for centre in self.centres])
        nearest = found.argmin(axis=0)
        return found[nearest, np.arange(len(x))], nearest

    def percentiles(self, x: npt.NDArray[np.floating]) -> tuple[Floats, Floats]:
        """Return the distance of each scan, and its place among those of training scans, 0 to 100.

        A scan is compared with training scans that are nearest to the same centre.
        """
        distances, nearest = self.distances(x)
        placed = [place(distance, self.usual[centre]) for distance, centre in zip(distances, nearest, strict=True)]
        return distances, np.array(placed, dtype=float)

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


def fit_distribution(
    x: npt.NDArray[np.floating],
    sites: Sequence[str | None],
    subjects: npt.NDArray[np.object_],
    *,
    seed: int,
) -> TrainingDistribution | str:
    """Learn where training scans lie, or say why that cannot be.

    Parameters
    ----------
    x : array (n, p)
        Features, as the probe gets them.
    sites : sequence of str or None (n,)
        Site of each scan. Those with fewer than five subjects, and scans without a site, are taken together.
    subjects : array of str (n,)
        Of each scan. The distances that count as usual are those of scans whose subject is in another of five folds.
    seed : int
        Of the folds.
    """
    features: Floats = np.asarray(x, dtype=np.float64)
    owners = subjects.astype(str)
    if len(set(owners)) < MIN_SUBJECTS:
        return f"fewer than {MIN_SUBJECTS} training subjects ({len(set(owners))})"
    groups = _groups(sites, owners)
    shape = _fit_shape(features, groups)
    if shape is None:
        return "no feature varies within the training sites"
    distances, nearest = np.empty(len(features)), np.empty(len(features), dtype=object)
    for fold in _folds(groups, owners, seed):
        part = _fit_shape(features[~fold], groups[~fold])
        if part is None:
            return "no feature varies within the training sites"
        distances[fold], places = part.distances(features[fold])
        nearest[fold] = np.array(part.sites, dtype=object)[places]
    usual = [_usual(distances, owners, nearest == site) for site in shape.sites]
    return TrainingDistribution(
        shape.sites, shape.centres, shape.scale, shape.axes, shape.variances, shape.remainder, np.stack(usual)
    )


def neighbour_percentiles(
    distribution: TrainingDistribution,
    x: npt.NDArray[np.floating],
    subjects: npt.NDArray[np.object_],
    x_new: npt.NDArray[np.floating],
    *,
    seed: int,
) -> tuple[Floats, Floats]:
    """Return the mean distance of new scans to the five nearest training scans, and its percentile.

    Features are scaled as in `distribution`. The percentile is among training scans measured from those whose
    subject is in another fold.
    """
    scaled, new = (np.asarray(part, dtype=np.float64) / distribution.scale for part in (x, x_new))
    owners, own = subjects.astype(str), np.empty(len(scaled))
    for fold in _folds(np.zeros(len(scaled)), owners, seed):
        own[fold] = _to_neighbours(scaled[~fold], scaled[fold])
    usual, found = np.percentile(own, LEVELS), _to_neighbours(scaled, new)
    return found, np.array([place(distance, usual) for distance in found], dtype=float)


def _groups(sites: Sequence[str | None], owners: npt.NDArray[np.str_]) -> npt.NDArray[np.str_]:
    names = np.array([_OTHER if site is None else str(site) for site in sites])
    for site in set(names):
        if len(set(owners[names == site])) < MIN_SITE_SUBJECTS:
            names = np.where(names == site, _OTHER, names)
    return names


def _folds(groups: npt.NDArray[np.generic], owners: npt.NDArray[np.str_], seed: int) -> list[npt.NDArray[np.bool_]]:
    codes = np.unique(groups, return_inverse=True)[1]
    fold_of = deal_subjects(
        [subject_values(codes, owners.astype(object))], N_FOLDS, derive_generator("outlyingness", seed)
    )
    fold_of_row = fold_of[np.unique(owners, return_inverse=True)[1]]
    return [fold_of_row == fold for fold in range(N_FOLDS)]


def _fit_shape(x: Floats, groups: npt.NDArray[np.str_]) -> TrainingDistribution | None:
    names, codes = np.unique(groups, return_inverse=True)
    centres = np.stack([x[codes == code].mean(axis=0) for code in range(len(names))])
    residuals = x - centres[codes]
    n_free = max(1, len(x) - len(names))
    scale = np.sqrt(np.einsum("ij,ij->j", residuals, residuals) / n_free)
    scale = np.where(scale > 1e-10 * np.maximum(np.abs(x).max(axis=0), 1e-300), scale, np.inf)
    p = int(np.isfinite(scale).sum())
    if not p:
        return None
    z = residuals / scale
    wide = z.shape[1] > len(z)
    gram = z @ z.T if wide else z.T @ z
    first = max(0, len(gram) - MAX_AXES)
    lengths, axes = scipy.linalg.eigh(gram, subset_by_index=(first, len(gram) - 1), check_finite=False)
    kept = lengths > 1e-10 * lengths[-1]
    lengths, axes = lengths[kept], axes[:, kept]
    axes = z.T @ (axes / np.sqrt(lengths)) if wide else axes
    total, drawn = float(np.trace(gram)) / n_free, shrinkage(z, float((gram**2).sum()), p)
    variances, target = lengths / n_free, total / p
    n_left = max(1, p - len(lengths))
    rest = max(0.0, total - float(variances.sum())) / n_left
    remainder = (1 - drawn) * rest + drawn * target
    return TrainingDistribution(
        tuple(map(str, names)), centres, scale, axes, (1 - drawn) * variances + drawn * target,
        max(remainder, 1e-12 * target), np.zeros((len(names), len(LEVELS))),
    )  # fmt: skip


def shrinkage(z: Floats, squared_norm: float, p: int) -> float:
    """Return how far Ledoit and Wolf (2004) draw the covariance of centred rows to a multiple of the identity.

    As ``sklearn.covariance.ledoit_wolf_shrinkage``, from the squared Frobenius norm of the inner products,
    which are at hand and hold n × n instead of p × p numbers.
    """
    n = len(z)
    squares = np.einsum("ij,ij->i", z, z)
    spread = squared_norm / n**2  # of the covariance
    mean = float(squares.sum()) / n / p
    noise = (float((squares**2).sum()) / n - spread) / (n * p)
    distance = (spread - p * mean**2) / p
    return 1.0 if distance <= 0 else float(min(max(noise, 0.0), distance) / distance)


def _usual(distances: Floats, owners: npt.NDArray[np.str_], near: npt.NDArray[np.bool_]) -> Floats:
    enough = len(set(owners[near])) >= MIN_SUBJECTS
    return np.percentile(distances[near] if enough else distances, LEVELS)


def _to_neighbours(x: Floats, x_new: Floats) -> Floats:
    k, squares = min(N_NEIGHBOURS, len(x)), np.einsum("ij,ij->i", x, x)
    found = np.empty(len(x_new))
    block = max(1, _BLOCK_VALUES // len(x))
    for start in range(0, len(x_new), block):
        part = x_new[start : start + block]
        distances = np.einsum("ij,ij->i", part, part)[:, None] + squares - 2 * part @ x.T
        nearest = np.partition(np.maximum(distances, 0.0), k - 1, axis=1)[:, :k]
        found[start : start + block] = np.sqrt(nearest).mean(axis=1)
    return found
