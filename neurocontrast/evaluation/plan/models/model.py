"""Models of an evaluation: an estimator of features, a constant, or predictions made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd
from sklearn.base import BaseEstimator

from neurocontrast.documents.notice import Notice
from neurocontrast.documents.result import ModelNames
from neurocontrast.documents.result import Probe as EstimatorSection
from neurocontrast.evaluation.probe_kinds import PROBES, Probe
from neurocontrast.evaluation.probes.designs import WEIGHTS, scaler_of, weighed
from neurocontrast.evaluation.probes.estimators import describe_own
from neurocontrast.evaluation.probes.fitting import (
    FitContext,
    Prediction,
    constant_prediction,
    fit_and_predict,
)
from neurocontrast.evaluation.probes.members import Designs, designs_of
from neurocontrast.evaluation.settings import EvaluationSettings, probe_name
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target


class Baseline(NamedTuple):
    """Names, for reports and warnings, of a model that the embedding is compared with.

    Such a model is called a baseline: it reads, for instance, regional measures in place of the
    embedding.
    """

    name: str
    """Name in tables and legends, such as ``regions``."""
    plural: str
    """Name in a sentence, in the plural, such as ``179 regional measures``."""
    over: str = ""
    """Words for the information that the model reads, such as ``the scans as they are``. If the
    model does as well as the embedding, a warning says that the encoder adds nothing to this
    information. Empty: no warning is given."""
    of: str = ""
    """Name of the first model of the same measures, if this model differs in its estimator alone,
    as a kernel model does. Reports then tell the two models apart by their estimators. Empty for
    other models, such as one of a summary of the measures."""
    lacks: str = ""
    """Part of the embedding that the model lacks, such as ``the network``; empty for models without
    an encoder."""
    beside: str = ""
    """Name of the model whose features this model reads together with the embedding; empty for
    models that do not read the embedding."""

    def describe(self) -> ModelNames:
        """Return the names as an entry of section ``rivals`` of ``evaluation.json``.

        The section lists the models that the embedding is compared with. An entry always has `name`
        and `plural`; `of`, `lacks` and `beside` are left out where empty.
        """
        names = {"name": self.name, "what": self.plural}
        for key in ("of", "lacks", "beside"):
            value = getattr(self, key)
            if value:
                names[key] = value
        return ModelNames.model_validate(names, context="writing")


@dataclass(frozen=True, eq=False)
class Model:
    """A model of an evaluation, which predicts the test scans of every split."""

    name: str
    """Key in ``evaluation.json``, and beginning of the model's columns in tables.

    The first model of an evaluation is called ``embedding``, and its columns have no prefix.
    """
    baseline: Baseline | None = field(default=None, kw_only=True)
    """Names of a model that the embedding is compared with; None for embedding and covariates."""
    covariates: tuple[str, ...] = field(default=(), kw_only=True)
    """Columns of age, sex and the like that the baseline reads; empty for other models."""
    result_keys: Mapping[str, object] = field(default_factory=dict, kw_only=True)
    """Keys that the model adds to ``evaluation.json``, with their values."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict, kw_only=True)
    """Tables that the model adds to the evaluation, by the name of the file."""
    notices: tuple[Notice, ...] = field(default=(), kw_only=True)
    """Warnings about the model."""

    def predict(self, target: Target, split: Split, context: FitContext) -> Prediction:
        """Fit the model to a split's training rows; return a `Prediction` of the test rows."""
        raise NotImplementedError

    def describe(
        self, target: Target, settings: EvaluationSettings, *, n_train: int
    ) -> EstimatorSection:
        """Return the section ``probe`` of ``evaluation.json``, which describes the estimator.

        The section holds the estimator's name, the estimator as an expression (in Python, or in
        words), and the name of the penalty's parameter, None without one. The argument `n_train` is
        the largest number of training rows of a fold.
        """
        raise NotImplementedError

    def why_not_stored(self, settings: EvaluationSettings) -> str | None:
        """Return why the model fitted on all scans is not written; None if a file is written."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ProbeModel(Model):
    """An estimator fitted to features, such as embedding, covariates or components of voxels.

    `estimator` is a built-in probe or any estimator of scikit-learn; None: the built-in probe that
    the settings name.
    """

    design: Designs
    estimator: Probe | BaseEstimator | None = None

    def predict(self, target: Target, split: Split, context: FitContext) -> Prediction:
        """Fit the estimator to a split's training rows; return a `Prediction` of the test rows."""
        return fit_and_predict(self.design, target, split, context, estimator=self.estimator)

    def describe(
        self, target: Target, settings: EvaluationSettings, *, n_train: int
    ) -> EstimatorSection:
        """Return the estimator's name and Python expression as the section ``probe``.

        It is the section of ``evaluation.json`` that describes an estimator. The expression of a
        built-in probe is that of the same fit in scikit-learn, a grid search of a pipeline; the
        user's own estimator has its ``repr``.
        """
        if self.estimator is not None and not isinstance(self.estimator, Probe):
            name, expression = describe_own(self.estimator)
            return EstimatorSection(name=name, own=True, estimator=expression, strength_name=None)
        probe = self._probe(target, settings)
        expressions = dict[str, None]()
        for design in designs_of(self.design):
            steps = [repr(scaler_of(design)), repr(probe.make(n_train > settings.large_table))]
            grid = {probe.strength: probe.strengths(settings)}
            if probe.widths:
                steps.insert(1, "KernelPCA(kernel='rbf')")
                grid["gamma"] = list(probe.widths)
            if len(weighed(design)) > 1:
                grid["weight"] = list(WEIGHTS)
            search = f"GridSearchCV(make_pipeline({', '.join(steps)}), {grid})"
            expressions[" ".join(search.split())] = None
        return EstimatorSection(
            name=probe.name or probe_name(settings, target.kind),
            own=False,
            estimator="; ".join(expressions),
            title=probe.title,
            citation=probe.citation,
            strength_name=probe.strength,
        )

    def why_not_stored(self, settings: EvaluationSettings) -> str | None:
        """Return the reason why the fitted estimator is not written to a file; None if a file is.

        There are two reasons: the estimator is the user's own, or the features are harmonised or
        residualised. Built-in probes of unadjusted features are written.
        """
        if self.estimator is not None and not isinstance(self.estimator, Probe):
            return (
                "your own estimator is not written, which would need pickle; logistic and ridge "
                "are, as arrays"
            )
        if settings.harmonise != "none" or settings.residualise:
            return (
                "harmonised or residualised features need sites and covariates, and what was "
                "estimated of them"
            )
        return None

    def _probe(self, target: Target, settings: EvaluationSettings) -> Probe:
        """Return the model's own built-in probe, or without one the probe that the settings name.

        ``probe=auto`` names a probe by the kind of the target.
        """
        if isinstance(self.estimator, Probe):
            return self.estimator
        return PROBES[probe_name(settings, target.kind)]


