"""Sections that ``evaluation.json`` takes from other commands' files, and keeps as written."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainSerializer

from neurocontrast.documents.document import Document, Json, content_of
from neurocontrast.documents.encoder import ObjectiveRecord, RunDescription
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.simulation import SimulationRecord


class TrainedFold(Document):
    """Fine-tuning of a network in one fold: number of training people, epochs, and best epoch.

    The best epoch has the lowest validation loss; its weights are taken.
    """

    repeat: int = 0
    fold: int = 0
    member: int | None = None
    """Number of the encoder in a run of several; None for a run of one encoder."""
    n_fitted: int | None = None
    n_epochs: int | None = None
    best_epoch: int | None = None


class Finetuning(Document):
    """Section ``finetuning`` of ``evaluation.json``: training of the network in every fold.

    Absent for an evaluation by a linear probe on frozen features.
    """

    begins_with: str | None = None
    """Weights at the start of training: ``pretrained weights`` or ``random weights``."""
    settings: Json = Field(default_factory=dict)
    augment: Json | None = None
    seed: int | None = None
    folds: list[TrainedFold] = Field(default_factory=list)

    @property
    def from_scratch(self) -> bool:
        """Whether the network's training in the folds started from random weights."""
        return self.begins_with == "random weights"


_AS_WRITTEN = PlainSerializer(content_of)
WrittenRun = Annotated[RunDescription, _AS_WRITTEN]
WrittenObjective = Annotated[ObjectiveRecord, _AS_WRITTEN]
WrittenEnvironment = Annotated[Environment, _AS_WRITTEN]
WrittenSimulation = Annotated[SimulationRecord, _AS_WRITTEN]
WrittenFinetuning = Annotated[Finetuning, _AS_WRITTEN]
