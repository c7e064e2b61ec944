"""``evaluation.json``, typed: what an evaluation writes, and what findings, reports and comparisons read.

Attributes have the names of the keys. This file holds what the models of a study leave; each
finding has a record of its own (in ``evaluation/measure/``), which `Evaluation.part` reads.
"""

# ruff: noqa: D101 - the names of sections say what they are; pydantic copies the defaults of its models

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StrictBool,
    StrictFloat,
    StrictInt,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails

from neurocontrast.exceptions import DataError, one_of
from neurocontrast.reading import read_json

FILE = "evaluation.json"
FORMAT = 1
_WARNINGS: dict[str, dict[str, str]] = yaml.safe_load(
    resources.files("neurocontrast.evaluation").joinpath("warnings.yaml").read_text("utf-8")
)

Interval = tuple[StrictFloat, StrictFloat] | None
Document = dict[str, Any] | None
"""A section that another command wrote and that is kept as it is."""


@dataclass(frozen=True)
class Notice:
    """A warning of an evaluation: a code for machines, a message, and what the message means for a reader.

    Parameters
    ----------
    code : str
        A short name, the same in every evaluation.
    message : str
        What was found, with its numbers.
    explanation : str
        What this means for reading the results, and what to do; empty in evaluations of earlier
        versions.
    """

    code: str
    message: str = ""
    explanation: str = ""

    @classmethod
    def of(cls, key: str, **values: object) -> Notice:
        """Return a warning of ``warnings.yaml``, its text filled with values."""
        texts = {"code": key} | _WARNINGS[key]
        return cls(**{name: text.format(**values) for name, text in texts.items()})


