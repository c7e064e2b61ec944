"""Draw values of cortical regions on the inflated cortical surface of fsaverage5."""

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
"""Number of vertices of a hemisphere of fsaverage5."""

_FOLDER = Path("subjects", "fsaverage5", "label")
_DEFAULT_ATLAS = "aparc"
_VIEWS = (("lh", "lateral"), ("lh", "medial"), ("rh", "medial"), ("rh", "lateral"))

Labels = dict[str, tuple[npt.NDArray[np.int32], list[str]]]
"""Hemisphere (``lh`` or ``rh``) → number of the region at each vertex, and the names of regions."""


def find_annotations(folder: str | os.PathLike[str] | None, atlas: str) -> Labels | None:
    """Read a cortical parcellation of fsaverage5 from FreeSurfer's annotation files.

    Parameters
    ----------
    folder : path or None
        Folder with such files as ``lh.aparc.annot``; by default the folder of fsaverage5 in
        ``$FREESURFER_HOME``.
    atlas : str
        Names of FreeSurfer's atlases joined by ``+``, such as ``aparc.a2009s+aseg``, of which the
        cortical atlas is used; ``aparc`` if there is none.

    Returns
    -------
    dict or None
        Labels by hemisphere, ``lh`` and ``rh``; None if no `folder` is given and the default folder
        lacks the files.

    Raises
    ------
    ConfigError
        If a file is missing in `folder`, damaged, or for another surface mesh.
    """
    annotations = Path(os.environ.get("FREESURFER_HOME", "")) / _FOLDER
    if folder is not None:
        annotations = Path(folder)
    of_cortex = _atlas_of_cortex(atlas)
    files = {}
    missing = []
    for side in SIDES:
        files[side] = annotations / f"{side}.{of_cortex}.annot"
        if not files[side].is_file():
            missing.append(str(files[side]))
    if missing and folder is None:
        return None
    if missing:
        raise ConfigError(
            f"atlas: there is no {' and no '.join(missing)}. Give the folder with both, "
            f"as FreeSurfer has it in {Path('$FREESURFER_HOME') / _FOLDER}."
        )
    labels = {}
    for side, path in files.items():
        labels[side] = _read(path)
    return labels


def _atlas_of_cortex(atlas: str) -> str:
    """Return the cortical atlas among names of FreeSurfer's atlases joined by ``+``.

    If there is none, the atlas is ``aparc``.
    """
    for name in atlas.split("+"):
        if name.startswith("aparc"):
            return name
    return _DEFAULT_ATLAS


def _read(path: Path) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Return the region's number at each vertex and the names of regions, from an annotation file.

    The file is of one hemisphere. A damaged file or another surface mesh is refused.
    """
    try:
        labels, _, names = read_annot(path)
    except (OSError, ValueError, IndexError, TypeError) as error:
        raise ConfigError(
            f"atlas: {path} is not a readable annotation of FreeSurfer ({said(error)})."
        ) from error
    if len(labels) != N_VERTICES:
        raise ConfigError(
            f"atlas: {path} is of a mesh with {len(labels)} vertices; {N_VERTICES} are needed, "
            "those of fsaverage5."
        )
    return labels, list(map(bytes.decode, names))


def values_of_vertices(
    values: Mapping[str, float], labels: Labels, kind: Kind
) -> dict[str, npt.NDArray[np.float64]]:
    """Return hemisphere → value at each vertex, of the region around the vertex; NaN if none.

    Parameters
    ----------
    values : mapping
        Name of a measure, spelt as `region_of` spells the name of a region → value.
    labels : dict
        Parcellation of both hemispheres.
    kind : str
        Kind of measure, such as ``thickness``.
    """
    by_side = {}
    for side, (numbers, names) in labels.items():
        of_regions = []
        for name in names:
            region = region_of(name, side=side, measure=kind)
            value = np.nan
            if region:
                value = values.get(region.name, np.nan)
            of_regions.append(value)
        at_vertices = np.array([*of_regions, np.nan])[numbers]
        by_side[side] = np.where(numbers >= 0, at_vertices, np.nan)
    return by_side


def _values_by_kind(
    values: Mapping[str, float], labels: Labels
) -> dict[Kind, dict[str, npt.NDArray[np.float64]]]:
    """Return kind of measure, such as thickness → hemisphere → value of the region at each vertex.

    Kinds without any value are left out.
    """
    by_kind = {}
    for kind in UNITS:
        by_side = values_of_vertices(values, labels, kind)
        if np.isfinite(np.concatenate(list(by_side.values()))).any():
            by_kind[kind] = by_side
    return by_kind


def draw_regions(values: Mapping[str, float], labels: Labels, path: Path) -> bool:
    """Draw values of cortical regions as a PNG, with a row of brain surfaces for each measure kind.

    Each row shows both hemispheres from the lateral and the medial side.

    Parameters
    ----------
    values : mapping
        Name of a measure, spelt as `region_of` spells the name of a region → value.
    labels : dict
        Parcellation of both hemispheres.
    path : Path
        File to write.

    Returns
    -------
    bool
        Whether a file was written, which needs a measure of a region of the parcellation.
    """
    # nilearn's plotting and matplotlib take seconds to import.
    from matplotlib.figure import Figure
    from nilearn import datasets, plotting

    drawn = _values_by_kind(values, labels)
    if not drawn:
        return False
    mesh = datasets.fetch_surf_fsaverage("fsaverage5")  # part of nilearn: nothing is downloaded
    limit = _largest(drawn) or 1.0
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


def _largest(drawn: Mapping[Kind, Mapping[str, npt.NDArray[np.float64]]]) -> float:
    """Return the largest absolute value to draw, over all vertices and kinds of measure.

    NaN is ignored. `drawn` is kind of measure → hemisphere → value at each vertex.
    """
    sides: list[npt.NDArray[np.float64]] = []
    for by_side in drawn.values():
        sides += by_side.values()
    return float(np.nanmax(np.abs(np.concatenate(sides))))
