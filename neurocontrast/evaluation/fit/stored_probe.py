"""Write and read a probe fitted on all scans: ``probe.json`` and ``probe.npz``.

With a few scans of a new site whose true values are known, the site's bias is taken out of the
predictions.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import BaseModel, ConfigDict, StrictFloat, StrictInt, ValidationError, model_validator
from scipy.optimize import brentq
from scipy.special import expit, logit, softmax

from neurocontrast.documents.result import FILE, read_evaluation
from neurocontrast.evaluation.fit.distribution import TrainingDistribution
from neurocontrast.evaluation.metrics import decide
from neurocontrast.evaluation.probes.designs import Block
from neurocontrast.evaluation.probes.members import Member
from neurocontrast.evaluation.rows import Floats, check_same_encoder
from neurocontrast.evaluation.target import Kind
from neurocontrast.exceptions import CheckpointError, DataError
from neurocontrast.files import atomic_path, digest_of_file, write_json
from neurocontrast.provenance import KnownPeople, version
from neurocontrast.reading import DAMAGE, read_arrays, read_json

FOLDER = "probe"
"""Subfolder of an evaluation's folder for the files ``probe.json`` and ``probe.npz``."""
_DESCRIPTION = "probe.json"
_ARRAYS = "probe.npz"
_REMEDY = "Copy the evaluation again."
_FORMAT = 1
MIN_SHOTS = 5
"""Fewest subjects with known truth from whom a site's bias is estimated. With fewer subjects, the
mean error is chance more than bias."""
_FAR = 30.0  # no shift of log-odds is larger
_EPSILON = 1e-9
_LINEAR = ("mean", "scale", "coefficients", "intercept", "shares")
_PEOPLE = ("trained_on", "trained_contents")
_GEOMETRY = ("centres", "scale", "axes", "variances", "remainder", "usual")


