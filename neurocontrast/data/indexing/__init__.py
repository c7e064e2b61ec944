"""Index a folder of scans as one table: find and choose scans, and join tables of people."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pandas as pd

from neurocontrast.data.indexing.choosing import add_unread, find_scans, read_rules
from neurocontrast.data.indexing.index import (
    COLUMNS,
    MEASURES,
    Index,
    IndexSettings,
    SiteFrom,
)
from neurocontrast.data.indexing.joining import (
    check_files,
    compare_with_tables,
    row_of,
    scanner_settings_of,
)
from neurocontrast.data.indexing.sessions import choose_scans
from neurocontrast.data.layouts.tree import FoundScan
from neurocontrast.data.people import notes_on_sexes
from neurocontrast.data.people_tables import PeopleTables, ScanFacts
from neurocontrast.data.problems import Problems
from neurocontrast.data.roots import tree_at
from neurocontrast.data.subjects import subjects_of_participants
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import subject_label

__all__ = ["COLUMNS", "MEASURES", "Index", "IndexSettings", "SiteFrom", "index_scans"]

_DEFAULTS = IndexSettings()


def index_scans(
    root: Path,
    settings: IndexSettings = _DEFAULTS,
    *,
    tables: Sequence[Path] = (),
    progress: Progress = SILENT,
) -> Index:
    """Find the scans below a folder, join them with tables of people, and return an `Index`.

    `table` of the `Index` has a row for each scan; the other attributes tell which scans were left
    out, and why. No file is written. A `DataError` is raised for problems of scans (left out with
    ``settings.skip``), and if no scan is left.

    Parameters
    ----------
    root : Path
        Folder of the scans, or table of regional measures.
    settings : IndexSettings
        Layout, tables of people, and rules that choose among several images of a session, as in
        `neurocontrast.index`.
    tables : sequence of Path
        Tables of measures below `root`, which are read instead of the folder.
    progress : Progress
        Receives progress.
    """
    rules = read_rules(settings.choose)
    keep = [name for name in dict.fromkeys(settings.keep) if name not in COLUMNS]
    _check_site_from(settings.site_from)
    tree = tree_at(root, tables)
    index, scans = find_scans(tree, list(tables) or root, rules, keep, settings)
    problems = Problems(str(root))
    add_unread(root, index, problems)
    people = PeopleTables(tree, problems, settings.phenotypes, settings.id_column, keep)
    chosen = choose_scans(scans, rules, index, problems)
    check_files(chosen, tree, problems, progress)
    facts = [people.facts_of(scan) for scan in chosen]
    with_scan = {subject_label(scan.person) for scan in scans}
    compare_with_tables(chosen, facts, with_scan, people, index, problems)
    subjects = subjects_of_participants(chosen, facts, problems, index.notes)
    rows = []
    for scan, of_scan in zip(chosen, facts, strict=True):
        scanner = scanner_settings_of(scan, tree, problems)
        row = row_of(scan, of_scan, scanner, layout=index.layout, site_from=settings.site_from)
        row["subject_id"] = subjects.get(scan.person, subject_label(scan.person))
        rows.append(row)
    table = _table_of(rows, keep)
    if not settings.skip:
        _refuse_problems(problems)
    kept = _without_problems(chosen, problems)
    _add_left_out(chosen, kept, problems, index)
    _add_sources(index, table, people, scans)
    table = table[kept].reset_index(drop=True)
    _check_not_empty(table, root, index)
    _check_kept_columns(keep, facts)
    return replace(index, table=table)


def _refuse_problems(problems: Problems) -> None:
    """Raise a `DataError` that lists all problems of scans; no error if there are none.

    The message also names the flag ``--skip``, with which such scans are left out in place of the
    error.
    """
    if problems.found:
        problems.hint("--skip leaves out the scans with problems, and the record says which.")
        problems.raise_if_any()


def _add_sources(
    index: Index, table: pd.DataFrame, people: PeopleTables, scans: Sequence[FoundScan]
) -> None:
    """Add to `index` the names of the tables of people, and notes on how columns were read."""
    index.notes += people.notes(table.columns[(table != "").any()])
    index.notes += notes_on_sexes(table["sex"])
    for dataset in sorted({scan.dataset for scan in scans}):
        index.tables += [sheet.source for sheet in people.general(dataset)]


def _check_not_empty(table: pd.DataFrame, root: Path, index: Index) -> None:
    """Raise a `DataError` if `table` has no row, since every scan below `root` was left out.

    The message has the number of left-out scans, and the first one in `index` with the reason.
    """
    if not table.empty:
        return
    example, reason = index.left_out[0]
    raise DataError(
        f"{root}: no scan is left; {len(index.left_out)} were left out, such as {example}: "
        f"{reason}."
    )


def _check_site_from(site_from: str) -> None:
    """Raise a `ConfigError` for an unknown `site_from`, the setting for the origin of sites."""
    if site_from not in get_args(SiteFrom):
        raise ConfigError(
            f"site_from: must be one of {one_of(get_args(SiteFrom))}, found '{site_from}'."
        )


def _check_kept_columns(keep: Sequence[str], facts: Sequence[ScanFacts]) -> None:
    """Raise a `ConfigError` if any one of the columns `keep` has no value for any scan.

    `keep` are the columns that the user asks for. `facts` has the filled cells of each scan, from
    the tables of people.
    """
    columns: set[str] = set()
    for of_scan in facts:
        columns.update(of_scan.cells)
    unknown = [name for name in keep if name not in columns]
    if unknown:
        raise ConfigError(
            f"keep: no table says {one_of(unknown)} of these scans; --phenotype FILE joins a table."
        )


def _table_of(rows: Sequence[dict[str, str]], keep: Sequence[str]) -> pd.DataFrame:
    """Return the index's table of `rows`: columns are `COLUMNS`, then the names in the list `keep`.

    A cell that a row lacks is "". Several runs of one session become sessions of their own, as a
    cohort needs.
    """
    columns = list(dict.fromkeys([*COLUMNS, *keep]))
    # As objects: a path that no text can hold is a problem, which names the path.
    table = pd.DataFrame(rows, columns=columns, dtype=object).fillna("")
    several = table.duplicated(["participant_id", "session"], keep=False) & (table["run"] != "")
    sessions = (table["session"] + "_run-" + table["run"]).str.removeprefix("_")
    table.loc[several, "session"] = sessions
    return table


def _without_problems(scans: Sequence[FoundScan], problems: Problems) -> list[bool]:
    """Tell for each of `scans`, in order, whether neither the scan nor its person has a problem.

    A problem with a line of a table is of a person, and so of all scans of the person.
    """
    of_people = {problem.name for problem in problems.found if problem.line is not None}
    of_scans = {problem.name for problem in problems.found if problem.line is None}
    return [scan.name not in of_scans and f"sub-{scan.person}" not in of_people for scan in scans]


def _add_left_out(
    scans: Sequence[FoundScan], kept: Sequence[bool], problems: Problems, index: Index
) -> None:
    """Add to `index` the scans and people that ``--skip`` leaves out, with the reasons.

    `kept` tells for each scan whether the index keeps it. Of `problems`, the ones with the name of
    a left-out scan or person are the reasons; all others, of cells, are added to
    ``index.cells_not_read``. Notes count left-out scans, left-out people, and unread cells.
    """
    people = {True: set[str](), False: set[str]()}
    sessions = {True: set[str](), False: set[str]()}
    for scan, is_kept in zip(scans, kept, strict=True):
        sessions[is_kept].add(scan.name)
        people[is_kept].add(scan.person)
    left = sessions[False].union(map("sub-{}".format, people[False]))
    reasons: dict[str, list[str]] = defaultdict(list)
    for problem in problems.found:
        if problem.name in left:
            reasons[problem.name].append(problem.text)
        else:
            index.cells_not_read.append(str(problem))
    for name, texts in reasons.items():
        index.left_out.append((name, "; ".join(texts)))
    if left:
        n_lost = len(people[False] - people[True])
        n_people = len(people[False] | people[True])
        n_scans = len(sessions[False] | sessions[True])
        index.notes.append(
            f"--skip left out {len(sessions[False])} of {n_scans} scans; of {n_people} people, "
            f"{n_lost} are left out altogether."
        )
    if index.cells_not_read:
        index.notes.append(
            f"--skip: {len(index.cells_not_read)} cells or rows of tables cannot be read and are "
            f"missing, their scans are kept; the first: {index.cells_not_read[0]}."
        )
