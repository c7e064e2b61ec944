"""Blocks of a page (texts, tables, figures), and their layout as one HTML file by templates."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any, ClassVar

import jinja2
import pandas as pd
from markupsafe import Markup

from neurocontrast.reporting.style import Picture
from neurocontrast.reporting.wording import DASH, bare_text, interval_text, number_text


@dataclass(frozen=True)
class Paragraph:
    """A paragraph with a `label` before the text; `role` ("", "note", "quote") decides the look."""

    block: ClassVar[str] = "paragraph"
    text: str
    label: str = ""
    role: str = ""


@dataclass(frozen=True)
class Items:
    """A list on a page; each of `items` is a beginning in bold, which may be empty, and a text."""

    block: ClassVar[str] = "items"
    items: Sequence[tuple[str, str]]
    role: str = ""


@dataclass(frozen=True)
class Numbered:
    """A numbered list of references; each of `items` is a number and the reference in full."""

    block: ClassVar[str] = "numbered"
    title: str
    items: Sequence[tuple[int, str]]


@dataclass(frozen=True)
class Facts:
    """A list of terms with values on a page, such as "Sites: 5"."""

    block: ClassVar[str] = "facts"
    facts: Sequence[tuple[str, str]]
    title: str = ""


@dataclass(frozen=True)
class Card:
    """One number of a page in large print, with a label above and a detail below in small print."""

    label: str
    value: str
    detail: str
    strong: bool = False


@dataclass(frozen=True)
class Cards:
    """Numbers of a page in large print, side by side."""

    block: ClassVar[str] = "cards"
    cards: Sequence[Card]


@dataclass(frozen=True)
class Cell:
    """Cell of a table: `reason` says why a value is absent, `detail` is printed below a value."""

    text: str
    reason: str = ""
    heading: bool = False
    detail: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose `text_columns` are flush left, and all other columns flush right.

    A `folded` table is closed until the reader clicks on its caption. The last `total_rows` rows
    are totals. With `filter`, the label of a search field, the table scrolls within the page, and
    the script ``filter.js`` hides rows without the words that the reader types.
    """

    block: ClassVar[str] = "table"
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text_columns: Sequence[int] = (0,)
    note: str = ""
    total_rows: int = 0
    folded: bool = False
    filter: str = ""

    def list_reasons(self) -> list[str]:
        """List the reasons for absent values of the table, each once, in reading order."""
        return list(dict.fromkeys(cell.reason for row in self.rows for cell in row if cell.reason))


@dataclass(frozen=True)
class Shades:
    """A table of many numbers whose cells are shaded by size.

    A row is a heading and its cells. A cell is a number as text, and the CSS class of its shade:
    "" for none, "up1" to "up3" and "down1" to "down3". `filter` is the label of the search field,
    as in `Table`.
    """

    block: ClassVar[str] = "shades"
    caption: str
    header: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    filter: str


@dataclass(frozen=True)
class Pictures:
    """Figures side by side where there is room or, if the block is `wide`, one under another."""

    block: ClassVar[str] = "pictures"
    pictures: Sequence[Picture]
    wide: bool = False


@dataclass(frozen=True)
class Code:
    """Text exactly as in a file, closed on screen until the reader clicks on the title."""

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
    """Scans as small pictures with their measures and a rating.

    Readers filter by site and by flag without any script. `scans` holds, for each scan, the values
    that the template shows. `outline` is the SVG path of the brain's contour, drawn over pictures
    of `width` × `height` pixels. The browser keeps ratings under `key`, which differs between sets
    of scans.
    """

    block: ClassVar[str] = "gallery"
    scans: Sequence[Mapping[str, object]]
    sites: Sequence[tuple[str, int]]
    flags: Sequence[tuple[str, int]]
    outline: str
    width: int
    height: int
    ratings: Sequence[str]
    key: str


Block = (
    Paragraph
    | Items
    | Numbered
    | Facts
    | Cards
    | Table
    | Shades
    | Pictures
    | Code
    | Columns
    | Gallery
)


def note(text: str) -> Paragraph:
    """Return `text` as a paragraph in small print."""
    return Paragraph(text, role="note")


def pictures(*drawn: Picture | None, wide: bool = False) -> list[Block]:
    """Return the figures of `drawn` as one block in a list; an empty list if all are None."""
    shown = [picture for picture in drawn if picture is not None]
    return [Pictures(shown, wide)] if shown else []


@dataclass(frozen=True)
class Section:
    """A section of a page: its heading, a `lead` below the heading, and its blocks."""

    name: str
    title: str
    blocks: Sequence[Block]
    lead: str = ""


