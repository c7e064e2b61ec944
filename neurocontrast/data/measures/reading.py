"""People with the regional measures of each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.data.measures.tables import MeasuresTable, read_tables, rows_of
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError

__all__ = ["BESIDE", "join_measures", "read_measures"]

BESIDE = "measures.tsv"
"""Table beside that of the people, as `index` writes it."""


def read_measures(
    participants: str | os.PathLike[str],
    measures: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    *,
    atlas: str = "",
    measure: str = "thickness",
    all_measured: bool = True,
) -> Cohort:
    """Read people and their regional measures, joined by participant and session.

    Parameters
    ----------
    participants : path
        Table of people, as for `read_cohort`; it needs no images.
    measures : path or sequence of path, optional
        Tables of measures in any format of `neurocontrast.data.measures`, or folders of them; by default
        ``measures.tsv`` beside `participants`.
    atlas, measure : str, optional
        What to take from folders (`neurocontrast.data.measures.read_tables`).
    all_measured : bool
        Whether people without measures are refused.

    Returns
    -------
    Cohort
        With `measures`, a row for each row of its table.

    Raises
    ------
    DataError
        With everybody who has no measures, and all that is wrong with the tables.
    """
    people = read_cohort(Path(participants), channels=())
    paths = people.source.parent / BESIDE if measures is None else measures
    if measures is None and not Path(str(paths)).is_file():
        raise DataError(f"data.measures: missing, and {people.source.name} has no {BESIDE} beside it. Name the table.")
    return join_measures(people, read_tables(paths, atlas=atlas, measure=measure), all_measured=all_measured)


def join_measures(people: Cohort, table: MeasuresTable, *, all_measured: bool = True) -> Cohort:
    """Return people with the rows of a table of measures that are theirs; all who have none are one `DataError`.

    Without `all_measured` they stay, with no measure.
    """
    participants, sessions = (people.table[name].astype(str).tolist() for name in ("participant_id", "session"))
    rows = rows_of(table, participants, sessions)
    problems, names = Problems(people.source.name), people.names()
    for row in rows.lacking.tolist() if all_measured else []:
        problems.add("no table of measures has a row of this scan", name=names[row])
    problems.raise_if_any()
    joined = replace(table, values=rows.values)
    return replace(people, measures=joined, warnings=(*people.warnings, *table.notes))
