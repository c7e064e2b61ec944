"""Measure the association of two columns, corrected for chance."""

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2_contingency
from scipy.stats.contingency import crosstab

from neurocontrast.evaluation.rows import Floats


def cramers_v(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Return Cramér's V of two categorical variables, corrected for bias: 0 is independence.

    References
    ----------
    Bergsma W. A bias-correction for Cramér's V and Tschuprow's T. J Korean Stat Soc
    2013;42:323-328.
    """
    counts = crosstab(np.asarray(a), np.asarray(b)).count
    n = int(counts.sum())
    n_rows, n_columns = counts.shape
    if n < 2:
        return 0.0
    phi_squared = chi2_contingency(counts, correction=False).statistic / n
    corrected = max(0.0, phi_squared - (n_columns - 1) * (n_rows - 1) / (n - 1))
    largest_by_rows = n_rows - (n_rows - 1) ** 2 / (n - 1)
    largest_by_columns = n_columns - (n_columns - 1) ** 2 / (n - 1)
    largest = min(largest_by_rows, largest_by_columns) - 1
    if largest <= 0:
        return 0.0
    return float(min(1.0, np.sqrt(corrected / largest)))


def variance_explained(values: Floats, groups: npt.ArrayLike) -> float:
    """Return ε², the share of a variable's variance that groups explain, corrected for chance.

    `values` (n,) are numbers and `groups` (n,) the group of each. The share is 0 if values do not
    vary, or if there are as many groups as values.
    """
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    n = len(values)
    n_groups = int(codes.max()) + 1
    total = float(((values - values.mean()) ** 2).sum())
    if n <= n_groups or total == 0:
        return 0.0
    means = np.bincount(codes, weights=values) / np.bincount(codes)
    within = float(((values - means[codes]) ** 2).sum())
    return max(0.0, 1 - (within / (n - n_groups)) / (total / (n - 1)))
