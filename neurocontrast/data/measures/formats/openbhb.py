"""OpenBHB's arrays of regions, ``sub-ID_preproc-…_ROI.npy``, named by its folder ``resource``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neurocontrast.data.measures.formats.sheet import Sheet, sheet_of_scans
from neurocontrast.data.measures.names import MM3_PER_ML
from neurocontrast.exceptions import DataError
from neurocontrast.reading import read_array, read_json, read_text

_NAME = re.compile(
    r"(sub-[0-9]+(?:_ses-[0-9]+)?)_preproc-(cat12vbm_desc-gm|freesurfer_desc-(desikan|destrieux))_ROI\.npy"
)
_ATLASES = {"desikan": "aparc", "destrieux": "aparc.a2009s", None: "neuromorphometrics"}
_CHANNELS = {
    **{"thickness_std": "thicknessstd", "thickness": "thickness", "surface_area": "area", "volume": "volume"},
    **{"mean_curv": "meancurv", "gaussian_curv": "gauscurv", "fold": "foldind", "intrinsic_curv": "curvind"},
}
_N_FOLDERS_UP = 6


class OpenBHBRegions:
    """Read ``vbm_roi`` (284 volumes), ``fs_desikan_roi`` (7 measures of 68 regions) and ``fs_destrieux_roi`` (148)."""

    def atlas_of(self, path: Path, _head: str) -> str | None:
        """Return the atlas in the name of the file."""
        named = _NAME.fullmatch(path.name)
        return _ATLASES[named[3]] if named else None

    def sheets(self, paths: Sequence[Path]) -> list[Sheet]:
        """Read the arrays of scans: a sheet a measure."""
        named = _NAME.fullmatch(paths[0].name)
        kind = f"{named[3]}_roi" if named and named[3] else "vbm_roi"
        regions, channels = _resource(paths[0], kind)
        arrays = [_array(path, (len(channels), len(regions))) for path in paths]
        people = [path.name.partition("_preproc-")[0] for path in paths]
        source = paths[0] if len(paths) == 1 else paths[0].parent
        atlas = _ATLASES[named[3]] if named else ""
        software, scale = ("CAT12", MM3_PER_ML) if kind == "vbm_roi" else ("FreeSurfer", 1.0)  # CAT12 writes mL
        about = {"atlas": atlas, "software": software, "scale": scale}
        found = []
        for position, channel in enumerate(channels):
            values = [[repr(float(value)) for value in array[position]] for array in arrays]
            rows = {path: dict(zip(regions, row, strict=True)) for path, row in zip(paths, values, strict=True)}
            found.append(sheet_of_scans(source, rows, people, measure=channel, **about))
        return found


def _array(path: Path, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    array = read_array(path)
    if array.dtype.kind not in "fiu" or array.size != shape[0] * shape[1] or array.shape[-1] != shape[1]:
        raise DataError(
            f"{path}: holds {array.dtype} of shape {array.shape}; 'resource' names numbers of shape {shape}."
        )
    return np.asarray(array.reshape(shape), dtype=np.float64)


def _resource(path: Path, kind: str) -> tuple[list[str], list[str]]:
    """Return the regions of an array and its measures as OpenBHB's folder ``resource`` names them."""
    folders = [above / "resource" for above in list(path.absolute().parents)[:_N_FOLDERS_UP]]
    atlas = kind.removesuffix("_roi")
    labels = "cat12vbm_labels.txt" if kind == "vbm_roi" else f"freesurfer_atlas-{atlas}_labels.txt"
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        raise DataError(f"{path}: no folder 'resource' above it, which names the regions (OpenBHB has one).")
    if (folder / "resources.json").is_file():
        of_kind = read_json(folder / "resources.json").get(kind)
        named = [of_kind.get(key) if isinstance(of_kind, dict) else None for key in ("features", "channels")]
        if not all(isinstance(each, list) and each for each in named):
            raise DataError(f"{folder / 'resources.json'}: '{kind}' needs the lists 'features' and 'channels'.")
        regions, channels = ([str(name) for name in each or ()] for each in named)
    else:
        needed = [folder / labels, *([] if kind == "vbm_roi" else [folder / "freesurfer_channels.txt"])]
        lacking = [file.name for file in needed if not file.is_file()]
        if lacking:
            raise DataError(f"{folder}: there is no '{lacking[0]}', which names the columns of {path.name}.")
        regions, *rest = [read_text(file).split() for file in needed]
        channels = rest[0] if rest else [""]
    if kind == "vbm_roi":
        return regions, [""]  # each region's name holds the tissue: lAmy_GM_Vol
    return regions, [next((name for word, name in _CHANNELS.items() if word in each), each) for each in channels]
