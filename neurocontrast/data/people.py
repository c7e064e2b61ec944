"""Read tables of people for all commands alike, decoded by the JSON file next to the table."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from neurocontrast.cells import Refusal, is_missing
from neurocontrast.data.codes import base_name, codes_in_name
from neurocontrast.data.columns import AGE_COLUMNS, RULES
from neurocontrast.data.contradictions import warnings_of_contradictions
from neurocontrast.data.decoding import decode_column
from neurocontrast.data.descriptions import Description, description_of, read_descriptions
from neurocontrast.data.listing import AnyTable, place_of, read_text_table
from neurocontrast.data.sexes import OTHERS, WORDS, plain_word
from neurocontrast.exceptions import ConfigError, one_of

USUAL_NAMES = {
    "age": (*AGE_COLUMNS, "interview_age", "alter", "edad", "leeftijd", "eta", "idade"),
    "sex": (
        *("sex", "gender", "sex_id", "mf", "m/f", "f/m", "m_f", "geschlecht", "sexe", "sexo"),
        *("sesso", "biological_sex", "sex_at_birth"),
    ),
    "site": (
        *("sitexacq", "site", "center", "centre", "scan_site", "site_id", "study_site"),
        *("acquisition_site", "standort", "zentrum", "centro"),
    ),
    "diagnosis": ("diagnosis", "dx", "group", "dx_group", "diagnose"),
    "tiv": ("tiv", "etiv"),
    "qc_rating": ("qc_rating",),
}
"""Meaning of a column (age, sex, …) → usual names; the first name with any filled cell is used."""
_TOKENS = {
    "age": frozenset("age ages alter edad leeftijd".split()),
    "sex": frozenset("sex gender geschlecht sexe sexo sesso mf female male".split()),
    "site": frozenset("site sites center centre centro scanner standort zentrum hospital".split()),
}
"""Meaning of a column (age, sex, site) → words in the column's name that suggest the meaning."""
_MANY_MISSING = 0.25
"""Share of missing sexes from which a column with only one sex gets a warning."""
_MOST_SPELLINGS = 12
"""Largest number of distinct cells for a column to be checked for sexes."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class PeopleTable:
    """Table of people as text, with decoded ages, sexes, sites, diagnoses and head volumes.

    Made by `read_people`. `cells` are indexed by the line number in the file; decoded columns have
    names in lower case. `refused` is column → row position → `Refusal`, for cells that cannot be
    decoded and stay as written.
    """

    cells: pd.DataFrame
    refused: dict[str, dict[int, Refusal]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def read_people(table: AnyTable, identity: Collection[str] = ("participant_id",)) -> PeopleTable:
    """Read a table of people as text, decoded by a JSON file and by codes in columns' names.

    Return a `PeopleTable`, all cells as text: ages become years, sexes F and M, volumes of heads
    mL, and codes of ``Levels`` their meanings. The JSON file has the table's name, as
    ``participants.json``; a DataFrame has none. Columns of identifiers (`identity`) and of age,
    sex, site and diagnosis are found in upper or lower case.
    """
    written = read_text_table(table)
    descriptions: dict[str, Description] = {}
    if not isinstance(table, pd.DataFrame):
        descriptions = read_descriptions([place_of(table).with_suffix(".json")])
    new_names = _canonical_names(written.columns, identity)
    cells = written.rename(columns=new_names)
    refused: dict[str, dict[int, Refusal]] = {}
    warnings: list[str] = []
    for position, column in enumerate(written.columns):
        kind = _kind_of(column)
        description = description_of(column, descriptions)
        is_explained = bool(description.levels or codes_in_name(column))
        if kind not in ("age", "sex", "tiv") and not (kind and is_explained):
            continue
        raw = written.iloc[:, position]
        spellings = raw.unique().tolist()
        reading = decode_column(kind, column, spellings, description)
        values = dict(zip(spellings, reading.values, strict=True))
        if kind == "tiv" and _has_no_size(values):
            warnings.append(
                f"column '{column}' holds no volumes of heads in mL or mm³, as tiv does"
            )
            continue
        cells.isetitem(position, [_text(cell, values[cell]) for cell in raw])
        refused[new_names.get(column, column)] = _refusals(raw, values)
        warnings += [f"column '{column}' {note}" for note in reading.notes]
        if kind == "sex":
            warnings += notes_on_sexes(raw.map(values))
    taken = dict(zip(new_names.values(), new_names, strict=True))
    source = place_of(table).name
    warnings += warnings_of_contradictions(source, written, taken, USUAL_NAMES, descriptions)
    return PeopleTable(cells, refused, (*warnings, *_notes_on_look_alikes(written, taken)))


def _notes_on_look_alikes(written: pd.DataFrame, taken: Collection[str]) -> Iterator[str]:
    """Yield a note on each column that looks like age, sex or site but is not read as such.

    `written` is the table as text, and `taken` are the meanings that have a column.
    """
    for kind, columns in look_alikes(written, taken).items():
        for column in columns:
            yield f"column '{column}' is kept as it is; {remedy_of(kind, column)}"


def _canonical_names(columns: Iterable[str], identity: Collection[str]) -> dict[str, str]:
    """Return column → new name, for columns of identifiers, age, sex, site and diagnosis.

    The new name is in lower case, and without the codes in the old name: ``Sex (1=m, 2=f)`` becomes
    ``sex``, and ``AGE`` becomes ``age``. Columns called by any other word, as ``Gender``, are not
    in the result. `identity` has the names of columns of identifiers, such as ``participant_id``.
    """
    new_names = {}
    for column in columns:
        if column.lower() in (*identity, *RULES):
            new_names[column] = column.lower()
        elif base_name(column) in RULES and base_name(column) != plain_word(column):
            new_names[column] = base_name(column)
    return new_names


def _kind_of(column: str) -> str:
    """Return the meaning of a column by its name, ``tiv`` for ``eTIV``; "" for an unknown name."""
    name = base_name(column)
    if name == "etiv":
        return "tiv"
    if name not in USUAL_NAMES:
        return ""
    return name


def _has_no_size(values: Mapping[str, str | Refusal]) -> bool:
    """Tell whether a column named like head volume has filled cells, but none that is a volume.

    `values` is cell of this column → decoded text, or a `Refusal` for a cell that cannot be read.
    """
    filled = [value for value in values.values() if value != ""]
    return bool(filled) and not any(isinstance(value, str) for value in filled)


def _text(cell: str, value: str | Refusal) -> str:
    """Return the new text of a cell: the decoded `value`, or ``n/a`` if `value` is "".

    A cell that is missing, or whose `value` is a `Refusal`, stays as written.
    """
    if isinstance(value, Refusal) or is_missing(cell):
        return cell
    return value or "n/a"


def _refusals(cells: Iterable[str], values: Mapping[str, str | Refusal]) -> dict[int, Refusal]:
    """Return row position → `Refusal`, for the `cells` of a column that could not be decoded.

    `values` is distinct cell → decoded text, or a `Refusal` for a cell that cannot be read.
    """
    refusals = {}
    for row, cell in enumerate(cells):
        value = values[cell]
        if isinstance(value, Refusal):
            refusals[row] = value
    return refusals


def notes_on_sexes(sexes: Iterable[object]) -> list[str]:
    """Return a list of one warning if all known `sexes` are the same and many are missing.

    One word for a sex may then be misread. The list is empty without a warning.
    """
    counts = Counter(sexes)
    n_people = counts.total()
    n_known = counts["F"] + counts["M"]
    is_one_alone = n_known > 0 and n_known in (counts["F"], counts["M"])
    if not is_one_alone or n_people - n_known < _MANY_MISSING * n_people:
        return []
    sex = max("FM", key=counts.__getitem__)
    return [f"sex: all {n_known} known cells are {sex}, and {n_people - n_known} are missing"]


def filled_columns(cells: pd.DataFrame) -> list[str]:
    """Return the names of the columns of a table of text in which some cell is filled."""
    filled = []
    for column in map(str, cells):
        if not all(map(is_missing, cells[column])):  # looks at cells up to the first
            filled.append(column)
    return filled


def look_alikes(cells: pd.DataFrame, taken: Collection[str]) -> dict[str, list[str]]:
    """Return meaning → columns of `cells` that look like age, sex or site, by name or content.

    Meanings in `taken`, for which a column is used already, are left out.
    """
    columns: dict[str, list[str]] = {}
    filled = filled_columns(cells)
    for kind, tokens in _TOKENS.items():
        if kind in taken:
            continue
        for column in filled:
            words = set(_LETTERS.findall(plain_word(_CAMEL.sub(" ", column))))
            is_named = bool(words & tokens) or base_name(column) in USUAL_NAMES[kind]
            if is_named or (kind == "sex" and _holds_sexes(cells[column])):
                columns.setdefault(kind, []).append(column)
    return columns


def _holds_sexes(cells: pd.Series) -> bool:
    """Tell whether a column holds words for both sexes, and nothing else."""
    spellings = set(cells.unique())
    if len(spellings) > _MOST_SPELLINGS:
        return False
    words = set(map(plain_word, itertools.filterfalse(is_missing, spellings)))
    return set(map(WORDS.get, words - OTHERS)) == {"F", "M"}


def remedy_of(kind: str, column: str) -> str:
    """Return text that advises to rename `column`, which looks like a column of `kind`.

    `kind` is ``age``, ``sex`` or ``site``. If the name of `column` explains codes, as in ``geschl
    (1=m, 2=f)``, the advised name repeats them: ``sex (1=m, 2=f)``.
    """
    equations = ", ".join(map("=".join, codes_in_name(column).items()))
    name = kind
    if equations:
        name = f"{kind} ({equations})"
    elif kind == "age":
        return "rename it 'age' and give years if that is what it holds"
    return f"rename it '{name}' if that is what it holds"


def check_not_described(target: Path, columns: Iterable[object]) -> None:
    """Refuse to write a table of people next to a JSON file that would decode the table again.

    The written cells are decoded, and would be decoded once more.
    """
    path = target.with_suffix(".json")
    if not path.is_file():
        return
    described = []
    descriptions = read_descriptions([path])
    for column in map(str, columns):
        description = description_of(column, descriptions)
        if _kind_of(column) and (description.units or description.levels):
            described.append(column)
    if described:
        raise ConfigError(
            f"out: {path} is there, and says what {one_of(described)} of {target.name} mean; the "
            "new table has years, F, M and words. Write it into another folder, or under another "
            "name."
        )
