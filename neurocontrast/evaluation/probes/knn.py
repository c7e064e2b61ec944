"""Nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from neurocontrast.evaluation.probes import Probe
from neurocontrast.evaluation.settings import EvaluationSettings


class Knn(Probe):
    """Nearest neighbours, weighted by the inverse of their distance."""

    title = "k nearest neighbours"
    citation = "Cover T, Hart P. Nearest neighbor pattern classification. IEEE Trans Inf Theory 1967;13:21-27."
    strength = "k"
    why_not_stored = "nearest neighbours are the training scans themselves, and features of people are not stored"

    def estimator(self, settings: EvaluationSettings, *, continuous: bool, seed: int) -> Any:  # noqa: ARG002
        """Return a regressor, or a classifier whose probabilities are never 0 or 1."""
        return (KNeighborsRegressor if continuous else SmoothedNeighbours)(weights="distance")

    def grid(self, settings: EvaluationSettings) -> Sequence[float]:
        """Return the grid of k from the largest on."""
        return settings.k[::-1]

    def parameter(self, *, continuous: bool) -> str:  # noqa: ARG002
        """Return scikit-learn's name of k."""
        return "n_neighbors"


class SmoothedNeighbours(KNeighborsClassifier):
    """Classify by nearest neighbours with probabilities (k · share of the neighbours + share in training) / (k + 1).

    They are never 0 or 1, so that a log-loss is finite.

    Examples
    --------
    >>> model = SmoothedNeighbours(n_neighbors=1).fit([[0.0], [1.0]], [0, 1])
    >>> model.predict_proba([[0.1]]).tolist()
    [[0.75, 0.25]]
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tags.classifier_tags.multi_label = False
        return tags

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> SmoothedNeighbours:
        """Remember the training rows (n, p), their classes (n,) and the shares of these."""
        super().fit(X, y)
        self.shares_ = np.bincount(np.unique(np.asarray(y), return_inverse=True)[1].ravel()) / len(np.asarray(y))
        return self

    def predict_proba(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return probabilities (n, k) in the order of ``classes_``."""
        return (self.n_neighbors * super().predict_proba(X) + self.shares_) / (self.n_neighbors + 1)
