"""Probabilities from decision values (Platt, 1999), in an order that is never turned round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

__all__ = ["Platt", "fit_platt"]

Floats = npt.NDArray[np.float64]

_LEAST_SLOPE = 1e-2
"""Least change of the log-odds by a standard deviation of the decision values."""


@dataclass(frozen=True)
class Platt:
    """A slope common to all classes, and a bias for each.

    Attributes
    ----------
    slope : float
        Above zero.
    biases : array (n classes,)
        Of the last class 0.
    """

    slope: float
    biases: Floats

    def probabilities(self, decisions: Floats) -> Floats:
        """Return probabilities (n, n classes) of decision values of the same shape."""
        return softmax(self.slope * decisions + self.biases, axis=1)


def fit_platt(decisions: Floats, codes: npt.NDArray[np.intp]) -> Platt:
    """Fit the slope and the biases by maximum likelihood, on decision values of scans not trained on.

    As in Platt's paper, nobody is taken for certain: a scan of class k counts as of this class with
    (n_k + 1) / (n_k + number of classes), so that classes told apart perfectly have a finite slope.
    Where decision values of other scans point the wrong way, the slope stays just above zero: scores
    keep the order of the decision values, and say little more than the shares of the classes.

    Parameters
    ----------
    decisions : array (n, n classes)
        Of two classes: zeros, and the decision value.
    codes : array (n,)
        Class of each scan.
    """
    n, n_classes = decisions.shape
    counts = np.bincount(codes, minlength=n_classes).astype(float)
    own = (counts + 1) / (counts + n_classes)
    truth = np.repeat(((1 - own) / max(n_classes - 1, 1))[codes][:, None], n_classes, axis=1)
    truth[np.arange(n), codes] = own[codes]
    spread = decisions - decisions.mean(axis=1, keepdims=True)
    scale = float(spread.std()) or 1.0

    def loss(parameters: Floats) -> tuple[float, Floats]:
        logits = parameters[0] * decisions / scale + np.append(parameters[1:], 0.0)
        error = softmax(logits, axis=1) - truth
        gradient = np.append((error * decisions).sum() / scale, error[:, :-1].sum(axis=0))
        return -float((truth * log_softmax(logits, axis=1)).sum()) / n, gradient / n

    start = np.append(1.0, np.zeros(n_classes - 1))
    bounds = [(_LEAST_SLOPE, None)] + [(None, None)] * (n_classes - 1)
    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-12, "gtol": 1e-8})
    return Platt(float(found.x[0] / scale), np.append(found.x[1:], 0.0))
