"""Tables of measures among the files of a folder, and the choice between atlases and measures."""

import os
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from neurocontrast.data.layouts.homes import Member, choose_homes, home_of
from neurocontrast.data.layouts.longitudinal import (
    choose_stream,
    scan_of_stream,
    streams_of,
    templates_below,
)
from neurocontrast.data.layouts.tree import Tree, identity_of, read_tree
from neurocontrast.data.listing import read_sheet
from neurocontrast.data.measures.formats import FORMATS, Sheet
from neurocontrast.data.measures.names import region_of
from neurocontrast.data.problems import Problems, first_names
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.reading import check_content, problem_of_content

_PARCELLATIONS = (
    "aparc.a2009s",
    "aparc",
    "aparc.DKTatlas",
    "aparc.DKTatlas.mapped",
    "neuromorphometrics",
)
_SEGMENTATIONS = (
    *("aseg", "aseg.presurf", "aseg.withCC", "aseg.VINN", "aseg+DKT", "aseg+DKT.VINN"),
    *("wmparc", "wmparc.DKTatlas.mapped"),
)
"""Atlases in order of preference, those corrected by surfaces first; one of each list is taken."""
_OF_WHITE_MATTER = "wmparc"
_BY_SUBJECT = "freesurfer-stats"
_TEXT = (".tsv", ".csv", ".txt", ".dat", ".table")
_BINARY = (".xlsx", ".xls", ".parquet")
_ENDINGS = (*_TEXT, ".stats", ".xml", ".npy")
_N_HEAD = 65_536
_OF_RUNS = re.compile(
    r".*_(?:scans|sessions|events|channels|electrodes|timeseries|physio)\.tsv"
)  # BIDS has many
_N_REGIONS = 5  # a table in a folder is one of measures if this many columns are


def files_of_measures(
    tree: Tree, stream: str = "", notes: list[str] | None = None
) -> dict[tuple[str, str], list[Path]]:
    """Return the files of a folder that hold measures, by format and atlas.

    A link to another such file is left out, and so are streams of FreeSurfer other than `stream`;
    `notes` gets a line about each. Files whose content is elsewhere are refused together.
    """
    notes = [] if notes is None else notes
    found: dict[tuple[str, str], list[Path]] = defaultdict(list)
    absent = []
    for folder, names in sorted(tree.folders.items()):
        for name in names:
            if not name.lower().endswith(_ENDINGS) or _OF_RUNS.fullmatch(name):
                continue
            path = tree.root / folder / name
            head = _head(path)
            for each, reader in FORMATS.items():
                atlas = reader.atlas_of(path, head)
                if atlas is not None and (each != "table" or _has_regions(head)):
                    found[each, atlas].append(path)
                elif atlas is not None and problem_of_content(path):
                    absent.append(path)
                if atlas is not None:
                    break
    _keep_stream(found, tree, stream, notes)
    for key, paths in found.items():
        found[key] = _without_links(paths, tree.root, notes)
    if absent:
        notes.append(
            f"{len(absent)} tables are not looked at, such as "
            f"{absent[0].relative_to(tree.root)}: {problem_of_content(absent[0])}."
        )
    return {key: paths for key, paths in found.items() if paths}


def _keep_stream(
    found: dict[tuple[str, str], list[Path]], tree: Tree, stream: str, notes: list[str]
) -> None:
    """Take the statistics of one stream of FreeSurfer out of `found`, and note the others."""
    folders = {path.parents[1] for (name, _), paths in found.items() for path in paths
               if name == _BY_SUBJECT}  # fmt: skip
    subjects = sorted(folders)
    names = [folder.name for folder in subjects]
    bases = {tree.root / folder for folder in templates_below(tree)}
    templates = {folder.name for folder in subjects if folder in bases}
    choice = choose_stream(names, streams_of(names, templates), stream)
    taken = {subjects[row] for row in choice.rows}
    for (name, atlas), paths in found.items():
        if name == _BY_SUBJECT:
            found[name, atlas] = [path for path in paths if path.parents[1] in taken]
    if choice.note:
        notes.append(f"{tree.root.name}: {choice.note}")


def _without_links(paths: Sequence[Path], root: Path, notes: list[str]) -> list[Path]:
    """Return files without links to another of them: of a link and its target, the target is read."""
    real_root = Path(os.path.realpath(root))
    targets = [Path(os.path.realpath(path)) for path in paths]
    is_link = [
        target != real_root / path.relative_to(root)
        for path, target in zip(paths, targets, strict=True)
    ]
    files = {target for target, linked in zip(targets, is_link, strict=True) if not linked}
    left = [
        path
        for path, target, linked in zip(paths, targets, is_link, strict=True)
        if linked and target in files
    ]
    if left:
        notes.append(
            f"{root.name}: {len(left)} links to files that are read anyway are left out, such as "
            f"{left[0].relative_to(root)}."
        )
    return [path for path in paths if path not in set(left)]


