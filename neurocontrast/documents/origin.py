"""Sections of ``evaluation.json`` that other commands wrote, and that are kept as they are."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainSerializer

from neurocontrast.documents.document import Document, Json, content_of
from neurocontrast.documents.encoder import ObjectiveRecord, RunDescription
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.simulation import SimulationRecord


class TrainedFold(Document):
    """Training of a network in one fold: number of people, and the epoch that was taken."""

    repeat: int = 0
    fold: int = 0
    member: int | None = None
    """Number of the member; None of a run with one encoder."""
    n_fitted: int | None = None
    n_epochs: int | None = None
    best_epoch: int | None = None


class Finetuning(Document):
    """Section ``finetuning``: training of a network in every fold, in place of a probe."""

    begins_with: str | None = None
    """``pretrained weights`` or ``random weights``."""
    settings: Json = Field(default_factory=dict)
    augment: Json | None = None
    seed: int | None = None
    folds: list[TrainedFold] = Field(default_factory=list)

    @property
    def from_scratch(self) -> bool:
        """Whether training began with random weights."""
        return self.begins_with == "random weights"


_AS_WRITTEN = PlainSerializer(content_of)
WrittenRun = Annotated[RunDescription, _AS_WRITTEN]
WrittenObjective = Annotated[ObjectiveRecord, _AS_WRITTEN]
WrittenEnvironment = Annotated[Environment, _AS_WRITTEN]
WrittenSimulation = Annotated[SimulationRecord, _AS_WRITTEN]
WrittenFinetuning = Annotated[Finetuning, _AS_WRITTEN]
