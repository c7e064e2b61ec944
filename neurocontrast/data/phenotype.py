"""Known facts of people: tables of BIDS and of hospitals, decoded and joined to scans."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from neurocontrast.cells import Refusal, is_missing
from neurocontrast.data.columns import (
    SESSIONS,
    as_age,
    first_of,
    identifier_column,
    is_numeric,
)
from neurocontrast.data.contradictions import MAX_AGE_DIFFERENCE, warnings_of_contradictions
from neurocontrast.data.descriptions import (
    NOTHING,
    decode_column,
    description_of,
    read_descriptions,
)
from neurocontrast.data.identifiers import problem_of_identifier
from neurocontrast.data.layouts.tree import FoundScan, Tree, joined_path
from neurocontrast.data.listing import read_sheet
from neurocontrast.data.measures.sheets import SUBJECT
from neurocontrast.data.people import USUAL_NAMES, filled_columns, look_alikes, remedy_of
from neurocontrast.data.problems import Problems, first_names, shown
from neurocontrast.data.unmarked import REMEDY, unmarked_missing
from neurocontrast.exceptions import DataError
from neurocontrast.provenance import subject_label


@dataclass
class Phenotype:
    """Rows of one table by subject and session, decoded; session "" holds for every session.

    `notes` say how codes were read; `not_taken` are columns that look like age, sex or site.
    """

    source: str
    rows: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    not_taken: dict[str, list[str]] = field(default_factory=dict)

    def label_of(self, scan: FoundScan) -> str:
        """Return the name of a scan's person: a table of several data sets names DATASET_SUBJECT."""
        label = subject_label(scan.person)
        return label if label in self.rows else subject_label(scan.subject)

    def of(self, scan: FoundScan) -> dict[str, dict[str, str]]:
        """Return the rows of a scan's person by session."""
        return self.rows.get(self.label_of(scan), {})


class Known(NamedTuple):
    """Cells of a scan by column, the table of each, and all tables that have a row for the scan."""

    cells: dict[str, str]
    sources: dict[str, str]
    tables: set[str]


