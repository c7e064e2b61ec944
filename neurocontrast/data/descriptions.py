"""Descriptions of columns in JSON files: unit, code → meaning (levels), and free text."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from neurocontrast.cells import text_of
from neurocontrast.data.codes import base_name, codes_first
from neurocontrast.exceptions import DataError
from neurocontrast.reading import read_json


@dataclass(frozen=True)
class Description:
    """Description of a column in a JSON file: unit, code → meaning (levels), and free text.

    Made by `read_descriptions`. A part that the file does not state is empty.
    """

    units: str = ""
    levels: Mapping[str, str] = field(default_factory=dict)
    words: str = ""


NOTHING = Description()
Descriptions = Mapping[str, Description]
"""Column → its description in a JSON file; `description_of` ignores the case of the name."""


def read_descriptions(paths: Iterable[Path]) -> dict[str, Description]:
    """Read column → description from JSON files of a table; a later file replaces an earlier one.

    Absent files are passed over. The result has each column under its name as written, and also
    under the name in lower case.
    """
    descriptions: dict[str, Description] = {}
    for path in paths:
        if not path.is_file():
            continue
        exact = {}
        for column, content in read_json(path).items():
            if isinstance(content, dict):
                exact[column] = _description(content, f"{path}: '{column}'")
                descriptions[column.lower()] = exact[column]
        descriptions |= exact
    return descriptions


def _description(content: Mapping[str, object], place: str) -> Description:
    """Read the `Description` of a column from the column's object in a JSON file.

    `place` names file and column in errors.
    """
    by_key: dict[str, object] = {}
    for key, value in content.items():
        by_key.setdefault(key.strip().lower(), value)
    levels = by_key.get("levels") or {}
    if not isinstance(levels, dict):
        raise DataError(f"{place}: Levels must be an object of codes and their meanings.")
    meanings = {}
    for code, meaning in levels.items():
        if isinstance(meaning, dict):
            meaning = meaning.get("Description", code)
        meanings[str(code).strip()] = text_of(meaning).strip()
    words = f"{by_key.get('longname') or ''}, {by_key.get('description') or ''}"
    units = by_key.get("units") or by_key.get("unit") or ""
    return Description(str(units), codes_first(meanings), words)


def description_of(column: str, descriptions: Descriptions) -> Description:
    """Return the description of a column in `descriptions`; `NOTHING` if there is none.

    If the name `column` is not found, the name in lower case is looked up, and then the name
    without codes: ``sex`` for ``Sex (1=m, 2=f)``.
    """
    for name in (column, column.lower(), base_name(column)):
        if name in descriptions:
            return descriptions[name]
    return NOTHING
