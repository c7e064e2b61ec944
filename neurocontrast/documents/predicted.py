"""JSON files that `predict` writes beside its tables of predictions."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.expected import ExpectedErrors


class FailedScan(Document):
    """Scan that could not be embedded, and the reason."""

    participant_id: str
    session: str | None = None
    error: str


class IncomingRecord(Document):
    """Section ``scans``: the table or folder of scans that were embedded first."""

    source: str
    """Name of the table or folder."""
    n_failed: int
    failed: list[FailedScan] = Field(default_factory=list)


class EmbeddingsFile(Document):
    """Section ``embeddings``: the table of embeddings that was predicted from."""

    file: str
    digest: str


class PredictionsOrigin(Document):
    """Keys about the data that were predicted from: either embeddings, or scans."""

    embeddings: EmbeddingsFile | None = None
    scans: IncomingRecord | None = None
    simulated: bool = False

    @property
    def n_failed(self) -> int:
        """Number of scans that could not be embedded."""
        if self.scans is None:
            return 0
        return self.scans.n_failed


class TrainingSize(Document):
    """Section ``n_trained_on``: the size of the data that a probe was fitted on."""

    scans: int
    subjects: int | None = None
    """None where the probe names nobody."""


class ProbeDescription(Document):
    """Name a probe, its penalty, and the rule of its decision."""

    name: str
    strength: float
    threshold: float | str


class WeightsProbeRecord(ProbeDescription):
    """Entry of ``probes``: a probe of weights, and its expected error at a new site."""

    kind: str
    classes: list[str]
    n_trained_on: TrainingSize
    expected: ExpectedErrors | None = None


class ShiftRecord(Document):
    """Shift of a site's predictions, learned from its labelled people."""

    n_subjects: int
    shift: float | None = None
    """In units of the target, or in log-odds; None where the labelled people cannot tell."""
    standard_error: float | None = None


class CalibrationRecord(Document):
    """Section ``calibration``: the table of true labels, and the shift of each site."""

    file: str
    by_site: dict[str, ShiftRecord] = Field(default_factory=dict)


class OutsideSite(Document):
    """Count the scans of a site, and those outside of the training distribution."""

    site: str
    n: int
    n_outside: int
    median_percentile: float


class OutsideRecord(Document):
    """Section ``outlyingness``: scans outside of the distribution of a probe's training scans."""

    reference: str
    threshold_percentile: float
    n_outside: int
    n: int
    by_site: list[OutsideSite] = Field(default_factory=list)
    message: str | None = None
    """Warning of more scans outside than chance gives."""


class ScanCounts(Document):
    """Section ``n`` of predictions by a probe."""

    scans: int
    of_trained_subjects: int | None = None
    """Scans of subjects that the probe was fitted on; None where the probe names nobody."""


class ProbePredictionsRecord(PredictionsOrigin):
    """Describe predictions by the probe of an evaluation."""

    format: int
    target: str
    kind: str
    classes: list[str]
    probe: ProbeDescription
    n_trained_on: TrainingSize
    n: ScanCounts
    encoder: str | None = None
    environment: Environment
    n_members: int | None = None
    outlyingness: OutsideRecord | None = None
    """None for a probe without the distribution of its training scans."""
    calibration: CalibrationRecord | None = None


class PeopleCounts(Document):
    """Section ``n`` of predictions by weights."""

    people: int
    failed: int
    outside: int


class ErrorOfAge(Document):
    """Error of the predicted age of people who are a test."""

    n_people: int
    mean_absolute: float
    """In years."""


class PeoplePredictionsRecord(PredictionsOrigin):
    """Describe predictions of people by the probes of weights."""

    format: int
    weights: str
    probes: dict[str, WeightsProbeRecord]
    """Probe of each target."""
    n: PeopleCounts
    reasons: dict[str, int] = Field(default_factory=dict)
    """People who lie outside of the people learned from, by kind of reason."""
    scans: IncomingRecord
    ages_learned_from: list[float] | None = None
    calibration: dict[str, dict[str, ShiftRecord]] | None = None
    """Shift of each site, by target."""
    error_of_age: ErrorOfAge | None = None
    environment: Environment
    licence: str | None = None
    encoder: str | None = None
    warnings: list[str] = Field(default_factory=list)
