"""Features of a fold as probes take them: standardised, along principal axes, computed once for each pair of rows."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation.designs import Design, FeatureDesign, in_single_precision, scaler_of
from neurocontrast.evaluation.probes import Probe
from neurocontrast.evaluation.settings import EvaluationSettings

__all__ = ["FoldFeatures", "principal_axes", "probe_features"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

RANK_TOLERANCE, SINGLE_TOLERANCE = 1e-13, 1e-6
"""Axes with a smaller share of the largest one's variance are rounding, in double and in single precision."""


class Matrices(NamedTuple):
    """Features of training and test rows, and the scaling and axes that the training rows gave."""

    train: Floats
    test: Floats
    scaler: StandardScaler | None = None
    axes: Floats | None = None


class FoldFeatures:
    """Features of training and test rows by a design, computed once for each pair; on request standardised.

    `views` are the same features reduced to each of `n_components`, numbers of their first principal components.
    """

    def __init__(
        self, design: Design, *, standardise: bool = False, rotate: bool = False, n_components: Sequence[int] = ()
    ) -> None:
        self._design, self._standardise, self._rotate = design, standardise, rotate
        self._seen: dict[tuple[bytes, bytes], Matrices] = {}
        self._choices, self.n_components = n_components, float("nan")

    def views(self) -> list[FoldFeatures]:
        """Return the features with each number of principal components; where none is asked for, as they are."""
        found = [copy.copy(self) for _ in self._choices]  # each has the same memory of what was computed
        for view, number in zip(found, self._choices, strict=True):
            view.n_components = number
        return found or [self]

    def __call__(self, train: Rows, test: Rows) -> Matrices:
        """Return the features, with everything estimated on the training rows."""
        whole = self._whole(train, test)
        if np.isnan(self.n_components) or whole.axes is None:
            return whole
        first = slice(-int(self.n_components), None)  # the variances of axes rise
        return whole._replace(train=whole.train[:, first], test=whole.test[:, first], axes=whole.axes[:, first])

    def _whole(self, train: Rows, test: Rows) -> Matrices:
        key = train.tobytes(), test.tobytes()
        if key in self._seen:
            return self._seen[key]
        (x_train, x_test), scaler, axes = self._design(train, test), None, None
        if self._standardise:
            scaler = scaler_of(self._design).set_params(copy=False)
            x_train, x_test = scaler.fit_transform(x_train), scaler.transform(x_test)
        if self._choices or (self._rotate and x_train.shape[1] > x_train.shape[0]):
            axes, x_train = principal_axes(x_train)
            x_test = x_test @ axes
        self._seen[key] = Matrices(x_train, x_test, scaler, axes)
        return self._seen[key]


def principal_axes(x: Floats) -> tuple[Floats, Floats]:
    """Return the directions (p, k) along which rows (n, p) extend, as columns, and the rows along these: (n, k)."""
    n, p = x.shape
    wide = p > n  # then the n × n matrix of inner products holds all there is to know
    variances, axes = scipy.linalg.eigh(x @ x.T if wide else x.T @ x, check_finite=False, driver="evd")
    kept = variances > variances[-1] * (RANK_TOLERANCE if x.dtype == np.float64 else SINGLE_TOLERANCE)
    axes = np.ascontiguousarray(axes[:, kept])
    if not wide:
        return axes, x @ axes
    lengths = np.sqrt(variances[kept])
    return x.T @ (axes / lengths), axes * lengths


def probe_features(probe: Probe, design: Design, settings: EvaluationSettings, *, n_train: int) -> FoldFeatures:
    """Return features as a built-in probe takes them; principal components are chosen of an embedding only.

    Of more training rows (`n_train`) than a large table has, they are in single precision.
    """
    choices = settings.n_components if isinstance(design, FeatureDesign) else ()
    design = in_single_precision(design) if n_train > settings.large_table else design
    return FoldFeatures(design, standardise=True, rotate=probe.rotates, n_components=choices)
