"""Read and decode tables of people, sessions or scans from BIDS data sets and hospitals."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from neurocontrast.cells import Refusal, is_missing
from neurocontrast.data.columns import (
    SESSIONS,
    as_age,
    first_of,
    identifier_column,
    is_numeric,
)
from neurocontrast.data.contradictions import warnings_of_contradictions
from neurocontrast.data.decoding import decode_column
from neurocontrast.data.descriptions import NOTHING, description_of, read_descriptions
from neurocontrast.data.identifiers import problem_of_identifier
from neurocontrast.data.layouts.tree import FoundScan, joined_path
from neurocontrast.data.listing import read_sheet
from neurocontrast.data.measures.sheets import SUBJECT
from neurocontrast.data.people import USUAL_NAMES, filled_columns, look_alikes
from neurocontrast.data.problems import Problems, shown
from neurocontrast.data.unmarked import REMEDY, unmarked_missing
from neurocontrast.exceptions import DataError
from neurocontrast.provenance import subject_label

_OF_PERSON = ("sex", SUBJECT)
"""Columns whose cell holds for all rows of a person, also where it is filled in one row alone."""


@dataclass
class Phenotype:
    """Decoded rows of a table of people, sessions or scans: subject → session → column → cell.

    Made by `read_phenotype`. Cells under the session "" hold for all sessions of the subject. In a
    table of scans, the path of each file is in place of the subject.

    `notes` say how codes were read. `columns` is meaning, such as ``age`` → name of the column as
    written, of the taken columns. `not_taken` has the columns that look like ``age``, ``sex`` or
    ``site``, under these keys, if the table has no column of a usual name for it.
    """

    source: str
    rows: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    not_taken: dict[str, list[str]] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)

    def label_of(self, scan: FoundScan) -> str:
        """Return the key in `rows` of a scan's person, for instance ``01``.

        The key is ``DATASET_SUBJECT`` if `rows` has it, and else ``SUBJECT``, even if `rows` has no
        such key.
        """
        label = subject_label(scan.person)
        if label in self.rows:
            return label
        return subject_label(scan.subject)

    def of(self, scan: FoundScan) -> dict[str, dict[str, str]]:
        """Return the rows of a scan's person, session → column → cell; empty if there are none."""
        return self.rows.get(self.label_of(scan), {})


@dataclass(frozen=True)
class PhenotypeFile:
    """File with a table of people, of one subject's sessions, or of scans, and how to read rows."""

    path: Path
    source: str
    """Name of the table in messages."""
    id_column: str | None = None
    """Column of identifiers; None for the first column with a usual name."""
    subject: str = ""
    """Subject of all rows, for a table of one subject's sessions; "" for other tables."""
    folder: str = ""
    """Folder of the files that a table of scans lists as identifiers; "" for other tables."""
    descriptions: tuple[Path, ...] = ()
    """JSON files with ``Levels`` and ``Units`` of columns, besides the one of the table's name."""


def read_phenotype(
    file: PhenotypeFile, problems: Problems, *, keep: Sequence[str] = ()
) -> Phenotype:
    """Read a table of people, sessions or scans, and decode columns such as age and sex.

    Return a `Phenotype`, whose `rows` are subject → session → column → cell.

    Parameters
    ----------
    file : PhenotypeFile
        Path of the table, and the meaning of its rows.
    problems : Problems
        Receives a problem for each cell that cannot be decoded, and for wrong identifiers.
    keep : sequence of str
        Columns to take besides age, sex and the like, by their exact names.
    """
    source = file.source
    table = read_sheet(file.path)
    named_by, identifiers = _identifiers_of(file, table)
    columns = _taken_columns(table.drop(columns=named_by, errors="ignore"), keep, source)
    described_in = [*file.descriptions, file.path.with_suffix(".json")]
    decoded = _decoded_columns(source, table, columns, described_in)
    phenotype = Phenotype(
        source, notes=decoded.notes, not_taken=look_alikes(table, columns), columns=columns
    )
    rows = _Rows(phenotype, problems)
    session_column = first_of(table, SESSIONS)
    for line, person, row in zip(table.index, identifiers, table.to_dict("records"), strict=True):
        problem = problem_of_identifier(person)
        if problem:
            problems.add(f"{source}: {problem}", line=line)
            continue
        cells = {}
        for kind, column in columns.items():
            value = decoded.values[kind][row[column]]
            if not isinstance(value, Refusal):
                cells[kind] = value
                continue
            rows.refuse(f"sub-{person}", column, row[column], value, line)
            if kind == "age":
                problems.hint(_other_ages(table, column, source))
        label = subject_label(joined_path(file.folder, person))
        session = _session_of(row.get(session_column, ""))
        rows.add((label, session), _filled_cells(cells), line, f"sub-{person}")
    return rows.phenotype


