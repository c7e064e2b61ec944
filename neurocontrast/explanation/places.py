"""Names of places in the brain: the nearest of the centres of published regions that nilearn ships."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

FARTHEST_MM = 20.0
"""A place that is farther from every centre has no name."""
_MIDLINE_MM = 4.0


def name_of_place(x: float, y: float, z: float) -> str | None:
    """Name a place in MNI space (mm): "right hippocampus"; None if no centre lies within 20 mm of it.

    The centres are those of Dosenbach et al. (2010) for cortex, deep grey matter and cerebellum, and those of Seitzman
    et al. (2020) for hippocampus and amygdala.
    """
    centres, names = _regions()
    distances = np.linalg.norm(centres - (x, y, z), axis=1)
    nearest = int(distances.argmin())
    if distances[nearest] > FARTHEST_MM:
        return None
    side = "" if abs(x) < _MIDLINE_MM else "left " if x < 0 else "right "
    return f"{side}{names[nearest]}"


@cache
def _regions() -> tuple[npt.NDArray[np.float64], Sequence[str]]:
    from nilearn import datasets  # takes seconds; nothing is downloaded

    cortex, deep = datasets.fetch_coords_dosenbach_2010(), datasets.fetch_coords_seitzman_2018()
    missing = np.isin(deep.regions, ("hippocampus", "amygdala"))
    names = [str(label).rpartition(" ")[0] for label in cortex.labels] + [str(name) for name in deep.regions[missing]]
    return np.vstack([cortex.rois.to_numpy(dtype=float), deep.rois.to_numpy(dtype=float)[missing]]), names
