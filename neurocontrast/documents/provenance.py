"""``provenance.json`` of a run: versions of the software, cohort, and people of pretraining."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from pydantic import Field

from neurocontrast.documents.document import Document, Json
from neurocontrast.documents.encoder import PreprocessingRecord, Start
from neurocontrast.documents.people import PretrainingPeople
from neurocontrast.reading import ErrorOptions, read_json


class AgesSexesSites(Document):
    """Section ``people`` in a record of a table of people: age range, counts by sex and by site."""

    age_years: list[float] = Field(default_factory=list)
    """Lowest, median and highest age in years; empty if ages are unknown."""
    sex: dict[str, int] = Field(default_factory=dict)
    sites: dict[str, int] = Field(default_factory=dict)

    @property
    def age_range(self) -> tuple[float, float] | None:
        """Lowest and highest age of the cohort's people in years; None if ages are unknown."""
        if not self.age_years:
            return None
        return self.age_years[0], self.age_years[-1]


class CohortRecord(Document):
    """Section ``cohort`` of ``provenance.json``: name, digest and summary of the table of scans.

    The summary has no identifiers.
    """

    source: str | None = None
    """Name of the table's file."""
    digest: str | None = None
    n_scans: int | None = None
    """Number of scans; None for a cohort joined from sources of unknown size."""
    n_subjects: int | None = None
    people: AgesSexesSites = Field(default_factory=AgesSexesSites)


class RunCohort(CohortRecord):
    """Section ``cohort`` of a run's ``provenance.json``: the table of training scans.

    Its file name (`source`) and digest are required.
    """

    source: str
    digest: str


class WriterVersion(Document):
    """Section ``environment`` of a run's ``provenance.json``: the version of neurocontrast."""

    neurocontrast: str


class PublicProvenance(PretrainingPeople):
    """Content of ``provenance.json`` next to published weights; each key may be absent."""

    cohort: CohortRecord = Field(default_factory=CohortRecord)
    cohorts: dict[str, CohortRecord] = Field(default_factory=dict)
    """Name of a joined run → the run's cohort; empty if all joined runs have one cohort."""
    simulated: bool = False
    init: Start = Field(default_factory=Start)
    """Weights that training started from; empty for random weights, which learned from nobody."""

    @property
    def says_people(self) -> bool:
        """Whether everybody is recorded on whom the encoder was trained, by digests.

        The training of weights from which the run's training started is counted too. False if such
        weights, or one of the runs that `join` made into the run, do not record all of their
        people.
        """
        return self.init.subjects_known and not self.pretraining_unknown


class Provenance(PublicProvenance):
    """Content of a run's ``provenance.json``, in which version, cohort and people are required."""

    environment: WriterVersion
    cohort: RunCohort
    pretraining_subjects: list[str]
    simulation: Json | None = None
    preprocessing: PreprocessingRecord | None = None
    preprocessing_2: PreprocessingRecord | None = None
    n_bytes: int | None = None
    """Size of the files of all samples together, in bytes."""
    views_revision: int = 1
    """Version of the scheme that draws augmented views at random; 1 for runs without the key."""

    def files_of(self, kind: str) -> Json:
        """Return the files of a kind that the run began with: digest → name in the configuration.

        Parameters
        ----------
        kind : str
            Key of the file, such as ``vectors``.
        """
        files = self.content().get(kind)
        if not isinstance(files, dict):
            return {}
        return files


def read_public_provenance(folder: Path, **on_error: Unpack[ErrorOptions]) -> PublicProvenance:
    """Read ``provenance.json`` in the folder of weights; without the file, all keys are absent."""
    path = folder / "provenance.json"
    if not path.is_file():
        return PublicProvenance()
    return PublicProvenance.of(read_json(path), path, **on_error)
