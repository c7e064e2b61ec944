"""How strongly a whole embedding depends on a column, linearly or not: HSIC, with a permutation test.

The Hilbert–Schmidt independence criterion (Gretton et al., 2005) in its unbiased form (Song et
al., 2012), normalised to 1 for identity (centred kernel alignment): 0 means independence,
whatever the number of features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

__all__ = ["Dependence", "category_factor", "centre_kernel", "dependence", "embedding_kernel", "number_factor"]

Floats = npt.NDArray[np.float64]

RESIDUE = 1e-6
"""A kernel's factor holds all but this share of it."""
_BATCH_COLUMNS = 256


@dataclass(frozen=True)
class Dependence:
    """Normalised HSIC, and the share of permutations with as much.

    Attributes
    ----------
    value : float
        About 0 under independence (it can lie below), 1 for identity.
    p_value : float
        (1 + permutations with as much) / (1 + permutations).
    """

    value: float
    p_value: float


def embedding_kernel(features: npt.NDArray[np.floating]) -> Floats:
    """Return the Gaussian kernel of standardised features (n, n); the bandwidth is the median distance."""
    values = features.astype(np.float64)
    spread = values.std(axis=0)
    values = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return _gaussian(cdist(values, values, "sqeuclidean"))


def centre_kernel(kernel: Floats) -> Floats:
    """Return the U-centred kernel: every row and column sums to 0, the diagonal is 0 (Székely and Rizzo, 2014)."""
    n = len(kernel)
    if n < 4:
        raise ValueError(f"kernel: four scans or more are needed, got {n}")
    bare = kernel - np.diag(np.diag(kernel))
    sums = bare.sum(axis=1)
    centred = bare - (sums[:, None] + sums[None]) / (n - 2) + sums.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(centred, 0.0)
    return centred


def category_factor(labels: npt.ArrayLike) -> Floats:
    """Return F (n, levels) with F Fᵀ = 1 where two labels are equal, else 0."""
    codes = np.unique(np.asarray(labels).astype(str), return_inverse=True)[1]
    return np.eye(int(codes.max()) + 1)[codes]


def number_factor(values: Floats) -> Floats:
    """Return F (n, r) with F Fᵀ the Gaussian kernel of numbers, up to `RESIDUE`; the bandwidth is the median distance.

    By pivoted Cholesky decomposition: a kernel of one variable needs few columns.
    """
    distances = np.abs(values[:, None] - values[None])
    kernel = _gaussian(distances**2)
    left = np.ones(len(values))
    columns: list[Floats] = []
    while left.sum() > RESIDUE * len(values) and len(columns) < len(values):
        pivot = int(left.argmax())
        column = kernel[:, pivot].copy()
        for earlier in columns:
            column -= earlier * earlier[pivot]
        column /= np.sqrt(left[pivot])
        columns.append(column)
        left = np.maximum(left - column**2, 0.0)
    return np.stack(columns, axis=1)


def dependence(
    centred: Floats,
    factor: Floats,
    strata: Sequence[object] | None,
    *,
    n_permutations: int,
    generator: np.random.Generator,
) -> Dependence:
    """Return the normalised HSIC of an embedding and a column, and its permutation p-value.

    Parameters
    ----------
    centred : array (n, n)
        Of `centre_kernel`.
    factor : array (n, r)
        Of `category_factor` or `number_factor`.
    strata : sequence (n,), optional
        Values are exchanged within them only, so that what they explain stays in every permutation.
    n_permutations : int
        How often.
    generator : numpy Generator
        Source of the permutations.
    """
    n, rank = factor.shape
    own = centre_kernel(factor @ factor.T)
    norm = np.sqrt((centred**2).sum() * (own**2).sum())
    if norm <= 1e-12:
        return Dependence(0.0, 1.0)
    observed = float((factor * (centred @ factor)).sum())
    groups = [np.arange(n)] if strata is None else _groups(strata)
    as_much, batch = 0, max(1, _BATCH_COLUMNS // rank)
    for start in range(0, n_permutations, batch):
        orders = np.tile(np.arange(n), (min(batch, n_permutations - start), 1))
        for order in orders:
            for rows in groups:
                order[rows] = rows[generator.permutation(len(rows))]
        drawn = factor[orders].transpose(1, 0, 2).reshape(n, -1)
        sums = (drawn * (centred @ drawn)).sum(axis=0).reshape(len(orders), rank).sum(axis=1)
        as_much += int((sums >= observed - 1e-12 * abs(observed)).sum())
    return Dependence(observed / float(norm), (1 + as_much) / (1 + n_permutations))


def _gaussian(squared: Floats) -> Floats:
    apart = squared[~np.eye(len(squared), dtype=bool)]
    positive = apart[apart > 0]
    middle = float(np.median(apart)) or (float(np.median(positive)) if len(positive) else 1.0)
    return np.exp(-squared / (2 * middle))


def _groups(strata: Sequence[object]) -> list[npt.NDArray[np.intp]]:
    codes = np.unique(np.asarray(strata).astype(str), return_inverse=True)[1]
    return [np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1)]