@dataclass
class PeopleTables:
    """The tables of a tree, the most specific first: scans, sessions, phenotypes, participants.

    The first table that has a value gives it. The user's own `phenotypes` come before those of
    ``phenotype/``; `keep` names further columns to take over. Bad cells and contradictions become
    `problems`.
    """

    tree: Tree
    problems: Problems
    phenotypes: Sequence[Path] = ()
    id_column: str | None = None
    keep: Sequence[str] = ()
    _read: dict[Path, Phenotype] = field(default_factory=dict)
    _general: dict[str, list[Phenotype]] = field(default_factory=dict)
    _scan_of: dict[tuple[int, str], FoundScan] = field(default_factory=dict)
    """First scan that a person of a table was joined to, by the table's identity and the person's name there."""

    def known_of(self, scan: FoundScan) -> Known:
        """Return what the tables say of a scan; contradictions in age or sex become problems."""
        rows = list(self._rows_of(scan))
        known = Known({}, {}, {source for source, _, _ in rows})
        is_specific: dict[str, bool] = {}
        self._check_one_person(scan, known)
        for source, specific, cells in rows:
            for name, cell in cells.items():
                earlier = known.cells.setdefault(name, cell)
                origin = known.sources.setdefault(name, source)
                # The age at a session may differ from the participant's; two tables of one kind
                # should agree.
                alike = is_specific.setdefault(name, specific) == specific
                if (name in ("sex", "subject_id") and earlier != cell) or (
                    name == "age" and alike and _ages_differ(earlier, cell)
                ):
                    self.problems.add(
                        f"{name} is {shown(earlier)} in {origin} and {shown(cell)} in {source}",
                        name=scan.name,
                    )
        return known

    def _check_one_person(self, scan: FoundScan, known: Known) -> None:
        """Add a problem if a table joins one person of its rows to people of two data sets."""
        for table in self.general(scan.dataset):
            if table.source not in known.tables:
                continue
            label = table.label_of(scan)
            first = self._scan_of.setdefault((id(table), label), scan)
            if first.person == scan.person:
                continue
            for one, other in ((first, scan), (scan, first)):
                text = f"{table.source}: its row is of sub-{other.person} too; name people with their data set"
                self.problems.add(f"{text}, as {one.person}", name=one.name)

    def people(self) -> dict[str, str]:
        """Return each person of the tables of participants, with the table's name."""
        found: dict[str, str] = {}
        for dataset, tables in self._general.items():
            for table in tables:
                if "phenotype/" not in table.source:
                    prefix = (
                        f"{dataset}_" if dataset and table.source.startswith(f"{dataset}/") else ""
                    )
                    found |= {f"{prefix}{subject}": table.source for subject in table.rows}
        return found

    def notes(self, cells_known: Collection[str]) -> list[str]:
        """Say how codes in tables of people were read, and which look-alikes were not taken.

        In tables of the tree the latter are named only for columns that are not among
        `cells_known`.
        """
        tables_of: dict[str, list[str]] = {}
        for path, table in self._read.items():
            for note in table.notes:
                tables_of.setdefault(note, []).append(table.source)
            for kind, columns in table.not_taken.items():
                if kind in cells_known and path not in self.phenotypes:
                    continue
                for column in columns:
                    note = f"column '{column}' is not taken; {remedy_of(kind, column)}"
                    tables_of.setdefault(note, []).append(table.source)
        return [f"{first_names(tables, 1)}: {note}." for note, tables in tables_of.items()]

    def sessions_of(self, scan: FoundScan) -> set[str]:
        """Return the sessions that tables have for the person of a scan."""
        tables = [*self.general(scan.dataset), *self.of_subject(scan)]
        return {session for table in tables for session in table.of(scan) if session}

    def general(self, dataset: str) -> list[Phenotype]:
        """Return the tables of people: the user's, those of ``phenotype/``, and ``participants.tsv``."""
        if dataset not in self._general:
            tables = []
            for file in self.phenotypes:
                tables.append(self._read_once(file, file.name, id_column=self.id_column))
            below = f"{dataset}/" if dataset else ""
            paths = []
            for name in self.tree.folders.get(f"{below}phenotype", ()):
                if name.endswith(".tsv"):
                    paths.append(f"{below}phenotype/{name}")
            if self.tree.has(f"{below}participants.tsv"):
                paths.append(f"{below}participants.tsv")
            for path in paths:
                tables.append(self._read_once(self.tree.root / path, path))
            self._general[dataset] = tables
        return self._general[dataset]

    def _rows_of(self, scan: FoundScan) -> Iterator[tuple[str, bool, dict[str, str]]]:
        """Give the rows that hold for a scan, with their table, and whether they are of this very session."""
        general = self.general(scan.dataset)
        for table in self._of_scans(scan):
            for row in table.rows.get(subject_label(scan.path), {}).values():
                yield table.source, True, row
        of_subject = list(self.of_subject(scan))
        for table in [*of_subject, *general] if scan.session else ():
            if (of_session := table.of(scan).get(scan.session)) is not None:
                yield table.source, True, of_session
        for table in of_subject:
            sessions = list(table.of(scan).values())
            if len(sessions) == 1 and not scan.session:
                yield table.source, True, sessions[0]
        for table in general:
            of_person = table.of(scan)
            is_only = len(of_person) == 1 and not scan.session
            if (
                of_all := next(iter(of_person.values())) if is_only else of_person.get("")
            ) is not None:
                yield table.source, False, of_all

    def _of_scans(self, scan: FoundScan) -> Iterator[Phenotype]:
        person = f"sub-{scan.subject}"
        above = f"{scan.dataset}/{person}" if scan.dataset else person
        places = (
            [(f"{above}/ses-{scan.session}", f"{person}_ses-{scan.session}")]
            if scan.session
            else []
        )
        for folder, stem in [*places, (above, person)]:
            path = f"{folder}/{stem}_scans.tsv"
            if self.tree.has(path):
                described = [self.tree.root / "scans.json"]
                options: dict[str, Any] = {
                    "id_column": "filename",
                    "folder": folder,
                    "descriptions": described,
                }
                yield self._read_once(self.tree.root / path, path, **options)

    def of_subject(self, scan: FoundScan) -> Iterator[Phenotype]:
        """Give the table of the sessions of a scan's subject, ``sub-X_sessions.tsv``, where there is one."""
        below = f"{scan.dataset}/" if scan.dataset else ""
        path = f"{below}sub-{scan.subject}/sub-{scan.subject}_sessions.tsv"
        if self.tree.has(path):
            described = [self.tree.root / "sessions.json"]
            yield self._read_once(
                self.tree.root / path, path, subject=scan.subject, descriptions=described
            )

    def _read_once(self, path: Path, source: str, **options: Any) -> Phenotype:
        """Return a table, which is read once; `source` is its name in messages."""
        if path not in self._read:
            self._read[path] = read_phenotype(
                path, self.problems, source=source, keep=self.keep, **options
            )
        return self._read[path]


