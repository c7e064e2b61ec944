"""The typed model of ``evaluation.json``: what an evaluation writes, and what reports and comparisons read."""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, StrictBool, StrictInt, ValidationError, model_validator
from pydantic_core import ErrorDetails

from neurocontrast.evaluation.schema.sections import (
    Bootstrap,
    Confounds,
    Counts,
    Document,
    EmbeddingsOrigin,
    Estimate,
    External,
    FixedSplit,
    Increment,
    LearningCurve,
    Metric,
    NewSite,
    Notice,
    Outlyingness,
    Permutation,
    Probe,
    Section,
    Threshold,
    VoxelsAbout,
)  # fmt: skip
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.reading import read_json

__all__ = ["FILE", "FORMAT", "EmbeddingsOrigin", "Estimate", "Evaluation", "LearningCurve", "NewSite", "Notice",
           "compose_evaluation", "read_evaluation"]  # fmt: skip

FILE = "evaluation.json"
FORMAT = 1


def _as_section(given: Any) -> Any:
    """A bare sentence is a warning too: none must be lost over its form."""
    return {"code": "", "message": given} if isinstance(given, str) else given


Caution = Annotated[Notice, BeforeValidator(_as_section)]


class Evaluation(Section):
    """The content of ``evaluation.json``; attributes have the names of its keys."""

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
    n: Counts
    metrics: dict[str, Metric]
    baseline: dict[str, Metric] = {}
    increment: dict[str, Increment] = {}
    split: FixedSplit | None = None
    permutation: Permutation | None = None
    confounds: Confounds = Confounds()
    new_site: NewSite | None = None
    new_site_note: str | None = None
    outlyingness: Outlyingness | None = None
    learning_curve: LearningCurve | None = None
    external: External | None = None
    panels: dict[str, Any] = {}
    """What panels from outside the package found, by key."""
    voxels: dict[str, Metric] = {}
    voxels_increment: dict[str, Increment] = {}
    voxels_about: VoxelsAbout = VoxelsAbout()
    regional: dict[str, Metric] = {}
    regional_increment: dict[str, Increment] = {}
    regional_columns: list[str] = []
    threshold: Threshold = Threshold()
    baseline_covariates: list[str] = []
    warnings: list[Caution] = []
    bootstrap: Bootstrap = Bootstrap()
    allow_overlap: StrictBool = False
    n_overlap: StrictInt = 0
    simulated: StrictBool = False
    simulation: Document = None
    run: Document = None
    objective: Document = None
    environment: Document = None
    embeddings: EmbeddingsOrigin = EmbeddingsOrigin()
    images: Document = None
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
            raise ValueError(f"a multiclass target needs three classes or more, found {self.classes!r}")
        return self

    def content(self) -> dict[str, Any]:
        """Return what is written to the file: every key that was given, in the order of this class."""
        return self.model_dump(mode="json", exclude_unset=True)


def compose_evaluation(content: Mapping[str, Any]) -> Evaluation:
    """Return the evaluation that a study found; a key that the file does not know is a mistake in the code."""
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
    remedy = "Run 'neurocontrast evaluate' again."
    content = read_json(file, remedy=remedy)
    if content.get("format") != FORMAT:
        raise DataError(
            f"{file}: format must be {FORMAT}, found {content.get('format')!r}. It was written by another version of "
            "neurocontrast: evaluate again with this one, or report with that one."
        )
    try:
        return Evaluation.model_validate(content)
    except ValidationError as error:
        problems = error.errors()
    missing = one_of(str(each["loc"][0]) for each in problems if each["type"] == "missing" and len(each["loc"]) == 1)
    found = [f"missing: {missing}"] if missing else []
    found += [_explain(each) for each in problems if each["type"] != "missing" or len(each["loc"]) > 1]
    raise DataError(f"{file}: {'; '.join(found)}. {remedy}")


_RULES = {
    "model_type": "must be a section of keys",
    "dataclass_type": "must be a section of keys",
    "dict_type": "must be a section of keys",
    "list_type": "must be a list",
    "tuple_type": "must be two numbers",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "too_long": "must be two numbers",
}


def _explain(problem: ErrorDetails) -> str:
    key, kind = ".".join(map(str, problem["loc"])), problem["type"]
    if kind == "missing":
        return f"'{key}' is missing"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == "literal_error":
        return f"{key} must be one of {problem['ctx']['expected']}, found {problem['input']!r:.60}"
    return f"'{key}' {_RULES.get(kind, problem['msg'])}, found {problem['input']!r:.60}"
