"""A probe fitted on all scans of an evaluation: a few arrays that can be applied to other embeddings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation.crossval import split_seed
from neurocontrast.evaluation.distribution import TrainingDistribution
from neurocontrast.evaluation.fitting import features_design
from neurocontrast.evaluation.linear import principal_axes
from neurocontrast.evaluation.logistic import LogisticPath
from neurocontrast.evaluation.metrics import decide
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.platt import Platt
from neurocontrast.evaluation.probe_kinds import Decided, fit_and_decide, value_range
from neurocontrast.evaluation.probes import Design, penalty_folds
from neurocontrast.evaluation.recentring import RecentredDesign, Recentring, learn_recentring
from neurocontrast.evaluation.sgd import descend
from neurocontrast.evaluation.svm import fit_machine, svm_inner_predictions
from neurocontrast.evaluation.target import Kind, Target
from neurocontrast.evaluation.threads import one_thread
from neurocontrast.provenance import subject_digest
from neurocontrast.seeds import derive_seed

__all__ = ["FittedProbe", "final_seed", "fit_on_all", "store_probe", "why_not_stored"]

Floats = npt.NDArray[np.float64]


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
    recentring : Recentring or None
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
    recentring: Recentring | None = None
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
    target, settings, rows = study.target, study.settings, study.fitted_rows
    design, validation = features_design(study), study.splits[0].validation
    people: dict[str, Any] = {"subjects": study.subjects, "sites": study.sites, "validation": validation}
    decided = fit_and_decide(design, target, rows, rows, settings=settings, seed=final_seed(study), **people)
    return decided, store_probe(
        study, strength=decided.fit.strength, threshold=decided.threshold, encoder=encoder, distribution=distribution
    )


def store_probe(
    study: Study,
    *,
    strength: float,
    threshold: float | None,
    encoder: str | None = None,
    distribution: TrainingDistribution | str | None = None,
) -> FittedProbe | None:
    """Fit the probe on `Study.fitted_rows` at a strength that was chosen; None where `why_not_stored` says so."""
    if why_not_stored(study) is not None:
        return None
    target, settings, rows, design = study.target, study.settings, study.fitted_rows, features_design(study)
    x = design(rows, rows[:1])[0]
    scaler = StandardScaler(copy=False).fit(x)
    fitted = design.within_sites(target, rows) if isinstance(design, RecentredDesign) else target
    with one_thread():
        found = _coefficients(study, fitted.subset(rows), scaler.transform(x), strength)
    return FittedProbe(
        name=study.probe,
        target=target.name,
        kind=target.kind,
        classes=target.classes,
        strength=strength,
        threshold=settings.threshold if threshold is None else threshold,
        mean=scaler.mean_,
        scale=scaler.scale_,
        shares=_shares(target.subset(rows)),
        encoder=encoder,
        trained_on=frozenset(subject_digest(subject) for subject in set(study.subjects[rows])),
        n_scans=len(rows),
        limits=value_range(target, rows) if settings.clip else None,
        recentring=_recentring(study, design),
        distribution=None if isinstance(distribution, str) else distribution,
        **found,
    )


def _shares(target: Target) -> Floats:
    if target.kind == "continuous":
        return np.zeros(0)
    return np.bincount(target.values, minlength=len(target.classes)) / len(target.values)


def _recentring(study: Study, design: Design) -> Recentring | None:
    if not isinstance(design, RecentredDesign):
        return None
    return learn_recentring(study.table, study.features, design.keep)


def _coefficients(study: Study, target: Target, x: Floats, strength: float) -> dict[str, Any]:
    """Fit standardised features along the principal axes, as probes are, and turn the coefficients back to them.

    `target` holds the values to fit, of the rows of `x`.
    """
    if study.probe == "sgd":
        classes, codes = np.unique(target.values, return_inverse=True)
        found = descend(
            x.astype(np.float32), codes, n_classes=len(classes), rate=strength, settings=study.settings.sgd,
            seed=final_seed(study),
        )  # fmt: skip
        return dict(zip(("coefficients", "intercept"), (part.astype(np.float64) for part in found), strict=True))
    axes = principal_axes(x)
    rotated = x @ axes
    if study.probe == "svm":
        return _svm_coefficients(study, target, rotated, axes, strength)
    if study.probe == "ridge":
        mean, values = float(target.values.mean()), target.values.astype(float)
        solved = (rotated.T @ (values - mean)) / (np.einsum("ij,ij->j", rotated, rotated) + strength)
        return {"coefficients": axes @ solved[:, None], "intercept": np.array([mean])}
    codes = target.values.astype(np.intp)
    solved = next(LogisticPath(rotated, codes, n_classes=len(target.classes)).fit((strength,)))
    return {"coefficients": axes @ solved[:-1], "intercept": solved[-1]}


def _svm_coefficients(study: Study, target: Target, rotated: Floats, axes: Floats, strength: float) -> dict[str, Any]:
    settings, rows = study.settings, study.fitted_rows
    machine = fit_machine(rotated, target, np.arange(len(rotated)), strength)
    found: dict[str, Any] = {"coefficients": axes @ machine.coefficients, "intercept": machine.intercept}
    if target.kind != "continuous":
        pairs = penalty_folds(
            study.target,
            rows,
            study.subjects,
            settings=settings,
            seed=final_seed(study),
            sites=study.sites,
            validation=study.splits[0].validation,
        )
        found["platt"] = svm_inner_predictions(features_design(study), study.target, rows, pairs, strength)[2]
    return found
