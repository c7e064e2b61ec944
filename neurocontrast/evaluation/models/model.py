"""What a model of an evaluation is: a name, the matrix that it is given of each scan, and an estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator

from neurocontrast.evaluation.designs import Design
from neurocontrast.evaluation.estimators import EstimatorError, describe_built_in, describe_own
from neurocontrast.evaluation.fitting import OutOfFold, Prediction, constant_prediction, fit_probe, gather
from neurocontrast.evaluation.probes import PROBES, Probe
from neurocontrast.evaluation.record import Notice
from neurocontrast.evaluation.rows import Texts
from neurocontrast.evaluation.settings import EvaluationSettings, probe_name
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.parallel.workers import map_files
from neurocontrast.seeds import derive_seed


class Rival(NamedTuple):
    """How reports and warnings name a model that needs no encoder."""

    name: str
    """In tables and legends."""
    what: str
    """In a sentence, a plural."""
    over: str
    """What the encoder is no gain over."""


@dataclass(frozen=True, eq=False)
class Model:
    """A model of an evaluation: whatever predicts the test scans of every split.

    Attributes
    ----------
    name : str
        Key in ``evaluation.json`` and beginning of its columns in the tables; the first model is ``embedding``.
    rival : Rival or None
        Set for a model that the embedding is tested against over the folds, and warned about where it does as well.
    about : mapping
        Further keys of ``evaluation.json``.
    notices : tuple of Notice
        Warnings about the model.
    """

    name: str
    rival: Rival | None = field(default=None, kw_only=True)
    about: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    notices: tuple[Notice, ...] = field(default=(), kw_only=True)

    def predict(self, target: Target, split: Split, **given: Any) -> Prediction:
        """Return what the model says of the test rows of a split, having seen its training rows only.

        `given` are ``subjects``, ``sites``, ``settings`` and ``seed``, as `fit_probe` takes them.
        """
        raise NotImplementedError

    def describe(self, target: Target, settings: EvaluationSettings, *, n_train: int) -> dict[str, Any]:
        """Return ``name``, ``own``, ``estimator`` and more keys of the section ``probe`` of ``evaluation.json``."""
        raise NotImplementedError

    def why_not_stored(self, target: Target, settings: EvaluationSettings) -> str | None:
        """Return why the model fitted on all scans is not written; None where it is."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ProbeModel(Model):
    """An estimator fitted to a matrix of the scans: the embedding, covariates, voxels and so on.

    `estimator` is a built-in probe or any estimator of scikit-learn; None: the built-in probe that the settings name.
    """

    design: Design
    estimator: Probe | BaseEstimator | None = None

    def predict(self, target: Target, split: Split, **given: Any) -> Prediction:
        """Fit the estimator on the training rows, and return what it says of the test rows."""
        return fit_probe(
            self.design, target, split.train, split.test, validation=split.validation, estimator=self.estimator, **given
        )[0]

    def describe(self, target: Target, settings: EvaluationSettings, *, n_train: int) -> dict[str, Any]:
        """Return the section ``probe`` of ``evaluation.json``, as far as it is about the estimator."""
        if self.estimator is not None and not isinstance(self.estimator, Probe):
            name, text = describe_own(self.estimator)
            return {"name": name, "own": True, "estimator": text, "strength_name": None}
        name, probe = probe_name(settings, target.kind), self._probe(target, settings)
        continuous = target.kind == "continuous"
        text = describe_built_in(probe, self.design, continuous=continuous, settings=settings, n_train=n_train)
        about = {"estimator": text, "title": probe.title, "citation": probe.citation}
        return {"name": name, "own": False, **about, "strength_name": probe.strength}

    def why_not_stored(self, target: Target, settings: EvaluationSettings) -> str | None:
        """Return why the fitted estimator is not written; None for a linear probe."""
        if self.estimator is not None and not isinstance(self.estimator, Probe):
            return "your own estimator is not written, which would need pickle; logistic and ridge are, as arrays"
        adjusted = settings.harmonise != "none" or settings.residualise
        why = "harmonised or residualised features need sites and covariates, and what was estimated of them"
        return self._probe(target, settings).why_not_stored or (why if adjusted else None)

    def _probe(self, target: Target, settings: EvaluationSettings) -> Probe:
        return self.estimator if isinstance(self.estimator, Probe) else PROBES[probe_name(settings, target.kind)]


@dataclass(frozen=True, eq=False)
class ConstantModel(Model):
    """The median of the training scans, or the share of each class in them."""

    def predict(self, target: Target, split: Split, **_: Any) -> Prediction:
        """Return the same for every test row."""
        return constant_prediction(target, split.train, len(split.test))


@dataclass(frozen=True, eq=False)
class GivenModel(Model):
    """A model fitted elsewhere in the same splits, such as a fine-tuned network; its predictions are given.

    `predictions` are those of each repeat and fold; `title` names the model and `text` describes it.
    """

    title: str
    text: str
    why: str
    """Why no model of all scans is written."""
    predictions: Mapping[tuple[int, int], Prediction] = field(default_factory=dict)

    def predict(self, target: Target, split: Split, **_: Any) -> Prediction:  # noqa: ARG002
        """Return what was predicted in the split."""
        return self.predictions[split.repeat, split.fold]

    def describe(self, target: Target, settings: EvaluationSettings, *, n_train: int) -> dict[str, Any]:  # noqa: ARG002
        """Return the section ``probe`` of ``evaluation.json``, as far as it is about the model."""
        return {"name": self.title, "own": True, "estimator": self.text, "strength_name": None}

    def why_not_stored(self, target: Target, settings: EvaluationSettings) -> str | None:  # noqa: ARG002
        """Return why no model of all scans is written."""
        return self.why


def cross_validate(
    model: Model,
    target: Target,
    splits: Sequence[Split],
    *,
    subjects: Texts,
    settings: EvaluationSettings,
    sites: Texts | None = None,
    advance: Callable[[], None] = lambda: None,
) -> OutOfFold:
    """Return what a model says of the test rows of every split."""
    given = {"subjects": subjects, "settings": settings, "sites": sites}
    tasks = [(number, model, target, split, given) for number, split in enumerate(splits)]
    found = {}
    for number, predicted in map_files(_predict_split, tasks, n_workers=settings.n_jobs, option="evaluation.n_jobs"):
        found[number] = predicted
        advance()
    return gather(target, splits, [found[number] for number in range(len(splits))])


def split_seed(seed: int, split: Split) -> int:
    """Return the seed of the probe of a split."""
    return derive_seed("probe", seed, split.repeat, split.fold)


def _predict_split(
    number: int, model: Model, target: Target, split: Split, given: dict[str, Any]
) -> tuple[int, Prediction]:
    seed = split_seed(given["settings"].seed, split)
    try:
        return number, model.predict(target, split, seed=seed, **given)
    except EstimatorError as error:
        raise EstimatorError(f"{error} (fold {split.fold} of repeat {split.repeat})") from error
