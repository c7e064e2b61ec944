"""Joining tables to scans: the more specific table wins, and what contradicts another table is a problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from neurocontrast.data.layouts.scan import FoundScan
from neurocontrast.data.layouts.tree import Tree
from neurocontrast.data.phenotype import Phenotype, ages_differ, read_phenotype
from neurocontrast.data.problems import Problems, shown

__all__ = ["Join", "Known"]


@dataclass(frozen=True)
class Known:
    """What the tables say of a scan.

    Parameters
    ----------
    cells : dict of str to str
        By column; a column that no table has for the scan is absent.
    sources : dict of str to str
        The table that each cell is from.
    in_any_table : bool
        Whether any table has a row for the scan.
    """

    cells: dict[str, str]
    sources: dict[str, str]
    in_any_table: bool


@dataclass
class Join:
    """The tables of a tree, in the order in which they are believed: scans, sessions, phenotypes, participants.

    Parameters
    ----------
    tree : Tree
        The files; tables are found in it.
    problems : Problems
        Told of bad cells and of contradictions.
    phenotypes : sequence of Path
        Tables that the user names; believed before those of the tree's ``phenotype/``.
    id_column : str or None
        Column of identifiers in the user's tables.
    keep : sequence of str
        Further columns to take over.
    """

    tree: Tree
    problems: Problems
    phenotypes: Sequence[Path] = ()
    id_column: str | None = None
    keep: Sequence[str] = ()
    _read: dict[str, Phenotype] = field(default_factory=dict)
    _general: dict[str, list[Phenotype]] = field(default_factory=dict)

    def known_of(self, scan: FoundScan) -> Known:
        """Return what the tables say of a scan; contradictions in age or sex become problems."""
        rows = [(source, specific, cells) for source, specific, cells in self._rows_of(scan) if cells is not None]
        known = Known({}, {}, bool(rows))
        first: dict[str, tuple[str, bool]] = {}
        for source, specific, cells in rows:
            for name, cell in cells.items():
                if name not in known.cells:
                    known.cells[name], known.sources[name] = cell, source
                    first[name] = source, specific
                elif self._contradicts(name, known.cells[name], cell, alike=first[name][1] == specific):
                    self.problems.add(
                        f"{name} is {shown(known.cells[name])} in {first[name][0]} and {shown(cell)} in {source}",
                        name=scan.name,
                    )
        return known

    def people(self) -> dict[str, str]:
        """Return each person of the tables of participants, with the table's name."""
        found: dict[str, str] = {}
        for dataset, tables in self._general.items():
            for table in tables:
                if "phenotype/" not in table.source:
                    prefix = f"{dataset}_" if dataset and table.source.startswith(f"{dataset}/") else ""
                    found |= {f"{prefix}{subject}": table.source for subject, _ in table.rows}
        return found

    def sessions_of(self, scan: FoundScan) -> set[str]:
        """Return the sessions that tables have for the person of a scan."""
        tables = [*self.general(scan.dataset), *self._of_subject(scan)]
        return {session for table in tables for session in table.sessions.get(scan.subject, ())}

    @staticmethod
    def _contradicts(name: str, one: str, other: str, *, alike: bool) -> bool:
        # A session's age differs from the participant's by right; two tables of one kind should agree.
        return ages_differ(one, other) if name == "age" and alike else name == "sex" and one != other

    def _rows_of(self, scan: FoundScan) -> Iterator[tuple[str, bool, dict[str, str] | None]]:
        for table in self._of_scans(scan):
            yield table.source, True, table.rows.get((scan.path, ""))
        for table in [*self._of_subject(scan), *self.general(scan.dataset)]:
            yield table.source, True, table.rows.get((scan.subject, scan.session)) if scan.session else None
        for table in self.general(scan.dataset):
            yield table.source, False, table.rows.get((scan.subject, ""))

    def _of_scans(self, scan: FoundScan) -> Iterator[Phenotype]:
        below = f"{scan.dataset}/" if scan.dataset else ""
        person = f"sub-{scan.subject}"
        places = [(f"{below}{person}", person)]
        if scan.session:
            places.insert(0, (f"{below}{person}/ses-{scan.session}", f"{person}_ses-{scan.session}"))
        for folder, stem in places:
            path = f"{folder}/{stem}_scans.tsv"
            if self.tree.has(path):
                yield self._table(path, id_column="filename", folder=folder)

    def _of_subject(self, scan: FoundScan) -> Iterator[Phenotype]:
        below = f"{scan.dataset}/" if scan.dataset else ""
        path = f"{below}sub-{scan.subject}/sub-{scan.subject}_sessions.tsv"
        if self.tree.has(path):
            yield self._table(path, subject=scan.subject)

    def general(self, dataset: str) -> list[Phenotype]:
        """Return the tables of people: the user's, those of ``phenotype/``, and ``participants.tsv``."""
        if dataset not in self._general:
            below = f"{dataset}/" if dataset else ""
            names = [name for name in self.tree.folders.get(f"{below}phenotype", ()) if name.endswith(".tsv")]
            own = [f"{below}phenotype/{name}" for name in names]
            own += [path for path in (f"{below}participants.tsv",) if self.tree.has(path)]
            self._general[dataset] = [*self._given(), *(self._table(path) for path in own)]
        return self._general[dataset]

    def _given(self) -> Iterator[Phenotype]:
        for path in self.phenotypes:
            if str(path) not in self._read:
                table = read_phenotype(path, self.problems, id_column=self.id_column, keep=self.keep)
                self._read[str(path)] = table
            yield self._read[str(path)]

    def _table(self, path: str, *, id_column: str | None = None, subject: str = "", folder: str = "") -> Phenotype:
        if path not in self._read:
            stem = path.rpartition("_")[2].removesuffix(".tsv")
            general = [self.tree.root / f"{stem}.json"] if subject or folder else []
            table = read_phenotype(
                self.tree.root / path,
                self.problems,
                source=path,
                id_column=id_column,
                subject=subject,
                keep=self.keep,
                descriptions=general,
            )
            if folder:
                table.rows = {(f"{folder}/{name}", ""): cells for (name, _), cells in table.rows.items()}
            self._read[path] = table
        return self._read[path]
