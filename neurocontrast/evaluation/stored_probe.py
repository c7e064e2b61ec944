"""A probe fitted on all scans, as two files that can be applied to other embeddings: ``probe.json``, ``probe.npz``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, StrictFloat, StrictInt, ValidationError, model_validator
from scipy.special import expit, softmax
from sklearn.compose import TransformedTargetRegressor

from neurocontrast.evaluation.designs import Block
from neurocontrast.evaluation.distances import TrainingDistribution
from neurocontrast.evaluation.estimators import FittedModel
from neurocontrast.evaluation.fitting import Prediction, fit_probe, value_range
from neurocontrast.evaluation.metrics import decide
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.schema import FILE, read_evaluation
from neurocontrast.evaluation.target import Kind
from neurocontrast.evaluation.transformers.sites import (
    ARRAYS,
    SiteRecentring,
    describe_recentring,
    restore_recentring,
)
from neurocontrast.exceptions import CheckpointError, DataError
from neurocontrast.files import atomic_path, digest_of_file, write_json
from neurocontrast.provenance import subject_digest, version
from neurocontrast.reading import DAMAGE, read_arrays, read_json

__all__ = ["FOLDER", "FittedProbe", "digest_of_probe", "fit_on_all", "load_probe", "save_probe"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

FOLDER = "probe"
"""Folder of an evaluation in which the probe is."""
MIN_STORED_SUBJECTS = 5
"""Shifts of training sites with fewer subjects do not leave the evaluation."""
_DESCRIPTION, _ARRAYS = "probe.json", "probe.npz"
_REMEDY = "Copy the evaluation again."
_FORMAT, _FORMAT_RECENTRED = 1, 2
"""The second, so that an earlier version does not apply a recentred probe to features as they are."""
_LINEAR = ("mean", "scale", "coefficients", "intercept", "shares")
_GEOMETRY = ("centres", "scale", "axes", "variances", "remainder", "usual")


@dataclass(frozen=True, eq=False)
class FittedProbe:
    """Standardisation and coefficients of a linear probe, and the meaning of its numbers.

    Attributes
    ----------
    name, target, kind, classes : str, str, str, tuple of str
        Kind of probe; column that it predicts, its kind, and its classes, of two the positive one last.
    strength, threshold : float, float or str
        Chosen by inner folds; probability from which a scan is positive, or rule of the decision.
    mean, scale, coefficients, intercept : array (p,), (p,), (p, k), (k,)
        Standardisation of the features, and one column for two classes and for numbers, else one a class.
    shares : array (n classes,)
        Shares of the classes among the scans that the probe was fitted on.
    platt : pair of float and array (n classes,), or None
        Slope and biases that make decision values into probabilities; biases are zeros in probes of this version.
    encoder : str or None
        Digest of the encoder's weights; None where the embeddings do not say.
    trained_on, n_scans : frozenset of str, int
        Digests of the subjects, and number of the scans that the probe was fitted on.
    limits : pair of float or None
        Range in which predicted numbers are kept.
    recentring, distribution : SiteRecentring, TrainingDistribution, or None
        Step that features need first; distribution of the training scans after it.
    blocks, averaged : tuple of Block, bool
        Blocks of joined features, empty for features of one encoder; whether each block has a probe of its own, whose
        predictions are averaged: `intercept` then has those of all, one after the other.
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
    platt: tuple[float, Floats] | None = None
    encoder: str | None = None
    trained_on: frozenset[str] = field(default_factory=frozenset)
    n_scans: int = 0
    limits: tuple[float, float] | None = None
    recentring: SiteRecentring | None = None
    distribution: TrainingDistribution | None = None
    blocks: tuple[Block, ...] = ()
    averaged: bool = False

    @property
    def n_features(self) -> int:
        """Number of features that the probe needs."""
        return len(self.mean)

    def predict(self, features: npt.NDArray[np.floating]) -> Floats:
        """Return probabilities of the positive class (n,), of each class (n, n classes), or predicted numbers (n,)."""
        x = (np.asarray(features, dtype=np.float64) - self.mean) / self.scale
        ends = np.cumsum([block.n_features for block in self.blocks])[:-1].tolist() if self.averaged else []
        intercepts = self.intercept.reshape(len(ends) + 1, -1)
        parts = zip(np.split(x, ends, axis=1), np.split(self.coefficients, ends), intercepts, strict=True)
        scores = np.mean([self._scores(part @ weights + intercept) for part, weights, intercept in parts], axis=0)
        return scores if self.limits is None else np.clip(scores, *self.limits)

    def _scores(self, margins: Floats) -> Floats:
        if self.kind == "continuous":
            return margins[:, 0]
        two = margins.shape[1] == 1
        if self.platt is None:
            return expit(margins[:, 0]) if two else softmax(margins, axis=1)
        decisions = np.column_stack([np.zeros(len(margins)), margins[:, 0]]) if two else margins
        scores = softmax(self.platt[0] * decisions + self.platt[1], axis=1)
        return scores[:, 1] if two else scores

    def decide(self, scores: Floats) -> npt.NDArray[np.int64]:
        """Return the class codes of scores that `predict` gave."""
        if self.kind == "binary":
            return (scores >= float(self.threshold)).astype(np.int64)
        return decide(self.kind, scores, shares=self.shares if self.threshold == "prevalence" else None)


