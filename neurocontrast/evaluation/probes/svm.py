"""Linear support vector machines."""

from __future__ import annotations

from typing import Any

from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

from neurocontrast.evaluation.probes import Probe
from neurocontrast.evaluation.settings import EvaluationSettings

EPSILON = 0.1
"""Errors of the regression below this many standard deviations of the target cost nothing."""


class Svm(Probe):
    """A linear machine of squared hinge loss, or of squared epsilon-insensitive loss for numbers."""

    title = "linear support vector machine"
    citation = "Cortes C, Vapnik V. Support-vector networks. Mach Learn 1995;20:273-297."
    strength = "C"
    rotates = calibrated = True

    def estimator(self, settings: EvaluationSettings, *, continuous: bool, seed: int) -> Any:  # noqa: ARG002
        """Return a classifier without probabilities, or a regressor of the standardised target."""
        if not continuous:
            return LinearSVC(dual=False, max_iter=10_000)
        loss = "squared_epsilon_insensitive"
        machine = LinearSVR(loss=loss, epsilon=EPSILON, dual=False, max_iter=10_000)
        return TransformedTargetRegressor(machine, transformer=StandardScaler())

    def parameter(self, *, continuous: bool) -> str:
        """Return the place of C."""
        return "regressor__C" if continuous else "C"
