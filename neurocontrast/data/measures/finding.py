"""Find tables of measures in a folder, and read the chosen atlases and measures."""

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pandas as pd

from neurocontrast.data.layouts.homes import Member, choose_homes, home_of
from neurocontrast.data.layouts.longitudinal import (
    choose_stream,
    scan_of_stream,
    stream_of,
    streams_of,
    templates_below,
)
from neurocontrast.data.layouts.tree import Tree, identity_of, links_to_others, read_tree
from neurocontrast.data.listing import read_sheet
from neurocontrast.data.measures.choosing import Choice, choose_atlases, choose_measure
from neurocontrast.data.measures.formats import FORMATS, Sheet, read_sheets
from neurocontrast.data.measures.names import region_of
from neurocontrast.data.problems import first_names
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.reading import problem_of_content

_BY_SUBJECT = "freesurfer-stats"
"""Name of the format of FreeSurfer's statistics, which has a folder for each subject."""
_TEXT = (".tsv", ".csv", ".txt", ".dat", ".table")
_BINARY = (".xlsx", ".xls", ".parquet")
_ENDINGS = (*_TEXT, ".stats", ".xml", ".npy")
_N_HEAD = 65_536
"""Number of bytes at a file's beginning that tell the format of the file."""
_OF_RUNS = re.compile(r".*_(?:scans|sessions|events|channels|electrodes|timeseries|physio)\.tsv")
"""Pattern of BIDS tables without regional measures, which are not opened, since there are many."""
_N_REGIONS = 5
"""Smallest number of columns with names of regional measures in a table of measures."""


def files_of_measures(
    tree: Tree, stream: str = "", notes: list[str] | None = None
) -> dict[tuple[str, str], list[Path]]:
    """Return (format, atlas) → files, for the files in a folder that hold regional measures.

    Links to a file that is listed too are left out. So are results of FreeSurfer in other
    longitudinal streams than `stream`: scans as they were taken (``cross``), copies registered to a
    template (``long``), or templates (``base``); if "", ``cross`` is taken, or ``long`` if there is
    no ``cross``. `notes` gets lines on files left out, and on tables whose content is not on this
    disk.
    """
    if notes is None:
        notes = []
    listed: dict[tuple[str, str], list[Path]] = defaultdict(list)
    absent = []
    for path in _candidates_in(tree):
        key = _format_of(path)
        if key is not None:
            listed[key].append(path)
        elif path.name.lower().endswith(_TEXT) and problem_of_content(path):
            absent.append(path)
    _keep_stream(listed, tree, stream, notes)
    files = {}
    for key, paths in listed.items():
        if paths:
            files[key] = _without_links(paths, tree.root, notes)
    if absent:
        notes.append(
            f"{len(absent)} tables are not looked at, such as "
            f"{absent[0].relative_to(tree.root)}: {problem_of_content(absent[0])}."
        )
    return files


def _candidates_in(tree: Tree) -> Iterator[Path]:
    """Yield the files below the folder of `tree` that may hold measures, judged by their names."""
    for folder, names in sorted(tree.folders.items()):
        for name in names:
            if name.lower().endswith(_ENDINGS) and not _OF_RUNS.fullmatch(name):
                yield tree.root / folder / name


def _format_of(path: Path) -> tuple[str, str] | None:
    """Return (name of the format in `FORMATS`, atlas) of a file, by the file's name and beginning.

    The atlas is "" if unknown. None for a file without regional measures.
    """
    head = _head(path)
    for name, reader in FORMATS.items():
        atlas = reader.atlas_of(path, head)
        if atlas is not None:
            if name == "table" and not _has_regions(head):
                break
            return name, atlas
    return None


def _keep_stream(
    files: dict[tuple[str, str], list[Path]], tree: Tree, stream: str, notes: list[str]
) -> None:
    """Remove from `files` FreeSurfer's statistics of subjects of all longitudinal streams but one.

    Streams are scans as they were taken (``cross``), longitudinal copies (``long``) and templates
    (``base``). `stream` is the one that stays; if "", ``cross`` stays, or ``long`` if there is no
    ``cross``. `files` is (format, atlas) → files. `notes` gets a line on subjects left out.
    """
    subjects = sorted(_subjects_of(files))
    bases = templates_below(tree)
    streams = []
    for folder in subjects:
        is_base = folder.relative_to(tree.root).as_posix() in bases
        streams.append(stream_of(folder.name, is_template=is_base))
    choice = choose_stream(list(map(attrgetter("name"), subjects)), streams, stream)
    taken = set(map(subjects.__getitem__, choice.rows))
    for key, paths in files.items():
        if key[0] == _BY_SUBJECT:
            files[key] = list(filter(lambda path: path.parents[1] in taken, paths))
    if choice.note:
        notes.append(f"{tree.root.name}: {choice.note}")


