"""Every kind of probe behind one door: fitted, its threshold chosen, its test rows decided."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.metrics import decide
from neurocontrast.evaluation.neighbours import fit_neighbours, neighbour_predictions
from neurocontrast.evaluation.probes import Design, Pairs, ProbeFit, fit_probe, penalty_folds, predict_with
from neurocontrast.evaluation.recentring import RecentredDesign
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.sgd import fit_by_sgd, predict_by_sgd
from neurocontrast.evaluation.svm import fit_svm, svm_inner_predictions
from neurocontrast.evaluation.target import Kind, Target
from neurocontrast.evaluation.threads import one_thread
from neurocontrast.evaluation.thresholds import choose_threshold, needs_inner_predictions
from neurocontrast.exceptions import ConfigError

__all__ = [
    "STRENGTH_NAMES",
    "Decided",
    "check_probe",
    "fit_and_decide",
    "inner_predictions",
    "probe_name",
    "value_range",
]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

STRENGTH_NAMES = {"logistic": "C", "ridge": "alpha", "svm": "C", "knn": "k", "sgd": "learning_rate"}
"""What each kind calls the value that is chosen on inner folds."""


@dataclass(frozen=True)
class Decided:
    """A probe's word on its test rows.

    Attributes
    ----------
    fit : ProbeFit
        Scores, and the strength that was chosen.
    decisions : array (n_test,)
        Predicted class codes; zeros for a continuous target.
    threshold : float or None
        From which probability on a scan is called positive; None unless the target is binary.
    """

    fit: ProbeFit
    decisions: npt.NDArray[np.int64]
    threshold: float | None


def probe_name(settings: EvaluationSettings, kind: Kind) -> str:
    """Return the kind of probe: what ``auto`` means for a kind of target."""
    if settings.probe != "auto":
        return settings.probe
    return "ridge" if kind == "continuous" else "logistic"


def check_probe(settings: EvaluationSettings, target: Target) -> None:
    """Refuse a probe or a threshold that a target cannot have.

    Raises
    ------
    ConfigError
        Saying which fit.
    """
    kind = "continuous" if target.kind == "continuous" else "categorical"
    wrong = {"continuous": ("logistic", "sgd"), "categorical": ("ridge",)}
    if settings.probe in wrong[kind]:
        others = "ridge, svm or knn" if kind == "continuous" else "logistic, sgd, svm or knn"
        raise ConfigError(
            f"probe: '{settings.probe}' is not for a {kind} target, and '{target.name}' is {kind}. Use {others}, or "
            "auto."
        )
    if settings.clip and target.kind != "continuous":
        raise ConfigError(f"clip: is for numbers, and '{target.name}' has classes. Leave clip out.")
    if target.kind != "binary" and settings.threshold not in ("half", "prevalence"):
        what, hint = f"of {len(target.classes)} classes", "Use half or prevalence, or keep two classes with where."
        if kind == "continuous":
            what, hint = "continuous", "Leave threshold out."
        raise ConfigError(
            f"threshold: '{settings.threshold}' is for two classes, and '{target.name}' is {what}. {hint}"
        )


def fit_and_decide(
    design: Design,
    target: Target,
    train: Rows,
    test: Rows,
    *,
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
    seed: int,
    sites: npt.NDArray[np.object_] | None = None,
    validation: Rows | None = None,
) -> Decided:
    """Fit the probe that the settings name on the training rows, and decide about the test rows.

    `sites`, of all rows, is what inner folds leave out where the settings ask for that; `validation`, of the training
    rows, is what takes the place of inner folds (`penalty_folds`).
    Where the training rows have one class, as a small draw of subjects can, that class is all there is to say.
    """
    name, truth_of = probe_name(settings, target.kind), target
    if isinstance(design, RecentredDesign):
        target = design.within_sites(target, train)
    if target.kind != "continuous" and len(np.unique(target.values[train])) == 1:
        return _one_class(target, train, len(test))
    pairs = penalty_folds(target, train, subjects, settings=settings, seed=seed, sites=sites, validation=validation)
    with one_thread():
        fitted = _fit(name, design, target, train, test, pairs=pairs, settings=settings, seed=seed)
        if target.kind == "continuous":
            if settings.clip:
                fitted = replace(fitted, scores=np.clip(fitted.scores, *value_range(truth_of, train)))
            return Decided(fitted, np.zeros(len(test), dtype=np.int64), None)
        shares = np.bincount(target.values[train], minlength=len(target.classes)) / len(train)
        if target.kind == "multiclass":
            prevalence = np.tile(shares, (len(test), 1)) if settings.threshold == "prevalence" else None
            return Decided(fitted, decide(target.kind, fitted.scores, prevalence=prevalence), None)
        truth = scores = None
        if needs_inner_predictions(settings.threshold):
            rows, scores = inner_predictions(
                design, target, train, strength=fitted.strength, pairs=pairs, settings=settings, seed=seed
            )
            truth = target.values[rows]
    cut = choose_threshold(settings.threshold, prevalence=float(shares[1]), truth=truth, scores=scores)
    return Decided(fitted, (fitted.scores >= cut).astype(np.int64), cut)


def _fit(
    name: str,
    design: Design,
    target: Target,
    train: Rows,
    test: Rows,
    *,
    pairs: Pairs,
    settings: EvaluationSettings,
    seed: int,
) -> ProbeFit:
    if name == "sgd":
        return fit_by_sgd(design, target, train, test, pairs=pairs, settings=settings, seed=seed)
    fit = {"svm": fit_svm, "knn": fit_neighbours}.get(name, fit_probe)
    return fit(design, target, train, test, pairs=pairs, settings=settings)


def value_range(target: Target, rows: Rows) -> tuple[float, float]:
    """Return the least and the largest value of a continuous target."""
    values = target.values[rows].astype(float)
    return float(values.min()), float(values.max())


def _one_class(target: Target, train: Rows, n_test: int) -> Decided:
    code = int(target.values[train][0])
    scores = np.tile(np.eye(len(target.classes))[code], (n_test, 1))
    binary = target.kind == "binary"
    fit = ProbeFit(scores[:, 1] if binary else scores, float("nan"))
    return Decided(fit, np.full(n_test, code, dtype=np.int64), 0.5 if binary else None)


def inner_predictions(
    design: Design,
    target: Target,
    train: Rows,
    *,
    strength: float,
    pairs: Pairs,
    settings: EvaluationSettings,
    seed: int,
) -> tuple[Rows, Floats]:
    """Return training rows, and what probes of the chosen strength say of them that have not seen their subjects.

    `pairs` are the inner folds by which the strength was chosen. Without any (a class of one subject),
    the training rows' own scores are all there is.
    """
    pairs = pairs or [(train, train)]
    name = probe_name(settings, target.kind)
    if name == "svm":
        rows, scores, _ = svm_inner_predictions(design, target, train, pairs, strength)
        return rows, scores
    parts = []
    for fit_rows, try_rows in pairs:
        if name == "knn":
            parts += neighbour_predictions(design, target, fit_rows, try_rows, (int(strength),))
        elif name == "sgd":
            found = predict_by_sgd(design, target, fit_rows, try_rows, rate=strength, settings=settings.sgd, seed=seed)
            parts.append(found.scores)
        else:
            parts.append(predict_with(design, target, fit_rows, try_rows, strength=strength).scores)
    return np.concatenate([try_rows for _, try_rows in pairs]), np.concatenate(parts)
