"""Another position in the scanner, resampled by MONAI's `Affine`.

Not by `RandAffined`, which interpolates image and mask apart (``benchmarks/site_views.py``) and draws a scale for
each axis, never one for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from monai.transforms import Affine
from monai.transforms.utils import create_rotate
from numpy.typing import NDArray
from torch import Tensor

from neurocontrast.transforms.rand_volume import RandBrainTransform
from neurocontrast.transforms.site_settings import AffineSettings

__all__ = ["RandBrainAffined", "move"]

Array = NDArray[np.float64]


def move(s_CDHW: Tensor, brain_CDHW: Tensor, *, matrix: Array, translation: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Return the volume at ``matrix · (voxel − centre) + centre + translation``, and the brain's mask there.

    `matrix` (3, 3) and `translation` (3) are in voxels and lead from the new volume's places to the old one's,
    as in ``scipy.ndimage.affine_transform``. Beyond the border there is nothing. A voxel is of the brain where at
    least half of what it is made of is, so that no dim rim makes the brain larger.
    """
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = matrix, translation
    resample = Affine(affine=affine, padding_mode="zeros", device=s_CDHW.device, image_only=True)
    # Interpolated together: one grid, and one pass over it.
    moved = resample(torch.cat([s_CDHW, brain_CDHW.to(s_CDHW.dtype)])).as_tensor()
    n_channels = s_CDHW.shape[0]
    return moved[:n_channels], moved[n_channels:] >= 0.5


class RandBrainAffined(RandBrainTransform):
    """Rotate, shift and, where asked, scale the brain at random: trilinear, in one pass, signal and mask together.

    Parameters
    ----------
    keys, prob, allow_missing_keys, rotation_degrees, translation_voxels, scale, anisotropic
        As in MONAI's random transforms (`prob` is 0.5 by default), and as `AffineSettings` says.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainAffined
    >>> transform = RandBrainAffined("image", prob=1.0, rotation_degrees=(-5.0, 5.0))
    >>> transform({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    operation = AffineSettings

    def draw(self) -> dict[str, Any]:
        """Draw what leads from a place in the view to one in the volume, in voxels about the centre."""
        chosen = self.settings
        angles = np.deg2rad(self.R.uniform(*chosen.rotation_degrees, 3))
        translation, scales = self.R.uniform(*chosen.translation_voxels, 3), self.R.uniform(*chosen.scale, 3)
        if not chosen.anisotropic:
            scales[:] = scales[0]
        return {"matrix": create_rotate(3, angles)[:3, :3] / scales, "translation": translation.tolist()}

    def change_brain(
        self, s_CDHW: Tensor, brain_CDHW: Tensor, *, matrix: Array, translation: Sequence[float]
    ) -> tuple[Tensor, Tensor]:
        """Return signal and brain where they come to lie."""
        return move(s_CDHW, brain_CDHW, matrix=matrix, translation=translation)
