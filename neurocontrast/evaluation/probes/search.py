"""Search for a probe's penalty, the width of a kernel and the weight of two blocks of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.decomposition import KernelPCA
from sklearn.utils import resample

from neurocontrast.evaluation.metrics import LOG_FLOOR
from neurocontrast.evaluation.probe_kinds import N_LANDMARKS, Probe
from neurocontrast.evaluation.probes.blocks import standardised_blocks
from neurocontrast.evaluation.probes.designs import Design, standardised
from neurocontrast.evaluation.rows import Floats, Labels
from neurocontrast.evaluation.splits.inner import Pairs

N_RISES = 3
"""Rises of the inner loss in a row after which a probe with `gives_up` tries no further penalty."""


class Choice(NamedTuple):
    """Chosen penalty, width of a kernel and weight of blocks, with the mean loss on inner folds.

    `weight` is the share of the first of two blocks of features in the total variance. `width` is
    None for a probe without a kernel, and `weight` without two blocks.
    """

    strength: float
    width: float | None = None
    weight: float | None = None
    loss: float = float("nan")


class InnerFold(NamedTuple):
    """Features and labels of an inner fold: rows to fit on, and rows to try a penalty on."""

    train: Floats
    test: Floats
    fitted: Labels
    tried: Labels


@dataclass(frozen=True, eq=False)
class Search:
    """Search of a probe's penalty: the estimator and the grid, the strongest penalty first."""

    probe: Probe
    model: BaseEstimator
    grid: tuple[float, ...]

    @property
    def widths(self) -> tuple[float | None, ...]:
        """Widths of the probe's kernel to choose from; ``(None,)`` for a probe without a kernel.

        A width is the factor in the kernel exp(−factor · d²/v), where d is the distance of two rows
        and v the total variance of the features.
        """
        return self.probe.widths or (None,)

    @property
    def n_choices(self) -> int:
        """Number of pairs of a penalty and a width of the kernel to choose from."""
        return len(self.grid) * len(self.widths)

    def middle(self, weight: float | None) -> Choice:
        """Return the middle penalty of the grid and the middle width of the kernel as a `Choice`.

        It is taken where no inner fold can be made. The `Choice` holds the given `weight` of blocks
        of features unchanged.
        """
        strength = sorted(self.grid)[len(self.grid) // 2]
        return Choice(strength, self.widths[len(self.widths) // 2], weight)

    def estimator(self, strength: float) -> Any:
        """Return a clone of the probe's estimator with the penalty `strength`, not fitted."""
        return clone(self.model).set_params(**{self.probe.strength: strength})


@dataclass(eq=False)
class Losses:
    """Mean loss of each penalty on inner folds, computed when first asked for.

    With `warm`, a solver starts from the solution of the penalty before if it can, as
    scikit-learn's `LogisticRegressionCV` does.
    """

    search: Search
    folds: Sequence[InnerFold]
    warm: bool = False
    _of: dict[int, float] = field(default_factory=dict)
    _models: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        warm = self.warm and "warm_start" in self.search.model.get_params()
        for _ in self.folds:
            model = clone(self.search.model)
            if warm:
                model.set_params(warm_start=True)
            self._models.append(model)

    def __getitem__(self, index: int) -> float:
        """Return the mean loss over inner folds of probes fitted with the penalty at index `index`.

        The index is that in `Search.grid`. The loss is that of the rows that a probe was not fitted
        on.
        """
        if index not in self._of:
            strength = {self.search.probe.strength: self.search.grid[index]}
            losses = []
            for model, fold in zip(self._models, self.folds, strict=True):
                set_up = model.set_params(**strength)
                losses.append(_loss(set_up.fit(fold.train, fold.fitted), fold.test, fold.tried))
            self._of[index] = float(np.mean(losses))
        return self._of[index]

    def lowest(self) -> int:
        """Return the index in `Search.grid` of the penalty with the least loss; the first if equal.

        Penalties are tried in the order of the grid, the strongest first. For a probe that
        `gives_up`, penalties after `N_RISES` rises of the loss in a row are not tried.
        """
        losses: list[float] = []
        for index in range(len(self.search.grid)):
            losses.append(self[index])
            last = losses[-N_RISES - 1 :]
            rises = len(losses) > N_RISES and bool((np.diff(last) > 0).all())
            if self.search.probe.gives_up and rises:
                break
        return int(np.argmin(losses))

    def lowest_near(self, start: int) -> int:
        """Move along the grid from index `start` as long as the loss falls; return the last index.

        Stronger penalties are tried first, and taken where the loss is the same.
        """
        index = start
        while index > 0 and self[index - 1] <= self[index]:
            index -= 1
        if index < start:
            return index
        while index + 1 < len(self.search.grid) and self[index + 1] < self[index]:
            index += 1
        return index

    def choice(self, index: int, *, width: float | None, weight: float | None = None) -> Choice:
        """Return the penalty at position `index` of the grid as a `Choice`, with its mean loss."""
        return Choice(self.search.grid[index], width, weight, self[index])


def choose_strength(search: Search, design: Design, pairs: Pairs, values: Labels) -> Choice:
    """Choose the penalty, and the width of a kernel, with the least mean loss on inner folds.

    Returned is a `Choice`, whose field `weight` is None. `design` gives the features of the rows,
    `pairs` are the inner folds, and `values` has the target of all rows. The loss is that of the
    probe that `search` describes.
    """
    matrices = []
    for fit, tried in pairs:
        x = standardised(design, fit, tried)
        matrices.append((x.train, x.test))
    choices = []
    for width in search.widths:
        losses = Losses(search, _inner_folds(matrices, pairs, values, width=width))
        choices.append(losses.choice(losses.lowest(), width=width))
    return min(choices, key=attrgetter("loss"))


def choose_weight(
    search: Search, designs: Mapping[float | None, Design], pairs: Pairs, values: Labels
) -> Choice:
    """Choose the weight of two blocks of features, the penalty and a kernel's width on inner folds.

    A weight is the share of the first block in the total variance; the second block has the rest.
    Returned is the `Choice` with the least mean loss. `designs` has the features for each weight,
    and `pairs` are the inner folds. Blocks are standardised once an inner fold. All penalties are
    tried with the first weight. With every other weight, the search starts at the best penalty of
    the nearest weight, and goes on as long as the loss falls.
    """
    blocks = []
    for fit, tried in pairs:
        blocks.append(standardised_blocks(next(iter(designs.values())), fit, tried))
    choices = []
    for width in search.widths:
        best: dict[float, int] = {}
        for weight, design in designs.items():
            assert weight is not None
            matrices = [fold.weighed(design) for fold in blocks]
            losses = Losses(search, _inner_folds(matrices, pairs, values, width=width), warm=True)
            best[weight] = lowest_from_nearest(losses, best, weight)
            choices.append(losses.choice(best[weight], width=width, weight=weight))
    return min(choices, key=attrgetter("loss"))


def lowest_from_nearest(losses: Losses, best: Mapping[float, int], weight: float) -> int:
    """Return the position in the grid of the penalty with the least loss, for one `weight`.

    A weight is the share of the first of two blocks of features in the total variance. `best` is
    earlier weight → position of its best penalty: the search starts at the position of the nearest
    weight. If `best` is empty, the whole grid is searched.
    """
    if not best:
        return losses.lowest()
    nearest = min(best, key=lambda earlier: abs(earlier - weight))
    return losses.lowest_near(best[nearest])


def _inner_folds(
    matrices: Sequence[tuple[Floats, Floats]],
    pairs: Pairs,
    values: Labels,
    *,
    width: float | None,
) -> list[InnerFold]:
    """Return an `InnerFold` for each of `pairs`: features and labels of rows to fit, and to try.

    `matrices` has the features of both kinds of rows for each pair, and `values` the target of all
    rows. Features are expanded by a kernel of width `width`; None: not expanded.
    """
    folds = []
    for (train, test), (fit, tried) in zip(matrices, pairs, strict=True):
        x_train, x_test = expand(train, test, width)
        folds.append(InnerFold(x_train, x_test, values[fit], values[tried]))
    return folds


def expand(train: Floats, test: Floats, width: float | None) -> tuple[Floats, Floats]:
    """Expand features by a Gaussian kernel, so that a linear fit is a fit of the kernel model.

    `train` and `test` are features of rows, and are returned unchanged without a `width`. Expanded
    features keep the distances of near rows, so that a penalty has the same meaning. The kernel
    compares each row with all training rows, or, if there are more training rows than
    `N_LANDMARKS`, with this number of training rows drawn at random.
    """
    if width is None:
        return train, test
    gamma = width / max(float(train.var(axis=0).sum()), 1e-12)
    landmarks = train
    if len(landmarks) > N_LANDMARKS:
        landmarks = resample(landmarks, replace=False, n_samples=N_LANDMARKS, random_state=0)
    kernel = KernelPCA(kernel="rbf", gamma=gamma, eigen_solver="dense", remove_zero_eig=True)
    kernel.fit(landmarks)
    scale = np.sqrt(2 * gamma)
    return kernel.transform(train) / scale, kernel.transform(test) / scale


def _loss(model: Any, x: Floats, y: Labels) -> float:
    """Return the mean squared error of a fitted regressor, or the log-loss of a classifier.

    `x` and `y` are the features and labels of the rows to try the fit on.
    """
    if is_regressor(model):
        return float(((model.predict(x) - y) ** 2).mean())
    likely = model.predict_proba(x)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return float(-np.log(np.clip(likely, LOG_FLOOR, 1.0)).mean())
