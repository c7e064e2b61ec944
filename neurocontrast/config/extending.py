"""Merge a configuration with the one that ``extends`` names: as sections, or as YAML text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from neurocontrast.documents.document import Json

EXTENDS = "extends"
_WHOLE = ("objective",)
"""Sections that replace a recipe's section whole: the keys of ``objective`` depend on the loss."""
_SECTION = re.compile(r"(\w+):")
_KEY = re.compile(r"  (\w+):")


def extend(base: Mapping[str, object], differences: Mapping[str, object]) -> Json:
    """Return the sections `base` with keys of `differences`; `objective` is replaced whole.

    Parameters
    ----------
    base : mapping
        Sections of the configuration that is extended.
    differences : mapping
        Sections with the keys that replace the base's, or that the base lacks.

    Examples
    --------
    >>> from neurocontrast.config.extending import extend
    >>> extend({"training": {"epochs": 50, "batch_size": 64}}, {"training": {"epochs": 10}})
    {'training': {'epochs': 10, 'batch_size': 64}}
    """
    extended = dict(base)
    for name, section in differences.items():
        earlier = extended.get(name)
        extended[name] = section
        if name in _WHOLE:
            continue
        if isinstance(earlier, Mapping) and isinstance(section, Mapping):
            extended[name] = {**earlier, **section}
    return extended


@dataclass
class _Section:
    """Section of a YAML configuration as lines of text, so that comments stay with their keys.

    `extend_text` parses configurations into sections, and joins these.
    """

    name: str
    first: str
    """Line with the section's name."""
    keys: dict[str, list[str]] = field(default_factory=dict)
    """Key → its lines, with the comments above."""
    last: list[str] = field(default_factory=list)
    """Comments and empty lines below the last key."""

    def lines(self) -> list[str]:
        """Return all lines of the section in their order."""
        lines = [self.first]
        for of_key in self.keys.values():
            lines += of_key
        return lines + self.last

    def extended(self, differences: _Section) -> _Section:
        """Return this section with keys replaced or added by `differences`.

        `differences` is the section of the same name in the extending configuration.
        """
        if self.name in _WHOLE or not differences.keys:
            return _Section(self.name, differences.first, differences.keys, self.last)
        return _Section(self.name, self.first, {**self.keys, **differences.keys}, self.last)


def extend_text(base: str, differences: str) -> str:
    """Return a recipe that extends another as one text, with every key and its comment.

    A recipe is a YAML file of a configuration that comes with the package.

    Parameters
    ----------
    base : str
        Recipe that is extended, laid out as all recipes: a key a line, indented by two spaces.
    differences : str
        Recipe that extends the base; its first comment replaces the base's.
    """
    _, sections = _parse(base)
    comment, changed = _parse(differences)
    for name, section in changed.items():
        if name == EXTENDS:
            continue
        if name in sections:
            section = sections[name].extended(section)
        sections[name] = section
    lines = list(comment)
    for section in sections.values():
        lines += section.lines()
    return "\n".join(lines).rstrip("\n") + "\n"


def _parse(text: str) -> tuple[list[str], dict[str, _Section]]:
    """Split the text of a YAML configuration into the comment at its top, and its sections.

    Return the lines of the comment, and name of a section → the section as lines of text.
    """
    comment: list[str] = []
    sections: dict[str, _Section] = {}
    section: _Section | None = None
    of_key: list[str] | None = None
    for line in text.splitlines():
        start = _SECTION.match(line)
        if start is not None:
            section = _Section(start[1], line)
            sections[section.name] = section
            of_key = None
            continue
        if section is None:
            comment.append(line)
            continue
        start = _KEY.match(line)
        if start is not None:
            of_key = [*section.last, line]
            section.last = []
            section.keys[start[1]] = of_key
        elif of_key is not None and line.startswith("   "):
            of_key.append(line)
        else:
            section.last.append(line)
    return comment, sections
