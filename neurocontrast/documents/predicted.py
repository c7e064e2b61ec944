"""JSON files that `predict` writes next to tables of predictions, and sections of the files."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.expected import ExpectedErrors


class FailedScan(Document):
    """Scan that could not be embedded, and the error message."""

    participant_id: str
    session: str | None = None
    error: str


class IncomingRecord(Document):
    """Section ``scans`` of `predict`'s JSON file: scans that `predict` embedded itself."""

    source: str
    """Name of the table or folder of scans."""
    n_failed: int
    failed: list[FailedScan] = Field(default_factory=list)


class EmbeddingsFile(Document):
    """Section ``embeddings`` of `predict`'s JSON file: the embeddings table that was read."""

    file: str
    digest: str


class PredictionsOrigin(Document):
    """Data that `predict` predicted from: either an embeddings table, or scans."""

    embeddings: EmbeddingsFile | None = None
    scans: IncomingRecord | None = None
    simulated: bool = False

    @property
    def n_failed(self) -> int:
        """Number of scans that `predict` could not embed; 0 for an embeddings table."""
        if self.scans is None:
            return 0
        return self.scans.n_failed


class TrainingSize(Document):
    """Section ``n_trained_on`` of `predict`'s JSON file: scans and subjects that fitted a probe."""

    scans: int
    subjects: int | None = None
    """Number of subjects; None for a probe without digests of its training subjects."""


class ProbeDescription(Document):
    """Name of a probe, strength of its penalty, and the threshold or rule of its decision."""

    name: str
    strength: float
    threshold: float | str


class WeightsProbeRecord(ProbeDescription):
    """Entry of ``probes`` in `predict`'s JSON file: a probe stored in the folder of the weights.

    `expected` holds the error to expect of the probe at a new site.
    """

    kind: str
    classes: list[str]
    n_trained_on: TrainingSize
    expected: ExpectedErrors | None = None


class ShiftRecord(Document):
    """Number added to the predictions at a site (shift), learned from labelled people there."""

    n_subjects: int
    shift: float | None = None
    """Shift in units of the target, or in log-odds; None if the labelled people do not
    determine one.
    """
    standard_error: float | None = None


class CalibrationRecord(Document):
    """Section ``calibration`` of `predict`'s JSON file: site → number added to its predictions.

    A site's number (shift) is learned from the scans there that a table of true labels has.
    """

    file: str
    by_site: dict[str, ShiftRecord] = Field(default_factory=dict)


class OutsideSite(Document):
    """How many scans of a site were predicted, and how many are outside the training distribution.

    `median_percentile` is the median over the site's scans: percentile of a scan's distance from
    the nearest training site's mean, among the distances of training scans.
    """

    site: str
    n: int
    n_outside: int
    median_percentile: float


class OutsideRecord(Document):
    """Section ``outlyingness`` of `predict`'s JSON file: how many scans are outlying, also by site.

    A scan is outlying if outside the distribution of the probe's training scans.
    """

    reference: str
    threshold_percentile: float
    n_outside: int
    n: int
    by_site: list[OutsideSite] = Field(default_factory=list)
    message: str | None = None
    """Warning, if more scans are outside than expected by chance."""


class ScanCounts(Document):
    """Section ``n`` of `predict`'s JSON file, for the probe of an evaluation: how many scans."""

    scans: int
    of_trained_subjects: int | None = None
    """Number of scans of subjects that the probe was fitted on; None if the subjects are
    unknown.
    """


class ProbePredictionsRecord(PredictionsOrigin):
    """Content of `predict`'s JSON file for the probe of an evaluation: data, probe and counts."""

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
    """Outlying scans; None for a probe stored without the distribution of its training scans."""
    calibration: CalibrationRecord | None = None


class PeopleCounts(Document):
    """Section ``n`` of `predict`'s JSON file for people: how many were predicted by weights.

    `people` counts everybody in the table, `failed` those who could not be embedded, and `outside`
    those unlike the training people.
    """

    people: int
    failed: int
    outside: int


class ErrorOfAge(Document):
    """Mean absolute error of predicted age after any calibration, over people with a known age.

    People who trained the weights, or whose labels calibrated predictions, are left out.
    Calibration shifts the predictions at a site by a constant learned from labelled people there.
    """

    n_people: int
    mean_absolute: float
    """Mean absolute error in years."""


class PeoplePredictionsRecord(PredictionsOrigin):
    """Content of `predict`'s JSON file for people, predicted by weights.

    Weights are a folder with a trained encoder and probes, one for each target.
    """

    format: int
    weights: str
    probes: dict[str, WeightsProbeRecord]
    """Target → the probe that predicts the target."""
    n: PeopleCounts
    reasons: dict[str, int] = Field(default_factory=dict)
    """Reason to call a person outlying, such as ``missing`` measures → number of reasons found."""
    scans: IncomingRecord
    ages_learned_from: list[float] | None = None
    calibration: dict[str, dict[str, ShiftRecord]] | None = None
    """Target → site → shift of the predictions, learned from labelled people."""
    error_of_age: ErrorOfAge | None = None
    environment: Environment
    licence: str | None = None
    encoder: str | None = None
    warnings: list[str] = Field(default_factory=list)
