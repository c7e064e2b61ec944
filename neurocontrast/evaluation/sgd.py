"""A linear softmax classifier by stochastic gradient descent with momentum and a cosine schedule.

It is what linear evaluation of self-supervised encoders is often done with. Its optimum, with weight decay, is that
of logistic regression (`probes`); without, how long it runs is its regularisation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from neurocontrast.evaluation.linear import log_losses, scale_columns
from neurocontrast.evaluation.probes import Design, Pairs, ProbeFit
from neurocontrast.evaluation.settings import EvaluationSettings, SgdSettings
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from neurocontrast.seeds import derive_generator

__all__ = ["descend", "fit_by_sgd", "predict_by_sgd", "probabilities"]

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Rows = npt.NDArray[np.intp]


def fit_by_sgd(
    design: Design,
    target: Target,
    train: Rows,
    test: Rows,
    *,
    pairs: Pairs,
    settings: EvaluationSettings,
    seed: int,
) -> ProbeFit:
    """Choose the learning rate on the inner folds `pairs`, fit on all training rows, and predict the test rows.

    The rate is the one of least mean log-loss; of equals, the lowest. A rate at which the loss is no number is none.

    Raises
    ------
    ConfigError
        If that is so of all.
    """
    grid = settings.sgd.learning_rate
    chosen = grid[len(grid) // 2]
    if len(grid) > 1 and pairs:
        losses = np.mean([_losses(design, target, *pair, settings=settings.sgd, seed=seed) for pair in pairs], axis=0)
        losses = np.where(np.isfinite(losses), losses, np.inf)
        if np.isinf(losses).all():
            raise ConfigError(
                f"sgd.learning_rate: the loss is no number at any of {list(grid)} (weight decay "
                f"{settings.sgd.weight_decay:g}, momentum {settings.sgd.momentum:g}). Give lower rates."
            )
        chosen = grid[int(losses.argmin())]
    fit = predict_by_sgd(design, target, train, test, rate=chosen, settings=settings.sgd, seed=seed)
    if not np.isfinite(fit.scores).all():
        raise ConfigError(f"sgd.learning_rate: the loss is no number at {chosen:g}. Give lower rates.")
    return fit


def predict_by_sgd(
    design: Design, target: Target, train: Rows, test: Rows, *, rate: float, settings: SgdSettings, seed: int
) -> ProbeFit:
    """Fit the training rows at a learning rate that is given, and predict the test rows."""
    classes, codes = np.unique(target.values[train], return_inverse=True)
    x_train, x_test = _matrices(design, train, test)
    coefficients, intercept = descend(x_train, codes, n_classes=len(classes), rate=rate, settings=settings, seed=seed)
    scores = np.zeros((len(test), len(target.classes)))
    scores[:, classes] = probabilities(x_test, coefficients, intercept)
    return ProbeFit(scores[:, 1] if target.kind == "binary" else scores, rate)


def descend(
    x: Singles,
    codes: npt.NDArray[np.integer],
    *,
    n_classes: int,
    rate: float,
    settings: SgdSettings,
    seed: int,
) -> tuple[Singles, Singles]:
    """Return coefficients (p, k) and intercepts (k,) of standardised rows `x` (n, p); k is 1 for two classes.

    The mean log-loss of a batch, plus half the weight decay times the squared norm of the coefficients, is followed
    down with momentum. The learning rate of step t of T is rate · (1 + cos(π t / T)) / 2.
    """
    n, k = len(x), n_classes if n_classes > 2 else 1
    truth = np.eye(n_classes, dtype=np.float32)[codes][:, -k:] if k == 1 else np.eye(k, dtype=np.float32)[codes]
    weights, bias = np.zeros((x.shape[1], k), dtype=np.float32), np.zeros(k, dtype=np.float32)
    speed, bias_speed = np.zeros_like(weights), np.zeros_like(bias)
    momentum, ahead = np.float32(settings.momentum), settings.nesterov
    n_steps = settings.epochs * -(-n // settings.batch_size)
    rates = rate * (1 + np.cos(np.pi * np.arange(n_steps) / n_steps)) / 2
    step = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for epoch in range(settings.epochs):
            order = derive_generator("sgd", seed, epoch).permutation(n)
            for start in range(0, n, settings.batch_size):
                rows = order[start : start + settings.batch_size]
                batch = x[rows]
                residual = (_activate(batch @ weights + bias) - truth[rows]) / np.float32(len(rows))
                slope = batch.T @ residual
                if settings.weight_decay:
                    slope += np.float32(settings.weight_decay) * weights
                bias_slope = residual.sum(axis=0)
                speed = momentum * speed + slope
                bias_speed = momentum * bias_speed + bias_slope
                now = np.float32(rates[step])
                weights -= now * (slope + momentum * speed if ahead else speed)
                bias -= now * (bias_slope + momentum * bias_speed if ahead else bias_speed)
                step += 1
    return weights, bias


def probabilities(x: npt.NDArray[np.floating], coefficients: Singles, intercept: Singles) -> Floats:
    """Return probabilities (n, n classes), of two classes from the one column of coefficients."""
    margins = (x @ coefficients + intercept).astype(np.float64)
    if margins.shape[1] > 1:
        return softmax(margins, axis=1)
    positive = expit(margins)
    return np.concatenate([1 - positive, positive], axis=1)


def _activate(margins: Singles) -> Singles:
    if margins.shape[1] == 1:
        return expit(margins)
    powers = np.exp(margins - margins.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _losses(
    design: Design, target: Target, fit_rows: Rows, try_rows: Rows, *, settings: SgdSettings, seed: int
) -> Floats:
    """Return the log-loss of the rows to try, for each learning rate of the grid."""
    classes, codes = np.unique(target.values[fit_rows], return_inverse=True)
    truth = np.searchsorted(classes, target.values[try_rows])
    x_fit, x_try = _matrices(design, fit_rows, try_rows)
    losses = []
    for rate in settings.learning_rate:
        found = descend(x_fit, codes, n_classes=len(classes), rate=rate, settings=settings, seed=seed)
        losses.append(float(log_losses(truth[:, None], probabilities(x_try, *found)[:, None])[0]))
    return np.array(losses)


def _matrices(design: Design, train: Rows, test: Rows) -> tuple[Singles, Singles]:
    x_train, x_test = scale_columns(*design(train, test))
    return x_train.astype(np.float32), x_test.astype(np.float32)
