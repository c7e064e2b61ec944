"""Out-of-fold predictions: every scan scored by a probe that never saw its subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from neurocontrast.data.parallel import map_files
from neurocontrast.evaluation.designs import Design
from neurocontrast.evaluation.fitting import Prediction, fit_probe
from neurocontrast.evaluation.own_estimator import EstimatorError
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_seed

__all__ = ["OutOfFold", "constant_predictions", "cross_validate", "gather", "split_seed"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OutOfFold:
    """Predictions of the test rows of every split.

    Attributes
    ----------
    scores : array (n_repeats, n) or (n_repeats, n, n_classes)
        Probability of the positive class, of each class, or the predicted value; NaN where a scan was never tested.
    decisions : array (n_repeats, n)
        Predicted class codes; zeros for a continuous target.
    folds : array (n_repeats, n)
        Fold in which the scan was tested; -1 where never.
    strengths, thresholds : list
        What was chosen in each split.
    n_not_converged : int
        Number of fits in which the solver stopped early.
    """

    scores: Floats
    decisions: npt.NDArray[np.int64]
    folds: npt.NDArray[np.intp]
    strengths: list[float]
    n_not_converged: int
    thresholds: list[float | None] = field(default_factory=list)

    @property
    def tested(self) -> npt.NDArray[np.intp]:
        """Rows that were tested at least once."""
        return np.flatnonzero((self.folds >= 0).any(axis=0))


def gather(target: Target, splits: Sequence[Split], predictions: Sequence[Prediction]) -> OutOfFold:
    """Return the predictions of all splits as arrays over the scans of the target."""
    n, n_repeats = len(target.values), 1 + max(split.repeat for split in splits)
    shape = (n_repeats, n, len(target.classes)) if target.kind == "multiclass" else (n_repeats, n)
    scores, decisions = np.full(shape, np.nan), np.zeros((n_repeats, n), dtype=np.int64)
    folds = np.full((n_repeats, n), -1, dtype=np.intp)
    for split, each in zip(splits, predictions, strict=True):
        place = (split.repeat, split.test)
        scores[place], decisions[place], folds[place] = each.scores, each.decisions, split.fold
    failed = sum(each.n_not_converged for each in predictions)
    thresholds = [each.threshold for each in predictions]
    return OutOfFold(scores, decisions, folds, [each.strength for each in predictions], failed, thresholds)


def cross_validate(
    design: Design,
    target: Target,
    splits: Sequence[Split],
    *,
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
    sites: npt.NDArray[np.object_] | None = None,
    estimator: BaseEstimator | None = None,
    advance: Callable[[], None] = lambda: None,
) -> OutOfFold:
    """Fit a probe for every split and collect what it says of the test rows."""
    given = {"subjects": subjects, "settings": settings, "sites": sites, "estimator": estimator}
    tasks = [(number, design, target, split, given) for number, split in enumerate(splits)]
    found = {}
    for number, predicted in map_files(_fit_split, tasks, n_workers=settings.n_jobs, option="evaluation.n_jobs"):
        found[number] = predicted
        advance()
    return gather(target, splits, [found[number] for number in range(len(splits))])


def constant_predictions(target: Target, splits: Sequence[Split]) -> OutOfFold:
    """Return what the training scans' median, or share of each class, says of every test scan."""
    found = []
    for split in splits:
        values, n = target.values[split.train], len(split.test)
        if target.kind == "continuous":
            found.append(Prediction(np.full(n, np.median(values.astype(float))), np.zeros(n, dtype=np.int64)))
            continue
        shares = np.bincount(values.astype(int), minlength=len(target.classes)) / len(values)
        scores = np.tile(shares, (n, 1)) if target.kind == "multiclass" else np.full(n, shares[1])
        found.append(Prediction(scores, np.full(n, shares.argmax(), dtype=np.int64)))
    return gather(target, splits, found)


def split_seed(seed: int, split: Split) -> int:
    """Return the seed of the probe of a split."""
    return derive_seed("probe", seed, split.repeat, split.fold)


def _fit_split(
    number: int, design: Design, target: Target, split: Split, given: dict[str, Any]
) -> tuple[int, Prediction]:
    seed = split_seed(given["settings"].seed, split)
    try:
        return number, fit_probe(
            design, target, split.train, split.test, seed=seed, validation=split.validation, **given
        )[0]
    except EstimatorError as error:
        raise EstimatorError(f"{error} (fold {split.fold} of repeat {split.repeat})") from error
