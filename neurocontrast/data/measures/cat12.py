"""Read regional measures of CAT12: tables, and an XML file for each scan; mL become mm³."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from neurocontrast.data.measures.names import MM3_PER_ML
from neurocontrast.data.measures.sheets import (
    ScanRow,
    SharedFacts,
    Sheet,
    by_identifier,
    sheets_of_scans,
)
from neurocontrast.exceptions import DataError
from neurocontrast.reading import read_text

_XML = re.compile(r"catROIs?_(.+)\.xml")
_MEASURES_OF_CAT12 = (
    "V(?:gm|wm|csf)|thickness|mean_thickness|gyrification|fractaldimension|sqrtsulc|depth|area|gmv"
)
_ATLASES_OF_CAT12 = (
    "neuromorphometrics|lpba40|cobra|suit|ibsr|aal3|mori|anatomy3|julichbrain3?|hammers|thalamus"
    r"|thalamic_nuclei|Schaefer2018_\w+|aparc_DK40|aparc_a2009s|aparc_HCP_MMP1"
)
_TABLES = (
    re.compile(r".*catROIs?_(.+)_([A-Za-z0-9]+)\.csv"),
    # Since 12.7: the prefix is "ROI" unless another is typed into CAT12's dialogue.
    re.compile(rf"(?:.*_)?ROIs?_(.+?)_({_MEASURES_OF_CAT12})\.csv"),
    re.compile(rf"(?:.+_)?({_ATLASES_OF_CAT12})_({_MEASURES_OF_CAT12})\.csv"),
)
"""Patterns of file names of CAT12's tables, with groups for atlas and measure.

The first pattern that fits counts.
"""
_BRAINPREP = re.compile(r"_(GM|CSF|WM)_Vol\b")
"""Pattern in names of columns of brainprep's tables of CAT12 results: volumes of a tissue."""
_OF_ONE = re.compile(r"sub-[A-Za-z0-9]+(?:_ses-[A-Za-z0-9]+)?(?=_)")
"""Pattern of the scan's identifier at the beginning of a file name, for a table of one scan."""
_N_BRAINPREP_COLUMNS = 5
"""Smallest number of columns with brainprep's names by which a table counts as brainprep's."""
CAT12 = "CAT12"
"""Name of the software for CAT12's tables, whose volumes are in mL."""


def atlas_of_cat12(path: Path, head: str) -> str | None:
    """Return the atlas of CAT12's file `path`: "" for XML with several, None for other files.

    The atlas is in the file's name. A table whose first line, in `head`, has brainprep's columns is
    of the atlas Neuromorphometrics.
    """
    if _XML.fullmatch(path.name):
        return ""
    names = _atlas_and_measure(path)
    if names is not None:
        return names[0]
    first_line = head.partition("\n")[0]
    if len(_BRAINPREP.findall(first_line)) >= _N_BRAINPREP_COLUMNS:
        return "neuromorphometrics"
    return None


def _atlas_and_measure(path: Path) -> tuple[str, str] | None:
    """Return (atlas, measure) from the file name of a CAT12 table; None for other file names."""
    for pattern in _TABLES:
        if named := pattern.fullmatch(path.name):
            return named[1], named[2].removeprefix("mean_")
    return None


def scan_of_cat12(path: Path) -> str:
    """Return the scan's identifier in the name of CAT12's XML file or one-scan table, or ""."""
    xml = _XML.fullmatch(path.name)
    if xml is not None:
        return xml[1]
    scan = _OF_ONE.match(path.name)
    if scan is None:
        return ""
    return scan[0]


def read_cat12(paths: Sequence[Path]) -> list[Sheet]:
    """Read tables of CAT12 and brainprep, and ``label/catROI_*.xml``, as `Sheet` objects.

    A table becomes one sheet. The XML files of all scans together become one sheet for each atlas
    and measure. Volumes in the sheets are in mL; `Sheet.scale` is the factor to mm³.
    """
    sheets = []
    rows: list[ScanRow] = []
    for path in paths:
        if path.suffix == ".xml":
            rows += _rows_of_xml(path)
            continue
        atlas, measure = _atlas_and_measure(path) or ("neuromorphometrics", "")
        sheet = by_identifier(path)
        sheets.append(
            replace(sheet, atlas=atlas, measure=measure, software=CAT12, scale=MM3_PER_ML)
        )
    return sheets + sheets_of_scans(rows)


def _root_of_xml(path: Path) -> ElementTree.Element:
    """Read an XML file of CAT12, and return the root element.

    A file with declarations is a `DataError`, since their entities could unfold to any size.
    """
    text = read_text(path)
    try:
        if "<!" in text:
            raise ElementTree.ParseError("it holds declarations, which CAT12 does not write")
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise DataError(f"{path}: not readable as XML ({error}).") from None


def _rows_of_xml(path: Path) -> Iterator[ScanRow]:
    """Yield a `ScanRow` of regional measures for each atlas and measure in a scan's XML file.

    A file without values, with a region or measure twice, or with more names than values is a
    `DataError`.
    """
    root = _root_of_xml(path)
    seen: set[tuple[str, str]] = set()
    for atlas in root:
        names = [item.text or "" for item in atlas.iterfind("names/item")]
        for values in atlas.find("data") or ():
            if (atlas.tag, values.tag) in seen:
                raise DataError(f"{path}: {atlas.tag} has {values.tag} twice.")
            seen.add((atlas.tag, values.tag))
            numbers = re.split(r"[;,\s]+", (values.text or "").strip(" \n\t[]"))
            if len(numbers) != len(names):
                raise DataError(
                    f"{path}: {atlas.tag} has {len(names)} names and {len(numbers)} values of "
                    f"{values.tag}."
                )
            cells = dict(zip(names, numbers, strict=True))
            if len(cells) < len(names):
                raise DataError(f"{path}: {atlas.tag} names a region twice.")
            facts = SharedFacts(
                measure=values.tag, atlas=atlas.tag, software=CAT12, scale=MM3_PER_ML
            )
            yield ScanRow(path, scan_of_cat12(path), cells, facts)
    if not seen:
        raise DataError(f"{path}: there is no atlas with values; was it cut?")
