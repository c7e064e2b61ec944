"""What ``aparcstats2table`` and ``asegstats2table`` write, with any delimiter, and transposed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from neurocontrast.data.measures.formats import Sheet
from neurocontrast.data.measures.names import region_of
from neurocontrast.exceptions import DataError
from neurocontrast.reading import read_text

__all__ = ["FreeSurferTable"]

_MEASURES = "thickness|thicknessstd|area|volume|meancurv|gauscurv|foldind|curvind"
_FIRST = re.compile(rf"\s*\"?(?:(lh|rh)\.([\w.+-]+)\.({_MEASURES})|Measure:(\w+))\"?([\t,;]| +)")
"""First cell of the header (``lh.aparc.a2009s.thickness``, ``Measure:volume``) and the delimiter."""


class FreeSurferTable:
    """Read tables whose first cell names hemisphere, atlas and measure, or the measure alone."""

    def atlas_of(self, _path: Path, head: str) -> str | None:
        """Return the atlas that the first cell names; ``aseg`` for a table of segmented structures."""
        first = _FIRST.match(head.lstrip("\ufeff"))
        if first is None:
            return None
        return first[2] or ("wmparc" if re.search(r"\bwm-[lr]h-", head) else "aseg")

    def sheets(self, paths: Sequence[Path]) -> list[Sheet]:
        """Read tables."""
        return [_sheet(path) for path in paths]


def _sheet(path: Path) -> Sheet:
    text = read_text(path)
    first = _FIRST.match(text)
    if first is None:
        raise DataError(f"{path}: the first cell names no measure.")
    side, atlas, measure = first[1] or "", first[2] or "", first[3] or first[4]
    split = re.compile(" +" if first[5].startswith(" ") else re.escape(first[5]))
    lines = [(n, line.rstrip("\r\t,; ")) for n, line in enumerate(text.split("\n"), start=1)]
    rows = [
        (n, [cell.strip().strip('"') for cell in split.split(line.strip(" "))]) for n, line in lines if line.strip()
    ]
    (_, header), *body = rows
    wrong = [n for n, cells in body if len(cells) != len(header)]
    if wrong or not body:
        found = f"line {wrong[0]} does not have the {len(header)} cells of the header" if wrong else "there are no rows"
        raise DataError(f"{path.name}: {found}; was {'it' if wrong else 'the table'} cut?")
    numbers, names = [n for n, _ in body], [cells[0] for _, cells in body]
    columns = {name: [cells[position] for _, cells in body] for position, name in enumerate(header[1:], start=1)}

    def n_regions(words: Sequence[str]) -> int:
        found = (region_of(word) or region_of(word, side=side, measure=measure) for word in words)
        return sum(region is not None and (bool(region.atlas) or region.name in words) for region in found)

    if n_regions(names) > n_regions(header[1:]):
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise DataError(f"{path.name}: two rows are of the region '{repeated[0]}'.")
        cells_of = {name: cells[1:] for name, (_, cells) in zip(names, body, strict=True)}
        return Sheet(path, header[1:], cells_of, [1] * (len(header) - 1), (), side, measure, atlas)
    repeated = [name for name in header if header.count(name) > 1]
    if repeated:
        raise DataError(f"{path.name}: the header names '{repeated[0]}' {header.count(repeated[0])} times.")
    return Sheet(path, names, columns, numbers, (), side, measure, atlas)
