"""The registration that FreeSurfer left: ``mri/transforms/talairach.xfm``, twelve numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from neurocontrast.exceptions import DataError
from neurocontrast.prepare.registration import Registration

__all__ = ["find_talairach", "read_talairach"]

MNI305_TO_MNI152 = np.array(
    [
        [0.9975, -0.0073, 0.0176, -0.0429],
        [0.0146, 1.0009, -0.0024, 1.5496],
        [-0.0130, -0.0093, 0.9971, 1.1840],
        [0.0, 0.0, 0.0, 1.0],
    ]
)
"""FreeSurfer's matrix between RAS millimetres of the two templates (its wiki, CoordinateSystems)."""
SCALES = (0.5, 2.0)
"""Beyond these scales a matrix registers no brain."""
_MATRIX = re.compile(r"Linear_Transform\s*=\s*([^;]*)")


def find_talairach(source: str) -> str:
    """Return the path of ``talairach.xfm`` of an image in a subject's folder ``mri``, or ""."""
    path = Path(source).parent / "transforms" / "talairach.xfm"
    return str(path) if source.endswith((".mgz", ".mgh")) and path.is_file() else ""


def read_talairach(path: str) -> Registration:
    """Read the map from MNI152 to a subject's scan; the file holds the one from the scan to MNI305."""
    match = _MATRIX.search(Path(path).read_text(encoding="utf-8", errors="replace"))
    try:
        numbers = np.array([float(word) for word in match[1].split()] if match else []).reshape(3, 4)
    except ValueError:
        raise DataError(
            f"{path}: no 'Linear_Transform =' of twelve numbers; run FreeSurfer again, or remove it."
        ) from None
    to_mni152 = MNI305_TO_MNI152 @ np.vstack([numbers, [0, 0, 0, 1]])
    scales = np.linalg.svd(to_mni152[:3, :3], compute_uv=False)
    if not (np.isfinite(numbers).all() and scales[0] < SCALES[1] and scales[2] > SCALES[0]):
        raise DataError(
            f"{path}: its matrix scales a brain by {np.round(scales, 2).tolist()}; run FreeSurfer again, or remove it."
        )
    return Registration(np.linalg.inv(to_mni152), float("nan"))
