"""Digests of the people whom an encoder learned from, stored with runs and embeddings tables."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.provenance import KnownPeople


class PretrainingPeople(Document):
    """Digests of the people of pretraining, to find people who are in an evaluation as well.

    A digest is of one identifier of a person, or of the content of one scan or row of measures.
    """

    pretraining_subjects: list[str] | None = None
    """Digests of identifiers; None if the people of pretraining are unknown."""
    pretraining_contents: list[str] = Field(default_factory=list)
    """Digests of scans or rows of measures; empty in files of earlier versions."""
    pretraining_contents_complete: bool = False
    """Whether `pretraining_contents` has a digest for everyone in pretraining."""
    pretraining_unknown: list[str] = Field(default_factory=list)
    """Names of joined runs or tables whose people of pretraining are unknown."""

    def known_people(self) -> KnownPeople:
        """Return digests of the people of pretraining, to recognise them among evaluated people.

        The `KnownPeople` has one set with digests of identifiers, None if unknown, and one set with
        digests of scans or measures.
        """
        subjects = None
        if self.pretraining_subjects is not None:
            subjects = frozenset(self.pretraining_subjects)
        contents = frozenset(self.pretraining_contents)
        return KnownPeople(subjects, contents, self.pretraining_contents_complete)
