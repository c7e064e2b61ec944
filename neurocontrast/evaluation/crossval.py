"""Out-of-fold predictions: every scan scored by a probe that never saw its subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from neurocontrast.data.parallel import map_files
from neurocontrast.evaluation.own_estimator import EstimatorError
from neurocontrast.evaluation.probe_kinds import Decided, fit_and_decide
from neurocontrast.evaluation.probes import Design
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_seed

__all__ = ["OutOfFold", "constant_predictions", "cross_validate", "split_seed"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OutOfFold:
    """Predictions of the test rows of every split.

    Attributes
    ----------
    scores : array (n_repeats, n) or (n_repeats, n, n_classes)
        Probability of the positive class, of each class, or the predicted value; NaN where a
        scan was never tested.
    decisions : array (n_repeats, n)
        Predicted class codes; zeros for a continuous target.
    folds : array (n_repeats, n)
        Fold in which the scan was tested; -1 where never.
    strengths : list of float
        Chosen C, alpha or number of neighbours of each split.
    n_not_converged : int
        Fits in which the solver stopped early.
    thresholds : list of float or None
        From which probability on a scan was called positive, for each split; None unless the target is binary.
    """

    scores: Floats
    decisions: npt.NDArray[np.int64]
    folds: npt.NDArray[np.intp]
    strengths: list[float]
    n_not_converged: int
    thresholds: list[float | None] = field(default_factory=list)

    @property
    def tested(self) -> npt.NDArray[np.intp]:
        """Rows that were tested at least once; all of them unless a split file says otherwise."""
        return np.flatnonzero((self.folds >= 0).any(axis=0))


def cross_validate(
    design: Design,
    target: Target,
    splits: Sequence[Split],
    *,
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
    sites: npt.NDArray[np.object_] | None = None,
    estimator: BaseEstimator | None = None,
    batched: bool = False,
    advance: Callable[[], None] = lambda: None,
) -> OutOfFold:
    """Fit a probe for every split and collect what it says of the test rows.

    Parameters
    ----------
    design : callable
        Gives the matrices of training and test rows, fitted on the training rows.
    target : Target
        What is predicted.
    splits : sequence of Split
        The folds.
    subjects : array of str
        Subject of each scan; inner folds keep subjects together.
    settings : EvaluationSettings
        Grids, inner folds, threshold, seed, and the number of processes.
    sites : array of str or None, optional
        Site of each scan, which inner folds leave out where the settings say so.
    estimator : estimator, optional
        The user's own; by default the built-in one that the settings name.
    batched : bool, default=False
        Whether the default estimators are fitted by `fit_label_vectors`, as permutation tests do.
    advance : callable
        Called after each split.
    """
    n, n_repeats = len(target.values), 1 + max(split.repeat for split in splits)
    shape = (n_repeats, n, len(target.classes)) if target.kind == "multiclass" else (n_repeats, n)
    scores = np.full(shape, np.nan)
    decisions = np.zeros((n_repeats, n), dtype=np.int64)
    folds = np.full((n_repeats, n), -1, dtype=np.intp)
    strengths, n_not_converged = [float("nan")] * len(splits), 0
    thresholds: list[float | None] = [None] * len(splits)
    given = {"subjects": subjects, "settings": settings, "sites": sites, "estimator": estimator, "batched": batched}
    tasks = [(number, design, target, split, given) for number, split in enumerate(splits)]
    for number, decided in map_files(_fit_split, tasks, n_workers=settings.n_jobs, option="evaluation.n_jobs"):
        split = splits[number]
        scores[split.repeat, split.test] = decided.fit.scores
        decisions[split.repeat, split.test] = decided.decisions
        folds[split.repeat, split.test] = split.fold
        strengths[number] = decided.fit.strength
        thresholds[number] = decided.threshold
        n_not_converged += decided.fit.n_not_converged
        advance()
    return OutOfFold(scores, decisions, folds, strengths, n_not_converged, thresholds)


def constant_predictions(target: Target, splits: list[Split]) -> OutOfFold:
    """Return what the training scans' median, or share of each class, says of every test scan."""
    n, n_repeats = len(target.values), 1 + max(split.repeat for split in splits)
    shape = (n_repeats, n, len(target.classes)) if target.kind == "multiclass" else (n_repeats, n)
    scores, decisions = np.full(shape, np.nan), np.zeros((n_repeats, n), dtype=np.int64)
    folds = np.full((n_repeats, n), -1, dtype=np.intp)
    for split in splits:
        values, place = target.values[split.train], (split.repeat, split.test)
        folds[place] = split.fold
        if target.kind == "continuous":
            scores[place] = np.median(values.astype(float))
            continue
        shares = np.bincount(values.astype(int), minlength=len(target.classes)) / len(values)
        scores[place] = shares if target.kind == "multiclass" else shares[1]
        decisions[place] = int(shares.argmax())
    return OutOfFold(scores, decisions, folds, [], 0)


def split_seed(seed: int, split: Split) -> int:
    """Return the seed of the probe of a split."""
    return derive_seed("probe", seed, split.repeat, split.fold)


def _fit_split(
    number: int,
    design: Design,
    target: Target,
    split: Split,
    given: dict[str, Any],
) -> tuple[int, Decided]:
    seed = split_seed(given["settings"].seed, split)
    try:
        decided = fit_and_decide(
            design, target, split.train, split.test, seed=seed, validation=split.validation, **given
        )
    except EstimatorError as error:
        raise EstimatorError(f"{error} (fold {split.fold} of repeat {split.repeat})") from error
    return number, decided
