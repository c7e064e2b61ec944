"""Description that an embeddings table carries: run, people of pretraining, and read-out."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document, Json
from neurocontrast.documents.encoder import ObjectiveRecord, RunDescription
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.people import PretrainingPeople
from neurocontrast.documents.simulation import SimulationRecord


class FlowStep(Document):
    """Step of a flow chart: scans and subjects that remain, and why others left."""

    step: str | None = None
    n_scans: int | None = None
    n_subjects: int | None = None
    reason: str | None = None


class EmbeddingsInfo(PretrainingPeople):
    """Description of an embeddings table; all keys are absent in a table of another program."""

    format: int | None = None
    run: RunDescription = Field(default_factory=RunDescription)
    simulated: bool = False
    simulation: SimulationRecord | None = None
    objective: ObjectiveRecord | None = None
    training_metrics: list[Json] = Field(default_factory=list)
    """Rows of the run's ``metrics.csv``."""
    environment: Environment | None = None
    cohort_source: str | None = None
    cohort_digest: str | None = None
    layer: str = "encoder"
    """``encoder`` for the encoder's features, ``head`` for those after the projection head."""
    precision: str = "32-true"
    read_out: Json | None = None
    """Blocks and grid of features that were read out inside the network; None of its output."""
    max_missing: float | None = None
    """Largest share of measures that a person might lack, 0 to 1; None for the run's."""
    flow: list[FlowStep] = Field(default_factory=list)

    @property
    def encoder_digest(self) -> str | None:
        """Digest of the weights, with layer, precision and read-out where they are unusual."""
        if self.run.weights.sha256 is None:
            return None
        words = [self.run.weights.sha256]
        if self.layer != "encoder":
            words.append(self.layer)
        if self.precision != "32-true":
            words.append(self.precision)
        if self.read_out:
            pairs = map("{} {}".format, self.read_out, self.read_out.values())
            words.append(f"read out at {' '.join(pairs)}")
        return ", ".join(words)

    @property
    def of_network(self) -> bool:
        """Whether features are the encoder's own, in the columns that the run describes."""
        return self.layer == "encoder"
