"""Predict every scan by models that were fitted without the scan's subject: cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.plan.models import Model
from neurocontrast.evaluation.plan.plan import split_seed
from neurocontrast.evaluation.probes.estimators import EstimatorError
from neurocontrast.evaluation.probes.fitting import FitContext, Prediction
from neurocontrast.evaluation.rows import Floats, Rows
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.parallel.workers import map_files


@dataclass(frozen=True)
class OutOfFold:
    """A model's scores and class decisions for each scan, and the fold that tested the scan.

    Arrays are (n_repeats, n); scores of several classes (n_repeats, n, n classes). Decisions are
    codes of classes, 0 for a continuous target. In a repeat in which no fold tests a scan, its
    score is NaN, its fold is -1, and its decision is 0 without a meaning.
    """

    scores: Floats
    decisions: npt.NDArray[np.int64]
    folds: Rows
    fits: Sequence[Prediction] = ()
    """The prediction of each split, in the order of the splits."""

    @property
    def tested(self) -> Rows:
        """Positions of the scans that were tested in at least one repeat."""
        return np.flatnonzero((self.folds >= 0).any(axis=0))


Predictions = dict[str, OutOfFold]
"""Out-of-fold predictions of each model, by its name."""


def gather(target: Target, splits: Sequence[Split], predictions: Sequence[Prediction]) -> OutOfFold:
    """Join the predictions of all splits' test rows into one `OutOfFold` of arrays over all scans.

    `predictions` has one `Prediction` for each of `splits`. The arrays (n_repeats, n) have a row
    for each repeat, and a column for each scan of the target; a scan that no split of a repeat
    tests has the score NaN and the fold -1.
    """
    n = len(target.values)
    n_repeats = 1 + max(split.repeat for split in splits)
    shape: tuple[int, ...] = (n_repeats, n)
    if target.kind == "multiclass":
        shape = (n_repeats, n, len(target.classes))
    scores = np.full(shape, np.nan)
    decisions = np.zeros((n_repeats, n), dtype=np.int64)
    folds = np.full((n_repeats, n), -1, dtype=np.intp)
    for split, prediction in zip(splits, predictions, strict=True):
        rows = (split.repeat, split.test)
        scores[rows] = prediction.scores
        decisions[rows] = prediction.decisions
        folds[rows] = split.fold
    return OutOfFold(scores, decisions, folds, predictions)


def cross_validate(
    model: Model,
    target: Target,
    splits: Sequence[Split],
    context: FitContext,
    *,
    advance: Callable[[], None] = lambda: None,
) -> OutOfFold:
    """Fit a model in every split, and return the predictions of all splits' test rows.

    Parameters
    ----------
    model, target, splits : Model, Target, sequence of Split
        Model to fit, values to predict, and rows to fit on and to predict.
    context : FitContext
        Subjects, sites, settings, and a seed, from which `split_seed` derives the seed of each fit.
    advance : callable
        Called after each split.
    """
    tasks = []
    for number, split in enumerate(splits):
        of_split = replace(context, seed=split_seed(context.seed, split))
        tasks.append((number, model, target, split, of_split))
    predictions = dict[int, Prediction]()
    for number, prediction in map_files(
        _predict_split, tasks, n_workers=context.settings.n_jobs, option="evaluation.n_jobs"
    ):
        predictions[number] = prediction
        advance()
    in_order = [predictions[number] for number in range(len(splits))]
    return gather(target, splits, in_order)


def _predict_split(
    number: int, model: Model, target: Target, split: Split, context: FitContext
) -> tuple[int, Prediction]:
    """Return `number`, the split's position, and a model's prediction of the split's test rows.

    An error of the user's estimator is raised again with the fold, and with the name of any model
    but the embedding's.
    """
    try:
        return number, model.predict(target, split, context)
    except EstimatorError as error:
        where = f"fold {split.fold} of repeat {split.repeat}"
        if model.name != "embedding":
            where = f"model '{model.name}', {where}"
        raise EstimatorError(f"{error} ({where})") from error
