"""What is known of people: tables of BIDS and of hospitals, decoded by their JSON files and joined to scans."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from neurocontrast.data.columns import (
    AGE_COLUMNS,
    CODES_IN_NAME,
    SESSIONS,
    Refusal,
    as_age,
    as_sex,
    first_of,
    identifier_column,
    is_missing,
    is_numeric,
    number_of,
)
from neurocontrast.data.layouts.tree import FoundScan, Tree, joined_path
from neurocontrast.data.listing import read_sheet
from neurocontrast.data.measures.names import MM3_PER_ML
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import one_of
from neurocontrast.provenance import subject_label
from neurocontrast.reading import read_json

_COLUMNS = {
    "subject_id": ("subject_id",),
    "age": (*AGE_COLUMNS, "interview_age"),
    "sex": ("sex", "gender", "sex_id", "mf"),
    "site": ("sitexacq", "site", "center", "centre", "scan_site", "site_id"),
    "diagnosis": ("diagnosis", "dx", "group"),
    "tiv": ("tiv", "etiv"),
    "qc_rating": ("qc_rating",),
}
"""Columns of the index, and their usual names in tables; the first that a table has, with any cell, is taken."""

_PER_YEAR = {"year": 1.0, "month": 12.0, "week": 365.25 / 7, "day": 365.25}
_UNITS = {"y": "year", "yr": "year", "m": "month", "mo": "month", "w": "week", "d": "day"}
_SMALLEST_ML, _LARGEST_ML = (
    100.0,
    10_000.0,
)  # a head of more is in mm³, as FreeSurfer writes its eTIV
_AGE_DIFFERENCE = 1.0  # ages of one scan in two tables may differ by the year that rounding leaves


@dataclass
class Phenotype:
    """Rows of one table: known columns, decoded, by subject and session; session "" holds for every session."""

    source: str
    rows: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)

    def of(self, scan: FoundScan) -> dict[str, dict[str, str]]:
        """Return the rows of a scan's person by session; one table of several data sets names DATASET_SUBJECT."""
        rows = self.rows.get(subject_label(scan.person))
        return rows or self.rows.get(subject_label(scan.subject), {})


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
    _scan_of: dict[int, FoundScan] = field(
        default_factory=dict
    )  # the first that a row is of, by the row's identity

    def known_of(self, scan: FoundScan) -> Known:
        """Return what the tables say of a scan; contradictions in age or sex become problems."""
        rows = list(self._rows_of(scan))
        known = Known({}, {}, {source for source, _, _ in rows})
        is_specific: dict[str, bool] = {}
        for source, specific, cells in rows:
            if (first := self._scan_of.setdefault(id(cells), scan)).person != scan.person:
                for one, other in ((first, scan), (scan, first)):
                    text = f"{source}: its row is of sub-{other.person} too; name people with their data set"
                    self.problems.add(f"{text}, as {one.person}", name=one.name)
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

    def sessions_of(self, scan: FoundScan) -> set[str]:
        """Return the sessions that tables have for the person of a scan."""
        tables = [*self.general(scan.dataset), *self._of_subject(scan)]
        return {session for table in tables for session in table.of(scan) if session}

    def general(self, dataset: str) -> list[Phenotype]:
        """Return the tables of people: the user's, those of ``phenotype/``, and ``participants.tsv``."""
        if dataset not in self._general:
            below = f"{dataset}/" if dataset else ""
            own = [
                f"{below}phenotype/{name}"
                for name in self.tree.folders.get(f"{below}phenotype", ())
            ]
            own = [path for path in own if path.endswith(".tsv")]
            own += [path for path in (f"{below}participants.tsv",) if self.tree.has(path)]
            given = [
                self._read_once(path, path.name, id_column=self.id_column)
                for path in self.phenotypes
            ]
            self._general[dataset] = [
                *given,
                *(self._read_once(self.tree.root / path, path) for path in own),
            ]
        return self._general[dataset]

    def _rows_of(self, scan: FoundScan) -> Iterator[tuple[str, bool, dict[str, str]]]:
        """Give the rows that hold for a scan, with their table, and whether they are of this very session."""
        general = self.general(scan.dataset)
        for table in self._of_scans(scan):
            for row in table.rows.get(subject_label(scan.path), {}).values():
                yield table.source, True, row
        for table in [*self._of_subject(scan), *general] if scan.session else ():
            if (of_session := table.of(scan).get(scan.session)) is not None:
                yield table.source, True, of_session
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

    def _of_subject(self, scan: FoundScan) -> Iterator[Phenotype]:
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
    table, phenotype = read_sheet(path), Phenotype(source)
    named_by = ""
    if not subject:
        named_by = identifier_column(list(table.columns), source=path.name, id_column=id_column)
    identifiers = [subject_label(subject)] * len(table)
    if named_by:
        identifiers = _identifiers(table, named_by)
    sessions = first_of(table, SESSIONS)
    described: dict[str, object] = {}
    for description in [*descriptions, path.with_suffix(".json")]:
        content = read_json(description) if description.is_file() else {}
        described |= {
            name.lower(): value for name, value in content.items()
        } | content  # as columns, in any case
    others = table.drop(columns=named_by, errors="ignore")
    filled = [name for name, cells in others.items() if not cells.map(is_missing).all()]
    columns = {
        known: name for known, names in _COLUMNS.items() if (name := first_of(filled, names))
    }
    columns |= {name: name for name in keep if name in table}
    line_of: dict[tuple[str, str], int] = {}
    for line, person, row in zip(table.index, identifiers, table.to_dict("records"), strict=True):
        if is_missing(person):
            problems.add(f"{source}: found no identifier", line=line)
            continue
        session = (
            row[sessions].removeprefix("ses-") if sessions and not is_missing(row[sessions]) else ""
        )
        key = subject_label(joined_path(folder, person))
        cells = {}
        for known, name in columns.items():
            decoded = _decode(
                known, name, row[name], described.get(name, described.get(name.lower()))
            )
            if isinstance(decoded, Refusal):
                text = f"{source}, sub-{person}, column '{name}': found {shown(row[name])}; {decoded.rule}"
                problems.add(text, line=line)
                problems.hint(decoded.hint)
                problems.hint(_other_ages(table, name, source) if known == "age" else "")
            elif decoded:
                cells[known] = decoded
        before = phenotype.rows.setdefault(key, {}).setdefault(session, cells)
        first = line_of.setdefault((key, session), line)
        for known, cell in cells.items():
            earlier = before.setdefault(known, cell)
            if earlier != cell and (known != "age" or as_age(earlier) != as_age(cell)):
                problems.add(
                    f"{source}: {known} is {shown(earlier)} in line {first}, and {shown(cell)} here; several rows of a "
                    "participant need a column session_id",
                    line=line,
                    name=f"sub-{person}",
                )
    return phenotype