def _filled_cells(cells: dict[str, str]) -> dict[str, str]:
    """Return the filled `cells` of a row of a table of people, without the empty ones.

    `cells` is meaning of the column, such as ``age`` or ``subject_id`` → value. The value of
    ``subject_id`` loses its ``sub-`` (`subject_label`).
    """
    filled = {kind: value for kind, value in cells.items() if value}
    if SUBJECT in filled:
        filled[SUBJECT] = subject_label(filled[SUBJECT])
    return filled


def _session_of(cell: str) -> str:
    """Return a session's label without ``ses-``; "" if the cell is missing.

    `cell` is the cell of one row in the column that names sessions.
    """
    if is_missing(cell):
        return ""
    return cell.removeprefix("ses-")


class _DecodedColumns(NamedTuple):
    """Decoded columns of a table, and notes that say how codes were read.

    Made by `_decoded_columns`. `values` is meaning of a column, such as "age" → cell as written →
    decoded text, or a `Refusal`.
    """

    values: dict[str, dict[str, str | Refusal]]
    notes: tuple[str, ...]


def _taken_columns(table: pd.DataFrame, keep: Sequence[str], source: str) -> dict[str, str]:
    """Return meaning → column of `table`, for age, sex and the like by their usual names.

    Each column to `keep` is added under its own name, even if empty; other columns without any
    filled cell are left out. `source` names the table in errors.
    """
    filled = filled_columns(table)
    _check_named_once(filled, source)
    columns = {}
    for kind, names in USUAL_NAMES.items():
        column = first_of(filled, names)
        if column:
            columns[kind] = column
    subject = first_of(filled, [SUBJECT])
    if subject:
        columns[SUBJECT] = subject
    for column in keep:
        if column in table:
            columns[column] = column
    return columns


def _check_named_once(columns: Iterable[str], source: str) -> None:
    """Refuse filled columns whose names differ only in case, as ``Age`` and ``age``.

    Only usual names of identifiers, age, sex, site and the like are compared.
    """
    usual = {SUBJECT, *itertools.chain.from_iterable(USUAL_NAMES.values())}
    counts = Counter(map(str.lower, columns))
    for name, n_columns in counts.items():
        if name in usual and n_columns > 1:
            raise DataError(
                f"{source}: the header names the column '{name}' twice, in different cases. "
                "Rename or remove the one that is not meant."
            )


def _decoded_columns(
    source: str, table: pd.DataFrame, columns: dict[str, str], described_in: Sequence[Path]
) -> _DecodedColumns:
    """Decode the columns of a table of people, by JSON files and by codes in the columns' names.

    `columns` is meaning → column, as ``sex`` → ``gender``, and `described_in` has the JSON files. A
    description of ``sex`` holds for ``gender`` in a table without a column ``sex``. Cells of age,
    site and diagnosis that look like codes for a missing value become refusals.
    """
    descriptions = read_descriptions(described_in)
    decoded: dict[str, dict[str, str | Refusal]] = {}
    notes = []
    for kind, column in columns.items():
        spellings = table[column].unique().tolist()
        words = [" ".join(cell.split()) for cell in spellings]  # without line breaks
        description = description_of(column, descriptions)
        if description is NOTHING and kind not in table:
            description = description_of(kind, descriptions)
        reading = decode_column(kind, column, words, description)
        decoded[kind] = dict(zip(spellings, reading.values, strict=True))
        for written, word in zip(spellings, words, strict=True):
            if word in reading.others:
                decoded[kind][written] = reading.others[word]
        if reading.others:
            recorded = ", ".join(map(shown, sorted(set(reading.others.values()))))
            notes.append(f"column '{column}': neither F nor M, kept in sex_recorded: {recorded}")
        notes += [f"column '{column}' {note}" for note in reading.notes]
        if kind in ("age", "site", "diagnosis"):
            _refuse_codes(kind, table[column], decoded[kind])
    notes += warnings_of_contradictions(source, table, columns, USUAL_NAMES, descriptions)
    return _DecodedColumns(decoded, tuple(notes))