class Citations:
    """Numbers of references, counted in the order in which a text cites the references.

    Examples
    --------
    >>> cite = Citations()
    >>> cite("Efron, 1993."), cite("Holm, 1979.", "Efron, 1993.")
    ('[1]', '[2, 1]')
    >>> cite.listed()
    [(1, 'Efron, 1993.'), (2, 'Holm, 1979.')]
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, *references: str) -> str:
        """Return the citation mark of one or more references: "[3]" or "[3, 4]"."""
        numbers = []
        for reference in references:
            numbers.append(self._numbers.setdefault(reference, len(self._numbers) + 1))
        return f"[{', '.join(map(str, numbers))}]"

    def listed(self) -> list[tuple[int, str]]:
        """Return the cited references with their numbers, in the order of the numbers."""
        return [(number, reference) for reference, number in self._numbers.items()]


def _printable(value: object) -> object:
    """Remove control characters, which no page can show, from a text; return other values as is."""
    if type(value) is str:
        return bare_text(value)
    return value


@cache
def html_templates(package: str, **options: Any) -> jinja2.Environment:
    """Return the Jinja environment of a package's folder ``templates``, which escapes all values.

    A template that reads an undefined name raises. `options` are passed on to `jinja2.Environment`.
    """
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **options,
    )


@dataclass(frozen=True)
class Head:
    """Head of a page: `kicker` names the kind of page, `facts` are terms with values."""

    kicker: str
    title: str
    facts: Sequence[tuple[str, str]]
    summary: str = ""


def render(
    sections: Sequence[Section],
    head: Head,
    *,
    simulated: bool = False,
    environment: Mapping[str, Any] | None = None,
    script: str = "",
) -> str:
    """Return the text of an HTML page of `sections` below a head, which loads no other file.

    Without `script`, the page runs nothing. A first section called ``warnings`` comes before the
    list of contents. `simulated` puts a banner on top. `environment` gives the version and the date
    that the last line names. `script` is the name of a script among the templates; the page's
    content policy allows no other script.
    """
    templates = html_templates("neurocontrast.reporting", finalize=_printable)
    # The style sheet and the script of this package are the only things on the page that are not
    # escaped.
    folder = resources.files("neurocontrast.reporting").joinpath("templates")
    style = Markup(folder.joinpath("report.css").read_text("utf-8"))
    code = Markup(folder.joinpath(script).read_text("utf-8")) if script else ""
    digest = f"sha256-{b64encode(sha256(code.encode()).digest()).decode()}"
    recorded = environment or {}
    n_before = int(bool(sections) and sections[0].name == "warnings")
    return templates.get_template("report.html.j2").render(
        first=sections[:n_before],
        sections=sections[n_before:],
        kicker=head.kicker,
        title=head.title,
        summary=head.summary,
        facts=head.facts,
        simulated=simulated,
        style=style,
        version=str(recorded.get("neurocontrast") or ""),
        created=str(recorded.get("created") or ""),
        script=code,
        script_digest=Markup(digest),
    )


def list_pictures(sections: Sequence[Section]) -> list[Picture]:
    """Return every figure in the blocks of `sections`, in the order of the page."""
    return [
        picture
        for section in sections
        for block in section.blocks
        for picture in _pictures_of(block)
    ]


def _pictures_of(block: Block) -> list[Picture]:
    if isinstance(block, Columns):
        return [picture for inner in (*block.left, *block.right) for picture in _pictures_of(inner)]
    return list(block.pictures) if isinstance(block, Pictures) else []


@dataclass(frozen=True)
class Column:
    """Column of a table: the key of its value in a row, and the format of the value.

    `kind` is the format: ``number``, ``count``, ``share``, ``p``, ``text``, ``heading`` or
    ``interval``. A column of kind ``interval`` prints an interval in place of the value: the two
    ends that a row holds under ``<key>_low`` and ``<key>_high``. In a column of any other kind
    except ``heading``, with `interval` True, these ends are in small print below the value,
    followed by the count under ``<key>_n`` if the row has one. `reason` says why a value is absent,
    unless the row has a reason of its own under ``<key>_reason``.
    """

    title: str
    key: str
    kind: str = "number"
    digits: int = 3
    signed: bool = False
    interval: bool = False
    reason: str = "not recorded"

    def show(self, row: Mapping[Any, Any]) -> Cell:
        """Return the cell with the column's value in `row`; a dash with the reason if absent.

        In a column that heads the rows (`kind` "heading"), an absent value is "not stated".
        """
        value: Any = row.get(self.key)
        detail = str(row.get(f"{self.key}_detail") or "")
        if self.kind == "heading":
            return Cell("not stated" if pd.isna(value) else str(value), heading=True, detail=detail)
        ends = (row.get(f"{self.key}_low"), row.get(f"{self.key}_high"))
        interval = interval_text(ends, digits=self.digits, signed=self.signed)
        if self.kind == "interval":
            printed = interval
        elif value is None or pd.isna(value):
            printed = DASH
        else:
            printed = self._write(value)
        if printed == DASH:
            return Cell(DASH, reason=str(row.get(f"{self.key}_reason") or self.reason))
        if self.interval:
            n = row.get(f"{self.key}_n")
            detail = "no interval" if interval == DASH else interval
            detail += f"; n = {n:,.0f}" if n and pd.notna(n) else ""
        return Cell(printed, detail=detail)

    def _write(self, value: Any) -> str:
        if self.kind == "number":
            return number_text(value, digits=self.digits, signed=self.signed)
        if self.kind == "p":
            return f"{value:.3g}" if value >= 0.0001 else "< 0.0001"
        if self.kind == "text":
            return str(value)
        return f"{value:,.0f}" if self.kind == "count" else f"{value:.{self.digits}%}"


def make_table(
    caption: str,
    rows: pd.DataFrame | Iterable[Mapping[Any, Any]],
    columns: Sequence[Column | None],
    **look: Any,
) -> Table:
    """Return a table with a row for each of `rows`, and with the `columns` that are not None.

    A `Column` says which value of a row its cells show, and in which format; a caller passes None
    in place of a column to leave out. `look` holds further fields of `Table`, such as ``note`` and
    ``folded``.
    """
    records = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
    shown = [column for column in columns if column is not None]
    text_columns = tuple(
        index for index, column in enumerate(shown) if column.kind in ("text", "heading")
    )
    cells = [tuple(column.show(row) for column in shown) for row in records]
    return Table(
        caption, [column.title for column in shown], cells, text_columns=text_columns, **look
    )


def ends(key: str, interval: Sequence[float | None] | None) -> dict[str, float | None]:
    """Return the ends of an interval as values of a table's row: ``<key>_low`` and ``<key>_high``.

    Without an interval, both ends are None.
    """
    low, high = interval or (None, None)
    return {f"{key}_low": low, f"{key}_high": high}
