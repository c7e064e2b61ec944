"""Values of cortical regions, drawn on the inflated surface of fsaverage5."""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from nibabel.freesurfer import read_annot

from neurocontrast.data.measures.names import UNITS, Kind, region_of
from neurocontrast.exceptions import ConfigError, said

SIDES = {"lh": "left", "rh": "right"}
N_VERTICES = 10_242
"""Vertices of a hemisphere of fsaverage5."""

_FOLDER = Path("subjects", "fsaverage5", "label")
_DEFAULT_ATLAS = "aparc"
_VIEWS = (("lh", "lateral"), ("lh", "medial"), ("rh", "medial"), ("rh", "lateral"))

Labels = dict[str, tuple[npt.NDArray[np.int32], list[str]]]
"""Hemisphere → the region's number at each vertex, and the names of the regions."""


def find_annotations(folder: str | os.PathLike[str] | None, atlas: str) -> Labels | None:
    """Read the parcellation of both hemispheres of fsaverage5 from a folder, or return None where none is found.

    The folder has such files as ``lh.aparc.annot``; by default it is that of ``$FREESURFER_HOME``.
    `atlas` are FreeSurfer's names of the measures' atlases, such as ``aparc.a2009s+aseg``; that of
    the cortex is taken, or ``aparc``. A ConfigError tells that a given folder lacks a file, or that
    a file is damaged or of another mesh.
    """
    place = (
        Path(os.environ.get("FREESURFER_HOME", "")) / _FOLDER if folder is None else Path(folder)
    )
    of_cortex = next(
        (part for part in atlas.split("+") if part.startswith("aparc")), _DEFAULT_ATLAS
    )
    files = {side: place / f"{side}.{of_cortex}.annot" for side in SIDES}
    missing = [str(path) for path in files.values() if not path.is_file()]
    if missing and folder is None:
        return None
    if missing:
        raise ConfigError(
            f"atlas: there is no {' and no '.join(missing)}. Give the folder with both, as FreeSurfer has it in "
            f"{Path('$FREESURFER_HOME') / _FOLDER}."
        )
    return {side: _read(path) for side, path in files.items()}


def _read(path: Path) -> tuple[npt.NDArray[np.int32], list[str]]:
    try:
        labels, _, names = read_annot(path)
    except (OSError, ValueError, IndexError, TypeError) as error:
        raise ConfigError(
            f"atlas: {path} is not a readable annotation of FreeSurfer ({said(error)})."
        ) from error
    if len(labels) != N_VERTICES:
        raise ConfigError(
            f"atlas: {path} is of a mesh with {len(labels)} vertices; {N_VERTICES} are needed, those of fsaverage5."
        )
    return labels, [name.decode() for name in names]


def values_of_vertices(
    values: Mapping[str, float], labels: Labels, kind: Kind
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the value at each vertex of both hemispheres, NaN where no measure of the kind is of its region.

    The `values` are by the name of the measure, in the spelling of `region_of`.
    """
    found = {}
    for side, (numbers, names) in labels.items():
        regions = [region_of(name, side=side, measure=kind) for name in names]
        table = [values.get(region.name, np.nan) if region else np.nan for region in regions]
        found[side] = np.where(numbers >= 0, np.array([*table, np.nan])[numbers], np.nan)
    return found


def draw_regions(values: Mapping[str, float], labels: Labels, path: Path) -> bool:
    """Draw values of regions as a PNG: a row for each kind of measure, both hemispheres from both sides.

    Returns whether any measure is of a region of the parcellation; without, no file is written.
    """
    # nilearn's plotting and matplotlib take seconds to import.
    from matplotlib.figure import Figure
    from nilearn import datasets, plotting

    drawn = {kind: values_of_vertices(values, labels, kind) for kind in UNITS}
    drawn = {
        kind: each
        for kind, each in drawn.items()
        if any(np.isfinite(side).any() for side in each.values())
    }
    if not drawn:
        return False
    mesh = datasets.fetch_surf_fsaverage("fsaverage5")  # part of nilearn: nothing is downloaded
    limit = (
        max(float(np.nanmax(np.abs(side))) for each in drawn.values() for side in each.values())
        or 1.0
    )
    figure = Figure(figsize=(12, 3 * len(drawn)))
    axes = figure.subplots(len(drawn), len(_VIEWS), subplot_kw={"projection": "3d"}, squeeze=False)
    for row, (kind, sides) in zip(axes, drawn.items(), strict=True):
        for axis, (side, view) in zip(row, _VIEWS, strict=True):
            with warnings.catch_warnings():  # of a hemisphere without a value
                warnings.simplefilter("ignore")
                plotting.plot_surf_stat_map(
                    mesh[f"infl_{SIDES[side]}"],
                    sides[side],
                    bg_map=mesh[f"sulc_{SIDES[side]}"],
                    hemi=SIDES[side],
                    view=view,
                    engine="matplotlib",
                    cmap="PuOr_r",
                    vmin=-limit,
                    vmax=limit,
                    axes=axis,
                    figure=figure,
                    colorbar=side == "rh" and view == "lateral",
                )
            axis.set_title(f"{kind}: {SIDES[side]}, {view}")
    figure.savefig(path, dpi=110, bbox_inches="tight")
    return True
