"""Kinds of probes: a scikit-learn estimator each, with the grid of its penalty; `PROBES` lists them by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as RidgeRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

if TYPE_CHECKING:
    from neurocontrast.evaluation.settings import EvaluationSettings

__all__ = ["PROBES", "Probe", "SmoothedNeighbours", "default_probe"]

EPSILON = 0.1
"""Errors of the support vector regression below this many standard deviations of the target cost nothing."""


class Probe:
    """A kind of probe: its estimator, the grid of its strength, and what it can predict.

    A new kind is a class derived from this one, and a line of `PROBES`. The strength is chosen on inner folds by
    log-loss or squared error.
    """

    title: str = ""
    """Name in a sentence."""
    citation: str = ""
    classes: bool = True
    numbers: bool = True
    """Whether categorical, and continuous, targets can be predicted."""
    strength: str = ""
    """Name of the value that is chosen, and of the setting with its grid."""
    gives_up: bool = False
    """Whether the rest of the grid is left out once the score has fallen three times in a row."""
    rotates: bool = False
    """Whether predictions stay the same when features are rotated."""
    calibrated: bool = False
    """Whether decision values of classes need a temperature to become probabilities."""
    why_not_stored: str | None = None
    """Reason why a fitted probe is not written; None for a linear one, which is written as its coefficients."""

    def estimator(self, *, continuous: bool, large: bool) -> Any:
        """Return a classifier, or regressor, of standardised features; `large`: of very many scans."""
        raise NotImplementedError

    def grid(self, settings: EvaluationSettings) -> Sequence[float]:
        """Return the strengths to choose from, the strongest penalty first."""
        return getattr(settings, self.strength)

    def parameter(self, *, continuous: bool) -> str:  # noqa: ARG002
        """Return the parameter of the estimator that holds the strength."""
        return self.strength


class Logistic(Probe):
    """Logistic regression with an L2 penalty; the weakest penalties take longest."""

    title = "L2-penalised logistic regression"
    citation = "Cox DR. The regression analysis of binary sequences. J R Stat Soc B 1958;20:215-242."
    numbers = False
    strength = "C"
    rotates = gives_up = True

    def estimator(self, *, continuous: bool, large: bool) -> LogisticRegression:  # noqa: ARG002
        """Return a tight optimum; of very many scans one to single precision, by the fewest passes over them."""
        if large:
            return LogisticRegression(solver="lbfgs", tol=1e-5, max_iter=1000)
        return LogisticRegression(solver="newton-cg", tol=1e-8, max_iter=1000)


class Ridge(Probe):
    """Least squares with an L2 penalty."""

    title = "ridge regression"
    citation = "Hoerl AE, Kennard RW. Ridge regression. Technometrics 1970;12:55-67."
    classes = False
    strength = "alpha"
    rotates = True

    def estimator(self, *, continuous: bool, large: bool) -> RidgeRegression:  # noqa: ARG002
        """Return scikit-learn's estimator."""
        return RidgeRegression()

    def grid(self, settings: EvaluationSettings) -> Sequence[float]:
        """Return the grid of alpha from the largest on."""
        return settings.alpha[::-1]


class Svm(Probe):
    """A linear machine of squared hinge loss, or of squared epsilon-insensitive loss for numbers."""

    title = "linear support vector machine"
    citation = "Cortes C, Vapnik V. Support-vector networks. Mach Learn 1995;20:273-297."
    strength = "C"
    rotates = calibrated = True

    def estimator(self, *, continuous: bool, large: bool) -> Any:  # noqa: ARG002
        """Return a classifier without probabilities, or a regressor of the standardised target."""
        if not continuous:
            return LinearSVC(dual=False, max_iter=10_000)
        loss = "squared_epsilon_insensitive"
        machine = LinearSVR(loss=loss, epsilon=EPSILON, dual=False, max_iter=10_000)
        return TransformedTargetRegressor(machine, transformer=StandardScaler())

    def parameter(self, *, continuous: bool) -> str:
        """Return the place of C."""
        return "regressor__C" if continuous else "C"


class Knn(Probe):
    """Nearest neighbours, weighted by the inverse of their distance."""

    title = "k nearest neighbours"
    citation = "Cover T, Hart P. Nearest neighbor pattern classification. IEEE Trans Inf Theory 1967;13:21-27."
    strength = "k"
    why_not_stored = "nearest neighbours are the training scans themselves, and features of people are not stored"

    def estimator(self, *, continuous: bool, large: bool) -> Any:  # noqa: ARG002
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


PROBES: dict[str, Probe] = {"knn": Knn(), "logistic": Logistic(), "ridge": Ridge(), "svm": Svm()}
"""All kinds of probes, by the name that the setting ``probe`` takes."""


def default_probe(kind: str) -> Probe:
    """Return the probe of models that are not the embedding: ridge for a continuous target, else logistic."""
    return PROBES["ridge" if kind == "continuous" else "logistic"]
