"""Digests of people who were learned from, as runs and embeddings tables hold them."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.provenance import KnownPeople


class PretrainingPeople(Document):
    """Keys about the people of pretraining, by whom an overlap with an evaluation is found."""

    pretraining_subjects: list[str] | None = None
    """Digests of identifiers; None if the people of pretraining are unknown."""
    pretraining_contents: list[str] = Field(default_factory=list)
    """Digests of scans or measures; earlier versions did not record them."""
    pretraining_contents_complete: bool = False
    """Whether the contents are of all people of pretraining."""
    pretraining_unknown: list[str] = Field(default_factory=list)
    """Names of joined runs or tables whose people are unknown."""

    def known_people(self) -> KnownPeople:
        """Return the people of pretraining as sets, in which evaluated people are looked up."""
        subjects = None
        if self.pretraining_subjects is not None:
            subjects = frozenset(self.pretraining_subjects)
        contents = frozenset(self.pretraining_contents)
        return KnownPeople(subjects, contents, self.pretraining_contents_complete)