@dataclass(frozen=True, eq=False)
class ConstantModel(Model):
    """Constant prediction: the median of the training scans' target, or the share of each class."""

    def predict(
        self,
        target: Target,
        split: Split,
        context: FitContext,  # noqa: ARG002
    ) -> Prediction:
        """Return a `Prediction` of the training rows' median or class shares for every test row."""
        return constant_prediction(target, split.train, len(split.test))

    def describe(
        self,
        target: Target,
        settings: EvaluationSettings,  # noqa: ARG002
        *,
        n_train: int,  # noqa: ARG002
    ) -> EstimatorSection:
        """Return the section ``probe`` of ``evaluation.json`` with the name of the constant.

        The name is ``median`` for a continuous target, or ``class shares``.
        """
        name = "class shares"
        if target.kind == "continuous":
            name = "median"
        return EstimatorSection(name=name, own=False, estimator=name, strength_name=None)


@dataclass(frozen=True, eq=False)
class GivenModel(Model):
    """A model fitted elsewhere in the same splits, such as a fine-tuned network.

    `predictions` is (repeat, fold) → `Prediction` of the fold's test rows; `title` names the model
    and `expression` says in words how the model was trained. If the model averages the predictions
    of several networks, `n_features` counts the features of all networks together.
    """

    title: str
    expression: str
    why: str
    """Reason why no model fitted on all scans is written."""
    n_features: int
    n_members: int = 1
    """Number of networks whose predictions are averaged."""
    predictions: Mapping[tuple[int, int], Prediction] = field(default_factory=dict)

    def predict(
        self,
        target: Target,  # noqa: ARG002
        split: Split,
        context: FitContext,  # noqa: ARG002
    ) -> Prediction:
        """Return the model's prediction, made elsewhere, for the repeat and fold of `split`."""
        return self.predictions[split.repeat, split.fold]

    def describe(
        self,
        target: Target,  # noqa: ARG002
        settings: EvaluationSettings,  # noqa: ARG002
        *,
        n_train: int,  # noqa: ARG002
    ) -> EstimatorSection:
        """Return the section ``probe`` of ``evaluation.json``, made of the model's own attributes.

        The section describes an estimator: its name is the attribute `title`, and its expression is
        the attribute `expression`, which says in words how the model was trained. The arguments are
        not used.
        """
        return EstimatorSection(
            name=self.title, own=True, estimator=self.expression, strength_name=None
        )

    def why_not_stored(self, settings: EvaluationSettings) -> str | None:  # noqa: ARG002
        """Return `why`: the reason why no model fitted on all scans is written to a file."""
        return self.why
