"""Digests of people who were learned from, as runs and embeddings tables hold them."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.provenance import KnownPeople


class PretrainingPeople(Document):
    """Keys about the people of pretraining, by whom an overlap with an evaluation is found."""

    pretraining_subjects: list[str] | None = None
    """Digests of identifiers; None where nobody says who was learned from."""
    pretraining_contents: list[str] = Field(default_factory=list)
    """Digests of scans or measures, which earlier versions did not record."""
    pretraining_contents_complete: bool = False
    """Whether the contents are of everybody who was learned from."""
    pretraining_unknown: list[str] = Field(default_factory=list)
    """Of what was joined: names of the runs or tables that do not say their people."""

    def known_people(self) -> KnownPeople:
        """Return the people of pretraining."""
        subjects = None
        if self.pretraining_subjects is not None:
            subjects = frozenset(self.pretraining_subjects)
        contents = frozenset(self.pretraining_contents)
        return KnownPeople(subjects, contents, self.pretraining_contents_complete)
