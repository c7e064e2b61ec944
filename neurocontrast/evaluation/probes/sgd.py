"""A linear softmax classifier by stochastic gradient descent, as linear evaluation of self-supervised encoders has it.

`sklearn.linear_model.SGDClassifier` has neither minibatches nor momentum nor the cosine schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from neurocontrast.evaluation.probes import Probe
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.seeds import derive_generator

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]


class Sgd(Probe):
    """The linear evaluation of self-supervised learning; its learning rate is chosen."""

    title = "linear softmax classifier by stochastic gradient descent"
    citation = "Loshchilov I, Hutter F. SGDR: stochastic gradient descent with warm restarts. ICLR 2017."
    numbers = False
    strength = "learning_rate"

    def estimator(self, settings: EvaluationSettings, *, continuous: bool, seed: int) -> MomentumSGDClassifier:  # noqa: ARG002
        """Return the classifier of the section ``sgd``."""
        return MomentumSGDClassifier(**settings.sgd.model_dump(exclude={"learning_rate"}), random_state=seed)

    def grid(self, settings: EvaluationSettings) -> Sequence[float]:
        """Return the grid of learning rates."""
        return settings.sgd.learning_rate


class MomentumSGDClassifier(LinearClassifierMixin, BaseEstimator):
    """Classify by a linear softmax model fitted by minibatches, momentum and a cosine schedule.

    The mean log-loss of a batch, plus half the weight decay times the squared norm of the coefficients, is followed
    down with momentum. The learning rate of step t of T is rate · (1 + cos(π t / T)) / 2 (Loshchilov and Hutter, 2017).

    Examples
    --------
    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = MomentumSGDClassifier(random_state=0).fit(x, ["low", "low", "high", "high"])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        learning_rate: float = 0.03,
        *,
        epochs: int = 100,
        batch_size: int = 256,
        momentum: float = 0.9,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.momentum = momentum
        self.nesterov = nesterov
        self.weight_decay = weight_decay
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> MomentumSGDClassifier:
        """Fit the coefficients to rows (n, p) and their classes (n,)."""
        x, labels = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("This classifier needs samples of at least 2 classes; the data has 1 class.")
        weights, bias = self._descend(x, codes)
        self.coef_, self.intercept_ = weights.T.astype(np.float64), bias.astype(np.float64)
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return probabilities (n, k)."""
        margins = self.decision_function(X)
        if margins.ndim == 2:
            return softmax(margins, axis=1)
        return np.column_stack([expit(-margins), expit(margins)])

    def _descend(self, x: Singles, codes: npt.NDArray[np.intp]) -> tuple[Singles, Singles]:
        n, n_classes = len(x), len(self.classes_)
        k = n_classes if n_classes > 2 else 1
        truth = np.eye(n_classes, dtype=np.float32)[codes][:, -k:]
        weights, bias = np.zeros((x.shape[1], k), dtype=np.float32), np.zeros(k, dtype=np.float32)
        speeds = [np.zeros_like(weights), np.zeros_like(bias)]
        momentum, decay = np.float32(self.momentum), np.float32(self.weight_decay)
        n_steps = self.epochs * -(-n // self.batch_size)
        rates = self.learning_rate * (1 + np.cos(np.pi * np.arange(n_steps) / n_steps)) / 2
        seed, steps = self._seed(), iter(rates.astype(np.float32))
        with np.errstate(over="ignore", invalid="ignore"):
            for epoch in range(self.epochs):
                order = derive_generator("sgd", seed, epoch).permutation(n)
                for start in range(0, n, self.batch_size):
                    rows = order[start : start + self.batch_size]
                    batch, rate = x[rows], next(steps)
                    residual = (_activate(batch @ weights + bias) - truth[rows]) / np.float32(len(rows))
                    slopes = [batch.T @ residual + decay * weights, residual.sum(axis=0)]
                    for place, (values, slope) in enumerate(zip((weights, bias), slopes, strict=True)):
                        speeds[place] = momentum * speeds[place] + slope
                        values -= rate * (slope + momentum * speeds[place] if self.nesterov else speeds[place])
        return weights, bias

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))


def _activate(margins: Singles) -> Singles:
    return np.asarray(expit(margins) if margins.shape[1] == 1 else softmax(margins, axis=1))
