"""CAT12's tables of regions, by their older and newer names, and its XML files of scans; mL become mm³."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from neurocontrast.data.measures.names import MM3_PER_ML
from neurocontrast.data.measures.sheets import ScanRow, Sheet, by_identifier, sheets_of_scans
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
"""Names of CAT12's tables, with atlas and measure; the first that fits is taken."""
_BRAINPREP = re.compile(r"_(GM|CSF|WM)_Vol\b")
_OF_ONE = re.compile(r"sub-[A-Za-z0-9]+(?:_ses-[A-Za-z0-9]+)?(?=_)")
"""Beginning of the name of a table of one scan."""
_N_NEEDED = 5
CAT12: dict[str, Any] = {"software": "CAT12", "scale": MM3_PER_ML}  # CAT12 writes mL


def atlas_of_cat12(path: Path, head: str) -> str | None:
    """Return the atlas in the name of a table; "" for XML, which holds several."""
    if _XML.fullmatch(path.name):
        return ""
    if named := _atlas_and_measure(path):
        return named[0]
    return (
        "neuromorphometrics"
        if len(_BRAINPREP.findall(head.partition("\n")[0])) >= _N_NEEDED
        else None
    )


def _atlas_and_measure(path: Path) -> tuple[str, str] | None:
    """Return atlas and measure in the name of a table of CAT12, or None for another name."""
    for pattern in _TABLES:
        if named := pattern.fullmatch(path.name):
            return named[1], named[2].removeprefix("mean_")
    return None


def scan_of_cat12(path: Path) -> str:
    """Return the scan of an XML file, or of a table with a name of BIDS; "" for another table."""
    if named := _XML.fullmatch(path.name):
        return named[1]
    one = _OF_ONE.match(path.name)
    return one[0] if one else ""


def read_cat12(paths: Sequence[Path]) -> list[Sheet]:
    """Read CAT12's and brainprep's tables, and ``label/catROI_*.xml`` of scans as one table an atlas; mL become mm³."""
    found = []
    for path in paths:
        if path.suffix != ".xml":
            atlas, measure = _atlas_and_measure(path) or ("neuromorphometrics", "")
            found.append(replace(by_identifier(path), atlas=atlas, measure=measure, **CAT12))
    return found + sheets_of_scans(
        row for path in paths if path.suffix == ".xml" for row in _rows_of_xml(path)
    )


def _root_of_xml(path: Path) -> ElementTree.Element:
    """Read an XML file; refuse one with declarations, whose entities can unfold to any size."""
    text = read_text(path)
    try:
        if "<!" in text:
            raise ElementTree.ParseError("it holds declarations, which CAT12 does not write")
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise DataError(f"{path}: not readable as XML ({error}).") from None


def _rows_of_xml(path: Path) -> Iterator[ScanRow]:
    """Give the regions of a file, a row for each atlas and measure."""
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
                    f"{path}: {atlas.tag} has {len(names)} names and {len(numbers)} values of {values.tag}."
                )
            cells = dict(zip(names, numbers, strict=True))
            if len(cells) < len(names):
                raise DataError(f"{path}: {atlas.tag} names a region twice.")
            yield ScanRow(
                path,
                scan_of_cat12(path),
                cells,
                {"measure": values.tag, "atlas": atlas.tag, **CAT12},
            )
    if not seen:
        raise DataError(f"{path}: there is no atlas with values; was it cut?")
