"""``evaluation.json``: the result of an evaluation, which reports and comparisons read.

Attributes have the names of the keys. This module has the sections on target, folds and models. A
further analysis (finding), such as the learning curve, has a section of its own in the file, which
`Result.part` reads.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    StrictBool,
    StrictFloat,
    StrictInt,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from neurocontrast.documents.document import Json
from neurocontrast.documents.figures import (
    Increment,
    Metric,
    ModelFigures,
    gather_models,
    keys_in_file,
    spread_models,
)
from neurocontrast.documents.notice import Notice
from neurocontrast.documents.origin import (
    WrittenEnvironment,
    WrittenFinetuning,
    WrittenObjective,
    WrittenRun,
    WrittenSimulation,
)
from neurocontrast.documents.section import Part, ResultSection
from neurocontrast.exceptions import DataError
from neurocontrast.reading import read_json

FILE = "evaluation.json"
FORMAT = 1
_REMEDY = "Run 'neurocontrast evaluate' again."

P = TypeVar("P", bound=Part)


class ModelNames(ResultSection):
    """Names of a model that the embedding is compared with, for tables and for sentences."""

    name: str
    """Name of the model in tables."""
    what: str
    """Words for the model in a sentence."""
    of: str | None = None
    """Key of the first model of the same measures, if this model is a second with another
    estimator; None if not.
    """
    lacks: str | None = None
    """Part of the embedding that the model lacks; None for a model without an encoder."""
    beside: str | None = None
    """Key of the model to whose features this model adds the embedding; None for other models."""


class Counts(ResultSection):
    """Section ``n`` of ``evaluation.json``: numbers of scans, subjects, sites and features.

    `excluded` is reason → number of scans left out.
    """

    scans: StrictInt | None = None
    subjects: StrictInt | None = None
    sites: StrictInt | None = None
    features: StrictInt | None = None
    excluded: dict[str, StrictInt] = {}


class Probe(ResultSection):
    """Record of a model's estimator: name, regularisation, and shares of blocks of features.

    A block is a group of features, such as those of one of several joined encoders.
    """

    name: str | None = None
    own: StrictBool = False
    """Whether the estimator is the user's own, given from Python."""
    estimator: str | None = None
    title: str | None = None
    citation: str | None = None
    strength_name: str | None = None
    """Name of the estimator's regularisation parameter, such as ``C``."""
    strength: StrictFloat | None = None
    """Value of the regularisation parameter: the median over the fits of all folds."""
    why_not_stored: str | None = None
    """Reason why the fitted estimator is not stored in a file."""
    inner_splits: str | None = None
    """Splits within a training set by which the regularisation parameter was chosen."""
    blocks: str | None = None
    """Origin of groups of features: ``joined`` encoders, or components ``beside`` a network."""
    weights: dict[str, StrictFloat] = {}
    """Group of features → share in the total variance, chosen on inner folds; mean over folds."""
    fold_weights: dict[str, list[StrictFloat | None]] = {}
    """Group of features → share in the total variance in each fold, in the order of
    ``folds.tsv``.
    """
    n_members: StrictInt | None = None
    """Number of encoders of a run, to each of whose features an estimator was fitted."""
    averaged: str | None = None
    """Quantity averaged over encoders: ``probabilities``, ``decision values`` or ``numbers``."""


class Threshold(ResultSection):
    """Decision threshold for a binary target: the rule, and the threshold in each fold."""

    rule: StrictFloat | str | None = None
    values: list[StrictFloat | None] = []


class Bootstrap(ResultSection):
    """Bootstrap behind the metrics' intervals: resamples, resampled unit, and confidence level."""

    n: StrictInt | None = None
    method: str | None = None
    unit: str | None = None
    n_units: StrictInt | None = None
    level: StrictFloat | None = None


class FixedSplit(ResultSection):
    """Fixed split that a column of the table gives, in place of cross-validation."""

    column: str | None = None
    n: dict[str, StrictInt] = {}
    """Part of the split, such as ``train`` → number of scans."""
    chosen_on: str | None = None
    refit_on: list[str] = []
    n_fitted: StrictInt | None = None
    n_pretrained: dict[str, StrictInt | None] = {}
    """Part of the split → number of scans whose people were in pretraining; None if unknown."""
    n_duplicates: dict[str, StrictInt] = {}


class Permutation(ResultSection):
    """Permutation test against chance: metrics with permuted labels, and p-values."""

    n: StrictInt | None = None
    """Number of permutations."""
    unit: str | None = None
    within_site: StrictBool | None = None
    within_fold: StrictBool | None = None
    share_moved: StrictFloat | None = None
    """Mean share of scans whose label a permutation changed, 0 to 1."""
    repeat: StrictInt | None = None
    observed: dict[str, StrictFloat | None] = {}
    p_values: dict[str, StrictFloat | None] = {}
    seconds: StrictFloat | None = None

    @property
    def units_within(self) -> list[str]:
        """Groups of scans within which labels were permuted: ``site``, ``fold``."""
        units = []
        if self.within_site:
            units.append("site")
        if self.within_fold:
            units.append("fold")
        return units


class VoxelsAbout(ResultSection):
    """Voxels whose intensities a baseline reads: grid, mask, smoothing, number of components."""

    spacing_mm: StrictFloat | None = None
    mask: str | None = None
    n_voxels: StrictInt | None = None
    smooth_mm: StrictFloat | None = None
    standardised: str | None = None
    n_components: StrictInt | None = None


class EmbeddingsOrigin(ResultSection):
    """Embeddings table that was evaluated: file, digest, and cohort."""

    file: str | None = None
    digest: str | None = None
    cohort_source: str | None = None
    cohort_digest: str | None = None
    max_missing: float | None = None
    """Largest share of regional measures that an embedded person might lack, 0 to 1; None if
    set as in the run that trained the encoder.
    """
    environment: WrittenEnvironment | None = None
    layer: str = "encoder"


