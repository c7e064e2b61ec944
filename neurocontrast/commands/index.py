"""Find the scans of a folder, and write one table of them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from neurocontrast.data.indexing import Index, IndexSettings, SiteFrom, index_scans
from neurocontrast.data.measures.joining import (
    measures_of_table,
    record_of_table,
    rows_of,
    versions_of,
)
from neurocontrast.data.people import check_not_described
from neurocontrast.data.problems import first_names
from neurocontrast.data.roots import root_of
from neurocontrast.display import as_progress
from neurocontrast.documents.index import (
    IndexOptions,
    IndexRecord,
    LeftOut,
    MeasuresDescription,
    MeasuresRecord,
    MeasuresSource,
)
from neurocontrast.exceptions import ConfigError, printable
from neurocontrast.files import (
    check_writable,
    digest_of_file,
    relative_path,
    write_json,
    write_table,
)
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.reading import read_json


def index(
    root: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str] = "participants.tsv",
    *,
    layout: str = "auto",
    phenotypes: Sequence[str | os.PathLike[str]] = (),
    id_column: str | None = None,
    site_from: SiteFrom = "column",
    choose: Sequence[str] = (),
    keep: Sequence[str] = (),
    skip: bool = False,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Index:
    """Find the scans below a folder, or in tables of measures, join people, and write one table.

    Where tables of regional measures are below the folder (FreeSurfer's, FastSurfer's, CAT12's,
    OpenBHB's, or any with such columns), those of the scans are written too, as ``measures.tsv``
    next to the table (``a_measures.tsv`` next to a table ``a.tsv``).

    Parameters
    ----------
    root : path or sequence of path
        Folder of the scans: a BIDS tree, or what fMRIPrep, CAT12, FreeSurfer, Clinica or brainprep
        left. Or a table of regional measures, or several of the same people, such as those of both
        hemispheres and of aseg.
    out : path, default="participants.tsv"
        Table to write, with paths relative to its folder and without columns that are empty;
        the record next to it lists what was found, chosen and left out: ``index.json``, or
        ``a_index.json`` of a table ``a.tsv``.
    layout : str, default="auto"
        A layout of `neurocontrast.data.layouts.LAYOUTS`, such as ``bids``, ``fmriprep`` or
        ``cat12``; ``measures`` for people with regional measures, whose images are not wanted.
        ``auto`` takes the one layout that has images below the folder. If several have, ``bids``
        (raw images) is taken before the others, and another one before ``freesurfer``; several
        others are an error that asks for `layout`. Without images it is ``measures``.
    phenotypes : sequence of path
        Tables of people to join to the scans: ``.tsv``, ``.csv`` or ``.xlsx``.
    id_column : str, optional
        Column of identifiers in the tables of `phenotypes`.
    site_from : {"column", "folder", "scanner"}
        Where the site is read: from a table, the first folder of the path, or the scanner in the
        sidecars.
    choose : sequence of str
        What to take of several images: ``run=first``, ``run=all``, or an entity as ``acq=mprage``;
        an image in MNI space is taken before a native one unless ``space=native`` is chosen. Of
        several stages of preprocessing: ``stage=tissue`` (maps of grey matter) or
        ``stage=stripped``. Of several tables of measures: ``atlas=aparc``, ``atlas=aseg.VINN``,
        ``measure=area`` or ``measure=all``. Of FreeSurfer's longitudinal stream: ``stream=long`` or
        ``stream=base``.
    keep : sequence of str
        Further columns of the tables to take over.
    skip : bool, default=False
        Whether scans with a problem are left out and named in the record, instead of being an
        error. A cell that cannot be read is then missing, and its scan is kept.
    overwrite : bool, default=False
        Whether an existing table is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.

    Returns
    -------
    Index
        The scans (``table``), how they were chosen (``left_out``, ``notes``), the ``path`` of the
        table and, if there is one, that of the table of measures (``measures_path``).
    """
    progress = as_progress(progress)
    files = _Files.of(Path(out).absolute())
    if files.table.suffix.lower() != ".tsv":
        raise ConfigError(f"out: found '{files.table.name}'; the table ends in .tsv.")
    if id_column is not None and not phenotypes:
        raise ConfigError(
            "id_column: is of the tables of phenotypes, and there is none. Give one, or leave it "
            "out."
        )
    files.check(overwrite=overwrite)
    if isinstance(root, str | os.PathLike):
        root = [root]
    roots = list(map(Path.absolute, map(Path.expanduser, map(Path, root))))
    source = root_of(roots)
    tables = roots * (len(roots) > 1)
    people = [Path(path).expanduser() for path in phenotypes]
    settings = IndexSettings(
        layout=layout,
        phenotypes=people,
        id_column=id_column,
        site_from=site_from,
        choose=choose,
        keep=keep,
        skip=skip,
    )
    scans = index_scans(source, settings, tables=tables, progress=progress)
    folder = source
    if not source.is_dir():
        folder = source.parent
    sources = list(map(Path.absolute, people))
    _check_not_read(files.table, [*roots, *sources, *map(folder.joinpath, scans.tables)])
    check_not_described(files.table, scans.table.columns)
    options = IndexOptions(layout=layout, site_from=site_from, choose=list(choose), skip=skip)
    _write(scans, files, folder, sources, options)
    return scans


@dataclass(frozen=True)
class _Files:
    """Paths of the files that a call of `index` writes, all named after the table of scans."""

    table: Path
    measures: Path
    description: Path
    record: Path

    @classmethod
    def of(cls, table: Path) -> Self:
        """Return the paths of `table`, its table of measures, and the JSON files of both tables.

        The table of scans and its record may be ``a.tsv`` and ``a_index.json``; the measures and
        their description are then ``a_measures.tsv`` and ``a_measures.json``. No file is read.
        """
        measures = measures_of_table(table)
        return cls(table, measures, measures.with_suffix(".json"), record_of_table(table))

    def check(self, *, overwrite: bool) -> None:
        """Refuse a folder that cannot be written to, and files that exist already.

        With `overwrite` existing files are accepted.
        """
        check_writable(self.table)
        for path in (self.table, self.measures, self.description, self.record):
            if os.path.lexists(path) and not overwrite:
                raise ConfigError(
                    f"out: {path} exists already; give the table another name or folder, or pass "
                    "overwrite=True."
                )

    def remove_old_measures(self, sources: Sequence[Path]) -> None:
        """Remove measures of an earlier call of `index`, which `pretrain` would take for new ones.

        Removed are only measures that ``index.json`` of that call names. If the file to remove is
        among `sources`, the tables that this call has read, ConfigError is raised and the file
        stays.
        """
        if not (self.measures.is_file() and self.record.is_file()):
            return
        remedy = f"Remove it, and {self.measures.name} if that is of an earlier call."
        record = IndexRecord.of(read_json(self.record, remedy=remedy), self.record, remedy=remedy)
        if record.measures is not None:
            _check_not_read(self.measures, sources)
            self.measures.unlink(missing_ok=True)
            self.description.unlink(missing_ok=True)


def _write(
    scans: Index, files: _Files, root: Path, sources: Sequence[Path], options: IndexOptions
) -> None:
    """Write the table of scans, the table of their measures, and the record ``index.json``.

    Paths of images are relative to the folder of the table. `root` is the folder in which the scans
    were found, and `sources` are the tables of people. Without measures, those of an earlier call
    are removed.
    """
    table = scans.table.loc[:, (scans.table != "").any()].copy()
    base = relative_path(root, files.table.parent)
    for name in table.columns.intersection(["path", "mask_path", "gm", "wm", "csf"]):
        table[name] = [(base / path).as_posix() if path else "" for path in table[name]]
    measured = _measures_of(scans, files.measures)
    record = _record_of(scans, files.table.name, options)
    if measured is None:
        files.remove_old_measures(sources)
    else:
        record = record.with_keys(measures=measured.record)
    record = record.with_keys(environment=describe_environment())
    # Before the tables: a call that is killed then leaves no measures that no record names.
    write_json(files.record, record.content())
    if measured is not None:
        write_table(files.measures, measured.table)
        description = MeasuresDescription(
            parcellation=measured.record.parcellation, software=measured.record.software
        )
        write_json(files.description, description.content())
        scans.measures_path = files.measures
    write_table(files.table, table.replace("", "n/a"))
    scans.path = files.table
    scans.record_path = files.record


def _record_of(index: Index, table: str, options: IndexOptions) -> IndexRecord:
    """Describe, for ``index.json``, how scans were found and chosen, and which were left out.

    `table` is the name of the file of the table of scans.
    """
    columns_known = {}
    for name, n_known in (index.table != "").sum().items():
        if n_known:
            columns_known[str(name)] = int(n_known)
    left_out = []
    for name, reason in index.left_out:
        left_out.append(LeftOut(what=printable(name), reason=printable(reason)))
    return IndexRecord(
        table=table,
        layout=index.layout,
        options=options,
        n_found=index.n_found,
        n_chosen=len(index.table),
        cells_not_read=index.cells_not_read,
        tables=index.tables,
        columns_known=columns_known,
        notes=index.notes,
        left_out=left_out,
    )


def _check_not_read(target: Path, sources: Sequence[Path]) -> None:
    """Refuse to write to `target` if the file is one of `sources`, the tables read as input."""
    if target in sources and target.exists():
        raise ConfigError(
            f"out: {target} is one of the tables that were read, and is not replaced; "
            "name another folder."
        )


@dataclass(frozen=True, eq=False)
class _Measured:
    """Table of the indexed scans' measures, and the record of where the measures come from."""

    table: pd.DataFrame
    record: MeasuresRecord


def _measures_of(index: Index, target: Path) -> _Measured | None:
    """Return the measures of the indexed scans; None where the folder has no tables of measures.

    Nothing is written: `target` is the file that the caller writes, and is refused if it is one of
    the tables that were read. The scans without measures are named in `index.notes`, and people who
    have measures and no scan are added to `index.left_out`.
    """
    measures = index.measures
    if measures is None:
        return None
    _check_not_read(target, measures.sources)
    identity = index.table[["participant_id", "session"]]
    rows = rows_of(measures, identity["participant_id"].tolist(), identity["session"].tolist())
    names = [" ".join(filter(None, scan)) for scan in identity.to_numpy()]
    lacking = [names[row] for row in rows.lacking]
    if lacking:
        index.notes.append(
            f"{target.name}: {len(lacking)} of {len(names)} scans have no row in a table of "
            f"measures: {first_names(lacking)}."
        )
    _leave_out(index, rows.not_asked)
    versions = versions_of(measures, rows)
    if len(set(versions) - {""}) > 1:
        identity = identity.assign(software=versions)
    table = pd.concat([identity, rows.values], axis=1)
    table = table.drop(index=rows.lacking.tolist())
    record = MeasuresRecord(
        file=target.name,
        n_scans=len(table),
        n_columns=len(rows.values.columns),
        scans_without=lacking,
        parcellation=measures.parcellation,
        software=measures.software,
        notes=list(measures.notes),
        sources=list(map(_source_of, measures.sources)),
    )
    return _Measured(table.replace("", np.nan).astype(object).fillna("n/a"), record)


def _leave_out(index: Index, names: Sequence[str]) -> None:
    """Add `names`, people with measures and no scan, to `index.left_out` with that as the reason.

    People whom the index leaves out for another reason keep that reason.
    """
    reason = "a table of measures has a row, and there is no scan"
    left_out = {name.replace(" ses-", " session ") for name, _ in index.left_out}
    for name in names:
        if left_out.isdisjoint((name, name.partition(" session ")[0])):
            index.left_out.append((name, reason))


def _source_of(path: Path) -> MeasuresSource:
    """Return path, size and digest of a table of measures, for ``index.json``."""
    return MeasuresSource(path=str(path), n_bytes=path.stat().st_size, digest=digest_of_file(path))
