"""A model of an evaluation: a name, a matrix of the scans, an estimator, and what it says of each test fold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator

from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.probe_kinds import PROBES, Probe
from neurocontrast.evaluation.probes.designs import WEIGHTS, scaler_of, weighed
from neurocontrast.evaluation.probes.estimators import EstimatorError, describe_own
from neurocontrast.evaluation.probes.fitting import Prediction, constant_prediction, fit_each
from neurocontrast.evaluation.probes.members import Designs, designs_of
from neurocontrast.evaluation.rows import Floats, Rows, Texts
from neurocontrast.evaluation.settings import EvaluationSettings, probe_name
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.parallel.workers import map_files
from neurocontrast.seeds import derive_seed


@dataclass(frozen=True)
class OutOfFold:
    """Scores, decisions and folds of each scan (n_repeats, n): NaN, 0 and -1 where it was never tested."""

    scores: Floats
    decisions: npt.NDArray[np.int64]
    folds: Rows
    fits: Sequence[Prediction] = ()
    """The prediction of each split, in their order."""

    @property
    def tested(self) -> Rows:
        """Rows that were tested at least once."""
        return np.flatnonzero((self.folds >= 0).any(axis=0))


def gather(target: Target, splits: Sequence[Split], predictions: Sequence[Prediction]) -> OutOfFold:
    """Return the predictions of all splits as arrays over the scans of the target."""
    n = len(target.values)
    n_repeats = 1 + max(split.repeat for split in splits)
    shape = (n_repeats, n, len(target.classes)) if target.kind == "multiclass" else (n_repeats, n)
    scores = np.full(shape, np.nan)
    decisions = np.zeros((n_repeats, n), dtype=np.int64)
    folds = np.full((n_repeats, n), -1, dtype=np.intp)
    for split, each in zip(splits, predictions, strict=True):
        place = (split.repeat, split.test)
        scores[place] = each.scores
        decisions[place] = each.decisions
        folds[place] = split.fold
    return OutOfFold(scores, decisions, folds, predictions)


Description = dict[str, str | bool | None]
"""``name``, ``own``, ``estimator`` and more keys of an estimator's section of ``evaluation.json``."""


class Rival(NamedTuple):
    """How reports and warnings name a model that needs no encoder."""

    name: str
    """In tables and legends."""
    what: str
    """In a sentence, a plural."""
    over: str = ""
    """What the encoder is no gain over where the model does as well; empty: no warning says so."""
    of: str = ""
    """Name of the first model of the same measures, of which this is a second one; else empty."""
    lacks: str = ""
    """Part of the embedding that the model does without; empty without an encoder."""
    beside: str = ""
    """Name of the model whose features have the embedding beside them; empty for other models."""

    def describe(self) -> dict[str, str]:
        """Return the entry of ``rivals`` in ``evaluation.json``."""
        names = {"name": self.name, "what": self.what}
        for key in ("of", "lacks", "beside"):
            value = getattr(self, key)
            if value:
                names[key] = value
        return names


