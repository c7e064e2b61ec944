"""Find the scans of a folder, and write one table of them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.data.indexing import Index, SiteFrom, index_scans
from neurocontrast.data.measures.joining import BESIDE, rows_of
from neurocontrast.data.people import check_not_described
from neurocontrast.exceptions import ConfigError, printable
from neurocontrast.files import (
    check_writable,
    digest_of_file,
    relative_path,
    write_json,
    write_table,
)
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.reading import read_json

INDEX_RECORD = "index.json"


def index(
    root: str | os.PathLike[str],
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
    progress: Progress = SILENT,
) -> Index:
    """Find the scans below a folder, join what tables say of people, and write one table.

    Where tables of regional measures are below the folder (FreeSurfer's, FastSurfer's, CAT12's,
    OpenBHB's, or any with such columns), those of the scans are written too, as ``measures.tsv``
    next to the table.

    Parameters
    ----------
    root : path
        Folder of the scans: a BIDS tree, or what fMRIPrep, CAT12, FreeSurfer, Clinica or brainprep
        left.
    out : path, default="participants.tsv"
        Table to write, with paths relative to its folder and without columns that are empty;
        ``index.json`` next to it lists what was found, chosen and left out.
    layout : str, default="auto"
        ``bids``, ``fmriprep``, ``cat12``, ``freesurfer``, ``caps``, ``openbhb``, ``brainprep`` or
        ``ixi``; ``measures`` for people with regional measures, whose images are not wanted;
        ``auto`` is the only one whose images are there (raw images come before those of
        derivatives, and FreeSurfer's last), or ``measures`` where no images are.
    phenotypes : sequence of path
        Further tables of people: ``.tsv``, ``.csv`` or ``.xlsx``.
    id_column : str, optional
        Column of identifiers in these tables.
    site_from : {"column", "folder", "scanner"}
        Where the site is read: from a table, the first folder of the path, or the scanner in the
        sidecars.
    choose : sequence of str
        What to take of several images: ``run=first``, ``run=all``, or an entity as ``acq=mprage``;
        an image in MNI space is taken before a native one unless ``space=native`` is chosen. Of
        several tables of measures: ``atlas=aparc``, ``measure=area`` or ``measure=all``.
    keep : sequence of str
        Further columns of the tables to take over.
    skip : bool, default=False
        Whether scans with a problem are left out and named in ``index.json``, instead of being an
        error.
    overwrite : bool, default=False
        Whether an existing table is replaced.
    progress : Progress
        Receives progress messages.

    Returns
    -------
    Index
        The scans (``table``), how they were chosen (``left_out``, ``notes``), the ``path`` of the
        table and, if there is one, that of the table of measures (``measures_path``).
    """
    target = Path(out).absolute()
    beside, record_of = target.with_name(BESIDE), target.with_name(INDEX_RECORD)
    if target.suffix.lower() != ".tsv":
        raise ConfigError(f"out: found '{target.name}'; the table ends in .tsv.")
    if id_column is not None and not phenotypes:
        raise ConfigError(
            "id_column: is of the tables of phenotypes, and there is none. Give one, or leave it out."
        )
    check_writable(target)
    for path in (target, beside, beside.with_suffix(".json"), record_of):
        if os.path.lexists(path) and not overwrite:
            raise ConfigError(
                f"out: {path} exists already; write into another folder, or pass overwrite=True."
            )
    folder = Path(root).expanduser().absolute()
    people = [Path(path).expanduser() for path in phenotypes]
    how: dict[str, Any] = {
        "layout": layout,
        "site_from": site_from,
        "choose": list(choose),
        "skip": skip,
    }
    found = index_scans(
        folder, phenotypes=people, id_column=id_column, keep=keep, progress=progress, **how
    )
    given = [path.absolute() for path in people]
    _check_not_read(target, [*given, *(folder / name for name in found.tables)])
    check_not_described(target, found.table.columns)
    table, base = (
        found.table.loc[:, (found.table != "").any()].copy(),
        relative_path(folder, target.parent),
    )
    for name in table.columns.intersection(["path", "mask_path", "gm", "wm", "csf"]):
        table[name] = [(base / path).as_posix() if path else "" for path in table[name]]
    measured, remedy = (
        _measures_of(found, beside),
        f"Remove it, and {beside.name} if that is of an earlier call.",
    )
    may_be_old = measured is None and beside.is_file() and record_of.is_file()
    if may_be_old and "measures" in read_json(record_of, remedy=remedy):
        _check_not_read(beside, given)
        for path in (
            beside,
            beside.with_suffix(".json"),
        ):  # `pretrain` would take them for those of this table
            path.unlink(missing_ok=True)
    measures = {} if measured is None else {"measures": measured[1]}
    # Before the tables: a call that is killed then leaves no measures that no record names.
    write_json(
        record_of, _record_of(found, how) | measures | {"environment": describe_environment()}
    )
    if measured is not None:
        write_table(beside, measured[0])
        write_json(
            beside.with_suffix(".json"),
            {key: measured[1][key] for key in ("parcellation", "software")},
        )
    write_table(target, table.replace("", "n/a"))
    found.path, found.measures_path = target, None if measured is None else beside
    return found


def _record_of(found: Index, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "layout": found.layout,
        "options": options,
        "n_found": found.n_found,
        "n_chosen": len(found.table),
        "tables": found.tables,
        "columns_known": {name: int(n) for name, n in (found.table != "").sum().items() if n},
        "notes": found.notes,
        "left_out": [
            {"what": printable(what), "reason": printable(reason)}
            for what, reason in found.left_out
        ],
    }


def _check_not_read(target: Path, sources: Sequence[Path]) -> None:
    if target in sources and target.exists():
        raise ConfigError(
            f"out: {target} is one of the tables that were read, and is not replaced; name another folder."
        )


def _measures_of(found: Index, target: Path) -> tuple[pd.DataFrame, dict[str, Any]] | None:
    """Return the measures of the scans as a table, and their description for the record."""
    measures = found.measures
    if measures is None:
        return None
    _check_not_read(target, measures.sources)
    rows = rows_of(
        measures, found.table["participant_id"].tolist(), found.table["session"].tolist()
    )
    names = [
        " ".join(filter(None, scan))
        for scan in found.table[["participant_id", "session"]].to_numpy()
    ]
    lacking = [names[row] for row in rows.lacking]
    found.left_out += [(name, "no table of measures has a row of the scan") for name in lacking]
    found.left_out += [
        (name, "a table of measures has a row, and there is no scan") for name in rows.not_asked
    ]
    table = pd.concat([found.table[["participant_id", "session"]], rows.values], axis=1)
    table = table.drop(index=rows.lacking.tolist())
    about = {
        **{"file": target.name, "n_scans": len(table), "n_columns": len(rows.values.columns)},
        **{
            "parcellation": measures.parcellation,
            "software": measures.software,
            "notes": list(measures.notes),
        },
        "sources": [
            {"path": str(path), "n_bytes": path.stat().st_size, "digest": digest_of_file(path)}
            for path in measures.sources
        ],
    }
    return table.replace("", np.nan).fillna("n/a"), about
