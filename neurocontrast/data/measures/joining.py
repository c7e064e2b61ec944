"""Join people with the regional measures of the same participant and session."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.cohort import Cohort, Inspection, inspect_cohort, read_cohort
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.measures.choosing import Choice
from neurocontrast.data.measures.merging import scan_name
from neurocontrast.data.measures.tables import MeasuresTable, Tables, read_chosen
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.provenance import subject_label, unify_subjects

_PARTICIPANTS = "participants.tsv"
_FACTS = ("age", "sex", "site")
_BESIDE_PARTICIPANTS = "measures.tsv"
_NO_SUBJECT = (
    "the measures have a column subject_id, and nothing in it for this scan; give it there, or "
    "subject_id of everybody in the table of people"
)


def measures_of_table(participants: Path) -> Path:
    """Return the path of the table of measures that `index` writes for a table of people.

    Next to ``participants.tsv`` the table is ``measures.tsv``, and next to ``a.tsv`` it is
    ``a_measures.tsv``.
    """
    if participants.stem == "participants":
        return participants.with_name(_BESIDE_PARTICIPANTS)
    return participants.with_name(f"{participants.stem}_{_BESIDE_PARTICIPANTS}")


def record_of_table(participants: Path) -> Path:
    """Return the path of the JSON file that says how `index` made a table of people.

    Next to ``participants.tsv`` the file is ``index.json``, and next to ``a.tsv`` it is
    ``a_index.json``.
    """
    if participants.stem == "participants":
        return participants.with_name("index.json")
    return participants.with_name(f"{participants.stem}_index.json")


def find_measures(participants: Path) -> Path:
    """Return the path of the table of measures for a table of people, if the user names none.

    `participants` is the path of the table of people. `index` writes the measures of ``a.tsv`` to
    ``a_measures.tsv`` (`measures_of_table`). This path is returned if the file exists, or if the
    JSON file that `index` writes for `participants` exists; otherwise ``measures.tsv`` in the same
    folder. The file at the returned path may be absent.
    """
    measures = measures_of_table(participants)
    if measures.is_file() or record_of_table(participants).is_file():
        return measures
    return participants.with_name(_BESIDE_PARTICIPANTS)


def read_measures(
    participants: AnyTable,
    measures: Tables | None = None,
    *,
    atlas: str = "",
    measure: str = "thickness",
    all_measured: bool = True,
    skip: bool = False,
) -> Cohort:
    """Read people and regional measures, and join rows of the same participant and session.

    Parameters
    ----------
    participants : path or DataFrame
        Table of people, as for `read_cohort`; it needs no images.
    measures : path, DataFrame or sequence of them, optional
        Tables of measures in any format of `neurocontrast.data.measures`, or folders of them; by
        default the table that `index` wrote to the folder of `participants` (``measures.tsv``).
    atlas, measure : str, optional
        Choice from folders, as in `neurocontrast.data.measures.read_tables`.
    all_measured : bool
        Whether people without measures are refused; if not, such people stay, with missing
        measures.
    skip : bool
        Whether to go on if files or cells of some scans cannot be read: the scans then have no
        measures, which `all_measured` refuses, and a warning names the scans. By default
        unreadable files and cells are refused.

    Returns
    -------
    Cohort
        People with `measures`, one row of measures for each row of the table of people.

    Raises
    ------
    DataError
        If the tables cannot be read; or, with `all_measured`, with the names of all people who
        have no measures.
    """
    people = read_cohort(participants, channels=())
    return add_measures(
        people, measures, atlas=atlas, measure=measure, all_measured=all_measured, skip=skip
    )


def measures_beside(participants: Path) -> Path:
    """Return the path of the table of measures for a table of people; refuse an absent file.

    It is ``measures.tsv`` or ``NAME_measures.tsv`` in the folder of `participants`; see
    `find_measures`.
    """
    measures = find_measures(participants)
    if not measures.is_file():
        raise DataError(
            f"data.measures: missing, and there is no {measures.name} in the folder of "
            f"{participants.name}. Name the table."
        )
    return measures


def add_measures(
    people: Cohort,
    measures: Tables | None,
    *,
    atlas: str,
    measure: str,
    all_measured: bool = True,
    skip: bool = False,
) -> Cohort:
    """Read tables of regional measures, and return the `Cohort` of people with measures joined.

    The joined measures are the attribute `measures` of the returned `Cohort`. Arguments are as in
    `read_measures`.
    """
    if measures is None:
        measures = measures_beside(people.source)
    sites = sites_of(people.table)
    table = read_chosen(measures, Choice(atlas, measure), sites=sites, skip=skip)
    return join_measures(people, table, all_measured=all_measured)


def sites_of(table: pd.DataFrame) -> dict[str, str]:
    """Return participant's name without ``sub-`` → site, from a table of people.

    People without a site are left out.
    """
    if "site" not in table:
        return {}
    sites = table.loc[table["site"].notna(), ["participant_id", "site"]].astype(str)
    participants = sites["participant_id"].map(subject_label)
    return dict(zip(participants, sites["site"], strict=True))


def join_measures(people: Cohort, table: MeasuresTable, *, all_measured: bool = True) -> Cohort:
    """Join people with rows of a table of regional measures, and return the new `Cohort`.

    The attribute `measures` of the new `Cohort` is a `MeasuresTable` with a row of values for each
    row of people. One `DataError` names all people without a row in `table`. Without `all_measured`
    such people stay, with missing measures.
    """
    participants = people.table["participant_id"].astype(str).tolist()
    sessions = people.table["session"].astype(str).tolist()
    rows = rows_of(table, participants, sessions)
    problems = Problems(people.source.name)
    if all_measured:
        names = people.names()
        for row in rows.lacking.tolist():
            problems.add("no table of measures has a row of this scan", name=names[row])
    problems.hint("--skip (data.skip_unreadable=true) leaves such people out.")
    problems.raise_if_any()
    joined = replace(table, values=rows.values)
    subjects = _subjects_of(people, table, rows.positions)
    warnings = (*people.warnings, *table.notes, *notes_on_unread(table))
    with_subjects = people.table.assign(subject_id=subjects)
    return replace(people, table=with_subjects, measures=joined, warnings=warnings)


def people_of_table(table: MeasuresTable, path: Path) -> Cohort:
    """Return everybody in a table of regional measures, with age, sex and site if stated.

    The `Cohort` has a row for each scan of `table`, in the order of the files. Scans whose measures
    cannot be read (``table.unread``) come last, with a row each.

    `path` is the table, or its folder. Age, sex and site are columns of the table of measures, or
    of ``participants.tsv`` in the folder. A cell of these columns that cannot be read is missing,
    and a warning says so.
    """
    keys = [*filter(table.values.index.__contains__, table.listed), *table.unread]
    people = pd.DataFrame(keys, columns=["participant_id", "session"])
    subjects = unify_subjects(map(table.subjects.get, keys, people["participant_id"]))
    facts, warnings = _facts_of(table, keys)
    if (path / _PARTICIPANTS).is_file():
        of_folder, of_table = _facts_of_folder(path / _PARTICIPANTS, people)
        facts = facts.combine_first(of_folder)
        warnings += of_table
    people.insert(1, "subject_id", subjects)
    for column in filter(facts.__contains__, _FACTS):
        if facts[column].notna().any():
            people[column] = facts[column]
    return Cohort(people, path, path.parent, tuple(warnings), channels=())


def _facts_of(
    table: MeasuresTable, keys: Sequence[tuple[str, str]]
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table of age, sex and site of scans from tables of measures, and texts of warnings.

    The table has one row for each of `keys`, (participant, session) of the scans. Cells that cannot
    be read are missing, and a warning says so.
    """
    written = pd.DataFrame([dict(table.facts.get(key, {})) for key in keys])
    if not len(written.columns):
        return written, []
    written = written.fillna("")
    written.insert(0, "participant_id", list(map("row-{}".format, range(len(keys)))))
    inspection = inspect_cohort(written, channels=(), check_images=False)
    return inspection.cohort.table, _notes_on_facts(inspection, keys)


