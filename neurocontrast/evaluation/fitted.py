"""A probe fitted on all scans of an evaluation: a few arrays that can be applied to other embeddings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor

from neurocontrast.evaluation.crossval import split_seed
from neurocontrast.evaluation.distribution import TrainingDistribution
from neurocontrast.evaluation.estimators import tempered
from neurocontrast.evaluation.fitting import features_design
from neurocontrast.evaluation.metrics import decide
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.probe_kinds import Decided, fit_model, value_range
from neurocontrast.evaluation.target import Kind, Target
from neurocontrast.evaluation.transformers import SiteRecentring
from neurocontrast.provenance import subject_digest
from neurocontrast.seeds import derive_seed

__all__ = ["FittedProbe", "Platt", "final_seed", "fit_on_all", "why_not_stored"]

Floats = npt.NDArray[np.float64]

MIN_STORED_SUBJECTS = 5
"""Shifts of training sites with fewer subjects do not leave the evaluation."""


@dataclass(frozen=True, eq=False)
class Platt:
    """A slope common to all classes, and a bias for each, that make decision values into probabilities.

    Attributes
    ----------
    slope : float
        Above zero: what scikit-learn calls an inverse temperature.
    biases : array (n classes,)
        Zeros, but of machines that earlier versions have stored.
    """

    slope: float
    biases: Floats

    def probabilities(self, decisions: Floats) -> Floats:
        """Return probabilities (n, n classes) of decision values of the same shape; of two classes, zeros first."""
        return softmax(self.slope * decisions + self.biases, axis=1)


@dataclass(frozen=True, eq=False)
class FittedProbe:
    """Standardisation and coefficients of a linear probe, and what its numbers mean.

    Attributes
    ----------
    name : str
        logistic, sgd, ridge or svm.
    target : str
        What it predicts.
    kind : {"binary", "multiclass", "continuous"}
        How.
    classes : tuple of str
        Of two the positive one last.
    strength : float
        C or alpha, chosen by inner folds of all scans.
    threshold : float, "half" or "prevalence"
        From which probability on a scan is positive; of several classes, how one is decided for.
    mean, scale : array (p,)
        Of the features it was fitted on.
    coefficients, intercept : array (p, k), (k,)
        For standardised features; one column of two classes and of numbers, else one a class.
    shares : array (n classes,)
        Of the classes among the scans it was fitted on.
    platt : Platt or None
        Makes decision values of an SVM into probabilities.
    encoder : str or None
        Digest of the encoder's weights; None where the embeddings do not say.
    trained_on : frozenset of str
        Digests of the subjects it was fitted on.
    n_scans : int
        That it was fitted on.
    limits : pair of float or None
        Between which its numbers are kept.
    recentring : SiteRecentring or None
        What has to be done to features before it can be applied.
    distribution : TrainingDistribution or None
        Where the scans lie that it was fitted on, as it gets them.
    """

    name: str
    target: str
    kind: Kind
    classes: tuple[str, ...]
    strength: float
    threshold: float | str
    mean: Floats
    scale: Floats
    coefficients: Floats
    intercept: Floats
    shares: Floats
    platt: Platt | None = None
    encoder: str | None = None
    trained_on: frozenset[str] = field(default_factory=frozenset)
    n_scans: int = 0
    limits: tuple[float, float] | None = None
    recentring: SiteRecentring | None = None
    distribution: TrainingDistribution | None = None

    @property
    def n_features(self) -> int:
        """Number of features that it needs."""
        return len(self.mean)

    def predict(self, features: npt.NDArray[np.floating]) -> Floats:
        """Return probabilities of the positive class (n,), of each class (n, n classes), or predicted numbers (n,).

        Features of a probe with `recentring` must have been through that.
        """
        x = (np.asarray(features, dtype=np.float64) - self.mean) / self.scale
        margins = x @ self.coefficients + self.intercept
        if self.kind == "continuous":
            return margins[:, 0] if self.limits is None else np.clip(margins[:, 0], *self.limits)
        if self.platt is not None:
            two = margins.shape[1] == 1
            scores = self.platt.probabilities(np.column_stack([np.zeros(len(x)), margins[:, 0]]) if two else margins)
            return scores[:, 1] if two else scores
        return expit(margins[:, 0]) if margins.shape[1] == 1 else softmax(margins, axis=1)

    def decide(self, scores: Floats) -> npt.NDArray[np.int64]:
        """Return the class codes of scores that `predict` gave."""
        if self.kind == "binary":
            return (scores >= float(self.threshold)).astype(np.int64)
        prevalence = np.tile(self.shares, (len(scores), 1)) if self.threshold == "prevalence" else None
        return decide(self.kind, scores, prevalence=prevalence)


def final_seed(study: Study) -> int:
    """Return the seed of the probe that is fitted on all scans; of the fixed design, that of its one split."""
    if study.fixed:
        return split_seed(study.settings.seed, study.splits[0])
    return derive_seed("final-probe", study.settings.seed)


def why_not_stored(study: Study) -> str | None:
    """Return why a study's probe cannot be applied to other embeddings; None where it can."""
    if study.estimator is not None:
        return (
            "an estimator of one's own is not written, since that needs pickle; the arrays of logistic, ridge, svm and "
            "sgd are"
        )
    if study.probe == "knn":
        return "nearest neighbours are the training scans themselves, and features of people are not stored"
    if study.adjusted:
        return "harmonised or residualised features need sites and covariates, and what was estimated of them"
    return None


