"""FreeSurfer and FastSurfer: ``SUBJECT/stats/*.stats``, and what ``aparcstats2table`` and ``asegstats2table`` write."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from neurocontrast.data.measures.formats import ScanRow, Sheet, sheets_of_scans
from neurocontrast.data.measures.names import region_of
from neurocontrast.exceptions import DataError
from neurocontrast.reading import read_bytes, read_text

_NAME = re.compile(r"(?:(lh|rh)\.(aparc[\w.]*)|(aseg|aseg\+DKT|wmparc)(?:\.(?:presurf|VINN|withCC))?)\.stats")
_WHOLE_BRAIN = re.compile(r"# Measure ([^,]+), ([^,]+),.*, ([^,]+), (mm\^3|mm\^2|mm|unitless)\s*")
_COLUMNS = {"ThickAvg": "thickness", "SurfArea": "area", "GrayVol": "volume", "Volume_mm3": "volume"}
_VERSIONS = (
    ("FastSurfer ", re.compile(r"^# FastSurfer_version (\d+\.\d+(?:\.\d+)?)", re.MULTILINE)),
    ("FreeSurfer ", re.compile(r"^# cvs_version (\d+\.\d+(?:\.\d+)?)", re.MULTILINE)),
    ("FreeSurfer, ", re.compile(r"^# cvs_version \$Id: (mri_segstats)\.c,v (\d+\.\d+)", re.MULTILINE)),
)
_RELEASES = {"1.75": "FreeSurfer 5", "1.121": "FreeSurfer 6"}
"""Releases that wrote the revision of their program in place of their own version."""
_MEASURES = "thickness|thicknessstd|area|volume|meancurv|gauscurv|foldind|curvind"
_FIRST = re.compile(rf"\s*\"?(?:(lh|rh)\.([\w.+-]+)\.({_MEASURES})|Measure:(\w+))\"?([\t,;]| +)")
"""First cell of the header (``lh.aparc.a2009s.thickness``, ``Measure:volume``) and the delimiter."""


class FreeSurferStats:
    """Read the measures of subjects from the files that ``recon-all`` or FastSurfer left for each."""

    def atlas_of(self, path: Path, _head: str) -> str | None:
        """Return the atlas in the name of the file; None for templates and longitudinal copies too."""
        named = _NAME.fullmatch(path.name)
        subject = path.parent.parent.name
        if named is None or path.parent.name != "stats" or subject.startswith("fsaverage") or ".long." in subject:
            return None
        return named[2] or named[3]

    def sheets(self, paths: Sequence[Path]) -> list[Sheet]:
        """Read the files of subjects: a sheet for each hemisphere, measure and version."""
        rows = []
        for path in paths:
            named, text = _NAME.fullmatch(path.name), read_bytes(path).decode("utf-8", errors="replace")
            about = {"side": (named and named[1]) or "", "atlas": self.atlas_of(path, "") or ""}
            versions = ((program, pattern.search(text)) for program, pattern in _VERSIONS)
            program, version = next((found for found in versions if found[1]), ("", None))
            if version:
                about["software"] = _RELEASES.get(version[version.lastindex or 1], program + " ".join(version.groups()))
            for measure, cells in _measures(path, text).items():
                rows.append(ScanRow(path, path.parent.parent.name, cells, {**about, "measure": measure}))
        return sheets_of_scans(rows)


def _measures(path: Path, text: str) -> dict[str, dict[str, str]]:
    """Return the cells of a file by measure and region, those of the whole brain as volumes."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    columns: list[str] = []
    for n, line in enumerate(text.splitlines(), start=1):
        if total := _WHOLE_BRAIN.fullmatch(line):
            what, name, value, unit = total.groups()
            if unit == "mm^3" or what != "Cortex":
                found["volume"][name] = value
            elif unit in ("mm", "mm^2"):
                found["thickness" if unit == "mm" else "area"][name] = value
        elif line.startswith("# ColHeaders"):
            columns = line.split()[2:]
            if "StructName" not in columns:
                break
        elif columns and line.strip() and not line.startswith("#"):
            cells = line.split()
            if len(cells) != len(columns):
                raise DataError(f"{path}: line {n} does not have the {len(columns)} cells of its header; was it cut?")
            row = dict(zip(columns, cells, strict=True))
            for column, measure in _COLUMNS.items():
                if column in row:
                    found[measure][row["StructName"]] = row[column]
    if "StructName" not in columns:
        raise DataError(f"{path}: no line '# ColHeaders' with StructName; is it a file of FreeSurfer, and whole?")
    return found


class FreeSurferTable:
    """Read tables whose first cell names hemisphere, atlas and measure, or only the measure."""

    def atlas_of(self, _path: Path, head: str) -> str | None:
        """Return the atlas that the first cell names; ``aseg`` for a table of segmented structures."""
        first = _FIRST.match(head.lstrip("\ufeff"))
        if first is None:
            return None
        return first[2] or ("wmparc" if re.search(r"\bwm-[lr]h-", head) else "aseg")

    def sheets(self, paths: Sequence[Path]) -> list[Sheet]:
        """Read tables."""
        return [_table(path) for path in paths]


def _table(path: Path) -> Sheet:
    text = read_text(path)
    first = _FIRST.match(text)
    if first is None:
        raise DataError(f"{path}: the first cell names no measure.")
    side, atlas, measure = first[1] or "", first[2] or "", first[3] or first[4]
    split = re.compile(" +" if first[5].startswith(" ") else re.escape(first[5]))
    lines = [(n, line.rstrip("\r\t,; ").strip(" ")) for n, line in enumerate(text.split("\n"), start=1)]
    rows = [(n, [cell.strip().strip('"') for cell in split.split(line)]) for n, line in lines if line]
    (_, header), *body = rows
    wrong = [n for n, cells in body if len(cells) != len(header)]
    if wrong or not body:
        found = f"line {wrong[0]} does not have the {len(header)} cells of the header" if wrong else "there are no rows"
        raise DataError(f"{path.name}: {found}; was {'it' if wrong else 'the table'} cut?")
    numbers = [n for n, _ in body]
    table = pd.DataFrame([cells[1:] for _, cells in body], [cells[0] for _, cells in body], header[1:], dtype=object)

    def n_regions(words: Iterable[str]) -> int:
        found = ((word, region_of(word) or region_of(word, side=side, measure=measure)) for word in words)
        return sum(region is not None and (bool(region.atlas) or region.name == word) for word, region in found)

    is_transposed = n_regions(table.index) > n_regions(table.columns)
    if is_transposed:
        table, numbers = table.T, [1] * len(table.columns)
    repeated = table.columns[table.columns.duplicated()]
    if len(repeated):
        names, n_times = "first column" if is_transposed else "header", list(table.columns).count(repeated[0])
        raise DataError(f"{path.name}: the {names} names '{repeated[0]}' {n_times} times.")
    cells = {str(name): column.tolist() for name, column in table.items()}
    return Sheet(path, table.index.tolist(), cells, numbers, (), side, measure, atlas)
