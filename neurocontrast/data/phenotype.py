"""What is known of people: tables of BIDS and of hospitals, decoded by their JSON files and joined to scans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import BadZipFile

import pandas as pd

from neurocontrast.data.columns import Refusal, is_missing, number_of
from neurocontrast.data.layouts.table import read_text_table
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, one_of, suggestion

__all__ = ["KNOWN_COLUMNS", "Phenotype", "read_cells", "read_phenotype"]

KNOWN_COLUMNS = {
    "age": ("age", "age_years", "age_at_scan", "age_at_session", "age_at_visit", "interview_age"),
    "sex": ("sex", "gender", "sex_id", "mf"),
    "site": ("sitexacq", "site", "center", "centre", "scan_site", "site_id"),
    "diagnosis": ("diagnosis", "dx", "group"),
    "tiv": ("tiv", "etiv"),
}
"""Columns of the index, and what tables call them, the first that is there being taken."""

_IDENTIFIERS = ("participant_id", "subject_id", "subject", "ixi_id", "src_subject_id")
_PER_YEAR = {"year": 1.0, "month": 12.0, "week": 365.25 / 7, "day": 365.25}
_CODES_IN_NAME = re.compile(r"\(([^()]*=[^()]*)\)")
_AGE_DIFFERENCE = 1.0
"""Ages of one scan in two tables may differ by the year that rounding leaves."""


@dataclass
class Phenotype:
    """Rows of one table: for each key its known columns, decoded.

    Parameters
    ----------
    source : str
        Path of the table below the root, or its name.
    rows : dict of tuple of str to dict of str to str
        Cells by (subject, session); the session is "" in rows that hold for every session.
    sessions : dict of str to set of str
        Sessions by subject.
    """

    source: str
    rows: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    sessions: dict[str, set[str]] = field(default_factory=dict)


def read_cells(path: Path) -> tuple[dict[str, list[str]], list[int]]:
    """Read a table (``.tsv``, ``.csv``, ``.xlsx``) as text, with the line of each row.

    Raises
    ------
    DataError
        For a file that is no table, naming the file.
    """
    if path.suffix.lower() not in (".xlsx", ".xls"):
        table = read_text_table(path)
        return table.columns, table.lines
    try:
        sheet = pd.read_excel(path, dtype=str, keep_default_na=False)
    except ImportError as error:
        raise DataError(f"{path.name}: Excel files need openpyxl: pip install 'neurocontrast[excel]'.") from error
    except (OSError, ValueError, BadZipFile) as error:
        raise DataError(f"{path}: not readable as an Excel workbook ({error}).") from error
    cells = {str(name).strip(): [str(cell).strip() for cell in sheet[name]] for name in sheet}
    return cells, list(range(2, len(sheet) + 2))


def read_phenotype(
    path: Path,
    problems: Problems,
    *,
    source: str | None = None,
    id_column: str | None = None,
    subject: str = "",
    keep: Sequence[str] = (),
    descriptions: Sequence[Path] = (),
) -> Phenotype:
    """Read a table of people, sessions or scans, and decode its known columns.

    Parameters
    ----------
    path : Path
        The table.
    problems : Problems
        Told of every cell that cannot be decoded, with line and column.
    source : str, optional
        What messages and the index call the table; its name by default.
    id_column : str, optional
        The column of identifiers; by default the first of the usual ones.
    subject : str, default=""
        Subject of every row, of a table that holds one subject's sessions.
    keep : sequence of str
        Further columns to take over, as they are.
    descriptions : sequence of Path
        JSON files with ``Levels`` and ``Units`` of the columns, the most general first.
    """
    table, lines = read_cells(path)
    phenotype = Phenotype(source or path.name)
    identifiers = None if subject else _identifiers(table, path, id_column)
    sessions = _first_of(table, ("session_id", "session", "ses"))
    described = _descriptions([*descriptions, path.with_suffix(".json")])
    columns = {known: name for known, names in KNOWN_COLUMNS.items() if (name := _first_of(table, names))}
    columns |= {name: name for name in keep if name in table}
    for row, line in enumerate(lines):
        person = subject if identifiers is None else identifiers[row]
        if is_missing(person):
            problems.add(f"{phenotype.source}: found no identifier", line=line)
            continue
        key = (person, _label(table[sessions][row], "ses") if sessions else "")
        cells = {}
        for known, name in columns.items():
            decoded = _decode(known, name, table[name][row], described.get(name, {}))
            if isinstance(decoded, Refusal):
                where = f"{phenotype.source}, sub-{person}, column '{name}'"
                problems.add(f"{where}: found {shown(table[name][row])}; {decoded.rule}", line=line)
            elif decoded:
                cells[known] = decoded
        if key[1]:
            phenotype.sessions.setdefault(person, set()).add(key[1])
        before = phenotype.rows.setdefault(key, cells)
        if before is not cells:
            _merge(before, cells, person, phenotype.source, line, problems)
    return phenotype


def age_in_years(text: str) -> float | None:
    """Return an age as a number; "89+" is 89."""
    return number_of(text.removesuffix("+"))


def ages_differ(first: str, second: str) -> bool:
    """Tell whether two ages differ by more than the year that rounding leaves."""
    one, other = age_in_years(first), age_in_years(second)
    return one is not None and other is not None and abs(one - other) > _AGE_DIFFERENCE


def _identifiers(table: Mapping[str, list[str]], path: Path, id_column: str | None) -> list[str]:
    if id_column is not None and id_column not in table:
        near = suggestion(id_column, table)
        raise DataError(f"{path.name}: there is no column '{id_column}'.{near} It has: {one_of(list(table)[:30])}.")
    column = id_column or _first_of(table, _IDENTIFIERS)
    if not column:
        raise DataError(
            f"{path.name}: no column of identifiers; it has: {one_of(list(table)[:30])}. Name one with --id-column."
        )
    if column.lower() == "ixi_id":
        return [f"IXI{cell.zfill(3)}" if cell.isdigit() else cell for cell in table[column]]
    return [_label(cell, "sub") for cell in table[column]]


def _first_of(table: Mapping[str, list[str]], names: Sequence[str]) -> str:
    """Return the first column with one of the names, in any case and without the codes in brackets, or ""."""
    by_name = {_CODES_IN_NAME.sub("", column).strip().lower(): column for column in reversed(list(table))}
    return next((by_name[name] for name in names if name in by_name), "")


def _label(cell: str, prefix: str) -> str:
    return cell.removeprefix(f"{prefix}-")


def _descriptions(paths: Sequence[Path]) -> dict[str, dict[str, object]]:
    described: dict[str, dict[str, object]] = {}
    for path in paths:
        if path.is_file():
            try:
                content = json.loads(path.read_text(encoding="utf-8-sig"))
            except ValueError as error:
                raise DataError(f"{path}: not readable as JSON ({error}).") from error
            described |= {name: each for name, each in content.items() if isinstance(each, dict)}
    return described


def _decode(known: str, name: str, cell: str, description: Mapping[str, object]) -> str | Refusal:
    if is_missing(cell):
        return ""
    levels = description.get("Levels")
    if isinstance(levels, dict):
        level = levels.get(cell, levels.get(_plain_number(cell)))
        if level is None:
            return Refusal(f"Levels of the JSON file has {one_of(levels)}")
        cell = str(level.get("Description", cell) if isinstance(level, dict) else level)
    codes = dict(_codes_in(name))
    cell = codes.get(cell, cell)
    if known == "age":
        return _years(name, cell, str(description.get("Units", "")))
    if known == "sex":
        return _sex(cell)
    return cell


def _codes_in(name: str) -> Iterator[tuple[str, str]]:
    """Give the codes that a column's name explains, as IXI's "SEX_ID (1=m, 2=f)" does."""
    match = _CODES_IN_NAME.search(name)
    for part in match[1].split(",") if match else ():
        code, _, meaning = part.partition("=")
        yield code.strip(), meaning.strip()


def _plain_number(cell: str) -> str:
    value = number_of(cell)
    return cell if value is None or not value.is_integer() else str(int(value))


def _years(name: str, cell: str, units: str) -> str | Refusal:
    unit = units.strip().lower().rstrip("s") or ("month" if name.lower() == "interview_age" else "year")
    unit = {"y": "year", "yr": "year", "m": "month", "mo": "month", "w": "week", "d": "day"}.get(unit, unit)
    value = age_in_years(cell)
    if value is None:
        return Refusal("an age is a number, with a decimal point; 89+ is allowed")
    if unit not in _PER_YEAR:
        return Refusal(f"Units {shown(units)} are not known; {one_of([f'{each}s' for each in _PER_YEAR])} are")
    return cell if unit == "year" else f"{value / _PER_YEAR[unit]:.4g}"


def _sex(cell: str) -> str | Refusal:
    """Return "F" or "M" where a cell says so, and any other word as it is; a number alone says nothing."""
    word = cell.strip().lower()
    if word in ("m", "male", "man", "boy"):
        return "M"
    if word in ("f", "female", "woman", "girl"):
        return "F"
    if number_of(word) is not None:
        return Refusal("a code needs Levels in the JSON file beside the table, or letters")
    return cell


def _merge(
    before: dict[str, str], cells: Mapping[str, str], person: str, source: str, line: int, problems: Problems
) -> None:
    """Complete a participant's earlier row by a later one; what contradicts the earlier row is a problem."""
    for name, cell in cells.items():
        earlier = before.setdefault(name, cell)
        if earlier != cell and (name != "age" or ages_differ(earlier, cell)):
            problems.add(
                f"{source}: {name} is {shown(earlier)} in an earlier row of the participant, and {shown(cell)} here; "
                "several rows of a participant need a column session_id",
                line=line,
                name=f"sub-{person}",
            )