def fit_on_all(
    study: Study, *, encoder: str | None, distribution: TrainingDistribution | str | None = None
) -> tuple[Decided, FittedProbe | None]:
    """Fit the probe on all scans of a study, and give it the distribution of these, if there is one.

    Its strength is chosen by inner folds of all scans. Of the fixed design they are the scans of train and validation
    (`Study.fitted_rows`), and the probe is the one that is evaluated. There is no probe where `why_not_stored` says so.

    Returns
    -------
    decided : Decided
        What the probe says of the scans it was fitted on.
    probe : FittedProbe or None
        To be stored; it says the same.
    """
    target, settings, rows, design = study.target, study.settings, study.fitted_rows, features_design(study)
    decided, model = fit_model(
        design, target, rows, rows, subjects=study.subjects, settings=settings, seed=final_seed(study),
        sites=study.sites, validation=study.splits[0].validation, estimator=study.estimator,
    )  # fmt: skip
    if why_not_stored(study) is not None or model is None:
        return decided, None
    probe = FittedProbe(
        name=study.probe,
        target=target.name,
        kind=target.kind,
        classes=target.classes,
        strength=model.strength,
        threshold=settings.threshold if decided.threshold is None else decided.threshold,
        shares=_shares(target.subset(rows)),
        encoder=encoder,
        trained_on=frozenset(subject_digest(subject) for subject in set(study.subjects[rows])),
        n_scans=len(rows),
        limits=value_range(target, rows) if settings.clip else None,
        recentring=_recentring(study),
        distribution=None if isinstance(distribution, str) else distribution,
        **_arrays(model.model),
    )
    return decided, probe


def _shares(target: Target) -> Floats:
    if target.kind == "continuous":
        return np.zeros(0)
    return np.bincount(target.values, minlength=len(target.classes)) / len(target.values)


def _recentring(study: Study) -> SiteRecentring | None:
    """Return the recentring of all scans, without the shifts of small sites: these are nearly those of a person."""
    recentring = features_design(study).recentring
    if recentring is None:
        return None
    recentring.estimate(study.features.astype(np.float64), *recentring.encode(study.table, learn=True))
    counts = study.table.groupby("site")["subject_id"].nunique()
    kept = (counts.loc[recentring.sites_] >= MIN_STORED_SUBJECTS).to_numpy()
    recentring.sites_, recentring.shifts_ = recentring.sites_[kept], recentring.shifts_[kept]
    return recentring


def _arrays(model: Any) -> dict[str, Any]:
    """Return the arrays of a fitted built-in pipeline: scaling, and coefficients turned back from principal axes."""
    found: dict[str, Any] = {}
    if isinstance(model, CalibratedClassifierCV):
        classes = model.classes_
        model, slope = tempered(model)
        found["platt"] = Platt(slope, np.zeros(len(classes)))
    scaler, *axes = (step for _, step in model["features"].fitted_scaling().steps)
    linear, offset, factor = model["model"], 0.0, 1.0
    if isinstance(linear, TransformedTargetRegressor):
        offset, factor = linear.transformer_.mean_, linear.transformer_.scale_
        linear = linear.regressor_
    coefficients = np.atleast_2d(linear.coef_).T * factor
    if axes and axes[0].axes_ is not None:
        coefficients = axes[0].axes_ @ coefficients
    intercept = np.atleast_1d(linear.intercept_) * factor + offset
    return found | {"mean": scaler.mean_, "scale": scaler.scale_, "coefficients": coefficients, "intercept": intercept}