@dataclass(frozen=True, eq=False)
class Model:
    """A model of an evaluation: whatever predicts the test scans of every split."""

    name: str
    """Key in ``evaluation.json`` and beginning of its columns in the tables; the first model is ``embedding``."""
    rival: Rival | None = field(default=None, kw_only=True)
    """Set for a model that the embedding is tested against over the folds, and warned about where it does as well."""
    about: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Further keys of ``evaluation.json``."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict, kw_only=True)
    """Further tables, by the name of their file."""
    notices: tuple[Notice, ...] = field(default=(), kw_only=True)
    """Warnings about the model."""

    def predict(self, target: Target, split: Split, **given: Any) -> Prediction:
        """Return what the model says of the test rows of a split, having seen its training rows only.

        `given` are ``subjects``, ``sites``, ``settings`` and ``seed``, as `fit_probe` takes them.
        """
        raise NotImplementedError

    def describe(
        self, target: Target, settings: EvaluationSettings, *, n_train: int
    ) -> Description:
        """Return ``name``, ``own``, ``estimator`` and more keys of the section ``probe`` of ``evaluation.json``."""
        raise NotImplementedError

    def why_not_stored(self, settings: EvaluationSettings) -> str | None:
        """Return why the model fitted on all scans is not written; None where it is."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ProbeModel(Model):
    """An estimator fitted to a matrix of the scans: the embedding, covariates, voxels and so on.

    `estimator` is a built-in probe or any estimator of scikit-learn; None: the built-in probe that
    the settings name.
    """

    design: Designs
    estimator: Probe | BaseEstimator | None = None

    def predict(self, target: Target, split: Split, **given: Any) -> Prediction:
        """Fit the estimator on the training rows, and predict the test rows."""
        return fit_each(
            self.design,
            target,
            split.train,
            split.test,
            validation=split.validation,
            estimator=self.estimator,
            **given,
        )

    def describe(
        self, target: Target, settings: EvaluationSettings, *, n_train: int
    ) -> Description:
        """Return the name, the expression and the grid of the estimator."""
        if self.estimator is not None and not isinstance(self.estimator, Probe):
            name, text = describe_own(self.estimator)
            return {"name": name, "own": True, "estimator": text, "strength_name": None}
        probe = self._probe(target, settings)
        texts = dict[str, None]()
        for design in designs_of(self.design):
            steps = [repr(scaler_of(design)), repr(probe.make(n_train > settings.large_table))]
            grid = {probe.strength: probe.strengths(settings)}
            if probe.widths:
                steps.insert(1, "KernelPCA(kernel='rbf')")
                grid["gamma"] = list(probe.widths)
            if len(weighed(design)) > 1:
                grid["weight"] = list(WEIGHTS)
            text = f"GridSearchCV(make_pipeline({', '.join(steps)}), {grid})"
            texts[" ".join(text.split())] = None
        return {
            "name": probe.name or probe_name(settings, target.kind),
            "own": False,
            "estimator": "; ".join(texts),
            "title": probe.title,
            "citation": probe.citation,
            "strength_name": probe.strength,
        }

    def why_not_stored(self, settings: EvaluationSettings) -> str | None:
        """Return why the fitted estimator is not written; None for a linear probe."""
        if self.estimator is not None and not isinstance(self.estimator, Probe):
            return "your own estimator is not written, which would need pickle; logistic and ridge are, as arrays"
        adjusted = settings.harmonise != "none" or settings.residualise
        why = "harmonised or residualised features need sites and covariates, and what was estimated of them"
        if adjusted:
            return why
        return None

    def _probe(self, target: Target, settings: EvaluationSettings) -> Probe:
        return (
            self.estimator
            if isinstance(self.estimator, Probe)
            else PROBES[probe_name(settings, target.kind)]
        )


@dataclass(frozen=True, eq=False)
class ConstantModel(Model):
    """The median of the training scans, or the share of each class in them."""

    def predict(self, target: Target, split: Split, **_: Any) -> Prediction:
        """Return the same for every test row."""
        return constant_prediction(target, split.train, len(split.test))

    def describe(
        self,
        target: Target,
        settings: EvaluationSettings,  # noqa: ARG002
        *,
        n_train: int,  # noqa: ARG002
    ) -> Description:
        """Return the name and the expression of the model."""
        name = "class shares"
        if target.kind == "continuous":
            name = "median"
        return {"name": name, "own": False, "estimator": name, "strength_name": None}


@dataclass(frozen=True, eq=False)
class GivenModel(Model):
    """A model fitted elsewhere in the same splits, such as a fine-tuned network; its predictions are given.

    `predictions` are those of each repeat and fold; `title` names the model and `text` describes
    it. `n_features` are those of all its members together.
    """

    title: str
    text: str
    why: str
    """Why no model of all scans is written."""
    n_features: int
    n_members: int = 1
    """Networks whose predictions are averaged."""
    predictions: Mapping[tuple[int, int], Prediction] = field(default_factory=dict)

    def predict(self, target: Target, split: Split, **_: Any) -> Prediction:  # noqa: ARG002
        """Return the predictions of the split."""
        return self.predictions[split.repeat, split.fold]

    def describe(
        self,
        target: Target,  # noqa: ARG002
        settings: EvaluationSettings,  # noqa: ARG002
        *,
        n_train: int,  # noqa: ARG002
    ) -> Description:
        """Return the name and the expression of the model."""
        return {"name": self.title, "own": True, "estimator": self.text, "strength_name": None}

    def why_not_stored(self, settings: EvaluationSettings) -> str | None:  # noqa: ARG002
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
    """Predict the test rows of every split."""
    given = {"subjects": subjects, "settings": settings, "sites": sites}
    tasks = [(number, model, target, split, given) for number, split in enumerate(splits)]
    found = {}
    for number, predicted in map_files(
        _predict_split, tasks, n_workers=settings.n_jobs, option="evaluation.n_jobs"
    ):
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
        where = f"fold {split.fold} of repeat {split.repeat}"
        if model.name != "embedding":
            where = f"model '{model.name}', {where}"
        raise EstimatorError(f"{error} ({where})") from error