def _facts_of_folder(path: Path, people: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return a table of age, sex and site from ``participants.tsv``, and texts of warnings.

    `path` is the file, and `people` has participant and session of each scan. The table has one row
    for each row of `people`; cells are missing for a scan that no row of the file, or more than
    one, fits. A row of another session does not fit: the person had another age then.
    """
    inspection = inspect_cohort(path, channels=(), check_images=False)
    listed = inspection.cohort.table
    keys = _keys_of(listed)
    rows_by_key: dict[tuple[str, str], list[int]] = defaultdict(list)
    rows_of_person: dict[str, list[int]] = defaultdict(list)
    for row, (person, session) in enumerate(keys):
        rows_by_key[person, session].append(row)
        rows_of_person[person].append(row)
    rows = []
    for person, session in _keys_of(people):
        candidates = rows_by_key.get((person, session)) or rows_by_key.get((person, ""), [])
        if not session:
            candidates = rows_of_person.get(person, [])
        # Two rows that fit a scan do not say which of them is of the scan.
        row = -1
        if len(candidates) == 1:
            row = candidates[0]
        rows.append(row)
    facts = listed[list(filter(listed.__contains__, _FACTS))].reindex(rows).reset_index(drop=True)
    return facts, _notes_on_facts(inspection, keys)


def _keys_of(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Return participant and session of each row, without BIDS' prefixes ``sub-`` and ``ses-``."""
    sessions = table["session"].astype(str).str.removeprefix("ses-")
    return list(zip(table["participant_id"].map(subject_label), sessions, strict=True))


def _notes_on_facts(inspection: Inspection, keys: Sequence[tuple[str, str]]) -> list[str]:
    """Return a list of one warning, on unreadable cells of age, sex or site; empty without any.

    `inspection` has the problems of cells, and `keys` participant and session of each row.
    """
    problems = [problem for problem in inspection.problems.found if problem.column in _FACTS]
    if not problems:
        return []
    first = problems[0]
    name = first.name
    if name.startswith("row-"):
        name = scan_name(*keys[int(name.removeprefix("row-"))])
    source = inspection.cohort.source.name
    if source == "DataFrame":
        source = "beside the measures"
    return [
        f"{source}: {len(problems)} cells of {one_of(_FACTS)} cannot be read and are missing; the "
        f"first: {name}, column '{first.column}': {first.text}."
    ]


def notes_on_unread(table: MeasuresTable) -> list[str]:
    """Return a list of one warning, which names all scans in ``table.unread`` with the reasons.

    The list is empty if no scan has unreadable measures.
    """
    if not table.unread:
        return []
    lines = [f"the measures of {len(table.unread)} scans cannot be read and are missing:"]
    for key, reasons in table.unread.items():
        lines.append(f"  {scan_name(*key)}: {'; '.join(reasons)}")
    if len(lines) > N_SHOWN:
        lines[N_SHOWN:] = [f"  … and {len(lines) - N_SHOWN} more"]
    return ["\n".join(lines)]


def with_damage(cohort: Cohort, reasons: Mapping[int, str]) -> dict[int, str]:
    """Return a copy of `reasons` (row → why a scan lacks measures) that names damage of files.

    If the files of a scan could not be read, the damage, in ``cohort.measures.unread``, is the
    scan's reason in the copy; other reasons are unchanged. Rows are positions of scans in `cohort`.
    """
    assert cohort.measures is not None
    damage = {}
    for (participant, session), texts in cohort.measures.unread.items():
        damage[subject_label(participant), session] = "; ".join(texts)
    keys = cohort.table[["participant_id", "session"]].astype(str).to_numpy().tolist()
    better = {}
    for row, reason in reasons.items():
        participant, session = keys[row]
        label = subject_label(participant)
        better[row] = damage.get((label, session.removeprefix("ses-")), reason)
    return better


def _subjects_of(
    people: Cohort, table: MeasuresTable, positions: npt.NDArray[np.int64]
) -> list[str]:
    """Return the subject (person) of each row of `people`, stated there or else in the measures.

    The table of people states subjects if any one differs from the participant. `positions` are the
    rows of the scans in `table`, the measures, -1 for none. If both tables state different subjects
    of a scan, or only `table` states subjects and has none for a scan, a `DataError` is raised.
    """
    subjects = people.table["subject_id"].astype(str).tolist()
    if not table.subjects:
        return subjects
    labels = list(map(subject_label, subjects))
    is_own = labels != list(map(subject_label, people.table["participant_id"].astype(str)))
    problems = Problems(people.source.name)
    names = people.names()
    joined = list(subjects)
    for row in np.flatnonzero(positions >= 0).tolist():
        stated = table.subjects.get(table.values.index[positions[row]], "")
        if stated:
            joined[row] = stated
        elif not is_own:
            problems.add(_NO_SUBJECT, column="subject_id", name=names[row])
        if is_own and stated and subject_label(stated) != labels[row]:
            conflict = f"found {shown(subjects[row])}, and {shown(stated)} in the measures"
            problems.add(conflict, column="subject_id", name=names[row])
    problems.raise_if_any()
    if is_own:
        return subjects
    return unify_subjects(joined)


class Rows(NamedTuple):
    """Result of `rows_of`: measures in the order of scans, and scans or rows without a match.

    Parameters
    ----------
    values : DataFrame
        Measures, one row a scan; NaN for scans without a row.
    lacking : ndarray
        Positions of the scans without a row.
    not_asked : list of str
        Names of the rows without a scan.
    positions : ndarray
        Position of each scan's row in the table of measures; -1 for none.
    """

    values: pd.DataFrame
    lacking: npt.NDArray[np.int64]
    not_asked: list[str]
    positions: npt.NDArray[np.int64]


def versions_of(table: MeasuresTable, rows: Rows) -> list[str]:
    """Return one text, such as ``FreeSurfer 7.1.0``, for each scan: the program and version.

    The text is "" if the scan has no row in `table`, or `table` states neither. `rows`, the result
    of `rows_of`, has the position in `table` for each scan.
    """
    versions = []
    for position in rows.positions.tolist():
        key = ("", "")
        if position >= 0:
            key = table.values.index[position]
        versions.append(table.versions.get(key, ""))
    return versions


def rows_of(table: MeasuresTable, participants: Sequence[str], sessions: Sequence[str]) -> Rows:
    """Look up the measures of scans in a table by participant and session, and return `Rows`.

    The measures are in the order of the scans, with NaN for a scan that has no row. A ``sub-``
    before a name does not matter. If a participant has a single scan and a single row, and the scan
    or the row is without session, the row is taken for the scan.

    Parameters
    ----------
    table : MeasuresTable
        Measures to look up.
    participants, sessions : sequence of str
        Participant and session ("" for none) of each scan.
    """
    people = list(map(subject_label, participants))
    labels = [session.removeprefix("ses-") for session in sessions]
    scans = list(zip(people, labels, strict=True))
    keys = [(subject_label(person), session) for person, session in table.values.index]
    row_of = {key: row for row, key in enumerate(keys)}
    n_scans = Counter(people)
    single = _single_rows(keys)
    positions = np.full(len(scans), -1, dtype=np.int64)
    for number, (person, session) in enumerate(scans):
        if (person, session) in row_of:
            positions[number] = row_of[person, session]
        elif person in single and n_scans[person] == 1:
            row = single[person]
            if "" in (session, keys[row][1]):
                positions[number] = row
    values = table.values.take(np.maximum(positions, 0)).reset_index(drop=True)
    values[positions < 0] = np.nan
    not_asked = np.setdiff1d(np.arange(len(keys)), positions)
    names = [scan_name(*key) for key in table.values.index[not_asked]]
    return Rows(values, np.flatnonzero(positions < 0), names, positions)


def _single_rows(keys: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return participant → position in `keys`, for participants with one position.

    `keys` are (participant, session) of the rows of a table of measures.
    """
    n_rows = Counter(person for person, _ in keys)
    return {person: row for row, (person, _) in enumerate(keys) if n_rows[person] == 1}
