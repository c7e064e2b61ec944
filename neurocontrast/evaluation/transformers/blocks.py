"""Standardise features of several encoders so that each encoder's have the same total variance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import StandardScaler


class BlockScaler(StandardScaler):
    """Standardise features, and give every block of adjacent columns the same total variance.

    A standardised feature j of block b, of which p_b features vary in training, is multiplied by sqrt(p / (B p_b)),
    with p the number of all features that vary and B the number of blocks: 6,912 features of a network then weigh as
    much as 60 principal components, and the total variance stays p, so that penalties keep their meaning. This is the
    scaling of multiple factor analysis by total variance (Westerhuis et al., J Chemometrics 1998;12:301-321).

    Parameters
    ----------
    sizes : sequence of int
        Number of columns of each block, in their order; together all columns. Empty: all columns are one block.
    copy : bool, default=True
        Whether the features given are left as they are.

    Attributes
    ----------
    mean_, scale_ : array (p,)
        What is taken off each feature, and what it is divided by, its block's factor included.

    Examples
    --------
    >>> features = np.random.default_rng(0).normal(size=(50, 10)) * 7
    >>> scaled = BlockScaler(sizes=[8, 2]).fit_transform(features)
    >>> [round(float(scaled[:, block].var(axis=0).sum()), 6) for block in (slice(0, 8), slice(8, 10))]
    [5.0, 5.0]
    """

    def __init__(self, sizes: Sequence[int] = (), *, copy: bool = True) -> None:
        super().__init__(copy=copy)
        self.sizes = sizes

    def fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> BlockScaler:
        """Learn means, standard deviations and the factor of each block from rows (n, p)."""
        super().fit(X, y, sample_weight)
        sizes = list(self.sizes) or [self.n_features_in_]
        if sum(sizes) != self.n_features_in_:
            raise ValueError(f"sizes: {sizes} are {sum(sizes)} columns, and X has {self.n_features_in_}.")
        varies, start = self.var_ > 0, 0
        for size in sizes:
            block = slice(start, start + size)
            share = max(1, int(varies[block].sum())) * len(sizes) / max(1, int(varies.sum()))
            self.scale_[block] *= np.sqrt(share)
            start += size
        return self
