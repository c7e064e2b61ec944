"""How strongly two columns of a cohort go together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["cramers_v", "standardised_difference", "variance_explained"]


def cramers_v(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Return Cramér's V of two categorical variables, corrected for bias (Bergsma, 2013).

    0 is independence and 1 is identity. The plain V of two unrelated variables grows with
    the number of categories; this one stays near 0.
    """
    rows, columns = (np.unique(np.asarray(values), return_inverse=True)[1] for values in (a, b))
    n = len(rows)
    if n < 2:
        return 0.0
    counts = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(counts, (rows, columns), 1)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True) / n
    phi_squared = float(((counts - expected) ** 2 / expected).sum() / n)
    r, k = counts.shape
    corrected = max(0.0, phi_squared - (k - 1) * (r - 1) / (n - 1))
    smallest = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1
    return float(min(1.0, np.sqrt(corrected / smallest))) if smallest > 0 else 0.0


def variance_explained(values: npt.NDArray[np.float64], groups: npt.ArrayLike) -> float:
    """Return ε², the share of a variable's variance that groups explain, corrected for chance."""
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    n, k = len(values), int(codes.max()) + 1
    total = float(((values - values.mean()) ** 2).sum())
    if n <= k or total == 0:
        return 0.0
    means = np.bincount(codes, weights=values) / np.bincount(codes)
    within = float(((values - means[codes]) ** 2).sum())
    return max(0.0, 1 - (within / (n - k)) / (total / (n - 1)))


def standardised_difference(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """Return the difference of two means in pooled standard deviations; 0 where there is no spread."""
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    if len(a) < 2 or len(b) < 2:
        return 0.0
    pooled = np.sqrt(((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / (len(a) + len(b) - 2))
    return float((a.mean() - b.mean()) / pooled) if pooled > 0 else 0.0
