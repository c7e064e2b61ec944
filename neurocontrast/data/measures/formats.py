"""Tables of measures as programs write them: tables with identifiers, FreeSurfer's, CAT12's, OpenBHB's arrays."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from neurocontrast.data.measures.cat12 import CAT12, atlas_of_cat12, read_cat12, scan_of_cat12
from neurocontrast.data.measures.names import region_of
from neurocontrast.data.measures.sheets import ScanRow, Sheet, by_identifier, sheets_of_scans
from neurocontrast.exceptions import DataError
from neurocontrast.reading import problem_of_content, read_array, read_bytes, read_json, read_text

_STATS = re.compile(
    r"(?:(?P<side>lh|rh)\.(?P<parcellation>aparc[\w.]*)"
    r"|(?P<segmentation>aseg(?:\+DKT)?(?:\.(?:presurf|VINN|withCC))?|wmparc(?:\.DKTatlas\.mapped)?))"
    r"\.stats"
)
_WHOLE_BRAIN = re.compile(r"# Measure ([^,]+), ([^,]+),.*, ([^,]+), (mm\^3|mm\^2|mm|unitless)\s*")
_COLUMNS = {
    "ThickAvg": "thickness",
    "SurfArea": "area",
    "GrayVol": "volume",
    "Volume_mm3": "volume",
}
_CORTICAL = {"mm": "thickness", "mm^2": "area"}
"""Measure of the whole cortex by its unit."""
_PROGRAMS = (
    ("FastSurfer ", re.compile(r"^# FastSurfer_version (\d+\.\d+(?:\.\d+)?)", re.MULTILINE)),
    ("FreeSurfer ", re.compile(r"^# cvs_version (\d+\.\d+(?:\.\d+)?)", re.MULTILINE)),
    (
        "FreeSurfer, ",
        re.compile(r"^# cvs_version \$Id: (mri_segstats)\.c,v (\d+\.\d+)", re.MULTILINE),
    ),
)
_RELEASES = {"1.75": "FreeSurfer 5", "1.121": "FreeSurfer 6"}
"""Releases that wrote the revision of their program in place of their own version."""
_OF_CORTEX = "thickness|thicknessstd|area|volume|meancurv|gauscurv|foldind|curvind"
_FIRST = re.compile(rf"\s*\"?(?:(lh|rh)\.([\w.+-]+)\.({_OF_CORTEX})|Measure:(\w+))\"?([\t,;]| +)")
"""First cell of the header (``lh.aparc.a2009s.thickness``, ``Measure:volume``) and the delimiter."""


def _atlas_of_stats(path: Path, _head: str) -> str | None:
    """Return the atlas in the name of the file, such as ``aseg.VINN``; None for the average brain too."""
    named = _STATS.fullmatch(path.name)
    subject = path.parent.parent.name
    if named is None or path.parent.name != "stats" or subject.startswith("fsaverage"):
        return None
    return named["parcellation"] or named["segmentation"]


def _scan_of_stats(path: Path) -> str:
    """Return the name of the subject's folder."""
    return path.parent.parent.name


def read_stats(paths: Sequence[Path]) -> list[Sheet]:
    """Read statistics of ``recon-all`` or FastSurfer: a sheet a hemisphere, measure and version."""
    rows = []
    for path in paths:
        named = _STATS.fullmatch(path.name)
        text = read_bytes(path).decode("utf-8", errors="replace")
        about = {"side": "", "atlas": ""}
        if named is not None and named["parcellation"]:
            about = {"side": named["side"], "atlas": named["parcellation"]}
        elif named is not None:
            about["atlas"] = named["segmentation"].partition(".")[0]
        versions = ((program, pattern.search(text)) for program, pattern in _PROGRAMS)
        program, version = next((found for found in versions if found[1]), ("", None))
        if version:
            about["software"] = _RELEASES.get(
                version[version.lastindex or 1], program + " ".join(version.groups())
            )
        for measure, cells in _measures(path, text).items():
            rows.append(ScanRow(path, _scan_of_stats(path), cells, {**about, "measure": measure}))
    return sheets_of_scans(rows)