def _as_notice(warning: object) -> object:
    """Turn a warning that an earlier version wrote as a bare sentence into code and message."""
    if isinstance(warning, str):
        return {"code": "", "message": warning}
    return warning


class Result(ResultSection):
    """Content of ``evaluation.json``; keys without a field hold further analyses (`Part`).

    `models` is no key of the file: in the file, the results of each model but the embedding and the
    covariates have keys of their own (`neurocontrast.documents.figures`).
    """

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
    """Model → its estimator; earlier versions wrote only the embedding's, under ``probe``."""
    n: Counts
    metrics: dict[str, Metric]
    baseline: dict[str, Metric] = {}
    increment: dict[str, Increment] = {}
    split: FixedSplit | None = None
    permutation: Permutation | None = None
    rivals: dict[str, ModelNames] = {}
    """Key → names of a model that the embedding is tested against; results are in `models`."""
    models: dict[str, ModelFigures] = {}
    """Key of a model → its results, for all models but the embedding and the covariates."""
    voxels_about: VoxelsAbout = VoxelsAbout()
    regional_columns: list[str] = []
    threshold: Threshold = Threshold()
    baseline_covariates: list[str] = []
    warnings: list[Annotated[Notice, BeforeValidator(_as_notice)]] = []
    bootstrap: Bootstrap = Bootstrap()
    allow_overlap: StrictBool = False
    n_overlap: StrictInt = 0
    overlap_by: list[str] | None = None
    """Properties by which evaluated people were looked up in pretraining: ``identifiers``,
    ``contents``.
    None in files of earlier versions, which compared identifiers as they were written.
    """
    simulated: StrictBool = False
    simulation: WrittenSimulation | None = None
    run: WrittenRun | None = None
    objective: WrittenObjective | None = None
    environment: WrittenEnvironment | None = None
    embeddings: EmbeddingsOrigin = EmbeddingsOrigin()
    finetuning: WrittenFinetuning | None = None
    """Training of the network in every fold; None for a linear probe on frozen features."""
    software: list[str] = []

    @model_validator(mode="after")
    def _check_classes(self) -> Result:
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

    def part(self, kind: type[P]) -> P | None:
        """Return the section of ``evaluation.json`` of class `kind`; None if the file has none.

        A section of that class holds a further analysis (finding), such as the learning curve.

        Raises
        ------
        DataError
            Naming a key of the section that is missing or wrong.
        """
        content = (self.model_extra or {}).get(kind.key)
        if content is None or isinstance(content, kind):
            return content
        try:
            return kind.model_validate(content)
        except ValidationError as error:
            raise DataError(_explain_faults(FILE, error, kind.key)) from None

    def with_parts(self, parts: Mapping[str, Part | str | None]) -> Result:
        """Return the result with sections of further analyses (findings) added, each under its key.

        Parameters
        ----------
        parts : mapping
            Key in ``evaluation.json`` → section.

        Raises
        ------
        ValueError
            If a key is the name of a field of `Result`.
        """
        for key in parts:
            if key in type(self).model_fields:
                raise ValueError(f"evaluation.json has the key '{key}': a finding needs another")
        return self.model_copy(update=dict(parts))

    def content(self) -> Json:
        """Return the content to write to ``evaluation.json``, key → value, ready for JSON.

        Fields that were set come first, then further analyses such as ``learning_curve``, each
        under its own key.
        """
        dumped = self.model_dump(mode="json", exclude_unset=True)
        models = dumped.pop("models", {})
        content = {}
        for key in type(self).model_fields:
            if key in dumped:
                content[key] = dumped.pop(key)
        return {**content, **spread_models(models), **dumped}


def read_evaluation(path: str | os.PathLike[str]) -> Result:
    """Read ``evaluation.json`` of this version or an earlier one.

    Parameters
    ----------
    path : path
        The file, or its folder.

    Returns
    -------
    Result
        Typed content; a key that an earlier version did not write has its default.

    Raises
    ------
    DataError
        Naming the file, and every key that is missing or has a wrong value.
    """
    file = Path(path)
    if file.is_dir():
        file = file / FILE
    content = read_json(file, remedy=_REMEDY)
    if content.get("format") != FORMAT:
        raise DataError(
            f"{file}: format must be {FORMAT}, found {content.get('format')!r}. It was written by "
            "another version of neurocontrast: evaluate again with this one, or report with that "
            "one."
        )
    try:
        return Result.model_validate(gather_models(content))
    except ValidationError as error:
        raise DataError(_explain_faults(str(file), error)) from None


def _explain_faults(file: str, error: ValidationError, *section: str) -> str:
    """Return an error text that lists missing keys and wrong values of ``evaluation.json``.

    `file` is the name of the file, with which the text begins, and `error` has the faults.
    `section` is the key of a section that was read alone.
    """
    faults = []
    for problem in error.errors():
        key = ".".join(map(str, keys_in_file((*section, *problem["loc"]))))
        faults.append(_explain_fault(key, problem))
    return f"{file}: {'; '.join(faults)}. {_REMEDY}"


def _explain_fault(key: str, problem: ErrorDetails) -> str:
    """Return a clause on a wrong or missing value of ``evaluation.json``, for an error.

    The clause has the rule that the value of `key` breaks, and the value. `problem` is pydantic's
    account of the error.
    """
    kind = problem["type"]
    if kind == "missing":
        return f"'{key}' is missing"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    value = f"{problem['input']!r:.60}"
    if kind == "literal_error":
        return f"{key} must be one of {problem['ctx']['expected']}, found {value}"
    return f"'{key}': {problem['msg'].replace('Input should', 'must')}, found {value}"