def sheets_at(
    path: Path,
    atlas: str,
    measure: str,
    notes: list[str],
    *,
    stream: str = "",
    dataset: str = "",
) -> list[Sheet]:
    """Return the sheets of a file, or of the chosen files of a folder; `notes` gets a line about the others."""
    if not path.is_dir():
        if atlas or measure not in ("thickness", "all"):
            notes.append(
                f"{path.name}: all its measures are taken; 'atlas' and 'measure' choose from folders."
            )
        head = _head(path)
        for reader in FORMATS.values():
            if reader.atlas_of(path, head) is not None:
                check_content(path)
                return [_of_stream(sheet, stream, notes) for sheet in reader.sheets([path])]
        raise DataError(
            f"{path}: no known format of regional measures (FreeSurfer's statistics lie in SUBJECT/stats). Known are: "
            f"{one_of(FORMATS)}."
        )
    left_out: list[str] = []
    found = files_of_measures(read_tree(path), stream, left_out)
    if not found:
        reasons = " ".join(left_out)
        raise DataError(
            f"{path}: no table of regional measures is in this folder. {reasons}".rstrip()
        )
    sheets = [
        sheet
        for (name, named), files in found.items()
        if not named
        for sheet in _sheets_of(name, files, path)
    ]
    there = {named for _, named in found} | {sheet.atlas for sheet in sheets}
    taken = _chosen(there - {""}, atlas, notes, path)
    sheets = [sheet for sheet in sheets if not sheet.atlas or sheet.atlas in taken]
    sheets += [
        sheet
        for (name, named), files in found.items()
        if named in taken
        for sheet in _sheets_of(name, files, path)
    ]
    _note_people_left_out(found, taken, notes, path)
    sheets = [_of_stream(sheet, stream, left_out) for sheet in sheets]
    sheets = _of_homes(_of_measure(sheets, measure, notes, path), path, dataset)
    notes += left_out
    return sheets


def _sheets_of(name: str, files: Sequence[Path], root: Path) -> list[Sheet]:
    """Read files of one format, unless the content of some is elsewhere: then all of them are named."""
    problems = Problems(str(root))
    for file in files:
        if problem := problem_of_content(file):
            problems.add(problem, name=str(file.relative_to(root)))
    problems.raise_if_any()
    return FORMATS[name].sheets(files)


def _of_stream(sheet: Sheet, stream: str, notes: list[str]) -> Sheet:
    """Return the rows of one stream of FreeSurfer, where a table has several; `notes` names the others."""
    names = [re.split(r"[/\\]", cell.strip().rstrip("/\\"))[-1] for cell in sheet.identifiers]
    streams = streams_of(names)
    if set(streams) <= {"cross"}:
        return sheet
    choice = choose_stream(names, streams, stream)
    if choice.note:
        notes.append(f"{sheet.source.name}: {choice.note}")
    return sheet.take(choice.rows)


def _of_homes(sheets: Sequence[Sheet], root: Path, dataset: str) -> list[Sheet]:
    """Return sheets whose rows are named after their folders where that is asked for; see `choose_homes`."""
    members: list[Member] = []
    places: list[tuple[int, int]] = []
    for number, sheet in enumerate(sheets):
        if len(sheet.files) != len(sheet.identifiers):
            continue  # a table of many people tells nothing by its folder
        for row, file in enumerate(sheet.files):
            subject = identity_of(scan_of_stream(sheet.identifiers[row]))[0]
            home = home_of(file.relative_to(root).as_posix(), subject)
            members.append(Member(subject, home, (("measure", f"{sheet.side}{sheet.measure}"),)))
            places.append((number, row))
    try:
        choice = choose_homes(members, dataset)
    except ConfigError as error:
        raise DataError(f"{root}: {error}") from None
    rows: dict[int, list[int]] = defaultdict(list)
    names: dict[int, list[str]] = defaultdict(list)
    for chosen, name in zip(choice.rows, choice.datasets, strict=True):
        number, row = places[chosen]
        rows[number].append(row)
        names[number].append(name)
    with_homes = {number for number, _ in places}
    named = []
    for number, sheet in enumerate(sheets):
        if number not in with_homes:
            named.append(sheet)
        elif rows[number]:
            named.append(replace(sheet.take(rows[number]), datasets=names[number]))
    return named