def fit_on_all(
    study: Study, *, encoder: str | None, distribution: TrainingDistribution | str | None = None
) -> tuple[Prediction, FittedProbe | None]:
    """Fit the probe on all scans of a study (`Study.fitted_rows`), its strength chosen by inner folds of all of them.

    Returns what the probe says of these scans, and the probe to be stored; None where `Study.why_not_stored` says so.
    """
    target, settings, rows = study.target, study.settings, study.fitted_rows
    predicted, models = fit_probe(
        study.design(), target, rows, rows, subjects=study.subjects, settings=settings, seed=study.final_seed,
        sites=study.sites, validation=study.splits[0].validation, estimator=study.estimator,
    )  # fmt: skip
    if study.why_not_stored is not None or not models:
        return predicted, None
    n_classes = len(target.classes)
    probe = FittedProbe(
        name=study.probe["name"],
        target=target.name,
        kind=target.kind,
        classes=target.classes,
        strength=predicted.strength,
        threshold=settings.threshold if predicted.threshold is None else predicted.threshold,
        shares=np.bincount(target.values[rows], minlength=n_classes) / len(rows) if n_classes else np.zeros(0),
        encoder=encoder,
        trained_on=frozenset(subject_digest(subject) for subject in set(study.subjects[rows])),
        n_scans=len(rows),
        limits=value_range(target, rows) if settings.clip else None,
        recentring=_recentring(study),
        distribution=None if isinstance(distribution, str) else distribution,
        blocks=study.blocks,
        averaged=len(models) > 1,
        **_arrays(models, rows),
    )
    return predicted, probe


def save_probe(folder: str | os.PathLike[str], probe: FittedProbe) -> None:
    """Write ``probe.npz``, then ``probe.json`` with its digest; the folder is made.

    Neither holds features of a person, but means of sites and what people have in common. ``trained_on`` holds
    digests of subjects, so that `load_probe` can say who was trained on: whoever has the list of identifiers can
    recompute them.
    """
    folder = Path(folder)
    arrays = {name: getattr(probe, name) for name in _LINEAR}
    parts: dict[str, Any] = {}
    if probe.platt is not None:
        arrays |= {"platt_slope": np.array(probe.platt[0]), "platt_biases": probe.platt[1]}
    if probe.distribution is not None:
        arrays |= {f"inside_{name}": np.asarray(getattr(probe.distribution, name)) for name in _GEOMETRY}
        parts["distribution"] = {"sites": list(probe.distribution.sites), "k_axes": len(probe.distribution.variances)}
    if probe.recentring is not None:
        arrays |= {f"recentring_{name}": getattr(probe.recentring, attribute) for name, attribute in ARRAYS.items()}
        columns = describe_recentring(probe.recentring)
        parts["recentring"] = {"sites": probe.recentring.sites_.tolist(), "columns": columns}
    with atomic_path(folder / _ARRAYS) as temporary:
        np.savez(temporary, **arrays)
    described = {
        "format": _FORMAT if probe.recentring is None else _FORMAT_RECENTRED,
        "neurocontrast": version(),
        **{name: getattr(probe, name) for name in ("name", "target", "kind", "classes")},
        "positive": probe.classes[1] if probe.kind == "binary" else None,
        **{name: getattr(probe, name) for name in ("strength", "threshold", "n_features", "n_scans")},
        "n_subjects": len(probe.trained_on),
        "encoder": probe.encoder,
        **({"blocks": [block._asdict() for block in probe.blocks], "averaged": probe.averaged} if probe.blocks else {}),
        "limits": probe.limits,
        **parts,
        "trained_on": sorted(probe.trained_on),
        "arrays": {"file": _ARRAYS, "sha256": digest_of_file(folder / _ARRAYS)},
    }
    write_json(folder / _DESCRIPTION, described)