def read_phenotype(
    path: Path,
    problems: Problems,
    *,
    source: str,
    id_column: str | None = None,
    subject: str = "",
    folder: str = "",
    keep: Sequence[str] = (),
    descriptions: Sequence[Path] = (),
) -> Phenotype:
    """Read a table of people, sessions or scans, and decode its known columns.

    Cells that cannot be decoded become `problems`, in which the table is called `source`. `subject`
    is that of every row, of a table that holds one subject's sessions; `folder` is that of the
    files, of a table whose identifiers are files. `descriptions` are JSON files with ``Levels`` and
    ``Units`` in addition to the table's own.
    """
    table = read_sheet(path)
    if subject:
        named_by = ""
        identifiers = [subject_label(subject)] * len(table)
    else:
        named_by = identifier_column(list(table.columns), source=path.name, id_column=id_column)
        identifiers = _identifiers(table, named_by)
    columns = _taken_columns(table.drop(columns=named_by, errors="ignore"), keep, source)
    described_in = [*descriptions, path.with_suffix(".json")]
    decoded = _decoded_columns(source, table, columns, described_in)
    not_taken = look_alikes(table, columns)
    rows = _Rows(Phenotype(source, notes=decoded.notes, not_taken=not_taken), problems)
    session_column = first_of(table, SESSIONS)
    for line, person, row in zip(table.index, identifiers, table.to_dict("records"), strict=True):
        if problem := problem_of_identifier(person):
            problems.add(f"{source}: {problem}", line=line)
            continue
        session = row.get(session_column, "")
        cells = {}
        for kind, column in columns.items():
            value = decoded.values[kind][row[column]]
            if isinstance(value, Refusal):
                rows.refuse(f"sub-{person}", column, row[column], value, line)
                problems.hint(_other_ages(table, column, source) if kind == "age" else "")
            elif value and kind == SUBJECT:
                cells[kind] = subject_label(value)
            elif value:
                cells[kind] = value
        session = "" if is_missing(session) else session.removeprefix("ses-")
        rows.add(
            (subject_label(joined_path(folder, person)), session), cells, line, f"sub-{person}"
        )
    return rows.phenotype


class _DecodedColumns(NamedTuple):
    """Kind of column → written cell → value, and notes on how codes were read."""

    values: dict[str, dict[str, str | Refusal]]
    notes: tuple[str, ...]


def _taken_columns(table: pd.DataFrame, keep: Sequence[str], source: str) -> dict[str, str]:
    """Return kind → column: the first of its usual names with any cell, and columns to keep."""
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
    """Refuse two columns with cells whose names differ in case alone, where one would be taken."""
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
    """Decode each column by its distinct cells.

    Where the JSON files describe ``sex``, and the table has ``gender`` alone, that is described.
    """
    descriptions = read_descriptions(described_in)
    decoded: dict[str, dict[str, str | Refusal]] = {}
    notes = []
    for kind, column in columns.items():
        spellings = table[column].unique().tolist()
        words = [
            " ".join(cell.split()) for cell in spellings
        ]  # a table of tabs holds no line breaks
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
    """Refuse cells whose value seems to mean "not known": a refusal takes the place of each."""
    texts: list[str] = []
    for value in map(values.__getitem__, cells):
        if isinstance(value, str):
            texts.append(value)
    codes = unmarked_missing(kind, texts)
    for written, value in values.items():
        if value in codes:
            values[written] = Refusal("it seems to mean that the value is not known", REMEDY)


@dataclass
class _Rows:
    """Rows of a table as they are read, and the line of the first of each person and session."""

    phenotype: Phenotype
    problems: Problems
    line_of: dict[tuple[str, str], int] = field(default_factory=dict)

    def refuse(self, person: str, column: str, cell: str, refusal: Refusal, line: int) -> None:
        """Make a problem of a cell that cannot be decoded."""
        table = self.phenotype.source
        text = f"{table}, {person}, column '{column}': found {shown(cell)}; {refusal.rule}"
        self.problems.add(text, line=line)
        self.problems.hint(refusal.hint)

    def add(self, key: tuple[str, str], cells: dict[str, str], line: int, person: str) -> None:
        """Add the cells of a person and session, with which an earlier row must agree."""
        before = self.phenotype.rows.setdefault(key[0], {}).setdefault(key[1], cells)
        first = self.line_of.setdefault(key, line)
        for kind, cell in cells.items():
            earlier = before.setdefault(kind, cell)
            if earlier == cell or (kind == "age" and as_age(earlier) == as_age(cell)):
                continue
            text = f"{kind} is {shown(earlier)} in line {first}, and {shown(cell)} here"
            remedy = "several rows of a participant need a column session_id"
            self.problems.add(f"{self.phenotype.source}: {text}; {remedy}", line=line, name=person)


def _other_ages(table: pd.DataFrame, column: str, source: str) -> str:
    """Return a hint at another column that holds numbers and is named after ages, or ""."""
    for name in table.columns:
        words = re.split("[^a-z]+", name.lower())
        if name != column and "age" in words and is_numeric(table[name]):
            return f"{source}: '{name}' holds numbers; name that column 'age' to use it."
    return ""


def _identifiers(table: pd.DataFrame, column: str) -> list[str]:
    if column.lower() == "ixi_id":
        return [f"IXI{cell.zfill(3)}" if cell.isdigit() else cell for cell in table[column]]
    return list(map(subject_label, table[column]))


def _ages_differ(first: str, second: str) -> bool:
    one = as_age(first)
    other = as_age(second)
    return (
        isinstance(one, float)
        and isinstance(other, float)
        and abs(one - other) > MAX_AGE_DIFFERENCE
    )
