"""CAT12's regions: ``label/catROI_*.xml`` of each scan, tables of many scans, and brainprep's ``cat12_vbm_roi.tsv``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from neurocontrast.data.measures.formats.sheet import Sheet, by_identifier, sheet_of_scans
from neurocontrast.data.measures.names import MM3_PER_ML
from neurocontrast.exceptions import DataError
from neurocontrast.reading import read_text

_XML = re.compile(r"catROIs?_(.+)\.xml")
_TABLE = re.compile(r".*catROIs?_(.+)_([A-Za-z0-9]+)\.csv")
_BRAINPREP = re.compile(r"_(GM|CSF|WM)_Vol\b")
_N_NEEDED = 5


class CAT12Regions:
    """Read volumes and thicknesses of regions; volumes, which CAT12 writes in mL, become mm³."""

    def atlas_of(self, path: Path, head: str) -> str | None:
        """Return the atlas in the name of a table; "" for XML, which holds several."""
        if _XML.fullmatch(path.name):
            return ""
        if table := _TABLE.fullmatch(path.name):
            return table[1]
        return "neuromorphometrics" if len(_BRAINPREP.findall(head.partition("\n")[0])) >= _N_NEEDED else None

    def sheets(self, paths: Sequence[Path]) -> list[Sheet]:
        """Read tables, and the XML files of scans as one table an atlas."""
        of_scans = [path for path in paths if path.suffix == ".xml"]
        found = [_table(path) for path in paths if path.suffix != ".xml"]
        return found + (_xml_sheets(of_scans) if of_scans else [])


def _table(path: Path) -> Sheet:
    named = _TABLE.fullmatch(path.name)
    atlas, measure = (named[1], named[2]) if named else ("neuromorphometrics", "")
    sheet = by_identifier(path)
    return replace(sheet, atlas=atlas, measure=measure, software="CAT12", scale=MM3_PER_ML)


def _xml_sheets(paths: Sequence[Path]) -> list[Sheet]:
    rows: dict[tuple[str, str], dict[Path, dict[str, str]]] = defaultdict(dict)
    for path in paths:
        for atlas in _root(path):
            names = [item.text or "" for item in atlas.iterfind("names/item")]
            for values in atlas.find("data") or ():
                numbers = re.split(r"[;,\s]+", (values.text or "").strip(" \n\t[]"))
                if len(numbers) != len(names):
                    raise DataError(
                        f"{path}: {atlas.tag} has {len(names)} names and {len(numbers)} values of {values.tag}."
                    )
                cells = dict(zip(names, numbers, strict=True))
                if len(cells) < len(names):
                    raise DataError(f"{path}: {atlas.tag} names a region twice.")
                rows[atlas.tag, values.tag][path] = cells
    found = []
    for (name, measure), scans in rows.items():
        files = list(scans)
        people = [named[1] for path in files if (named := _XML.fullmatch(path.name))]
        source = files[0] if len(files) == 1 else files[0].parent
        about = {"measure": measure, "atlas": name, "software": "CAT12", "scale": MM3_PER_ML}
        found.append(sheet_of_scans(source, scans, people, **about))
    return found


def _root(path: Path) -> ElementTree.Element:
    text = read_text(path)
    try:
        if "<!" in text:  # declarations of entities can unfold to any size
            raise ElementTree.ParseError("it holds declarations, which CAT12 does not write")
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise DataError(f"{path}: not readable as XML ({error}).") from None