class _Part(BaseModel):
    sites: tuple[str, ...]
    columns: list[dict[str, str | float]] = []


class _Description(BaseModel):
    """The content of ``probe.json``."""

    format: int
    name: str
    target: str
    kind: Kind
    classes: tuple[str, ...]
    strength: StrictFloat
    threshold: StrictFloat | Literal["half", "prevalence"]
    encoder: str | None
    blocks: tuple[Block, ...] = ()
    averaged: bool = False
    trained_on: frozenset[str]
    n_scans: StrictInt
    limits: tuple[StrictFloat, StrictFloat] | None = None
    arrays: dict[str, str]
    distribution: _Part | None = None
    recentring: _Part | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_fit(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Leave out what does not go with the kind of target or the format, so that it counts as damaged."""
        if isinstance(given.get("threshold"), str) == (given.get("kind") == "binary"):
            return {**given, "threshold": None}
        recentred = given.get("format") == _FORMAT_RECENTRED
        return {**given, "recentring": given.get("recentring", {}) if recentred else None}


def load_probe(path: str | os.PathLike[str]) -> FittedProbe:
    """Read a probe from its folder, or from the evaluation that holds it.

    Raises
    ------
    CheckpointError
        Where there is none, or it is damaged or has been changed since it was written.
    """
    folder = _find(Path(path))
    about = _read_description(folder / _DESCRIPTION)
    arrays = _read_arrays(folder / _ARRAYS, about)
    try:
        probe = _restored(about, arrays)
        with np.errstate(all="ignore"):  # arrays that do not fit fail on one row
            tried = probe.predict(np.zeros((1, probe.n_features)))
            if probe.distribution is not None:
                probe.distribution.percentiles(np.zeros((1, probe.n_features)))
    except DAMAGE:
        tried = None
    if tried is None or tried.shape != ((1, len(about.classes)) if about.kind == "multiclass" else (1,)):
        raise CheckpointError(f"{folder / _ARRAYS}: arrays are missing, or do not fit {_DESCRIPTION}. {_REMEDY}")
    return probe


def _restored(about: _Description, arrays: Mapping[str, Floats]) -> FittedProbe:
    stored: dict[str, Any] = about.model_dump(exclude={"format", "arrays", "blocks", "distribution", "recentring"})
    stored["blocks"] = about.blocks
    stored |= {name: arrays[name] for name in _LINEAR}
    if "platt_slope" in arrays:
        stored["platt"] = float(arrays["platt_slope"]), arrays["platt_biases"]
    if about.distribution is not None:
        found: dict[str, Any] = {name: arrays[f"inside_{name}"] for name in _GEOMETRY}
        found["remainder"] = float(found["remainder"])
        stored["distribution"] = TrainingDistribution(about.distribution.sites, **found)
    if about.recentring is not None:
        found = {name: arrays[f"recentring_{name}"] for name in ARRAYS}
        stored["recentring"] = restore_recentring(about.recentring.sites, found, about.recentring.columns)
    return FittedProbe(**stored)


def digest_of_probe(path: str | os.PathLike[str]) -> str:
    """Return the digest of a stored probe, which changes with any of its numbers."""
    return digest_of_file(_find(Path(path)) / _DESCRIPTION)  # which has the digest of the arrays


def _recentring(study: Study) -> SiteRecentring | None:
    """Return the recentring of all scans, without the shifts of small sites: these are nearly those of a person."""
    recentring = study.design().recentring
    if recentring is None:
        return None
    recentring.estimate(study.features.astype(np.float64), study.table)
    counts = study.table.groupby("site")["subject_id"].nunique()
    kept = (counts.loc[recentring.sites_.tolist()] >= MIN_STORED_SUBJECTS).to_numpy()
    recentring.sites_, recentring.shifts_ = recentring.sites_[kept], recentring.shifts_[kept]
    return recentring


def _arrays(models: Sequence[FittedModel], rows: Rows) -> dict[str, Any]:
    """Return the arrays of built-in probes one after the other; of several, slopes are part of the coefficients."""
    found = [_arrays_of(model, rows) for model in models]
    if len(found) == 1:
        return found[0]
    for each in found:
        slope, _ = each.pop("platt") or (1.0, None)
        each |= {name: slope * each[name] for name in ("coefficients", "intercept")}
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def _arrays_of(model: FittedModel, rows: Rows) -> dict[str, Any]:
    """Return the arrays of a built-in probe: scaling, and coefficients turned back from principal axes."""
    fold, linear, offset, factor = model.features(rows, rows), model.estimator, 0.0, 1.0
    if isinstance(linear, TransformedTargetRegressor):
        offset, factor = linear.transformer_.mean_, linear.transformer_.scale_
        linear = linear.regressor_
    coefficients = np.atleast_2d(linear.coef_).T * factor
    return {
        "mean": fold.scaler.mean_,  # type: ignore[union-attr]
        "scale": fold.scaler.scale_,  # type: ignore[union-attr]
        "coefficients": coefficients if fold.axes is None else fold.axes @ coefficients,
        "intercept": np.atleast_1d(linear.intercept_) * factor + offset,
        "platt": None if model.slope is None else (model.slope, np.zeros(len(linear.classes_))),
    }


def _find(path: Path) -> Path:
    for folder in (path, path / FOLDER):
        if (folder / _DESCRIPTION).is_file():
            return folder
    if not (path / FILE).is_file():
        raise CheckpointError(f"{path}: there is no probe. Give an evaluation directory, or its folder '{FOLDER}'.")
    try:
        why = read_evaluation(path).probe.why_not_stored
    except DataError:
        why = None
    raise CheckpointError(
        f"{path}: this evaluation holds no probe: "
        f"{why or 'it was made by an earlier version, or its folder has been removed'}. Evaluate again with --probe "
        "logistic, ridge or svm, on features that are not adjusted; nearest neighbours can be tested on another table "
        "with --test."
    )


def _read_description(path: Path) -> _Description:
    content = read_json(path, error=CheckpointError, remedy=_REMEDY)
    found = content.get("format")
    if found not in (_FORMAT, _FORMAT_RECENTRED):
        raise CheckpointError(
            f"{path}: format {found!r} is not known (this version reads {_FORMAT} and {_FORMAT_RECENTRED})."
        )
    try:
        return _Description.model_validate(content)
    except ValidationError as error:
        wrong = ", ".join(dict.fromkeys(f"'{each['loc'][0]}'" for each in error.errors()))
    raise CheckpointError(f"{path}: {wrong} missing or damaged. Copy the evaluation again.")


def _read_arrays(path: Path, about: _Description) -> dict[str, Floats]:
    if not path.is_file():
        raise CheckpointError(f"{path}: missing beside {_DESCRIPTION}. Copy the evaluation again.")
    if digest_of_file(path) != about.arrays.get("sha256"):
        raise CheckpointError(f"{path}: is not the file that {_DESCRIPTION} describes. Copy the evaluation again.")
    stored = read_arrays(path, error=CheckpointError, remedy=_REMEDY)
    if any(array.dtype.kind not in "biuf" for array in stored.values()):
        raise CheckpointError(f"{path}: holds more than numbers. {_REMEDY}")
    arrays = {name: array.astype(np.float64) for name, array in stored.items()}
    p, n_classes = arrays.get("mean", np.zeros(0)).size, len(about.classes)
    k, n_probes = n_classes if about.kind == "multiclass" else 1, len(about.blocks) if about.averaged else 1
    shapes = {"mean": (p,), "scale": (p,), "coefficients": (p, k), "intercept": (n_probes * k,), "shares": (n_classes,)}
    wrong = [name for name, shape in shapes.items() if name not in arrays or arrays[name].shape != shape]
    if wrong:
        raise CheckpointError(f"{path}: {', '.join(wrong)} missing or of a wrong shape. Copy the evaluation again.")
    return arrays
