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
    """Section ``cohort``: the table of people, as far as others may see the table."""

    source: str | None = None
    """Name of the table."""
    digest: str | None = None
    n_scans: int | None = None
    """None for a cohort of several sources whose size nobody knows."""
    n_subjects: int | None = None
    people: AgesSexesSites = Field(default_factory=AgesSexesSites)


class RunCohort(CohortRecord):
    """Section ``cohort`` of a run that can be continued."""

    source: str
    digest: str


class Environment(Document):
    """Section ``environment``: versions of the software."""

    neurocontrast: str


class PublicProvenance(PretrainingPeople):
    """Content of ``provenance.json`` beside any weights, each of whose keys may be absent."""

    cohort: CohortRecord = Field(default_factory=CohortRecord)
    cohorts: dict[str, CohortRecord] = Field(default_factory=dict)
    """Cohorts of joined runs by name, where these differ."""
    simulated: bool = False
    init: Start = Field(default_factory=Start)
    """Weights that the run started from; nobody is unknown of random ones."""

    @property
    def says_people(self) -> bool:
        """Whether everybody is known who was learned from, by earlier weights too."""
        return self.init.subjects_known and not self.pretraining_unknown


class Provenance(PublicProvenance):
    """Content of a run's ``provenance.json``; its people must be known."""

    environment: Environment
    cohort: RunCohort
    pretraining_subjects: list[str]
    simulation: Json | None = None
    preprocessing: PreprocessingRecord | None = None
    preprocessing_2: PreprocessingRecord | None = None
    n_bytes: int | None = None
    """Bytes of the files of all samples."""
    views_revision: int = 1
    """Revision of the random numbers of views; runs of before revisions had the first."""

    def files_of(self, kind: str) -> Json:
        """Return the files of a kind, such as ``vectors``, that the run began with: digest → name."""
        files = self.content().get(kind)
        if not isinstance(files, dict):
            return {}
        return files


def read_public_provenance(folder: Path, **on_error: Unpack[ErrorOptions]) -> PublicProvenance:
    """Read ``provenance.json`` beside weights; nothing is known where there is none."""
    path = folder / "provenance.json"
    if not path.is_file():
        return PublicProvenance()
    return PublicProvenance.of(read_json(path), path, **on_error)