def _measures(path: Path, text: str) -> dict[str, dict[str, str]]:
    """Return the cells of a file by measure and region; cells of the whole brain are volumes."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    columns: list[str] = []
    n_rows = 0
    for n, line in enumerate(text.splitlines(), start=1):
        if total := _WHOLE_BRAIN.fullmatch(line):
            structure, name, value, unit = total.groups()
            if unit == "mm^3" or structure != "Cortex":
                found["volume"][name] = value
            elif unit in _CORTICAL:
                found[_CORTICAL[unit]][name] = value
        elif line.startswith("# ColHeaders"):
            columns = line.split()[2:]
        elif columns and line.strip() and not line.startswith("#"):
            cells = line.split()
            if len(cells) != len(columns):
                raise DataError(
                    f"{path}: line {n} does not have the {len(columns)} cells of its header; was it cut?"
                )
            row = dict(zip(columns, cells, strict=True))
            n_rows += 1
            for column, measure in _COLUMNS.items():
                if column in row:
                    found[measure][row.get("StructName", "")] = row[column]
    if "StructName" not in columns:
        raise DataError(
            f"{path}: no line '# ColHeaders' with StructName; is it a file of FreeSurfer, and whole?"
        )
    if not n_rows:
        raise DataError(f"{path}: there are no rows below its header; was it cut?")
    return found


def _atlas_of_freesurfer_table(_path: Path, head: str) -> str | None:
    """Return the atlas that the first cell names; ``aseg`` for a table of segmented structures."""
    first = _FIRST.match(head.lstrip("\ufeff"))
    if first is None:
        return None
    return first[2] or ("wmparc" if re.search(r"\bwm-[lr]h-", head) else "aseg")


def read_freesurfer_table(path: Path) -> Sheet:
    """Read a table whose first cell names hemisphere, atlas and measure, or only the measure."""
    text = read_text(path)
    first = _FIRST.match(text)
    if first is None:
        raise DataError(f"{path}: the first cell names no measure.")
    side = first[1] or ""
    atlas = first[2] or ""
    measure = first[3] or first[4]
    split = re.compile(" +" if first[5].startswith(" ") else re.escape(first[5]))
    lines = [
        (n, line.rstrip("\r\t,; ").strip(" ")) for n, line in enumerate(text.split("\n"), start=1)
    ]
    rows = [
        (n, [cell.strip().strip('"') for cell in split.split(line)]) for n, line in lines if line
    ]
    (_, header), *body = rows
    wrong = [n for n, cells in body if len(cells) != len(header)]
    if wrong or not body:
        found = (
            f"line {wrong[0]} does not have the {len(header)} cells of the header"
            if wrong
            else "there are no rows"
        )
        raise DataError(f"{path.name}: {found}; was {'it' if wrong else 'the table'} cut?")
    numbers = [n for n, _ in body]
    table = pd.DataFrame(
        [cells[1:] for _, cells in body], [cells[0] for _, cells in body], header[1:], dtype=object
    )

    def n_regions(words: Iterable[str]) -> int:
        found = (
            (word, region_of(word) or region_of(word, side=side, measure=measure)) for word in words
        )
        return sum(
            region is not None and (bool(region.atlas) or region.name == word)
            for word, region in found
        )

    is_transposed = n_regions(table.index) > n_regions(table.columns)
    if is_transposed:
        table, numbers = table.T, [1] * len(table.columns)
    repeated = table.columns[table.columns.duplicated()]
    if len(repeated):
        names = "first column" if is_transposed else "header"
        n_times = list(table.columns).count(repeated[0])
        raise DataError(f"{path.name}: the {names} names '{repeated[0]}' {n_times} times.")
    cells = {str(name): column.tolist() for name, column in table.items()}
    return Sheet(path, table.index.tolist(), cells, numbers, (), side, measure, atlas)


_ARRAY = re.compile(
    r"(sub-[0-9]+(?:_ses-[0-9]+)?)_preproc-(cat12vbm_desc-gm|freesurfer_desc-(desikan|destrieux))_ROI\.npy"
)
_ATLASES = {"desikan": "aparc", "destrieux": "aparc.a2009s", None: "neuromorphometrics"}
_CHANNELS = {
    **{
        "thickness_std": "thicknessstd",
        "thickness": "thickness",
        "surface_area": "area",
        "volume": "volume",
    },
    **{
        "mean_curv": "meancurv",
        "gaussian_curv": "gauscurv",
        "fold": "foldind",
        "intrinsic_curv": "curvind",
    },
}
_N_FOLDERS_UP = 6


def read_openbhb(paths: Sequence[Path]) -> list[Sheet]:
    """Read OpenBHB's arrays ``sub-ID_preproc-…_ROI.npy``, a sheet a measure; the folder ``resource`` names columns.

    They are ``vbm_roi`` (284 volumes), ``fs_desikan_roi`` (7 measures of 68 regions) and
    ``fs_destrieux_roi`` (148).
    """
    named = _ARRAY.fullmatch(paths[0].name)
    assert named is not None
    regions, channels = _resource(paths[0], named[3])
    of_software = {"software": "FreeSurfer", "scale": 1.0} if named[3] else CAT12
    shape = (len(channels), len(regions))
    rows = []
    for path in paths:
        array = read_array(path)
        if (
            array.dtype.kind not in "fiu"
            or array.size != shape[0] * shape[1]
            or array.shape[-1] != shape[1]
        ):
            raise DataError(
                f"{path}: holds {array.dtype} of shape {array.shape}; 'resource' names numbers of shape {shape}."
            )
        for channel, values in zip(
            channels, array.reshape(shape).astype(np.float64).tolist(), strict=True
        ):
            cells = dict(zip(regions, map(repr, values), strict=True))
            about = {"measure": channel, "atlas": _ATLASES[named[3]], **of_software}
            rows.append(ScanRow(path, _scan_of_openbhb(path), cells, about))
    return sheets_of_scans(rows)


def _scan_of_openbhb(path: Path) -> str:
    """Return the identifier in front of the name of an array."""
    return path.name.partition("_preproc-")[0]


def _resource(path: Path, atlas: str | None) -> tuple[list[str], list[str]]:
    """Return the regions of an array and its measures as OpenBHB's folder ``resource`` names them."""
    folders = [above / "resource" for above in list(path.absolute().parents)[:_N_FOLDERS_UP]]
    labels = f"freesurfer_atlas-{atlas}_labels.txt" if atlas else "cat12vbm_labels.txt"
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        raise DataError(
            f"{path}: no folder 'resource' above it, which names the regions (OpenBHB has one)."
        )
    if (folder / "resources.json").is_file():
        kind = f"{atlas or 'vbm'}_roi"
        of_kind = read_json(folder / "resources.json").get(kind)
        named = [
            of_kind.get(key) if isinstance(of_kind, dict) else None
            for key in ("features", "channels")
        ]
        if not all(isinstance(each, list) and each for each in named):
            raise DataError(
                f"{folder / 'resources.json'}: '{kind}' needs the lists 'features' and 'channels'."
            )
        regions, channels = (list(map(str, each or ())) for each in named)
    else:
        needed = [folder / labels, *([folder / "freesurfer_channels.txt"] if atlas else [])]
        lacking = [file.name for file in needed if not file.is_file()]
        if lacking:
            raise DataError(
                f"{folder}: there is no '{lacking[0]}', which names the columns of {path.name}."
            )
        regions, *rest = [read_text(file).split() for file in needed]
        channels = rest[0] if rest else [""]
    if atlas is None:
        return regions, [""]  # each region's name holds the tissue: lAmy_GM_Vol
    return regions, [
        next((name for word, name in _CHANNELS.items() if word in each), each) for each in channels
    ]