def _refuse_codes(kind: str, cells: pd.Series, values: dict[str, str | Refusal]) -> None:
    """Replace decoded values that seem to be codes for a missing value, in `values`, by refusals.

    `values` is a dict: cell as written in the column → decoded value; it is changed in place.
    `cells` are all cells of the column, and `kind` is the meaning of the column, such as ``age``.
    """
    decoded: list[str] = []
    for value in map(values.__getitem__, cells):
        if isinstance(value, str):
            decoded.append(value)
    codes = unmarked_missing(kind, decoded)
    for written, value in values.items():
        if value in codes:
            values[written] = Refusal("it seems to mean that the value is not known", REMEDY)


@dataclass
class _Rows:
    """Rows that `read_phenotype` adds one by one to `phenotype`, and problems of the rows.

    `line_of` is (person, session) → line number in the file of the first row of that pair.
    """

    phenotype: Phenotype
    problems: Problems
    line_of: dict[tuple[str, str], int] = field(default_factory=dict)

    def refuse(self, person: str, column: str, cell: str, refusal: Refusal, line: int) -> None:
        """Add a problem to `problems` for a cell that cannot be decoded; no error is raised.

        `refusal` has the rule that the cell breaks, for the text of the problem, and a hint for the
        user, which is added to the hints of `problems`.
        """
        table = self.phenotype.source
        problem = f"{table}, {person}, column '{column}': found {shown(cell)}; {refusal.rule}"
        self.problems.add(problem, line=line)
        self.problems.hint(refusal.hint)

    def add(self, key: tuple[str, str], cells: dict[str, str], line: int, person: str) -> None:
        """Add a row's `cells` under `key`, (person, session), to ``phenotype.rows``.

        A problem is added for each cell that differs from the one of an earlier row of the key, or
        is filled in one of both rows alone, since the rows may be of two visits; the earlier cell
        stays. Only `_OF_PERSON` are completed by later rows. `line` and `person` are the place in
        messages.
        """
        before = self.phenotype.rows.setdefault(key[0], {}).setdefault(key[1], cells)
        first = self.line_of.setdefault(key, line)
        for kind in dict.fromkeys([*before, *cells]):
            earlier = before.get(kind, "")
            cell = cells.get(kind, "")
            if earlier == cell or (kind == "age" and as_age(earlier) == as_age(cell)):
                continue
            if kind in _OF_PERSON and not (earlier and cell):
                before[kind] = earlier or cell
                continue
            self.problems.add(
                f"{self.phenotype.source}: {kind} is {_shown_or_missing(earlier)} in line {first}, "
                f"and {_shown_or_missing(cell)} here; several rows of a participant need a column "
                "session_id",
                line=line,
                name=person,
            )


def _shown_or_missing(cell: str) -> str:
    """Return a cell in quotes for a message, or the word missing for an empty one."""
    if not cell:
        return "missing"
    return shown(cell)


def _other_ages(table: pd.DataFrame, column: str, source: str) -> str:
    """Return a hint that a column besides `column` has "age" in its name and holds numbers.

    The hint is "" if there is no such column.
    """
    for name in table.columns:
        words = re.split("[^a-z]+", name.lower())
        if name != column and "age" in words and is_numeric(table[name]):
            return f"{source}: '{name}' holds numbers; name that column 'age' to use it."
    return ""


def _identifiers_of(file: PhenotypeFile, table: pd.DataFrame) -> tuple[str, list[str]]:
    """Return the name of the column of identifiers, and the subject of each row of `table`.

    The name is "" for a table of one subject, whose rows have no identifiers.
    """
    if file.subject:
        return "", [subject_label(file.subject)] * len(table)
    column = identifier_column(list(table.columns), source=file.path.name, id_column=file.id_column)
    return column, _identifiers(table, column)


def _identifiers(table: pd.DataFrame, column: str) -> list[str]:
    """Return the subject in each row of a table, the cell in `column` without ``sub-``.

    Numbers in a column ``IXI_ID`` become IXI012, as in the names of files.
    """
    if column.lower() == "ixi_id":
        return list(map(_identifier_of_ixi, table[column]))
    return list(map(subject_label, table[column]))


def _identifier_of_ixi(cell: str) -> str:
    """Return the identifier of a person of the IXI data set, IXI012 for the number 12."""
    if cell.isdigit():
        return f"IXI{cell.zfill(3)}"
    return cell
