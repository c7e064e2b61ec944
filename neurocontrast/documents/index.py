"""``index.json``, the record that `index` writes next to a table of scans."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment


class IndexOptions(Document):
    """Section ``options`` of ``index.json``: the options by which scans were found and chosen."""

    layout: str = "auto"
    site_from: str = "column"
    choose: list[str] = Field(default_factory=list)
    skip: bool = False


class LeftOut(Document):
    """Path or person that `index` left out of the table, and the reason."""

    what: str
    """Path, or identifier of the person, that was left out."""
    reason: str


class MeasuresSource(Document):
    """Table of regional measures that `index` read: path, size and digest."""

    path: str
    n_bytes: int | None = None
    digest: str | None = None


class MeasuresDescription(Document):
    """Content of ``measures.json`` next to ``measures.tsv``: atlas and software of the measures."""

    parcellation: str = ""
    """Atlas of the regional measures; empty if unknown."""
    software: str = ""


class MeasuresRecord(MeasuresDescription):
    """Section ``measures`` of ``index.json``: the table of regional measures that was written."""

    file: str | None = None
    n_scans: int | None = None
    n_columns: int | None = None
    scans_without: list[str] = Field(default_factory=list)
    """Scans without a row in any table of regional measures."""
    notes: list[str] = Field(default_factory=list)
    sources: list[MeasuresSource] = Field(default_factory=list)


class IndexRecord(Document):
    """Content of ``index.json``: how `index` found and chose the scans of a table."""

    table: str | None = None
    layout: str | None = None
    options: IndexOptions = Field(default_factory=IndexOptions)
    n_found: int | None = None
    n_chosen: int | None = None
    cells_not_read: list[str] = Field(default_factory=list)
    tables: list[str] = Field(default_factory=list)
    columns_known: dict[str, int] = Field(default_factory=dict)
    """Column of the written table of scans → number of scans with a value."""
    notes: list[str] = Field(default_factory=list)
    left_out: list[LeftOut] = Field(default_factory=list)
    measures: MeasuresRecord | None = None
    """The written table of regional measures; None if no measures were found."""
    environment: Environment | None = None