def _note_people_left_out(
    found: Mapping[tuple[str, str], Sequence[Path]],
    taken: Collection[str],
    notes: list[str],
    path: Path,
) -> None:
    """Note the subjects that have statistics, and none of a segmentation or parcellation that is taken."""
    complete: set[Path] = set()
    subjects: set[Path] = set()
    for (name, atlas), files in found.items():
        if name == _BY_SUBJECT:
            folders = {file.parents[1] for file in files}
            subjects |= folders
            if atlas in taken:
                complete |= folders
    lacking = sorted(folder.name for folder in subjects - complete)
    if lacking:
        notes.append(
            f"{path.name}: {len(lacking)} of {len(subjects)} subjects have none of "
            f"{one_of(sorted(taken))} and are left out: {first_names(lacking)}."
        )


def holds_measures(path: Path) -> bool:
    """Return whether a path is a folder, or a table that holds measures."""
    if path.suffix.lower() in _BINARY and path.is_file():
        return _has_regions("\t".join(read_sheet(path).columns.astype(str)))
    head = _head(path)
    others = [reader for name, reader in FORMATS.items() if name != "table"]
    return (
        path.is_dir()
        or _has_regions(head)
        or any(each.atlas_of(path, head) is not None for each in others)
    )


def _head(path: Path) -> str:
    if path.suffix.lower() not in _TEXT or not path.is_file():
        return ""
    with open(path, "rb") as stream:
        return stream.read(_N_HEAD).decode("utf-8-sig", errors="replace")


def _has_regions(head: str) -> bool:
    columns = head.partition("\n")[0].replace(",", "\t").replace(";", "\t").split("\t")
    return sum(region_of(column.strip(' "\r')) is not None for column in columns) >= _N_REGIONS


def _chosen(there: set[str], atlas: str, notes: list[str], path: Path) -> set[str]:
    """Return one parcellation and one segmentation of those that are there; `atlas` may name either, or both."""
    segmentations = [name for name in _SEGMENTATIONS if name in there]
    others = [name for name in _PARCELLATIONS if name in there]
    others += sorted(there.difference(_SEGMENTATIONS, others))
    names = [name.strip() for name in atlas.split(",") if name.strip()]
    for name in names:
        if name not in there:
            present = [*others, *segmentations]
            raise DataError(
                f"{path}: no atlas '{name}'.{suggestion(name, present)} There are: {one_of(present)}."
            )
    taken: set[str] = set()
    for group in (segmentations, others):
        asked = [name for name in names if name in group]
        if len(asked) > 1:
            raise DataError(f"{path}: atlas names {one_of(asked)}; one of them can be taken.")
        taken.update(asked or group[:1])
    left = [name for name in others if name not in taken]
    chosen = [name for name in others if name in taken]
    if left:
        notes.append(
            f"{path.name}: of the atlases that are there, {one_of(chosen)} is taken; not {one_of(left)}."
        )
    _note_segmentations(segmentations, taken, notes, path)
    return taken


def _note_segmentations(
    segmentations: Sequence[str], taken: Collection[str], notes: list[str], path: Path
) -> None:
    """Note the files of segmented structures that are not read; ``wmparc`` is of other structures."""
    left = [
        name
        for name in segmentations
        if name not in taken and not name.startswith(_OF_WHITE_MATTER)
    ]
    chosen = [name for name in segmentations if name in taken]
    if left:
        notes.append(
            f"{path.name}: of the segmentations that are there, {one_of(chosen)} is taken; not "
            f"{one_of(left)} (atlas={left[0]} takes that instead)."
        )


def _of_measure(sheets: Sequence[Sheet], measure: str, notes: list[str], path: Path) -> list[Sheet]:
    """Return the sheets of a measure of the cortex, with those of segmented structures and of plain tables."""
    measures = sorted({sheet.measure for sheet in sheets if _is_cortical(sheet)})
    if measure == "all" or not measures:
        return list(sheets)
    if measure not in measures:
        hint = suggestion(measure, measures)
        raise DataError(
            f"{path}: no measure '{measure}' of the cortex.{hint} There are: {one_of(measures)}, 'all'."
        )
    left = [name for name in measures if name != measure]
    if left:
        notes.append(
            f"{path.name}: of the measures of the cortex, '{measure}' is taken; not {one_of(left)}."
        )
    return [sheet for sheet in sheets if not _is_cortical(sheet) or sheet.measure == measure]


def _is_cortical(sheet: Sheet) -> bool:
    return sheet.atlas.startswith("aparc") and bool(sheet.measure)
