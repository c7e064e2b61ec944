"""Description that an embeddings table carries: run, people of pretraining, and read-out layer."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document, Json
from neurocontrast.documents.encoder import ObjectiveRecord, RunDescription
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.people import PretrainingPeople
from neurocontrast.documents.simulation import SimulationRecord


class FlowStep(Document):
    """Step of a flow chart of exclusions: numbers of scans and subjects, and the reason.

    The numbers of the step ``listed`` are of all scans in the table of scans that was embedded;
    those of a step ``excluded`` are of the scans left out for the reason.
    """

    step: str | None = None
    n_scans: int | None = None
    n_subjects: int | None = None
    reason: str | None = None


class EmbeddingsInfo(PretrainingPeople):
    """Description stored in an embeddings table's file; empty for a file of another program."""

    format: int | None = None
    run: RunDescription = Field(default_factory=RunDescription)
    simulated: bool = False
    simulation: SimulationRecord | None = None
    objective: ObjectiveRecord | None = None
    training_metrics: list[Json] = Field(default_factory=list)
    """Rows of the run's ``metrics.csv``, with losses of every epoch."""
    environment: Environment | None = None
    cohort_source: str | None = None
    cohort_digest: str | None = None
    layer: str = "encoder"
    """Layer of the features: ``encoder``, or ``head`` for the output of the projection head."""
    precision: str = "32-true"
    read_out: Json | None = None
    """Stages and grid inside the network at which features were taken; None for the network's
    output.
    """
    max_missing: float | None = None
    """Largest share of regional measures that an embedded person might lack, 0 to 1; None if
    set as in the run that trained the encoder.
    """
    flow: list[FlowStep] = Field(default_factory=list)

    @property
    def encoder_digest(self) -> str | None:
        """Text that tells encoders apart: SHA-256 of the weights, then settings of the read-out.

        Layer, precision and read-out follow the SHA-256 after commas, unless they are the defaults.
        None if the description of the run states no SHA-256.
        """
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
        """Whether the table's features are the encoder's output, not the projection head's."""
        return self.layer == "encoder"
