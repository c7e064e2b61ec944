"""Index the scans of a folder: one table that every other stage reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from neurocontrast.data.indexing import Index, SiteFrom, index_scans
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import check_writable, write_json, write_table
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment

__all__ = ["Indexed", "index"]

RECORD_NAME = "index.json"


@dataclass(frozen=True, eq=False)
class Indexed:
    """A table that was written, and the scans in it."""

    path: Path
    index: Index


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
    check_headers: bool = False,
    skip: bool = False,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Indexed:
    """Find the scans below a folder, join what tables say of people, and write one table.

    Parameters
    ----------
    root : path
        Folder of the scans: a BIDS tree, or what fMRIPrep, CAT12, FreeSurfer, Clinica or brainprep left.
    out : path, default="participants.tsv"
        Table to write; ``index.json`` beside it says what was found, chosen and left out.
    layout : str, default="auto"
        ``bids``, ``fmriprep``, ``cat12``, ``freesurfer``, ``caps``, ``openbhb``, ``brainprep`` or ``ixi``;
        ``auto`` is the only one whose images are there.
    phenotypes : sequence of path
        Further tables of people: ``.tsv``, ``.csv`` or ``.xlsx``.
    id_column : str, optional
        Column of identifiers in these tables.
    site_from : {"column", "folder", "scanner"}
        Where the site is read: from a table, the first folder of the path, or the scanner in the sidecars.
    choose : sequence of str
        What to take of several images: ``run=first``, ``run=all``, or an entity as ``acq=mprage``.
    keep : sequence of str
        Further columns of the tables to take over.
    check_headers : bool, default=False
        Whether the header of every image is read.
    skip : bool, default=False
        Whether scans with a problem are left out and named in ``index.json``, instead of being an error.
    overwrite : bool, default=False
        Whether an existing table is replaced.
    progress : Progress
        Receives progress messages.
    """
    target = Path(out).absolute()
    if target.suffix.lower() != ".tsv":
        raise ConfigError(f"out: found '{target.name}'; the table ends in .tsv.")
    check_writable(target)
    if target.exists() and not overwrite:
        raise ConfigError(f"out: {target} exists already; name another file, or pass --overwrite.")
    folder = Path(root).expanduser().absolute()
    found = index_scans(
        folder,
        layout=layout,
        phenotypes=[Path(path).expanduser() for path in phenotypes],
        id_column=id_column,
        site_from=site_from,
        choose=choose,
        keep=keep,
        skip=skip,
        check_image=_problem_of_header if check_headers else None,
        progress=progress,
    )
    table = found.table.copy()
    for name in ("path", "mask_path", "gm", "wm", "csf"):
        table[name] = [_relative(folder / path, target.parent) if path else "" for path in table[name]]
    write_table(target, table.replace("", "n/a"))
    options = {"layout": layout, "site_from": site_from, "choose": list(choose), "skip": skip}
    record = {
        "layout": found.layout,
        "options": options,
        "n_found": found.n_found,
        "n_chosen": len(found.table),
        "tables": found.tables,
        "columns_known": {name: int((found.table[name] != "").sum()) for name in found.table},
        "left_out": [{"what": what, "reason": reason} for what, reason in found.left_out],
        "environment": describe_environment(),
    }
    write_json(target.with_name(RECORD_NAME), record)
    return Indexed(target, found)


def _problem_of_header(path: Path) -> str:
    """Return why a header is not that of a scan, or ""."""
    from neurocontrast.transforms.loading import read_scan_header

    try:
        read_scan_header(path)
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")
    return ""


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
