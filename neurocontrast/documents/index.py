"""``index.json``, the record that `index` writes beside a table of scans."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment


class IndexOptions(Document):
    """Section ``options``: the rules by which scans were chosen."""

    layout: str = "auto"
    site_from: str = "column"
    choose: list[str] = Field(default_factory=list)
    skip: bool = False


class LeftOut(Document):
    """Path or person that is not in the table, and the reason."""

    what: str
    """The path, or the identifier of the person."""
    reason: str


class MeasuresSource(Document):
    """Table of measures that was read."""

    path: str
    n_bytes: int | None = None
    digest: str | None = None


class MeasuresDescription(Document):
    """Content of ``measures.json`` beside ``measures.tsv``, and part of section ``measures``."""

    parcellation: str = ""
    """Atlas of the measures; empty if unknown."""
    software: str = ""


class MeasuresRecord(MeasuresDescription):
    """Section ``measures``: the table of regional measures that was written."""

    file: str | None = None
    n_scans: int | None = None
    n_columns: int | None = None
    scans_without: list[str] = Field(default_factory=list)
    """Scans without a row in the tables of measures."""
    notes: list[str] = Field(default_factory=list)
    sources: list[MeasuresSource] = Field(default_factory=list)


class IndexRecord(Document):
    """Content of ``index.json``: how scans were found and chosen."""

    table: str | None = None
    layout: str | None = None
    options: IndexOptions = Field(default_factory=IndexOptions)
    n_found: int | None = None
    n_chosen: int | None = None
    cells_not_read: list[str] = Field(default_factory=list)
    tables: list[str] = Field(default_factory=list)
    columns_known: dict[str, int] = Field(default_factory=dict)
    """Column of the table → scans that have a value."""
    notes: list[str] = Field(default_factory=list)
    left_out: list[LeftOut] = Field(default_factory=list)
    measures: MeasuresRecord | None = None
    """The table of measures; None where no measures were found."""
    environment: Environment | None = None
