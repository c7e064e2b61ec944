"""A page: sections that hold text, tables, figures and facts, put into templates that know how each looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, ClassVar

import jinja2
from markupsafe import Markup

from neurocontrast.reporting.prose import bare_text, head_facts, target_text
from neurocontrast.reporting.read import KINDS, EvaluationFiles
from neurocontrast.reporting.style import Picture


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `label` is printed before it, `role` decides the look ("", "note" or "quote")."""

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
        return list(dict.fromkeys(cell.reason for row in self.rows for cell in row if cell.reason))


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
    """Scans as small pictures with their measures, filtered by site and flag without a script.

    `scans` are what the template shows of each; `outline` is the path of an SVG over every picture, whose pixels are
    `width` × `height`.
    """

    block: ClassVar[str] = "gallery"
    scans: Sequence[Mapping[str, object]]
    sites: Sequence[tuple[str, int]]
    flags: Sequence[tuple[str, int]]
    outline: str
    width: int
    height: int


Block = Paragraph | Items | Numbered | Facts | Cards | Table | Pictures | Code | Columns | Gallery


def note(text: str) -> Paragraph:
    """Return a remark in small print."""
    return Paragraph(text, role="note")


def pictures(*drawn: Picture | None, wide: bool = False) -> list[Block]:
    """Return the figures that could be drawn as one block; none where none could."""
    shown = [picture for picture in drawn if picture is not None]
    return [Pictures(shown, wide)] if shown else []


@dataclass(frozen=True)
class Section:
    """One part of the report, under its own heading."""

    name: str
    title: str
    blocks: Sequence[Block]
    lead: str = ""


@dataclass(frozen=True)
class Input:
    """A file of the evaluation folder that may be absent.

    Parameters
    ----------
    file : str
        Name in the evaluation folder.
    gives : str
        What a reader gets from the file, for running text: "the learning curve".
    attribute : str
        Attribute of `EvaluationFiles` that holds the content; where empty, the file itself is looked for.
    how : str
        How the file is made.
    needed : bool
        Whether the section cannot be built without the file.
    of : tuple of str
        Whether evaluations of ``scans``, of ``images`` or of both have the file.
    """

    file: str
    gives: str
    attribute: str = ""
    how: str = "Written by `neurocontrast evaluate` of this version."
    needed: bool = False
    of: tuple[str, ...] = ("scans", "images")

    def is_there(self, files: EvaluationFiles) -> bool:
        """Return whether an evaluation has the file."""
        return getattr(files, self.attribute) is not None if self.attribute else (files.folder / self.file).exists()

    def missing(self) -> Paragraph:
        """Return the sentence printed instead of what an absent file would give."""
        return note(f"Not shown: {self.gives}. {self.file} is absent or empty. {self.how}")


@dataclass(frozen=True)
class SectionBuilder:
    """A section that a report can have; one that is defined in a file of ``reporting/sections`` is found there.

    Parameters
    ----------
    name : str
        Anchor of the section in the page.
    title : str
        What it is called.
    order : int
        Place in the page: sections with smaller numbers come first.
    build : callable
        Takes the evaluation's files and returns a `Section`, or None without anything to say.
    inputs : tuple of Input
        Files that the section reads.
    methods : str
        Jinja text for Methods: a line ``## Heading.`` and prose; ``cite("A reference in full.")`` gives its number.
    kinds : tuple of str
        Kinds of target that have the section.
    of : tuple of str
        Whether reports of ``scans``, of ``images`` or of both can have the section.
    explains_absence : bool
        Whether `build` is called where a needed input is absent, and says why.
    sees_all : bool
        Whether `build` takes all sections of the report as a second argument.
    """

    name: str
    title: str
    order: int
    build: Callable[..., Section | None]
    inputs: tuple[Input, ...] = ()
    methods: str = ""
    kinds: tuple[str, ...] = KINDS
    of: tuple[str, ...] = ("scans", "images")
    explains_absence: bool = False
    sees_all: bool = False

    def __call__(self, files: EvaluationFiles, sections: Sequence[SectionBuilder] = ()) -> Section | None:
        """Return the section; None where a needed file is absent, or where there is nothing to say."""
        if not self.fits(files) or not (self.explains_absence or self.is_shown(files)):
            return None
        return self.build(files, sections) if self.sees_all else self.build(files)

    def fits(self, files: EvaluationFiles) -> bool:
        """Return whether a report of this kind can have the section."""
        return files.kind in self.kinds and files.words.kind in self.of

    def is_shown(self, files: EvaluationFiles) -> bool:
        """Return whether the inputs that the section needs are there."""
        return all(need.is_there(files) for need in self.inputs if need.needed)


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
        return f"[{', '.join(str(number) for number in numbers)}]"

    def listed(self) -> list[tuple[int, str]]:
        """Return the references that were named, by number."""
        return [(number, text) for text, number in self._numbers.items()]


def render_page(files: EvaluationFiles, sections: Sequence[Section]) -> str:
    """Return the report as one HTML page that loads nothing and runs nothing, its sections in this order."""
    return render_sections(
        sections,
        kicker="neurocontrast evaluation report",
        title=target_text(files),
        facts=head_facts(files),
        simulated=files.summary.simulated,
        simulation="What was planted in them is listed under Provenance." if files.summary.simulation else "",
        environment=files.summary.environment,
    )


def render_sections(
    sections: Sequence[Section], *, environment: Mapping[str, Any] | None, simulation: str = "", **head: Any
) -> str:
    """Return a page of sections; `head` is its kicker, title and facts, and what the banner of simulated data says."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("neurocontrast.reporting", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: bare_text(value) if type(value) is str else value,
    )
    # Our own style sheet, the only thing on the page that is not escaped.
    style = Markup(resources.files("neurocontrast.reporting").joinpath("templates/report.css").read_text("utf-8"))
    version, created = (str((environment or {}).get(name) or "") for name in ("neurocontrast", "created"))
    page = templates.get_template("report.html.j2")
    return page.render(style=style, sections=sections, version=version, created=created, simulation=simulation, **head)


def list_pictures(sections: Sequence[Section]) -> list[Picture]:
    """Return every figure of the report, in order."""
    return [picture for section in sections for block in section.blocks for picture in _pictures_of(block)]


def _pictures_of(block: Block) -> list[Picture]:
    if isinstance(block, Columns):
        return [picture for inner in (*block.left, *block.right) for picture in _pictures_of(inner)]
    return list(block.pictures) if isinstance(block, Pictures) else []
