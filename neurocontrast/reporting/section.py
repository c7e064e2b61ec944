"""What a section of the report is made of: the files it reads, its builder, its text for Methods, its references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neurocontrast.reporting.blocks import Paragraph, Section
from neurocontrast.reporting.folder import KINDS, EvaluationFiles
from neurocontrast.reporting.options import ReportOptions

__all__ = ["Citations", "Input", "SectionBuilder", "missing_note"]


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


@dataclass(frozen=True)
class SectionBuilder:
    """A section that a report can have; one that is defined in a file of ``reporting/sections`` is found there.

    Parameters
    ----------
    name : str
        Anchor of the section in the page.
    title : str
        Heading where an input that is needed is absent.
    order : int
        Place in the page: sections with smaller numbers come first.
    build : callable
        Takes the evaluation's files and the `ReportOptions`, and returns a `Section`, or None without anything to say.
    inputs : tuple of Input
        Files that the section reads.
    methods : str
        Jinja text for Methods: a line ``## Heading.`` and prose; ``cite("A reference in full.")`` gives its number.
    covers : str
        What the tables of reporting guidelines call the section; empty where they do not name it.
    kinds : tuple of str
        Kinds of target that have the section.
    of : tuple of str
        Whether reports of ``scans``, of ``images`` or of both can have the section.
    explains_absence : bool
        Whether `build` itself says why a needed input is absent.
    sees_all : bool
        Whether `build` takes all sections of the report as a third argument.
    """

    name: str
    title: str
    order: int
    build: Callable[..., Section | None]
    inputs: tuple[Input, ...] = ()
    methods: str = ""
    covers: str = ""
    kinds: tuple[str, ...] = KINDS
    of: tuple[str, ...] = ("scans", "images")
    explains_absence: bool = False
    sees_all: bool = False

    def __call__(
        self, files: EvaluationFiles, options: ReportOptions, sections: Sequence[SectionBuilder] = ()
    ) -> Section | None:
        """Return the section; a note where a needed file is absent; None where there is nothing to say."""
        if not self.fits(files):
            return None
        for need in self.inputs:
            if need.needed and not need.is_there(files) and not self.explains_absence:
                note = [Paragraph(missing_note(need), role="note")]
                return Section(self.name, self.title, note) if files.words.kind == "scans" else None
        return self.build(files, options, sections) if self.sees_all else self.build(files, options)

    def fits(self, files: EvaluationFiles) -> bool:
        """Return whether a report of this kind can have the section."""
        return files.kind in self.kinds and files.words.kind in self.of

    def is_shown(self, files: EvaluationFiles) -> bool:
        """Return whether the inputs that the section needs are there."""
        return all(need.is_there(files) for need in self.inputs if need.needed)


def missing_note(need: Input) -> str:
    """Return the sentence that stands in the place of what an absent file would give."""
    return f"Not shown: {need.gives}. {need.file} is absent or empty. {need.how}"


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