def _subjects_of(files: Mapping[tuple[str, str], Sequence[Path]]) -> set[Path]:
    """Return the folders of the subjects whose statistics of FreeSurfer are among `files`.

    `files` is (format, atlas) → files.
    """
    folders: set[Path] = set()
    for (name, _), paths in files.items():
        if name == _BY_SUBJECT:
            for path in paths:
                folders.add(path.parents[1])
    return folders


def _without_links(paths: Sequence[Path], root: Path, notes: list[str]) -> list[Path]:
    """Return `paths` without links to other listed files, as the linked files are read anyway.

    `notes` gets a line on links that are left out.
    """
    relative = {path.relative_to(root).as_posix(): path for path in paths}
    left = sorted(links_to_others(root, relative))
    if not left:
        return list(paths)
    notes.append(
        f"{root.name}: {len(left)} links to files that are read anyway are left out, such as "
        f"{left[0]}."
    )
    return sorted(set(paths).difference(map(relative.__getitem__, left)))


def sheets_at(path: Path, choice: Choice, notes: list[str]) -> list[Sheet]:
    """Read the file `path`, or the chosen tables of the folder `path`, as `Sheet` objects.

    `choice` says which atlases, measure and longitudinal stream (``cross``, ``long`` or ``base`` of
    FreeSurfer) are taken; `notes` gets lines on tables left out.
    """
    if not path.is_dir():
        if choice.atlas or choice.measure not in ("thickness", "all"):
            notes.append(
                f"{path.name}: all its measures are taken; 'atlas' and 'measure' choose from "
                "folders."
            )
        return _sheets_of_file(path, choice.stream, notes)
    left_out: list[str] = []
    files = files_of_measures(read_tree(path), choice.stream, left_out)
    if not files:
        reasons = " ".join(left_out)
        raise DataError(
            f"{path}: no table of regional measures is in this folder. {reasons}".rstrip()
        )
    sheets = _sheets_of_atlases(files, choice, notes, path)
    of_stream = [_of_stream(sheet, choice.stream, left_out) for sheet in sheets]
    of_measure = choose_measure(of_stream, choice.measure, notes, path)
    notes += left_out
    return _of_homes(of_measure, path, choice.dataset)


def _sheets_of_atlases(
    files: Mapping[tuple[str, str], Sequence[Path]], choice: Choice, notes: list[str], path: Path
) -> list[Sheet]:
    """Read the tables of the chosen atlases among `files`, a mapping (format, atlas) → paths.

    Files whose names tell no atlas are read to find out. `notes` gets lines on atlases and subjects
    of the folder `path` that are left out.
    """
    unnamed: list[Sheet] = []
    atlases = set()
    for (name, atlas), paths in files.items():
        atlases.add(atlas)
        if not atlas:
            unnamed += read_sheets(FORMATS[name], paths)
    atlases.update(sheet.atlas for sheet in unnamed)
    taken = choose_atlases(atlases - {""}, choice.atlas, notes, path)
    sheets = [sheet for sheet in unnamed if not sheet.atlas or sheet.atlas in taken]
    for (name, atlas), paths in files.items():
        if atlas in taken:
            sheets += read_sheets(FORMATS[name], paths)
    _note_people_left_out(files, taken, notes, path)
    return sheets


def _sheets_of_file(path: Path, stream: str, notes: list[str]) -> list[Sheet]:
    """Read the tables of one file as `Sheet` objects, in the first format that accepts the file."""
    head = _head(path)
    for reader in FORMATS.values():
        if reader.atlas_of(path, head) is not None:
            return [_of_stream(sheet, stream, notes) for sheet in read_sheets(reader, [path])]
    raise DataError(
        f"{path}: no known format of regional measures (FreeSurfer's statistics lie in "
        f"SUBJECT/stats). Known are: {one_of(FORMATS)}."
    )


def _of_stream(sheet: Sheet, stream: str, notes: list[str]) -> Sheet:
    """Return a `Sheet` with a table's rows of one longitudinal stream, named by `stream`.

    Streams are scans as they were taken (``cross``), copies registered to a template (``long``) and
    templates (``base``); a row's stream is known by the subject's name. If `stream` is "",
    ``cross`` is taken, or ``long`` if there is no ``cross``. `notes` gets a line on rows of other
    streams.
    """
    names = [re.split(r"[/\\]", cell.strip().rstrip("/\\"))[-1] for cell in sheet.identifiers]
    streams = streams_of(names)
    if set(streams) <= {"cross"}:
        return sheet
    choice = choose_stream(names, streams, stream)
    if choice.note:
        notes.append(f"{sheet.source.name}: {choice.note}")
    return sheet.take(choice.rows)


