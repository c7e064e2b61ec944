"""``provenance.json``: versions, cohort and people of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from pydantic import Field

from neurocontrast.documents.document import Document, Json
from neurocontrast.documents.encoder import PreprocessingRecord, Start
from neurocontrast.documents.people import PretrainingPeople
from neurocontrast.reading import ErrorOptions, read_json


class AgesSexesSites(Document):
    """Section ``people`` of a cohort: ages, and numbers of people by sex and site."""

    age_years: list[float] = Field(default_factory=list)
    """Lowest, median and highest age; empty without ages."""
    sex: dict[str, int] = Field(default_factory=dict)
    sites: dict[str, int] = Field(default_factory=dict)

    @property
    def age_range(self) -> tuple[float, float] | None:
        """Lowest and highest age, where ages are known."""
        if not self.age_years:
            return None
        return self.age_years[0], self.age_years[-1]


class CohortRecord(Document):
    """Section ``cohort``: name, digest and summary of the table of people, without identifiers."""

    source: str | None = None
    """Name of the table."""
    digest: str | None = None
    n_scans: int | None = None
    """Number of scans; None for a cohort of several sources whose size is unknown."""
    n_subjects: int | None = None
    people: AgesSexesSites = Field(default_factory=AgesSexesSites)


class RunCohort(CohortRecord):
    """Section ``cohort`` of a run that can be continued."""

    source: str
    digest: str


class WriterVersion(Document):
    """Section ``environment`` of a run, whose version of neurocontrast must be stated."""

    neurocontrast: str


class PublicProvenance(PretrainingPeople):
    """Content of ``provenance.json`` beside any weights; each key may be absent."""

    cohort: CohortRecord = Field(default_factory=CohortRecord)
    cohorts: dict[str, CohortRecord] = Field(default_factory=dict)
    """Cohorts of joined runs by name, where the runs' cohorts differ."""
    simulated: bool = False
    init: Start = Field(default_factory=Start)
    """Weights that the run started from; random weights have learned from nobody."""

    @property
    def says_people(self) -> bool:
        """Whether all people of pretraining are known, of the first weights as well."""
        return self.init.subjects_known and not self.pretraining_unknown


class Provenance(PublicProvenance):
    """Content of a run's ``provenance.json``; version, cohort and people must be stated."""

    environment: WriterVersion
    cohort: RunCohort
    pretraining_subjects: list[str]
    simulation: Json | None = None
    preprocessing: PreprocessingRecord | None = None
    preprocessing_2: PreprocessingRecord | None = None
    n_bytes: int | None = None
    """Size of the files of all samples together."""
    views_revision: int = 1
    """Revision of the random numbers of views; runs without the key have the first."""

    def files_of(self, kind: str) -> Json:
        """Return the names of files of a kind that the run began with, by digest.

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
    """Read ``provenance.json`` beside weights; without the file, all keys are absent."""
    path = folder / "provenance.json"
    if not path.is_file():
        return PublicProvenance()
    return PublicProvenance.of(read_json(path), path, **on_error)