class FittedProbe(BaseModel):
    """Linear probe fitted on all scans: standardisation, coefficients, target and training people.

    Arrays are in ``probe.npz``, and all other attributes, under their names, in ``probe.json``.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    name: str
    """Name of the built-in probe, such as ``logistic``."""
    target: str
    """Column that is predicted."""
    kind: Kind
    classes: tuple[str, ...]
    """Classes of the target, of two the positive one last; empty for numbers."""
    strength: StrictFloat
    """Strength of the penalty, chosen on inner folds."""
    threshold: StrictFloat | Literal["half", "prevalence"]
    """Probability from which a scan is positive; for several classes and numbers, the name of the
    rule, ``half`` or ``prevalence``."""
    mean: np.ndarray
    scale: np.ndarray
    """Mean and standard deviation (p,) of each feature, by which features are standardised."""
    coefficients: np.ndarray
    intercept: np.ndarray
    """Coefficients (p, k) of the standardised features and intercepts (k,) give log-odds of
    classes, or numbers. k is 1, or with more than two classes their number. With M encoders
    intercepts are (M, k)."""
    shares: np.ndarray
    """Shares (n classes,) of the classes among the scans that the probe was fitted on."""
    encoder: str | None
    """Digest of the weights of the encoder; None if the embeddings do not say."""
    trained_on: frozenset[str]
    """Digests of the subjects that the probe was fitted on."""
    n_scans: StrictInt
    trained_contents: frozenset[str] = frozenset()
    """Digests of the contents of these subjects' scans; empty in files of earlier versions."""
    contents_complete: bool = False
    """Whether all scans that the probe was fitted on have digests of their contents."""
    distribution: TrainingDistribution | None = None
    """Distribution of the training scans' features, by which scans outside are found."""
    blocks: tuple[Block, ...] = ()
    """Blocks of columns: one for each joined encoder, or the network's features and the principal
    components of one encoder. Empty for features of a network alone."""
    members: tuple[Member, ...] = ()
    """Encoders of a run, each with its own probe, whose predictions are averaged; empty if the run
    has one encoder."""
    weight: StrictFloat | None = None
    """Share of the network's features in the total variance, if the encoder keeps principal
    components too. `scale` contains the share. None without components; with several encoders the
    mean."""

    @model_validator(mode="before")
    @classmethod
    def _check_fit(cls, content: dict[str, object]) -> dict[str, object]:
        """Return a probe's fields as read from files, a threshold of the wrong type set to None.

        Validation then refuses the files. The threshold is a number for a binary target, and for
        any other target the name of the rule for decisions, ``half`` or ``prevalence``.
        """
        fits = isinstance(content.get("threshold"), str) != (content.get("kind") == "binary")
        if fits:
            return content
        return {**content, "threshold": None}

    @property
    def people(self) -> KnownPeople:
        """Subjects that the probe was fitted on: digests of identifiers and of scans' contents."""
        return KnownPeople(self.trained_on, self.trained_contents, self.contents_complete)

    @property
    def n_features(self) -> int:
        """Number of features that the probe needs."""
        return len(self.mean)

    def predict(self, features: npt.NDArray[np.floating]) -> Floats:
        """Return scores of scans from features (n, p): probabilities of classes, or numbers.

        Shapes are (n,) for the positive class of two, (n, n classes) for several classes, and (n,)
        for numbers.
        """
        x = (np.asarray(features, dtype=np.float64) - self.mean) / self.scale
        if not self.members:
            return self._scores(x @ self.coefficients + self.intercept)
        scores = []
        start = 0
        for member, intercept in zip(self.members, self.intercept, strict=True):
            columns = slice(start, start + member.n_features)
            start += member.n_features
            margins = x[:, columns] @ self.coefficients[columns] + intercept
            scores.append(self._scores(margins))
        mean: Floats = np.mean(scores, axis=0)
        return mean

    def _scores(self, margins: Floats) -> Floats:
        """Turn log-odds (n, k) into probabilities; return predicted numbers unchanged."""
        if self.kind == "multiclass":
            return softmax(margins, axis=1)
        if self.kind == "continuous":
            return margins[:, 0]
        return expit(margins[:, 0])

    def check_encoder(
        self, digest: str | None, n_features: int, *, place: str, what: str = "the probe"
    ) -> str | None:
        """Refuse features of another encoder than the probe's, or another number of features.

        `digest` is that of the features' encoder, None if unknown. If the probe's encoder is not
        known either, a warning is returned as text; None if the encoders are the same.
        """
        return check_same_encoder(
            self.encoder,
            digest,
            n_expected=self.n_features,
            n_found=n_features,
            parameter=place,
            what=what,
        )

    def decide(self, scores: Floats) -> npt.NDArray[np.int64]:
        """Return the class code of each scan from the scores of `predict`."""
        shares = None
        if self.threshold == "prevalence":
            shares = self.shares
        return decide(self.kind, scores, threshold=self.threshold, shares=shares)


def save_probe(folder: str | os.PathLike[str], probe: FittedProbe) -> None:
    """Create the folder; write ``probe.npz``, then ``probe.json`` with the digest of the arrays.

    Neither file holds features of a single person, only means of sites and statistics of all
    people. ``trained_on`` and ``trained_contents`` hold digests of subjects and of their scans, so
    that `load_probe` can say who was trained on: whoever has identifiers or scans can recompute the
    digests.
    """
    folder = Path(folder)
    arrays = {name: getattr(probe, name) for name in _LINEAR}
    description: dict[str, Any] = {"format": _FORMAT, "neurocontrast": version()}
    description |= probe.model_dump(
        mode="json", exclude={*_LINEAR, "blocks", "members", "distribution", *_PEOPLE}
    )
    description |= {"n_features": probe.n_features, "n_subjects": len(probe.trained_on)}
    description["positive"] = probe.classes[1] if probe.kind == "binary" else None
    if probe.weight is None:
        del description["weight"]
    if probe.blocks:
        description["blocks"] = [block._asdict() for block in probe.blocks]
    if probe.members:
        description["members"] = list(map(Member._asdict, probe.members))
    if probe.distribution is not None:
        arrays |= {
            f"inside_{name}": np.asarray(getattr(probe.distribution, name)) for name in _GEOMETRY
        }
        description["distribution"] = {"sites": list(probe.distribution.sites)}
    with atomic_path(folder / _ARRAYS) as temporary:
        np.savez(temporary, **arrays)
    description |= {name: sorted(getattr(probe, name)) for name in _PEOPLE}
    description["arrays"] = {"file": _ARRAYS, "sha256": digest_of_file(folder / _ARRAYS)}
    write_json(folder / _DESCRIPTION, description)


