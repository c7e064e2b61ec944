"""The parts a report is made of: sections that hold text, tables, figures and facts.

A section builder returns these and knows no HTML; the template knows how each looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from neurocontrast.reporting.metrics import DASH
from neurocontrast.reporting.style import Picture


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `label` stands in front of it, `role` decides the look ("", "note" or "quote")."""

    block: ClassVar[str] = "paragraph"
    text: str
    label: str = ""
    role: str = ""


@dataclass(frozen=True)
class Items:
    """A list of sentences, each with an optional bold beginning."""

    block: ClassVar[str] = "items"
    items: Sequence[tuple[str, str]]
    role: str = ""


@dataclass(frozen=True)
class Numbered:
    """A numbered list: references."""

    block: ClassVar[str] = "numbered"
    title: str
    items: Sequence[tuple[int, str]]


@dataclass(frozen=True)
class Facts:
    """Pairs of a term and its value."""

    block: ClassVar[str] = "facts"
    facts: Sequence[tuple[str, str]]
    title: str = ""


@dataclass(frozen=True)
class Card:
    """One figure in large print."""

    label: str
    value: str
    detail: str
    strong: bool = False


@dataclass(frozen=True)
class Cards:
    """Figures in large print, side by side."""

    block: ClassVar[str] = "cards"
    cards: Sequence[Card]


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    `reason` says why a value is absent, `detail` stands under it in small print, and `links` are
    sections of the page with their titles.
    """

    text: str
    reason: str = ""
    heading: bool = False
    detail: str = ""
    links: Sequence[tuple[str, str]] = ()

    @property
    def absent(self) -> bool:
        """Whether there is no value."""
        return self.text == DASH


@dataclass(frozen=True)
class Table:
    """A table: `text_columns` are set flush left, the others flush right; a `folded` one opens on demand."""

    block: ClassVar[str] = "table"
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text_columns: Sequence[int] = (0,)
    note: str = ""
    total_rows: int = 0
    folded: bool = False

    def list_reasons(self) -> list[str]:
        """Return why values are absent, each reason once, in the order met."""
        return list(dict.fromkeys(cell.reason for row in self.rows for cell in row if cell.absent and cell.reason))


@dataclass(frozen=True)
class Pictures:
    """Figures set side by side where there is room; `wide` ones one under another."""

    block: ClassVar[str] = "pictures"
    pictures: Sequence[Picture]
    wide: bool = False


@dataclass(frozen=True)
class Code:
    """Text as it stands in a file, folded away on screen."""

    block: ClassVar[str] = "code"
    title: str
    text: str


@dataclass(frozen=True)
class Columns:
    """Two stacks of blocks, side by side where there is room."""

    block: ClassVar[str] = "columns"
    left: Sequence[Block]
    right: Sequence[Block]


@dataclass(frozen=True)
class Gallery:
    """Scans as small pictures with their measures, filtered by site and flag without a script.

    `scans` are what the template shows of each; `outline` is the path of an SVG over every picture, whose pixels are
    `width` × `height`; `histograms` are paths by their names, to which the scans refer.
    """

    block: ClassVar[str] = "gallery"
    scans: Sequence[Mapping[str, object]]
    sites: Sequence[tuple[str, int]]
    flags: Sequence[tuple[str, int]]
    outline: str
    width: int
    height: int
    histograms: Mapping[str, str]


Block = Paragraph | Items | Numbered | Facts | Cards | Table | Pictures | Code | Columns | Gallery


@dataclass(frozen=True)
class Section:
    """One part of the report, under its own heading."""

    name: str
    title: str
    blocks: Sequence[Block]
    lead: str = ""
