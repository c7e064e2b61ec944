"""Ridge regression."""

from __future__ import annotations

from collections.abc import Sequence

from sklearn import linear_model

from neurocontrast.evaluation.probes import Probe
from neurocontrast.evaluation.settings import EvaluationSettings


class Ridge(Probe):
    """Least squares with an L2 penalty."""

    title = "ridge regression"
    citation = "Hoerl AE, Kennard RW. Ridge regression. Technometrics 1970;12:55-67."
    classes = False
    strength = "alpha"
    rotates = True

    def estimator(self, settings: EvaluationSettings, *, continuous: bool, seed: int) -> linear_model.Ridge:  # noqa: ARG002
        """Return scikit-learn's estimator."""
        return linear_model.Ridge()

    def grid(self, settings: EvaluationSettings) -> Sequence[float]:
        """Return the grid of alpha from the largest on."""
        return settings.alpha[::-1]