def load_probe(path: str | os.PathLike[str]) -> FittedProbe:
    """Read a probe from the folder of a probe or of an evaluation.

    Raises
    ------
    CheckpointError
        If the folder holds no probe, or a probe that is damaged or was changed after writing.
    """
    folder = _find(Path(path))
    description, arrays = _read_parts(folder / _DESCRIPTION, folder / _ARRAYS)
    try:
        distribution = None
        if description.get("distribution") is not None:
            geometry: dict[str, Any] = {name: arrays[f"inside_{name}"] for name in _GEOMETRY}
            geometry["remainder"] = float(geometry["remainder"])
            distribution = TrainingDistribution(
                tuple(description["distribution"]["sites"]), **geometry
            )
        linear = {name: arrays[name] for name in _LINEAR}
        probe = FittedProbe.model_validate({**description, **linear, "distribution": distribution})
        with np.errstate(all="ignore"):  # arrays that do not fit fail on one row
            row = np.zeros((1, probe.n_features))
            n_scores = len(probe.classes) if probe.kind == "multiclass" else 1
            # Intercepts of several probes, which an earlier version averaged, would be added up.
            n_of_members = sum(map(attrgetter("n_features"), probe.members))
            shape: tuple[int, ...] = (n_scores,)
            if probe.members:
                shape = (len(probe.members), n_scores)
            fits = len(probe.shares) == len(probe.classes) and probe.intercept.shape == shape
            fits = (
                fits
                and n_of_members in (0, probe.n_features)
                and probe.coefficients.shape == (probe.n_features, n_scores)
                and probe.predict(row).size > 0
            )
            # What earlier versions stored of a support vector machine, and of numbers kept within a
            # range.
            fits = fits and "platt_slope" not in arrays and description.get("limits") is None
            if probe.distribution is not None:
                probe.distribution.percentiles(row)
    except ValidationError as error:
        wrong = ", ".join(dict.fromkeys(f"'{problem['loc'][0]}'" for problem in error.errors()))
        raise CheckpointError(
            f"{folder / _DESCRIPTION}: {wrong} missing or damaged. {_REMEDY}"
        ) from None
    except DAMAGE:
        fits = False
    if not fits:
        raise CheckpointError(
            f"{folder / _ARRAYS}: arrays are missing, or do not fit {_DESCRIPTION}. {_REMEDY}"
        )
    return probe


def _find(path: Path) -> Path:
    """Return the folder with ``probe.json``: the path itself, or the folder ``probe`` in the path.

    If neither holds a probe, an error is raised. If the path is an evaluation, the error has the
    reason that is in ``evaluation.json``.
    """
    for folder in (path, path / FOLDER):
        if (folder / _DESCRIPTION).is_file():
            return folder
    if not (path / FILE).is_file():
        missing = "probe" if path.is_dir() else "such folder"
        raise CheckpointError(
            f"{path}: there is no {missing}. Give an evaluation directory, "
            f"or its folder '{FOLDER}'."
        )
    try:
        why = read_evaluation(path).probe.why_not_stored
    except DataError:
        why = None
    raise CheckpointError(
        f"{path}: this evaluation holds no probe: {why or 'its folder has been removed'}. Evaluate "
        "again with --probe "
        "logistic or ridge, on features that are not adjusted; any other estimator can be tested "
        "on another table "
        "with --test."
    )