def _no_scan(_path: Path) -> str:
    """Return "": a table is of many scans."""
    return ""


class Format(NamedTuple):
    """A way in which a program writes measures, found by its name in `FORMATS`.

    `atlas_of` takes a path and the beginning of the file as text, "" for what is no text, and
    returns the atlas of the file ("" if it names none), or None if its format is another. `sheets`
    reads files of this format, all of one atlas. `scan_of` returns the identifier of the only scan
    of a file by its path, "" for a table of many: by this name a damaged file is left out.
    """

    atlas_of: Callable[[Path, str], str | None]
    sheets: Callable[[Sequence[Path]], list[Sheet]]
    scan_of: Callable[[Path], str] = _no_scan


def read_sheets(reader: Format, files: Sequence[Path]) -> list[Sheet]:
    """Read files of one format; each damaged file becomes a sheet that has the reason alone."""
    damage = {}
    for file in files:
        if problem := problem_of_content(file):
            damage[file] = problem
    readable = list(filter(lambda file: file not in damage, files))
    sheets: list[Sheet] = []
    if readable:
        try:
            sheets += reader.sheets(readable)
        except DataError:
            damage_alone = _damage_of(reader, readable)
            damage |= damage_alone
            if not damage_alone:
                raise
            sheets += read_sheets(
                reader, list(filter(lambda file: file not in damage_alone, readable))
            )
    for file, reason in damage.items():
        scans = list(filter(None, [reader.scan_of(file)]))
        sheets.append(Sheet(file, scans, {}, files=[file], damage=reason))
    return sheets


def _damage_of(reader: Format, files: Sequence[Path]) -> dict[Path, str]:
    """Return the files that cannot be read even alone, each with the reason."""
    damage = {}
    for file in files:
        try:
            reader.sheets([file])
        except DataError as error:
            text = str(error)
            damage[file] = text.removeprefix(f"{file}: ").removeprefix(f"{file.name}: ")
    return damage


_OF_TABLES = (".tsv", ".csv", ".txt", ".xlsx", ".xls", ".parquet")
FORMATS: dict[str, Format] = {
    "freesurfer-stats": Format(_atlas_of_stats, read_stats, _scan_of_stats),
    "freesurfer-table": Format(
        _atlas_of_freesurfer_table, lambda paths: list(map(read_freesurfer_table, paths))
    ),
    "cat12": Format(atlas_of_cat12, read_cat12, scan_of_cat12),
    "openbhb": Format(
        lambda path, _: _ATLASES[named[3]] if (named := _ARRAY.fullmatch(path.name)) else None,
        read_openbhb,
        _scan_of_openbhb,
    ),
    # Columns that have FreeSurfer's names or ENIGMA's.
    "table": Format(
        lambda path, _: "" if path.suffix.lower() in _OF_TABLES else None,
        lambda paths: list(map(by_identifier, paths)),
    ),
}
"""Name of a format → its readers; the first that claims a file reads it."""
