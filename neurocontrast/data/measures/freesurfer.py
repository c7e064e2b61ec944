"""Read statistics and tables of regional measures that FreeSurfer and FastSurfer write."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from neurocontrast.data.measures.names import region_of
from neurocontrast.data.measures.sheets import ScanRow, SharedFacts, Sheet, sheets_of_scans
from neurocontrast.exceptions import DataError
from neurocontrast.reading import read_bytes, read_text

_STATS = re.compile(
    r"(?:(?P<side>lh|rh)\.(?P<parcellation>aparc[\w.]*)"
    r"|(?P<segmentation>aseg(?:\+DKT)?(?:\.(?:presurf|VINN|withCC))?"
    r"|wmparc(?:\.DKTatlas\.mapped)?))\.stats"
)
_WHOLE_BRAIN = re.compile(r"# Measure ([^,]+), ([^,]+),.*, ([^,]+), (mm\^3|mm\^2|mm|unitless)\s*")
_COLUMNS = {
    "ThickAvg": "thickness",
    "SurfArea": "area",
    "GrayVol": "volume",
    "Volume_mm3": "volume",
}
_CORTICAL = {"mm": "thickness", "mm^2": "area"}
"""Unit → measure of the whole cortex, in lines ``# Measure Cortex``."""
_PROGRAMS = (
    ("FastSurfer ", re.compile(r"^# FastSurfer_version (\d+\.\d+(?:\.\d+)?)", re.MULTILINE)),
    ("FreeSurfer ", re.compile(r"^# cvs_version (\d+\.\d+(?:\.\d+)?)", re.MULTILINE)),
    (
        "FreeSurfer, ",
        re.compile(r"^# cvs_version \$Id: (mri_segstats)\.c,v (\d+\.\d+)", re.MULTILINE),
    ),
)
_RELEASES = {"1.75": "FreeSurfer 5", "1.121": "FreeSurfer 6"}
"""Revision of FreeSurfer's mri_segstats → release, for files that state only the revision."""
_OF_CORTEX = "thickness|thicknessstd|area|volume|meancurv|gauscurv|foldind|curvind"
_FIRST = re.compile(rf"\s*\"?(?:(lh|rh)\.([\w.+-]+)\.({_OF_CORTEX})|Measure:(\w+))\"?([\t,;]| +)")
"""Pattern of the first cell of a table, as ``lh.aparc.thickness`` or ``Measure:volume``."""


def atlas_of_stats(path: Path, _head: str) -> str | None:
    """Return the atlas in the name of a statistics file, as ``aseg.VINN``; None for other files.

    Statistics of FreeSurfer's average brain are of no person, and count as other files.
    """
    named = _STATS.fullmatch(path.name)
    subject = path.parent.parent.name
    if named is None or path.parent.name != "stats" or subject.startswith("fsaverage"):
        return None
    return named["parcellation"] or named["segmentation"]


def scan_of_stats(path: Path) -> str:
    """Return the scan of a statistics file: the name of the subject's folder, above ``stats``."""
    return path.parent.parent.name


def read_stats(paths: Sequence[Path]) -> list[Sheet]:
    """Read statistics files of ``recon-all`` or FastSurfer as `Sheet` objects.

    The result has one sheet for each hemisphere, measure, and version of the program.
    """
    rows = []
    for path in paths:
        text = read_bytes(path).decode("utf-8", errors="replace")
        facts = replace(_facts_of_stats(path), software=_software_of_stats(text))
        scan = scan_of_stats(path)
        for measure, cells in _measures(path, text).items():
            rows.append(ScanRow(path, scan, cells, replace(facts, measure=measure)))
    return sheets_of_scans(rows)


def _facts_of_stats(path: Path) -> SharedFacts:
    """Return `SharedFacts` with hemisphere and atlas from the name of a statistics file."""
    named = _STATS.fullmatch(path.name)
    if named is None:
        return SharedFacts()
    if named["parcellation"]:
        return SharedFacts(side=named["side"], atlas=named["parcellation"])
    return SharedFacts(atlas=named["segmentation"].partition(".")[0])


def _software_of_stats(text: str) -> str:
    """Return program and version in `text`, the content of a statistics file; "" if not stated."""
    for program, pattern in _PROGRAMS:
        version = pattern.search(text)
        if version is not None:
            stated = program + " ".join(version.groups())
            return _RELEASES.get(version[version.lastindex or 1], stated)
    return ""


