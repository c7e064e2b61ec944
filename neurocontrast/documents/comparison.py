"""``comparison.json``: evaluations of the same samples in the same folds, compared by tests."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from neurocontrast.documents.document import Document, Json
from neurocontrast.documents.encoder import ObjectiveRecord, RunDescription
from neurocontrast.documents.result import Counts
from neurocontrast.reading import read_json

FILE = "comparison.json"
_REMEDY = "Run 'neurocontrast compare' again."


class ComparedWarning(Document):
    """Warning that one of the compared evaluations gave."""

    code: str = ""
    message: str = ""
    explanation: str = ""


class ComparedModel(Document):
    """One of the compared evaluations: name, estimator, pretraining, and warnings."""

    name: str
    estimator: str | None = None
    run: RunDescription = Field(default_factory=RunDescription)
    objective: ObjectiveRecord = Field(default_factory=ObjectiveRecord)
    embeddings: Json = Field(default_factory=dict)
    n_overlap: int = 0
    simulated: bool = False
    warnings: list[ComparedWarning] = Field(default_factory=list)


class ComparisonRecord(Document):
    """Content of ``comparison.json``: compared evaluations, and settings of intervals and tests."""

    format: int | None = None
    target: str
    kind: str
    classes: list[str] = Field(default_factory=list)
    positive: str | None = None
    splits: str
    splitter: str | None = None
    n_folds: int | None = None
    n_repeats: int | None = None
    n: Counts = Field(default_factory=Counts)
    reference: str
    models: list[ComparedModel]
    test: str | None = None
    """Name of the statistical test that gave the p-values, in words."""
    environment: Json = Field(default_factory=dict)
    n_bootstraps: int = 0
    interval_method: str | None = None
    confidence_level: float
    seed: int | None = None


def read_comparison(folder: str | os.PathLike[str]) -> ComparisonRecord:
    """Read ``comparison.json`` of a folder; a `DataError` names every wrong key."""
    path = Path(folder) / FILE
    return ComparisonRecord.of(read_json(path, remedy=_REMEDY), path, remedy=_REMEDY)