class Section(BaseModel):
    """A section of the file. Null means that a key is absent; keys of other versions are skipped in reading."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, Mapping):
            return given
        unknown = [name for name in given if name not in cls.model_fields]
        if unknown and info.context == "writing" and cls.model_config.get("extra") != "allow":
            raise ValueError(f"{cls.__name__} has no field {one_of(unknown)}")
        fields = cls.model_fields.items()
        filled = {
            name for name, field in fields if field.default is not None and not field.is_required()
        }
        return {
            name: value for name, value in given.items() if value is not None or name not in filled
        }


class Part(Section):
    """The record of a finding: a section of ``evaluation.json`` under a key of its own."""

    key: ClassVar[str]


P = TypeVar("P", bound=Part)


class Metric(Section):
    """A metric over folds (`mean`, `sd`), and of all out-of-fold predictions together (`pooled`, `interval`)."""

    mean: StrictFloat | None = None
    sd: StrictFloat | None = None
    pooled: StrictFloat | None = None
    interval: Interval = None
    n_folds_defined: StrictInt | None = None
    reason: str | None = None

    @property
    def value(self) -> float | None:
        """The value of all predictions together, or the mean over folds of a metric that has none."""
        return self.mean if self.pooled is None else self.pooled


class Increment(Section):
    """A metric of the embedding minus that of another model."""

    difference: StrictFloat | None = None
    interval: Interval = None
    p_value: StrictFloat | None = None
    p_adjusted: StrictFloat | None = None
    """The p-value adjusted by Holm for the number of rivals; None where there is one."""

    @property
    def p_tested(self) -> float | None:
        """The p-value, adjusted where there are several rivals."""
        if self.p_adjusted is None:
            return self.p_value
        return self.p_adjusted


class Estimate(Section):
    """A value and its interval."""

    value: StrictFloat | None = None
    low: StrictFloat | None = None
    high: StrictFloat | None = None
    n: StrictInt | None = None


class Rival(Section):
    """Names of a model beside the embedding, in tables and in sentences."""

    name: str
    what: str
    of: str | None = None
    # Key of the first model of the same measures, of which this is a second one.
    lacks: str | None = None
    """Part of the embedding that the model does without; None for a model without an encoder."""
    beside: str | None = None
    """Key of the model whose features have the embedding beside them, as a second block."""


class Counts(Section):
    scans: StrictInt | None = None
    subjects: StrictInt | None = None
    sites: StrictInt | None = None
    features: StrictInt | None = None
    excluded: dict[str, StrictInt] = {}


class Probe(Section):
    name: str | None = None
    own: StrictBool = False
    estimator: str | None = None
    title: str | None = None
    citation: str | None = None
    strength_name: str | None = None
    strength: StrictFloat | None = None
    why_not_stored: str | None = None
    inner_splits: str | None = None
    blocks: str | None = None
    """``joined`` for features of several encoders, ``beside`` for a network and its components."""
    weights: dict[str, StrictFloat] = {}
    """Share of each block in the total variance, chosen on inner folds: the mean over folds."""
    fold_weights: dict[str, list[StrictFloat | None]] = {}
    """The same of each fold, in the order of ``folds.tsv``."""
    n_members: StrictInt | None = None  # to each of which the estimator was fitted
    averaged: str | None = None  # over members: ``probabilities``, ``decision values``, ``numbers``


class Threshold(Section):
    rule: StrictFloat | str | None = None
    values: list[StrictFloat | None] = []


class Bootstrap(Section):
    n: StrictInt | None = None
    method: str | None = None
    unit: str | None = None
    n_units: StrictInt | None = None
    level: StrictFloat | None = None


class FixedSplit(Section):
    column: str | None = None
    n: dict[str, StrictInt] = {}
    chosen_on: str | None = None
    refit_on: list[str] = []
    n_fitted: StrictInt | None = None
    n_pretrained: dict[str, StrictInt | None] = {}
    n_duplicates: dict[str, StrictInt] = {}


class Permutation(Section):
    n: StrictInt | None = None
    unit: str | None = None
    within_site: StrictBool | None = None
    within_fold: StrictBool | None = None
    share_moved: StrictFloat | None = None
    repeat: StrictInt | None = None
    observed: dict[str, StrictFloat | None] = {}
    p_values: dict[str, StrictFloat | None] = {}
    seconds: StrictFloat | None = None


class VoxelsAbout(Section):
    spacing_mm: StrictFloat | None = None
    mask: str | None = None
    n_voxels: StrictInt | None = None
    smooth_mm: StrictFloat | None = None
    standardised: str | None = None
    n_components: StrictInt | None = None


class EmbeddingsOrigin(Section):
    file: str | None = None
    digest: str | None = None
    cohort_source: str | None = None
    cohort_digest: str | None = None
    max_missing: float | None = None  # share of measures a person might lack, if not the run's
    environment: Document = None
    layer: str = "encoder"


# A bare sentence is a warning, too: none must be lost over its form.
_AS_NOTICE = BeforeValidator(
    lambda given: {"code": "", "message": given} if isinstance(given, str) else given
)


class Evaluation(Section):
    """The content of ``evaluation.json``; keys that are not fields are those of findings, and of further models."""

    model_config = ConfigDict(frozen=True, protected_namespaces=(), extra="allow")

    format: StrictInt
    target: str
    kind: Literal["binary", "multiclass", "continuous"]
    classes: list[str] = []
    positive: str | None = None
    splits: str
    splitter: str | None = None
    splits_digest: str | None = None
    n_folds: StrictInt = 1
    n_repeats: StrictInt = 1
    seed: StrictInt | None = None
    probe: Probe = Probe()
    estimators: dict[str, Probe] = {}
    """Estimator of each model by its key; earlier versions wrote the embedding's alone (`probe`)."""
    n: Counts
    metrics: dict[str, Metric]
    baseline: dict[str, Metric] = {}
    increment: dict[str, Increment] = {}
    split: FixedSplit | None = None
    permutation: Permutation | None = None
    rivals: dict[str, Rival] = {}
    """Models that the embedding is tested against; their figures are under their key.

    KEY_increment is the embedding minus the model. Of a model with the embedding beside the
    features of another one, KEY_gain_increment is the model minus that one.
    """
    voxels_about: VoxelsAbout = VoxelsAbout()
    regional_columns: list[str] = []
    threshold: Threshold = Threshold()
    baseline_covariates: list[str] = []
    warnings: list[Annotated[Notice, _AS_NOTICE]] = []
    bootstrap: Bootstrap = Bootstrap()
    allow_overlap: StrictBool = False
    n_overlap: StrictInt = 0
    overlap_by: list[str] | None = None
    """How people of pretraining were looked for: ``identifiers``, ``contents``; None of earlier
    versions, which compared identifiers as they were written."""
    simulated: StrictBool = False
    simulation: Document = None
    run: Document = None
    objective: Document = None
    environment: Document = None
    embeddings: EmbeddingsOrigin = EmbeddingsOrigin()
    finetuning: Document = None
    """How a network was trained in every fold, in place of a probe on frozen features."""
    software: list[str] = []

    @model_validator(mode="after")
    def _check_classes(self) -> Evaluation:
        if self.kind == "binary" and (len(self.classes) != 2 or self.positive not in self.classes):
            raise ValueError(
                "a binary target needs two classes, one of them the positive one; "
                f"found classes {self.classes!r}, positive {self.positive!r}"
            )
        if self.kind == "multiclass" and len(self.classes) < 3:
            raise ValueError(
                f"a multiclass target needs three classes or more, found {self.classes!r}"
            )
        return self

    def figures(self, model: str) -> tuple[dict[str, Metric], dict[str, Increment]]:
        """Return the metrics of a further model, and those of the embedding minus its own; empty without the model."""
        metrics, gains = (
            (self.model_extra or {}).get(key) or {} for key in (model, f"{model}_increment")
        )
        try:
            return _METRICS.validate_python(metrics), _INCREMENTS.validate_python(gains)
        except ValidationError as error:
            raise DataError(_explain(FILE, error, model)) from None

    def gains(self, model: str) -> dict[str, Increment]:
        """Return the gains of a model over the same one without the embedding beside."""
        return self.figures(f"{model}_gain")[1]

    def part(self, kind: type[P]) -> P | None:
        """Return what a finding recorded, or None if it was not measured; DataError names a key that is wrong."""
        given = (self.model_extra or {}).get(kind.key)
        if given is None or isinstance(given, kind):
            return given
        try:
            return kind.model_validate(given)
        except ValidationError as error:
            raise DataError(_explain(FILE, error, kind.key)) from None

    def with_parts(self, found: Mapping[str, Any], records: Mapping[str, type[Part]]) -> Evaluation:
        """Return the evaluation with what findings recorded; a key that a record does not know is a mistake in code."""
        parts = {
            key: records[key].model_validate(value, context="writing")
            if key in records and value is not None
            else value
            for key, value in found.items()
        }
        return self.model_copy(update=parts)

    def content(self) -> dict[str, Any]:
        """Return what is written to the file: every key that was given, those of findings last."""
        return self.model_dump(mode="json", exclude_unset=True)


