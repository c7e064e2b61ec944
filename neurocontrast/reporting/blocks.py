"""A page: sections that hold text, tables, figures and facts, put into templates that know how each looks."""

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
    """One number in large print."""

    label: str
    value: str
    detail: str
    strong: bool = False


@dataclass(frozen=True)
class Cards:
    """Numbers in large print, side by side."""

    block: ClassVar[str] = "cards"
    cards: Sequence[Card]


@dataclass(frozen=True)
class Cell:
    """One cell of a table: `reason` says why a value is absent, `detail` is printed below."""

    text: str
    reason: str = ""
    heading: bool = False
    detail: str = ""


@dataclass(frozen=True)
class Table:
    """A table: `text_columns` are set flush left, the others flush right; a `folded` one opens.

    With `filter`, the label of a field for words, the table scrolls within the page, and the script
    ``filter.js`` hides rows without the words.
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
        """Return why values are absent, each reason once, in the order met."""
        return list(dict.fromkeys(cell.reason for row in self.rows for cell in row if cell.reason))


@dataclass(frozen=True)
class Shades:
    """A table of many numbers, each a text with the class of its shade ("", "up1" … "down3").

    `filter` is the label of the field for words, as in `Table`.
    """

    block: ClassVar[str] = "shades"
    caption: str
    header: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    filter: str


@dataclass(frozen=True)
class Pictures:
    """Figures set side by side where there is room; `wide` ones one under another."""

    block: ClassVar[str] = "pictures"
    pictures: Sequence[Picture]
    wide: bool = False


@dataclass(frozen=True)
class Code:
    """Text exactly as in a file, folded away on screen."""

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
    """Scans as small pictures with their measures and a rating, filtered by site and flag without a script.

    `scans` are what the template shows of each; `outline` is the path of an SVG over every picture,
    whose pixels are `width` × `height`; `key` tells these scans from others, whose ratings the
    browser keeps too.
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
    """Return a remark in small print."""
    return Paragraph(text, role="note")


def pictures(*drawn: Picture | None, wide: bool = False) -> list[Block]:
    """Return the figures that could be drawn as one block; none if none could."""
    shown = [picture for picture in drawn if picture is not None]
    return [Pictures(shown, wide)] if shown else []


@dataclass(frozen=True)
class Section:
    """One part of a page, under its own heading."""

    name: str
    title: str
    blocks: Sequence[Block]
    lead: str = ""


class Citations:
    """Numbers of references, given in the order in which a text names them.

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
        """Return the mark of one or more references: "[3]" or "[3, 4]"."""
        numbers = [self._numbers.setdefault(text, len(self._numbers) + 1) for text in references]
        return f"[{', '.join(map(str, numbers))}]"

    def listed(self) -> list[tuple[int, str]]:
        """Return the references that were named, by number."""
        return [(number, text) for text, number in self._numbers.items()]


def _printable(value: object) -> object:
    """Return a value of a template without control characters, which no page can show."""
    if type(value) is str:
        return bare_text(value)
    return value


@cache
def html_templates(package: str, **options: Any) -> jinja2.Environment:
    """Return the templates of a package for pages: values are escaped, and a name that is not given is an error.

    `options` are further ones of Jinja's environment.
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
    """Beginning of a page: `kicker` names its kind, `facts` are terms with values."""

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
    """Return one HTML page that loads nothing and, without `script`, runs nothing.

    A section called ``warnings`` comes before the list of contents, `simulated` puts a banner
    above, `environment` gives version and date of the last line, and `script` is the name of a
    script among the templates; the page allows no other.
    """
    templates = html_templates("neurocontrast.reporting", finalize=_printable)
    # The style sheet and the script of this package are the only things on the page that are not
    # escaped.
    own = resources.files("neurocontrast.reporting").joinpath("templates")
    style = Markup(own.joinpath("report.css").read_text("utf-8"))
    code = Markup(own.joinpath(script).read_text("utf-8")) if script else ""
    digest = f"sha256-{b64encode(sha256(code.encode()).digest()).decode()}"
    version, created = (
        str((environment or {}).get(name) or "") for name in ("neurocontrast", "created")
    )
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
        version=version,
        created=created,
        script=code,
        script_digest=Markup(digest),
    )


def list_pictures(sections: Sequence[Section]) -> list[Picture]:
    """Return every figure of a page, in order."""
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
    """How one value of each row is shown.

    `kind` is ``number``, ``count``, ``share``, ``p``, ``text``, ``heading`` or ``interval``; an
    interval is that of `key`, in ``<key>_low`` and ``<key>_high``. With `interval`, the interval is
    printed under the number, with ``<key>_n`` where there is one. `reason` says why a value is
    absent, unless the row has ``<key>_reason``.
    """

    title: str
    key: str
    kind: str = "number"
    digits: int = 3
    signed: bool = False
    interval: bool = False
    reason: str = "not recorded"

    def show(self, row: Mapping[Any, Any]) -> Cell:
        """Return the cell of a row."""
        value: Any = row.get(self.key)
        detail = str(row.get(f"{self.key}_detail") or "")
        if self.kind == "heading":
            return Cell("not stated" if pd.isna(value) else str(value), heading=True, detail=detail)
        ends = (row.get(f"{self.key}_low"), row.get(f"{self.key}_high"))
        interval = interval_text(ends, digits=self.digits, signed=self.signed)
        if self.kind == "interval":
            text = interval
        elif value is None or pd.isna(value):
            text = DASH
        else:
            text = self._write(value)
        if text == DASH:
            return Cell(DASH, reason=str(row.get(f"{self.key}_reason") or self.reason))
        if self.interval:
            n = row.get(f"{self.key}_n")
            detail = "no interval" if interval == DASH else interval
            detail += f"; n = {n:,.0f}" if n and pd.notna(n) else ""
        return Cell(text, detail=detail)

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
    """Return a table of rows.

    A column that is None is left out, `look` is the note and how the table is laid out.
    """
    records = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
    shown = [column for column in columns if column is not None]
    text_columns = tuple(
        place for place, column in enumerate(shown) if column.kind in ("text", "heading")
    )
    cells = [tuple(column.show(row) for column in shown) for row in records]
    return Table(
        caption, [column.title for column in shown], cells, text_columns=text_columns, **look
    )


def ends(key: str, interval: Sequence[float | None] | None) -> dict[str, float | None]:
    """Return an interval as the two values of a row that a `Column` looks for."""
    low, high = interval or (None, None)
    return {f"{key}_low": low, f"{key}_high": high}
