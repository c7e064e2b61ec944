"""FreeSurfer's and FastSurfer's ``SUBJECT/stats/*.stats`` below a folder of subjects."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from neurocontrast.data.measures.formats import Sheet
from neurocontrast.exceptions import DataError
from neurocontrast.reading import read_bytes

__all__ = ["FreeSurferStats"]

_NAME = re.compile(r"(?:(lh|rh)\.(aparc[\w.]*)|(aseg|aseg\+DKT|wmparc)(?:\.(?:presurf|VINN|withCC))?)\.stats")
_MEASURE = re.compile(r"# Measure ([^,]+), ([^,]+),.*, ([^,]+), (mm\^3|mm\^2|mm|unitless)\s*")
_COLUMNS = {"ThickAvg": "thickness", "SurfArea": "area", "GrayVol": "volume", "Volume_mm3": "volume"}
_VERSIONS = (
    ("FastSurfer ", re.compile(r"^# FastSurfer_version (\d+\.\d+(?:\.\d+)?)", re.MULTILINE)),
    ("FreeSurfer ", re.compile(r"^# cvs_version (\d+\.\d+(?:\.\d+)?)", re.MULTILINE)),
    ("FreeSurfer, ", re.compile(r"^# cvs_version \$Id: (mri_segstats)\.c,v (\d+\.\d+)", re.MULTILINE)),
)
_RELEASES = {"1.75": "FreeSurfer 5", "1.121": "FreeSurfer 6"}
"""Releases that wrote the revision of their program in place of their own version."""


class FreeSurferStats:
    """Read the measures of subjects from the files that ``recon-all`` or FastSurfer left for each."""

    def atlas_of(self, path: Path, _head: str) -> str | None:
        """Return the atlas in the name of the file; templates and longitudinal copies are of no format."""
        named = _NAME.fullmatch(path.name)
        subject = path.parent.parent.name
        if named is None or path.parent.name != "stats" or subject.startswith("fsaverage") or ".long." in subject:
            return None
        return named[2] or named[3]

    def sheets(self, paths: Sequence[Path]) -> list[Sheet]:
        """Read the files of subjects: a sheet for each hemisphere, measure and version."""
        rows: dict[tuple[str, str, str], dict[Path, dict[str, str]]] = defaultdict(dict)
        for path in paths:
            named = _NAME.fullmatch(path.name)
            text = read_bytes(path).decode("utf-8", errors="replace")
            for measure, cells in _measures(path, text).items():
                rows[(named[1] or "") if named else "", measure, _software(text)][path] = cells
        return [_sheet(found, *key, self.atlas_of(next(iter(found)), "") or "") for key, found in rows.items()]


def _sheet(found: dict[Path, dict[str, str]], side: str, measure: str, software: str, atlas: str) -> Sheet:
    names = dict.fromkeys(name for cells in found.values() for name in cells)
    columns = {name: [cells.get(name, "") for cells in found.values()] for name in names}
    files = list(found)
    subjects = [path.parent.parent for path in files]
    source = subjects[0].parent / files[0].name
    people = [path.name for path in subjects]
    return Sheet(source, people, columns, (), (), side, measure, atlas, software, files=files)


def _measures(path: Path, text: str) -> dict[str, dict[str, str]]:
    """Return the cells of a file by measure and region, those of the whole brain as volumes."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    columns: list[str] = []
    for n, line in enumerate(text.splitlines(), start=1):
        if total := _MEASURE.fullmatch(line):
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


def _software(text: str) -> str:
    for program, pattern in _VERSIONS:
        if version := pattern.search(text):
            known = _RELEASES.get(version[version.lastindex or 1])
            return known or program + " ".join(version.groups())
    return ""
