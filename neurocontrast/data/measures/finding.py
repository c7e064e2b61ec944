"""Tables of measures among the files of a folder, and the choice between atlases and measures."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from neurocontrast.data.layouts.tree import Tree, read_tree
from neurocontrast.data.measures.formats import FORMATS, Sheet
from neurocontrast.data.measures.names import region_of
from neurocontrast.exceptions import DataError, one_of, suggestion

_PARCELLATIONS = (
    "aparc.a2009s",
    "aparc",
    "aparc.DKTatlas",
    "aparc.DKTatlas.mapped",
    "neuromorphometrics",
)
_SEGMENTATIONS = ("aseg", "aseg+DKT", "wmparc")
"""Atlases in order of preference; one of each list is taken."""
_TEXT = (".tsv", ".csv", ".txt", ".dat", ".table")
_ENDINGS = (*_TEXT, ".stats", ".xml", ".npy")
_N_HEAD = 65_536
_OF_RUNS = re.compile(
    r".*_(?:scans|sessions|events|channels|electrodes|timeseries|physio)\.tsv"
)  # BIDS has many
_N_REGIONS = 5  # a table in a folder is one of measures if this many columns are


def files_of_measures(tree: Tree) -> dict[tuple[str, str], list[Path]]:
    """Return the files of a folder that hold measures, by format and atlas."""
    found: dict[tuple[str, str], list[Path]] = defaultdict(list)
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
                if atlas is not None:
                    break
    return found


def sheets_at(path: Path, atlas: str, measure: str, notes: list[str]) -> list[Sheet]:
    """Return the sheets of a file, or of the chosen files of a folder; `notes` gets a line about the others."""
    if not path.is_dir():
        if atlas or measure not in ("thickness", "all"):
            notes.append(
                f"{path.name}: all its measures are taken; 'atlas' and 'measure' choose from folders."
            )
        head = _head(path)
        for reader in FORMATS.values():
            if reader.atlas_of(path, head) is not None:
                return reader.sheets([path])
        raise DataError(
            f"{path}: no known format of regional measures (FreeSurfer's statistics lie in SUBJECT/stats). Known are: "
            f"{one_of(FORMATS)}."
        )
    found = files_of_measures(read_tree(path))
    if not found:
        raise DataError(f"{path}: no table of regional measures is in this folder.")
    sheets = [
        sheet
        for (name, named), files in found.items()
        if not named
        for sheet in FORMATS[name].sheets(files)
    ]
    there = {named for _, named in found} | {sheet.atlas for sheet in sheets}
    taken = _chosen(there - {""}, atlas, notes, path)
    sheets = [sheet for sheet in sheets if not sheet.atlas or sheet.atlas in taken]
    sheets += [
        sheet
        for (name, named), files in found.items()
        if named in taken
        for sheet in FORMATS[name].sheets(files)
    ]
    return _of_measure(sheets, measure, notes, path)


def holds_measures(path: Path) -> bool:
    """Return whether a path is a folder, or a table that holds measures."""
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
    """Return one parcellation and one segmentation of those that are there."""
    segmented = [name for name in _SEGMENTATIONS if name in there][:1]
    others = [name for name in _PARCELLATIONS if name in there]
    others += sorted(there.difference(_SEGMENTATIONS, others))
    if atlas and atlas not in others:
        raise DataError(
            f"{path}: no atlas '{atlas}'.{suggestion(atlas, others)} There are: {one_of(others)}."
        )
    taken = [atlas] if atlas else others[:1]
    left = [name for name in others if name not in taken]
    if left:
        notes.append(
            f"{path.name}: of the atlases that are there, {one_of(taken)} is taken; not {one_of(left)}."
        )
    return {*segmented, *taken}


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