def _other_ages(table: pd.DataFrame, column: str, source: str) -> str:
    """Return a hint at another column that holds numbers and is named after ages, or ""."""
    named = (
        name
        for name in table.columns
        if name != column and "age" in re.split("[^a-z]+", name.lower())
    )
    found = next((name for name in named if is_numeric(table[name])), "")
    return f"{source}: '{found}' holds numbers; name that column 'age' to use it." if found else ""


def _identifiers(table: pd.DataFrame, column: str) -> list[str]:
    if column.lower() == "ixi_id":
        return [f"IXI{cell.zfill(3)}" if cell.isdigit() else cell for cell in table[column]]
    return list(map(subject_label, table[column]))


def _ages_differ(first: str, second: str) -> bool:
    one, other = as_age(first), as_age(second)
    return (
        isinstance(one, float) and isinstance(other, float) and abs(one - other) > _AGE_DIFFERENCE
    )


def _decode(known: str, name: str, cell: str, description: object) -> str | Refusal:
    cell = " ".join(cell.split())  # a table of tabs holds no line breaks
    if is_missing(cell):
        return ""
    described = description if isinstance(description, dict) else {}
    levels = described.get("Levels")
    if isinstance(levels, dict):
        value = number_of(cell)
        plain = cell if value is None or not value.is_integer() else str(int(value))
        level = levels.get(cell, levels.get(plain))
        if level is None:
            return Refusal(f"Levels of the JSON file has {one_of(levels)}")
        cell = str(level.get("Description", cell) if isinstance(level, dict) else level)
    # The codes that a column's name explains, as IXI's "SEX_ID (1=m, 2=f)" does.
    match = CODES_IN_NAME.search(name)
    codes = (part.partition("=") for part in match[1].split(",")) if match else ()
    cell = {code.strip(): meaning.strip() for code, _, meaning in codes}.get(cell, cell)
    number = number_of(cell)
    if known == "age":
        units = str(described.get("Units", ""))
        unit = units.strip().lower().rstrip("s") or (
            "month" if name.lower() == "interview_age" else "year"
        )
        unit = _UNITS.get(unit, unit)
        if unit not in _PER_YEAR:
            return Refusal(
                f"Units {shown(units)} are not known; {one_of([f'{each}s' for each in _PER_YEAR])} are"
            )
        if number is None and unit != "year":
            return Refusal(f"an age in {unit}s is a number, or n/a")
        text = cell if unit == "year" or number is None else f"{number / _PER_YEAR[unit]:.4g}"
        age = as_age(text)
        return age if isinstance(age, Refusal) else text
    if known == "tiv":
        if number is None or number < _SMALLEST_ML:
            return Refusal(
                "the volume of a head is a number of mL or mm³ (litres times 1000), or n/a"
            )
        return f"{number / MM3_PER_ML:.1f}" if number > _LARGEST_ML else cell
    if known == "sex":
        if number is not None:
            return Refusal("a code needs Levels in the JSON file of the same name, or letters")
        sex = as_sex(cell)
        return cell if isinstance(sex, Refusal) else sex
    return subject_label(cell) if known == "subject_id" else cell