def _of_homes(sheets: Sequence[Sheet], root: Path, dataset: str) -> list[Sheet]:
    """Apply the user's rule `dataset` to subjects of one name in several folders below `root`.

    Return the tables with the rows that stay. The rule ``all``: such subjects are different people;
    all rows stay, and each gets the name of the subject's folder in the table's `datasets`, to be
    put in front of the subject's name. ``same``: one person, and all rows stay. The name of a
    folder: only rows of this folder stay. "": a `DataError` if a name is in several folders.

    A table that is one file of many people is unchanged.
    """
    members: list[Member] = []
    whole = []
    positions: list[tuple[int, int]] = []
    for number, sheet in enumerate(sheets):
        if len(sheet.files) != len(sheet.identifiers):
            whole.append(sheet)  # a table of many people tells nothing by its folder
            continue
        kind = (("measure", f"{sheet.side}{sheet.measure}"),)
        for row, file in enumerate(sheet.files):
            subject = identity_of(scan_of_stream(sheet.identifiers[row]))[0]
            home = home_of(file.relative_to(root).as_posix(), subject)
            members.append(Member(subject, home, kind))
            positions.append((number, row))
    try:
        choice = choose_homes(members, dataset)
    except ConfigError as error:
        raise DataError(f"{root}: {error}") from None
    rows: dict[int, list[int]] = defaultdict(list)
    datasets: dict[int, list[str]] = defaultdict(list)
    for member, name in zip(choice.rows, choice.datasets, strict=True):
        number, row = positions[member]
        rows[number].append(row)
        datasets[number].append(name)
    for number, taken in rows.items():
        whole.append(replace(sheets[number].take(taken), datasets=datasets[number]))
    return whole


def _note_people_left_out(
    files: Mapping[tuple[str, str], Sequence[Path]],
    taken: Collection[str],
    notes: list[str],
    path: Path,
) -> None:
    """Add a line to `notes` on subjects of `files` without statistics of a chosen atlas.

    `taken` has the chosen atlases, and `path` is the folder that the line names.
    """
    subjects = _subjects_of(files)
    chosen = dict(filter(lambda item: item[0][1] in taken, files.items()))
    lacking = sorted(folder.name for folder in subjects - _subjects_of(chosen))
    if lacking:
        notes.append(
            f"{path.name}: {len(lacking)} of {len(subjects)} subjects have none of "
            f"{one_of(sorted(taken))} and are left out: {first_names(lacking)}."
        )


def holds_measures(path: Path) -> bool:
    """Tell whether `path` is any folder, or a file that by name or header has regional measures.

    A folder is not opened.
    """
    if path.suffix.lower() in _BINARY and path.is_file():
        return _has_regions("\t".join(read_sheet(path).columns.astype(str)))
    head = _head(path)
    if path.is_dir() or _has_regions(head):
        return True
    formats = {**FORMATS}
    del formats["table"]
    return any(reader.atlas_of(path, head) is not None for reader in formats.values())


def _head(path: Path) -> str:
    """Return the beginning of a text file, up to 65,536 bytes; "" for other paths."""
    if path.suffix.lower() not in _TEXT or not path.is_file():
        return ""
    with open(path, "rb") as stream:
        return stream.read(_N_HEAD).decode("utf-8-sig", errors="replace")


def _has_regions(head: str) -> bool:
    """Tell whether the first line of a table's text `head` names enough regional measures."""
    columns = head.partition("\n")[0].replace(",", "\t").replace(";", "\t").split("\t")
    return names_measures(column.strip(' "\r') for column in columns)


def are_measures(scans: str | os.PathLike[str] | pd.DataFrame) -> bool:
    """Tell whether `scans` is a folder, or a file or DataFrame of regional measures.

    A table of images, or of people without measures, gives False. A folder gives True, whatever
    files it holds.
    """
    if isinstance(scans, pd.DataFrame):
        return names_measures(scans.columns)
    return holds_measures(Path(scans))


def names_measures(columns: Iterable[object]) -> bool:
    """Tell whether at least five columns of a table have names of regional measures."""
    return sum(region_of(str(column)) is not None for column in columns) >= _N_REGIONS
