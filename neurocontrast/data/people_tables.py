"""Join a folder's tables of scans, sessions and people, which count in this order, to the scans."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from neurocontrast.cells import spelling_of
from neurocontrast.data.columns import as_age
from neurocontrast.data.contradictions import MAX_AGE_DIFFERENCE
from neurocontrast.data.layouts.tree import FoundScan, Tree, joined_path
from neurocontrast.data.people import remedy_of
from neurocontrast.data.phenotype import Phenotype, PhenotypeFile, read_phenotype
from neurocontrast.data.problems import Problems, first_names, shown
from neurocontrast.provenance import subject_label


class ScanFacts(NamedTuple):
    """Facts about a scan from tables of people: `cells`, and the table (`sources`) of each cell.

    Made by `PeopleTables.facts_of`. `cells` is column, such as ``age`` → cell, and `sources` is
    column → name of the table. `tables` names all tables with a row for the scan or its person.
    """

    cells: dict[str, str]
    sources: dict[str, str]
    tables: set[str]


class _Row(NamedTuple):
    """Row of a table of people that belongs to one scan: the `table`, and `cells` of the row.

    `is_specific` is True if the row is of the scan or of its session, and False if it is of the
    person in all sessions.
    """

    table: Phenotype
    is_specific: bool
    cells: dict[str, str]

    @property
    def source(self) -> str:
        """Name of the table in messages."""
        return self.table.source

    def column(self, kind: str) -> str:
        """Return column and table of the cell of a `kind`, such as ``site``, for messages."""
        return f"'{self.table.columns[kind]}' of {self.source}"


@dataclass
class PeopleTables:
    """Tables of people in a folder, the most specific first: scans, sessions, phenotypes, people.

    A cell is taken from the first table that has a value. For bad cells and contradictions,
    problems are added to `problems`.

    Parameters
    ----------
    tree : Tree
        Files of the data set.
    problems : Problems
        Receives bad cells and contradictions.
    phenotypes : sequence of Path
        Tables of the user, which come before the tables in ``phenotype/``.
    id_column : str, optional
        Column of identifiers in the tables of the user.
    keep : sequence of str
        Columns to add to the table of scans that `index` writes, besides age, sex, site and
        diagnosis.
    """

    tree: Tree
    problems: Problems
    phenotypes: Sequence[Path] = ()
    id_column: str | None = None
    keep: Sequence[str] = ()
    _read: dict[Path, Phenotype] = field(default_factory=dict)
    _general: dict[str, list[Phenotype]] = field(default_factory=dict)
    _scan_of: dict[tuple[int, str], FoundScan] = field(default_factory=dict)
    """Python's id of a table, and a person's name in the table → first scan joined with the row.
    A later scan of another person with the same name is thereby noticed.
    """
    _differing: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """Taken column and contradicting column of two tables of people → person → the two cells."""

    def facts_of(self, scan: FoundScan) -> ScanFacts:
        """Return a scan's cells from all tables of people; add a problem for each contradiction.

        A cell is taken from the first table that has the column filled, the most specific one. Two
        tables contradict each other if they give two sexes, two subjects, or, as tables of one kind
        (both of sessions, or both of people), ages more than `MAX_AGE_DIFFERENCE` years apart.
        Problems are added to `problems`, and the first cell stays. Two sites or diagnoses of tables
        of people are noted (`notes`).
        """
        rows = list(self._rows_of(scan))
        facts = ScanFacts({}, {}, {row.source for row in rows})
        first_rows: dict[str, _Row] = {}
        self._check_one_person(scan, facts)
        for row in rows:
            for name, cell in row.cells.items():
                first = first_rows.setdefault(name, row)
                facts.cells.setdefault(name, cell)
                facts.sources.setdefault(name, row.source)
                self._compare(name, first, row, scan)
        return facts

    def _compare(self, name: str, first: _Row, row: _Row, scan: FoundScan) -> None:
        """Add a problem or a note if the cells `name` of two rows for a scan contradict each other.

        `first` is the row whose cell is taken.
        """
        earlier = first.cells[name]
        cell = row.cells[name]
        contradicts = name in ("sex", "subject_id") and earlier != cell
        # The age at a session may differ from the participant's; two tables of one kind
        # should agree.
        are_alike = first.is_specific == row.is_specific
        if name == "age" and are_alike:
            contradicts = _ages_differ(earlier, cell)
        if contradicts:
            self.problems.add(
                f"{name} is {shown(earlier)} in {first.source} and {shown(cell)} in {row.source}",
                name=scan.name,
            )
        are_of_people = not first.is_specific and not row.is_specific
        is_noted = name in ("diagnosis", "site") and are_of_people
        if is_noted and spelling_of(earlier) != spelling_of(cell):
            people = self._differing.setdefault((first.column(name), row.column(name)), {})
            people[scan.person] = f"{shown(earlier)} and {shown(cell)}"

    def _check_one_person(self, scan: FoundScan, facts: ScanFacts) -> None:
        """Add problems if the row of a table for `scan` was also taken for another person's scan.

        Two data sets can have people of one name. `facts` names the tables that have a row for the
        scan.
        """
        for table in self.general(scan.dataset):
            if table.source not in facts.tables:
                continue
            label = table.label_of(scan)
            first = self._scan_of.setdefault((id(table), label), scan)
            if first.person == scan.person:
                continue
            for twin, namesake in ((first, scan), (scan, first)):
                self.problems.add(
                    f"{table.source}: its row is of sub-{namesake.person} too; name people with "
                    f"their data set, as {twin.person}",
                    name=twin.name,
                )

    def people(self) -> dict[str, str]:
        """Return person → name of a table, for all people in tables of participants.

        The tables are `phenotypes`, which the user names, and ``participants.tsv``, whose name is
        returned for a person in both. People without a scan are included.
        """
        people: dict[str, str] = {}
        for dataset, tables in self._general.items():
            for table in tables:
                if "phenotype/" in table.source:
                    continue
                prefix = ""
                if dataset and table.source.startswith(f"{dataset}/"):
                    prefix = f"{dataset}_"
                for subject in table.rows:
                    people[f"{prefix}{subject}"] = table.source
        return people

    def notes(self, cells_known: Collection[str]) -> list[str]:
        """Return notes on codes as read, contradictory tables, and unused columns such as of age.

        `cells_known` names the facts, such as ``age``, of which the index (the table of scans to be
        written) has values. A column that looks like such a fact is noted only if its table is one
        of `phenotypes`, the tables that the user names; tables of the data set, as
        ``participants.tsv``, then get no note on it. Contradictory tables are the ones that give
        two sites or two diagnoses of a person, in scans that `facts_of` has read.
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
        notes = [f"{first_names(tables, 1)}: {note}." for note, tables in tables_of.items()]
        for (taken, second), cells in self._differing.items():
            people = [f"sub-{person}: {both}" for person, both in cells.items()]
            notes.append(
                f"Columns {taken} and {second} contradict each other ({first_names(people, 1)}); "
                f"{taken} is taken. Rename the column that is not meant."
            )
        return notes

    def sessions_of(self, scan: FoundScan) -> set[str]:
        """Return the set of sessions that tables of people name for the person of `scan`.

        The set is empty if no table names a session.
        """
        sessions: set[str] = set()
        for table in [*self.general(scan.dataset), *self.of_subject(scan)]:
            sessions.update(table.of(scan))
        return sessions - {""}

    def general(self, dataset: str) -> list[Phenotype]:
        """Return the tables of people of a data set, as read, in the order in which they count.

        First are `phenotypes`, which the user names, then the data set's ``phenotype/*.tsv`` and
        ``participants.tsv``. `dataset` is the data set's folder below ``tree.root``; "" for the
        data set in ``tree.root`` itself.
        """
        if dataset not in self._general:
            tables = []
            for path in self.phenotypes:
                file = PhenotypeFile(path, path.name, id_column=self.id_column)
                tables.append(self._read_once(file))
            for name in self._general_paths(joined_path(dataset, "")):
                tables.append(self._read_once(PhenotypeFile(self.tree.root / name, name)))
            self._general[dataset] = tables
        return self._general[dataset]

    def _general_paths(self, below: str) -> Iterator[str]:
        """Yield the paths of ``phenotype/*.tsv`` and ``participants.tsv`` of the data set `below`.

        `below` is the data set's folder below ``tree.root``, with a "/" at the end; "" for
        ``tree.root`` itself.
        """
        for name in self.tree.folders.get(f"{below}phenotype", ()):
            if name.endswith(".tsv"):
                yield f"{below}phenotype/{name}"
        if self.tree.has(f"{below}participants.tsv"):
            yield f"{below}participants.tsv"

    def _rows_of(self, scan: FoundScan) -> Iterator[_Row]:
        """Yield a `_Row` for each row on `scan` in the folder's tables, the most specific first.

        Rows of the scan itself come first, then rows of its session, and last rows of its person.
        """
        general = self.general(scan.dataset)
        for table in self._of_scans(scan):
            for cells in table.rows.get(subject_label(scan.path), {}).values():
                yield _Row(table, True, cells)
        yield from self._rows_of_session(scan, general)
        for table in general:
            sessions = table.of(scan)
            session = ""
            if len(sessions) == 1 and not scan.session:
                session = next(iter(sessions))
            if session in sessions:
                yield _Row(table, False, sessions[session])

    def _rows_of_session(self, scan: FoundScan, general: Sequence[Phenotype]) -> Iterator[_Row]:
        """Yield the rows for a scan's session, in tables of the subject and in `general` tables.

        For a scan without session, the row of the subject's own table ``sub-X_sessions.tsv`` is
        taken if the table has one session; with several, no row is taken.
        """
        of_subject = list(self.of_subject(scan))
        if scan.session:
            for table in [*of_subject, *general]:
                sessions = table.of(scan)
                if scan.session in sessions:
                    yield _Row(table, True, sessions[scan.session])
            return
        for table in of_subject:
            rows = list(table.of(scan).values())
            if len(rows) == 1:
                yield _Row(table, True, rows[0])

    def _of_scans(self, scan: FoundScan) -> Iterator[Phenotype]:
        """Yield the BIDS tables ``…_scans.tsv`` of a scan's session and of its subject, if present.

        `scan` tells subject, session and data set. Each table is yielded as read, a `Phenotype`.
        """
        person = f"sub-{scan.subject}"
        above = joined_path(scan.dataset, person)
        stems = {}
        if scan.session:
            stems[f"{above}/ses-{scan.session}"] = f"{person}_ses-{scan.session}"
        stems[above] = person
        for folder, stem in stems.items():
            path = f"{folder}/{stem}_scans.tsv"
            if self.tree.has(path):
                yield self._read_once(
                    PhenotypeFile(
                        self.tree.root / path,
                        path,
                        id_column="filename",
                        folder=folder,
                        descriptions=self._descriptions(scan.dataset, "scans.json"),
                    )
                )

    def of_subject(self, scan: FoundScan) -> Iterator[Phenotype]:
        """Yield the BIDS table ``sub-X_sessions.tsv`` of a scan's subject, if there is one.

        `scan` tells subject and data set. The table is yielded as read, a `Phenotype`.
        """
        path = joined_path(scan.dataset, f"sub-{scan.subject}/sub-{scan.subject}_sessions.tsv")
        if self.tree.has(path):
            yield self._read_once(
                PhenotypeFile(
                    self.tree.root / path,
                    path,
                    subject=scan.subject,
                    descriptions=self._descriptions(scan.dataset, "sessions.json"),
                )
            )

    def _descriptions(self, dataset: str, name: str) -> tuple[Path, ...]:
        """Return the paths of the JSON file `name` in ``tree.root`` and in the folder of `dataset`.

        The file of the data set is last, since it counts more. `dataset` is the data set's folder
        below ``tree.root``; "" for ``tree.root`` itself, with one path.
        """
        names = dict.fromkeys([name, joined_path(dataset, name)])
        return tuple(map(self.tree.root.joinpath, names))

    def _read_once(self, file: PhenotypeFile) -> Phenotype:
        """Return the decoded table in `file`, reading each file only once."""
        if file.path not in self._read:
            self._read[file.path] = read_phenotype(file, self.problems, keep=self.keep)
        return self._read[file.path]


def _ages_differ(first: str, second: str) -> bool:
    """Tell whether two cells are ages too far apart to be rounded ages at one scan.

    False if either cell is no age.
    """
    age = as_age(first)
    second_age = as_age(second)
    if not isinstance(age, float) or not isinstance(second_age, float):
        return False
    return abs(age - second_age) > MAX_AGE_DIFFERENCE
