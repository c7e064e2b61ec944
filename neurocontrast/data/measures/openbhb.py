"""Read OpenBHB's arrays of regional measures; files in folder ``resource`` name the columns."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from neurocontrast.data.measures.cat12 import CAT12
from neurocontrast.data.measures.names import MM3_PER_ML
from neurocontrast.data.measures.sheets import ScanRow, SharedFacts, Sheet, sheets_of_scans
from neurocontrast.exceptions import DataError
from neurocontrast.reading import read_array, read_json, read_text

_ARRAY = re.compile(
    r"(sub-[0-9]+(?:_ses-[0-9]+)?)_preproc-"
    r"(cat12vbm_desc-gm|freesurfer_desc-(desikan|destrieux))_ROI\.npy"
)
"""Pattern of the name of an OpenBHB array: scan, preprocessing, and atlas."""
_ATLASES = {"desikan": "aparc", "destrieux": "aparc.a2009s", None: "neuromorphometrics"}
"""Name of an atlas in OpenBHB → atlas; None is the key for arrays of CAT12."""
_CHANNELS = {
    "thickness_std": "thicknessstd",
    "thickness": "thickness",
    "surface_area": "area",
    "volume": "volume",
    "mean_curv": "meancurv",
    "gaussian_curv": "gauscurv",
    "fold": "foldind",
    "intrinsic_curv": "curvind",
}
"""Part of a measure's name in OpenBHB → measure; the first part found in a name counts."""
_N_FOLDERS_UP = 6
"""Number of folders above an array in which the folder ``resource`` is searched."""


def read_openbhb(paths: Sequence[Path]) -> list[Sheet]:
    """Read OpenBHB's arrays ``sub-ID_preproc-…_ROI.npy`` of one atlas; return `Sheet` objects.

    A `Sheet` is a table of text with a row for each scan and a column for each region. ``vbm_roi``
    (284 volumes) gives one `Sheet`. ``fs_desikan_roi`` (7 measures of 68 regions) and
    ``fs_destrieux_roi`` (148 regions) give one for each measure, such as thickness. The folder
    ``resource`` names the regions and measures.
    """
    named = _ARRAY.fullmatch(paths[0].name)
    assert named is not None
    regions, channels = _resource(paths[0], named[3])
    facts = SharedFacts(atlas=_ATLASES[named[3]], software="FreeSurfer")
    if named[3] is None:
        facts = SharedFacts(atlas=_ATLASES[None], software=CAT12, scale=MM3_PER_ML)
    shape = (len(channels), len(regions))
    rows = []
    for path in paths:
        array = read_array(path)
        has_size = array.size == shape[0] * shape[1] and array.shape[-1] == shape[1]
        if array.dtype.kind not in "fiu" or not has_size:
            raise DataError(
                f"{path}: holds {array.dtype} of shape {array.shape}; 'resource' names numbers of "
                f"shape {shape}."
            )
        values = array.reshape(shape).astype(np.float64).tolist()
        for channel, of_regions in zip(channels, values, strict=True):
            cells = dict(zip(regions, map(repr, of_regions), strict=True))
            of_channel = replace(facts, measure=channel)
            rows.append(ScanRow(path, scan_of_openbhb(path), cells, of_channel))
    return sheets_of_scans(rows)


def atlas_of_openbhb(path: Path, _head: str) -> str | None:
    """Return the atlas in the name of an OpenBHB array; None for other files."""
    named = _ARRAY.fullmatch(path.name)
    if named is None:
        return None
    return _ATLASES[named[3]]


def scan_of_openbhb(path: Path) -> str:
    """Return the scan's identifier in the name of an OpenBHB array."""
    return path.name.partition("_preproc-")[0]


def _resource(path: Path, atlas: str | None) -> tuple[list[str], list[str]]:
    """Return names of regions and of measures in OpenBHB's array file `path`, from ``resource``.

    ``resource`` is a folder in one of the folders above the array. `atlas` is OpenBHB's name of the
    atlas, None for CAT12.
    """
    folders = [above / "resource" for above in list(path.absolute().parents)[:_N_FOLDERS_UP]]
    folder = next(filter(Path.is_dir, folders), None)
    if folder is None:
        raise DataError(
            f"{path}: no folder 'resource' above it, which names the regions (OpenBHB has one)."
        )
    if (folder / "resources.json").is_file():
        regions, channels = _resource_of_json(folder / "resources.json", atlas)
    else:
        regions, channels = _resource_of_labels(folder, path, atlas)
    if atlas is None:
        return regions, [""]  # each region's name holds the tissue: lAmy_GM_Vol
    return regions, list(map(_measure_of_channel, channels))


def _resource_of_json(path: Path, atlas: str | None) -> tuple[list[str], list[str]]:
    """Return the names of regions and of measures in OpenBHB's ``resources.json`` for an atlas.

    `path` is the file, and `atlas` OpenBHB's name of the atlas, None for CAT12.
    """
    kind = f"{atlas or 'vbm'}_roi"
    lists = read_json(path).get(kind)
    named = []
    for key in ("features", "channels"):
        names = None
        if isinstance(lists, dict):
            names = lists.get(key)
        if not isinstance(names, list) or not names:
            raise DataError(f"{path}: '{kind}' needs the lists 'features' and 'channels'.")
        named.append(list(map(str, names)))
    regions, channels = named
    return regions, channels


def _resource_of_labels(folder: Path, path: Path, atlas: str | None) -> tuple[list[str], list[str]]:
    """Return the names of regions and of measures for a file `path`, from text files in `folder`.

    `path` is an array file of OpenBHB, `folder` OpenBHB's ``resource``, and `atlas` OpenBHB's name
    of the atlas, None for CAT12.
    """
    needed = [folder / "cat12vbm_labels.txt"]
    if atlas is not None:
        needed = [
            folder / f"freesurfer_atlas-{atlas}_labels.txt",
            folder / "freesurfer_channels.txt",
        ]
    for file in needed:
        if not file.is_file():
            raise DataError(
                f"{folder}: there is no '{file.name}', which names the columns of {path.name}."
            )
    regions = read_text(needed[0]).split()
    channels = [""]
    if atlas is not None:
        channels = read_text(needed[1]).split()
    return regions, channels


def _measure_of_channel(channel: str) -> str:
    """Return FreeSurfer's name for a measure named `channel` in OpenBHB, or the same name."""
    for word, measure in _CHANNELS.items():
        if word in channel:
            return measure
    return channel