def _read_parts(description: Path, path: Path) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return the contents of ``probe.json`` and the arrays of ``probe.npz``.

    Refused are an unknown format, and arrays of another digest than ``probe.json`` names.
    """
    content = read_json(description, error=CheckpointError, remedy=_REMEDY)
    if content.get("format") != _FORMAT:
        number = content.get("format")
        raise CheckpointError(
            f"{description}: format {number!r} is not known (this version reads {_FORMAT})."
        )
    arrays_entry = content.get("arrays")
    if not isinstance(arrays_entry, dict):
        raise CheckpointError(f"{description}: 'arrays' missing or damaged. {_REMEDY}")
    if not path.is_file():
        raise CheckpointError(f"{path}: missing next to {_DESCRIPTION}. {_REMEDY}")
    if digest_of_file(path) != arrays_entry.get("sha256"):
        raise CheckpointError(f"{path}: is not the file that {_DESCRIPTION} describes. {_REMEDY}")
    stored = read_arrays(path, error=CheckpointError, remedy=_REMEDY)
    return content, {name: array.astype(np.float64) for name, array in stored.items()}


@dataclass(frozen=True)
class SiteShift:
    """Number that is added to the predictions of a site's scans, to take out the site's bias."""

    n_subjects: int
    """Number of labelled subjects of the site."""
    shift: float | None
    """In the units of the target, or in log-odds; None with too few labelled subjects or one
    class."""
    standard_error: float | None = None
    """Standard error of a shift in the units of the target; None for log-odds."""


def fit_shifts(
    scores: Floats, truths: Floats, sites: pd.Series, subjects: pd.Series, kind: str
) -> dict[str, SiteShift]:
    """Return site → `SiteShift` to add to predictions, estimated from scans with a known truth.

    `truths` are numbers for a continuous target; for two classes 1 is the positive class, and 0 the
    other. The shift of numbers is the mean of truth minus prediction; the shift of log-odds is the
    intercept of a logistic regression whose offset is the log-odds. Several scans of a subject
    count as one. A site that no scan is of is not in the result; with fewer than `MIN_SHOTS`
    subjects, or one class, the shift is None.
    """
    labelled = pd.DataFrame(
        {"site": sites.to_numpy(), "subject": subjects.to_numpy(), "score": scores, "truth": truths}
    )
    shifts = {}
    for site, scans in labelled.groupby("site"):
        people = scans.groupby("subject")[["score", "truth"]].mean()
        n = len(people)
        score = people["score"].to_numpy()
        truth = people["truth"].to_numpy()
        if n < MIN_SHOTS or (kind == "binary" and not 0 < truth.mean() < 1):
            shifts[str(site)] = SiteShift(n, None)
        elif kind == "continuous":
            error = truth - score
            shifts[str(site)] = SiteShift(
                n, float(error.mean()), float(error.std(ddof=1) / np.sqrt(n))
            )
        else:
            shifts[str(site)] = SiteShift(n, _shift_of_log_odds(score, truth))
    return shifts


def _shift_of_log_odds(scores: Floats, truths: Floats) -> float:
    """Return the shift of log-odds that makes the mean probability equal the share of positives.

    `scores` are probabilities, and `truths` are 1 for positive subjects and 0 for others.
    """
    odds = logit(np.clip(scores, _EPSILON, 1 - _EPSILON))
    n_positive = truths.sum()
    return float(brentq(lambda shift: expit(odds + shift).sum() - n_positive, -_FAR, _FAR))


def shift_scores(
    scores: Floats, sites: pd.Series, shifts: Mapping[str, SiteShift], kind: str
) -> Floats:
    """Return scores plus the `SiteShift` of each scan's site; unchanged at a site without one.

    Probabilities are shifted in log-odds.
    """
    added = np.zeros(len(sites))
    for row, site in enumerate(sites):
        of_site = shifts.get(site) if isinstance(site, str) else None
        if of_site is not None and of_site.shift is not None:
            added[row] = of_site.shift
    if kind == "continuous":
        return scores + added
    return np.where(
        added == 0, scores, expit(logit(np.clip(scores, _EPSILON, 1 - _EPSILON)) + added)
    )
