"""Distribution of the scans that a probe was fitted on, and how far others lie from it.

A distance is that of Mahalanobis to the nearest training site, in the covariance within sites (Lee et al., 2018), drawn
to a multiple of the identity after Ledoit and Wolf (2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.distances import LEVELS, TrainingDistribution
from neurocontrast.evaluation.fold_features import principal_axes
from neurocontrast.evaluation.splits import deal_subjects, subject_values
from neurocontrast.seeds import derive_generator

__all__ = ["MIN_SUBJECTS", "fit_distribution"]

Floats = npt.NDArray[np.float64]

MIN_SUBJECTS = 20
"""Fewer training subjects cannot say what is usual."""
MIN_SITE_SUBJECTS = 5
"""A site with fewer subjects has no centre of its own; such sites share one."""
MAX_AXES = 50
"""Principal axes with a variance of their own; the other directions share theirs."""
N_FOLDS = 5
_OTHER = "(other sites)"
_NOTHING_VARIES = "no feature varies within the training sites"


def fit_distribution(
    x: npt.NDArray[np.floating], sites: Sequence[str | None], subjects: npt.NDArray[np.object_], *, seed: int
) -> TrainingDistribution | str:
    """Learn where training scans lie, or say why that cannot be."""
    features: Floats = np.asarray(x, dtype=np.float64)
    owners = subjects.astype(str)
    if len(set(owners)) < MIN_SUBJECTS:
        return f"fewer than {MIN_SUBJECTS} training subjects ({len(set(owners))})"
    groups = _groups(sites, owners)
    shape = _fit_shape(features, groups)
    if shape is None:
        return _NOTHING_VARIES
    distances = np.empty(len(features))
    for fold in _folds(groups, owners, seed):
        part = _fit_shape(features[~fold], groups[~fold])
        if part is None:
            return _NOTHING_VARIES
        distances[fold] = part.distances(features[fold])[0]
    return replace(shape, usual=np.tile(np.percentile(distances, LEVELS), (len(shape.sites), 1)))


def _groups(sites: Sequence[str | None], owners: npt.NDArray[np.str_]) -> npt.NDArray[np.str_]:
    names = np.array([_OTHER if site is None else str(site) for site in sites])
    small = [site for site in set(names) if len(set(owners[names == site])) < MIN_SITE_SUBJECTS]
    return np.where(np.isin(names, small), _OTHER, names)


def _folds(groups: npt.NDArray[np.generic], owners: npt.NDArray[np.str_], seed: int) -> list[npt.NDArray[np.bool_]]:
    codes = np.unique(groups, return_inverse=True)[1]
    generator = derive_generator("outlyingness", seed)
    fold_of = deal_subjects([subject_values(codes, owners.astype(object))], N_FOLDS, generator)
    fold_of_row = fold_of[np.unique(owners, return_inverse=True)[1]]
    return [fold_of_row == fold for fold in range(N_FOLDS)]


def _fit_shape(x: Floats, groups: npt.NDArray[np.str_]) -> TrainingDistribution | None:
    """Return centres and covariance, without usual distances; None where no feature varies."""
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
    axes, along = principal_axes(z)
    lengths = np.einsum("ij,ij->j", along, along)
    total = float(np.einsum("ij,ij->", z, z)) / n_free
    drawn = _shrinkage(z, lengths, p)
    lengths, axes = lengths[-MAX_AXES:], axes[:, -MAX_AXES:]
    variances, target = lengths / n_free, total / p
    rest = max(0.0, total - float(variances.sum())) / max(1, p - len(lengths))
    remainder = max((1 - drawn) * rest + drawn * target, 1e-12 * target)
    variances = (1 - drawn) * variances + drawn * target
    return TrainingDistribution(tuple(map(str, names)), centres, scale, axes, variances, remainder, np.empty((0, 201)))


def _shrinkage(z: Floats, lengths: Floats, p: int) -> float:
    """Return the shrinkage of Ledoit and Wolf (2004) from the squared lengths of all principal axes.

    scikit-learn's `ledoit_wolf_shrinkage` has the same value, and takes it from the p × p covariance.
    """
    n = len(z)
    squares = float((lengths**2).sum()) / n**2  # the sum of all squares of the covariance
    noise = float((np.einsum("ij,ij->i", z, z) ** 2).sum()) / n**2 - squares / n
    spread = squares - float(lengths.sum() / n) ** 2 / p
    return min(noise, spread) / spread if noise > 0 and spread > 0 else 0.0