def _measures(path: Path, text: str) -> dict[str, dict[str, str]]:
    """Parse `text`, the content of a statistics file, to a mapping: measure → region → cell.

    Volumes of the whole brain and measures of the whole cortex are in the mapping, too, with
    FreeSurfer's names, such as ``BrainSegVol`` and ``MeanThickness``, in place of a region's.
    """
    measures: dict[str, dict[str, str]] = defaultdict(dict)
    columns: list[str] = []
    n_rows = 0
    for number, line in enumerate(text.splitlines(), start=1):
        total = _WHOLE_BRAIN.fullmatch(line)
        if total is not None:
            _add_total(total, measures)
        elif line.startswith("# ColHeaders"):
            columns = line.split()[2:]
        elif columns and line.strip() and not line.startswith("#"):
            cells = line.split()
            if len(cells) != len(columns):
                raise DataError(
                    f"{path}: line {number} does not have the {len(columns)} cells of its header; "
                    "was it cut?"
                )
            _add_region(dict(zip(columns, cells, strict=True)), measures)
            n_rows += 1
    if "StructName" not in columns:
        raise DataError(
            f"{path}: no line '# ColHeaders' with StructName; is it a file of FreeSurfer, and "
            "whole?"
        )
    if not n_rows:
        raise DataError(f"{path}: there are no rows below its header; was it cut?")
    return measures


def _add_total(total: re.Match[str], measures: dict[str, dict[str, str]]) -> None:
    """Add to `measures` a measure of the whole brain or cortex, from a line ``# Measure …``.

    `total` is the match of the line; `measures` is a mapping: measure → structure → cell.
    """
    structure, name, value, unit = total.groups()
    if unit == "mm^3" or structure != "Cortex":
        measures["volume"][name] = value
    elif unit in _CORTICAL:
        measures[_CORTICAL[unit]][name] = value


def _add_region(row: dict[str, str], measures: dict[str, dict[str, str]]) -> None:
    """Add to `measures` the measures of one region, from a row of the statistics table.

    `row` is a mapping column → cell, and `measures` a mapping measure → region → cell.
    """
    for column, measure in _COLUMNS.items():
        if column in row:
            measures[measure][row.get("StructName", "")] = row[column]


def atlas_of_freesurfer_table(_path: Path, head: str) -> str | None:
    """Return the atlas in the first cell of a table by FreeSurfer; None for other files.

    `head` is the beginning of the file. A table of segmented structures, with a first cell as
    ``Measure:volume``, names no atlas: the result is ``wmparc`` if a column begins with ``wm-lh-``
    or ``wm-rh-``, and else ``aseg``.
    """
    first = _FIRST.match(head.lstrip("\ufeff"))
    if first is None:
        return None
    if first[2]:
        return first[2]
    if re.search(r"\bwm-[lr]h-", head):
        return "wmparc"
    return "aseg"


def read_freesurfer_table(path: Path) -> Sheet:
    """Read a table of FreeSurfer as a `Sheet`; its first cell names hemisphere, atlas and measure.

    The table may be transposed: a row a region, a column a scan.
    """
    text = read_text(path)
    first = _FIRST.match(text)
    if first is None:
        raise DataError(f"{path}: the first cell names no measure.")
    side = first[1] or ""
    atlas = first[2] or ""
    measure = first[3] or first[4]
    table, lines = _table_of_text(text, path.name, delimiter=first[5])
    n_rows = _n_regions(table.index, side, measure)
    is_transposed = n_rows > _n_regions(table.columns, side, measure)
    if is_transposed:
        table = table.T
        lines = [1] * len(table)
    repeated = table.columns[table.columns.duplicated()]
    if len(repeated):
        names = "header"
        if is_transposed:
            names = "first column"
        n_times = list(table.columns).count(repeated[0])
        raise DataError(f"{path.name}: the {names} names '{repeated[0]}' {n_times} times.")
    cells = {str(name): column.tolist() for name, column in table.items()}
    return Sheet(path, table.index.tolist(), cells, lines, (), side, measure, atlas)


def _table_of_text(text: str, name: str, *, delimiter: str) -> tuple[pd.DataFrame, list[int]]:
    """Parse the text of a table: return cells below the header, and the line number of each row.

    The first column is the index. `name` begins messages.
    """
    separator = re.compile(re.escape(delimiter))
    if delimiter.startswith(" "):
        separator = re.compile(" +")
    rows = []
    lines = []
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.rstrip("\r\t,; ").strip(" ")
        if content:
            rows.append([cell.strip().strip('"') for cell in separator.split(content)])
            lines.append(number)
    header, *body = rows
    if not body:
        raise DataError(f"{name}: there are no rows; was the table cut?")
    for number, cells in zip(lines[1:], body, strict=True):
        if len(cells) != len(header):
            raise DataError(
                f"{name}: line {number} does not have the {len(header)} cells of the header; was "
                "it cut?"
            )
    index = [cells[0] for cells in body]
    values = [cells[1:] for cells in body]
    return pd.DataFrame(values, index, header[1:], dtype=object), lines[1:]


def _n_regions(words: Iterable[str], side: str, measure: str) -> int:
    """Count `words`, names of columns or rows, that name regions in a table of one measure.

    Words may lack the hemisphere `side` and the measure of the table.
    """
    n_regions = 0
    for word in words:
        region = region_of(word) or region_of(word, side=side, measure=measure)
        if region is not None and (region.atlas or region.name == word):
            n_regions += 1
    return n_regions
