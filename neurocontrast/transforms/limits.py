"""Limits and constants of preprocessing, known to settings and transforms alike."""

from __future__ import annotations

SPACING_LIMITS_MM = (0.1, 20.0)  # voxel sizes outside these are taken for a damaged header
SAME_SPACING = 1e-3  # spacings that differ by less than this part are the same
N_VOXELS_MIN = 8  # a scan with fewer voxels along an axis is a slice or a thumbnail
FWHM_PER_SIGMA = 2.3548200450309493


def check_erosion(erode_mm: float, spacing_mm: float | None) -> None:
    """Raise a ValueError for an erosion that would take no voxel."""
    if spacing_mm is not None and 0 < erode_mm < spacing_mm * (1 - SAME_SPACING):
        raise ValueError(
            f"data.erode_mm must be 0 or at least the spacing ({spacing_mm:g} mm), got {erode_mm:g}, "
            "which takes no voxel away"
        )