_METRICS = TypeAdapter(dict[str, Metric])
_INCREMENTS = TypeAdapter(dict[str, Increment])


def compose_evaluation(content: Mapping[str, Any]) -> Evaluation:
    """Return the evaluation that a study found."""
    return Evaluation.model_validate({"format": FORMAT, **content}, context="writing")


def read_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """Read ``evaluation.json``, of this version or an earlier one.

    Parameters
    ----------
    path : path
        The file, or the folder that holds it.

    Returns
    -------
    Evaluation
        Typed content; what an earlier version did not write has its default.

    Raises
    ------
    DataError
        Naming the file, and every key that is missing or holds something else than it should.
    """
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    content = read_json(file, remedy=_REMEDY)
    if content.get("format") != FORMAT:
        raise DataError(
            f"{file}: format must be {FORMAT}, found {content.get('format')!r}. It was written by another version of "
            "neurocontrast: evaluate again with this one, or report with that one."
        )
    try:
        return Evaluation.model_validate(content)
    except ValidationError as error:
        raise DataError(_explain(str(file), error)) from None


_REMEDY = "Run 'neurocontrast evaluate' again."


def _explain(file: str, error: ValidationError, *place: str) -> str:
    return f"{file}: {'; '.join(_explain_one(each, place) for each in error.errors())}. {_REMEDY}"


def _explain_one(problem: ErrorDetails, place: tuple[str, ...]) -> str:
    key = ".".join(map(str, (*place, *problem["loc"])))
    kind = problem["type"]
    if kind == "missing":
        return f"'{key}' is missing"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == "literal_error":
        return f"{key} must be one of {problem['ctx']['expected']}, found {problem['input']!r:.60}"
    return (
        f"'{key}': {problem['msg'].replace('Input should', 'must')}, found {problem['input']!r:.60}"
    )
