"""Imitate how other scanners and other preprocessing would have shown a brain that is in MNI space already."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from neurocontrast.transforms.augment import AugmentSettings
from neurocontrast.transforms.rand_volume import brain_views
from neurocontrast.transforms.views import TwoViews

__all__ = ["imitate_acquisition", "imitation_settings"]

Floats = npt.NDArray[np.float32]

_MOST_VOXELS = 3.0  # what operations that are told in voxels allow


def imitation_settings(spacing_mm: float) -> AugmentSettings:
    """Return what an imitated acquisition changes, on a grid of that voxel size.

    Another registration (size and place), contrast, bias field, sharpness, noise, and another brain extraction. The
    ranges hold what the sites of three collections differ by: the ratio of white to grey matter is 1.3 to 1.5 among
    them, the brain's size in the template's space differs by 5 % of its volume's third root, and the rim of fluid that
    an extraction leaves is up to 6 mm deep.
    """

    def voxels(mm: float) -> float:
        return min(mm / spacing_mm, _MOST_VOXELS)

    operations: dict[str, Any] = {
        "affine": {
            "probability": 1.0,
            "rotation_degrees": (-3.0, 3.0),
            "translation_voxels": (-1.5 / spacing_mm, 1.5 / spacing_mm),
            "scale": (0.92, 1.08),
            "anisotropic": True,
        },
        "contrast": {"probability": 1.0, "gamma": (0.6, 1.8)},
        "bias_field": {"probability": 1.0, "strength": (0.05, 0.2)},
        "sharpness": {"probability": 1.0, "amount": (-0.8, 0.8), "sigma_voxels": voxels(1.6)},
        "rician": {"probability": 1.0, "sigma": (0.0, 0.03)},
        "tight_mask": {"probability": 0.6, "depth_voxels": (voxels(0.5), voxels(6.0)), "below": (0.2, 0.55)},
        "mask_edge": {"probability": 0.3, "depth_voxels": (voxels(0.5), voxels(3.0))},
    }
    return AugmentSettings(**{"blur": None, "noise": None, "cutout": None, **operations})


def imitate_acquisition(brain: Floats, spacing_mm: float, *, name: str, number: int) -> Floats:
    """Return a brain as another acquisition would have shown it, which depends on its name and number alone.

    Parameters
    ----------
    brain : ndarray (D, H, W)
        Intensities, 0 outside the brain.
    spacing_mm : float
        Voxel size.
    name : str
        Names the randomness: mostly the scan.
    number : int
        Which one.

    Returns
    -------
    ndarray (D, H, W)
        Intensities, 0 outside what is brain there.
    """
    image = torch.from_numpy(np.ascontiguousarray(brain, dtype=np.float32))[None, None]
    made: Floats = _views(spacing_mm).view(image, [name], epoch=0, view=number)[0, 0].numpy()
    return made


@cache
def _views(spacing_mm: float) -> TwoViews:
    """Return the views of imitated acquisitions, which try their transforms out at the first image alone."""
    return TwoViews(brain_views(imitation_settings(spacing_mm)), seed=0)
