"""k nearest neighbours on standardised features: what the space itself says, without a fitted direction.

Distances are Euclidean, so that the covariates of the baseline (one age, one sex) can be
compared in the same way as a thousand features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation.probes import Design, Pairs, ProbeFit
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.target import Target

__all__ = ["fit_neighbours", "neighbour_predictions", "neighbour_weights"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

_SAME = 1e-9
"""Distances are taken for equal when they differ by a smaller share of the typical one."""
_CHUNK_VALUES = 4_000_000


def fit_neighbours(
    design: Design,
    target: Target,
    train: Rows,
    test: Rows,
    *,
    pairs: Pairs,
    settings: EvaluationSettings,
) -> ProbeFit:
    """Choose the number of neighbours on the inner folds `pairs`, and predict the test rows.

    The number is the one of least mean log-loss or squared error over the inner folds; of
    equals, the largest. More neighbours than training scans are as many as there are.
    """
    chosen = settings.k[len(settings.k) // 2]
    if pairs:
        losses = []
        for fit_rows, try_rows in pairs:
            paths = neighbour_predictions(design, target, fit_rows, try_rows, settings.k)
            losses.append([_loss(target, try_rows, path) for path in paths])
        means = np.mean(losses, axis=0)
        chosen = settings.k[int(np.flatnonzero(means <= means.min())[-1])]
    scores = neighbour_predictions(design, target, train, test, (chosen,))[0]
    return ProbeFit(scores, float(min(chosen, len(train))))


def neighbour_predictions(design: Design, target: Target, train: Rows, test: Rows, grid: Sequence[int]) -> list[Floats]:
    """Return, for each number of neighbours, what they say of the test rows.

    Numbers: the weighted mean of the neighbours' values. Classes: (k · weighted share + share in
    training) / (k + 1), as if one neighbour more had the classes of the training rows: never 0 or 1.
    """
    x_train, x_test = design(train, test)
    scaler = StandardScaler().fit(x_train)
    members = target.values[train].astype(float)[:, None]
    if target.kind != "continuous":
        members = np.eye(len(target.classes))[target.values[train].astype(int)]
    found = [np.empty((len(test), members.shape[1])) for _ in grid]
    for rows, near, parts in _weight_blocks(scaler.transform(x_train), scaler.transform(x_test), grid):
        for shares, part in zip(found, parts, strict=True):
            shares[rows] = part @ members[near]
    if target.kind == "continuous":
        return [shares[:, 0] for shares in found]
    sizes = [min(k, len(train)) for k in grid]
    scores = [(k * shares + members.mean(axis=0)) / (k + 1) for k, shares in zip(sizes, found, strict=True)]
    return [each[:, 1] for each in scores] if target.kind == "binary" else scores


def neighbour_weights(x_train: Floats, x_test: Floats, grid: Sequence[int]) -> list[Floats]:
    """Return weights (n test, n train), their rows of sum 1, for each number of neighbours.

    A neighbour counts by the inverse of its distance; one at distance zero leaves nothing to the others.
    Scans equally far as the last neighbour share its place, so that no order of rows decides.
    """
    found = [np.zeros((len(x_test), len(x_train))) for _ in grid]
    for rows, near, parts in _weight_blocks(x_train, x_test, grid):
        for weights, part in zip(found, parts, strict=True):
            weights[rows.start : rows.stop, near] = part
    return found


def _weight_blocks(x_train: Floats, x_test: Floats, grid: Sequence[int]) -> Iterator[tuple[slice, Rows, list[Floats]]]:
    """Yield test rows, the training rows that are near one of them, and weights of these for each number of neighbours.

    All others have the weight zero, and tens of thousands of columns of zeros would neither fit nor be done with soon.
    """
    sizes = [min(k, len(x_train)) for k in grid]
    squares = np.einsum("ij,ij->i", x_train, x_train)
    block = max(1, _CHUNK_VALUES // max(1, len(x_train)))
    places = sorted({k - 1 for k in sizes})
    for start in range(0, len(x_test), block):
        rows = slice(start, min(start + block, len(x_test)))
        x = x_test[rows]
        distances = np.einsum("ij,ij->i", x, x)[:, None] + squares - 2 * x @ x_train.T
        scale = _SAME * max(float(squares.mean()), 1.0)
        distances = np.sqrt(np.where(distances > scale, distances, 0.0))
        ordered = np.partition(distances, places, axis=1)
        last = {k: ordered[:, k - 1 : k].copy() for k in sizes}
        reach = last[max(sizes)]
        near = np.flatnonzero((distances <= reach + _SAME * np.maximum(reach, 1.0)).any(axis=0))
        distances = distances[:, near]
        yield rows, near, [_shares(distances, last[k], k) for k in sizes]


def _shares(distances: Floats, last: Floats, k: int) -> Floats:
    slack = _SAME * np.maximum(last, 1.0)
    closer, tied = distances < last - slack, np.abs(distances - last) <= slack
    places = closer + tied * (k - closer.sum(axis=1, keepdims=True)) / tied.sum(axis=1, keepdims=True)
    same = (distances == 0) & (places > 0)
    weights = np.where(same.any(axis=1, keepdims=True), same, 1 / np.where(distances == 0, 1.0, distances)) * places
    return weights / weights.sum(axis=1, keepdims=True)


def _loss(target: Target, rows: Rows, scores: Floats) -> float:
    truth = target.values[rows]
    if target.kind == "continuous":
        return float(np.mean((truth.astype(float) - scores) ** 2))
    table = np.column_stack([1 - scores, scores]) if target.kind == "binary" else scores
    return float(-np.log(table[np.arange(len(rows)), truth.astype(np.intp)]).mean())
