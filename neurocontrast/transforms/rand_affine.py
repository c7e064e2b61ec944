"""Another position in the scanner, resampled by MONAI's `Affine`.

Not by `RandAffined`, which interpolates image and mask apart (``benchmarks/site_views.py``) and draws a scale for
each axis, never one for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from neurocontrast.transforms.operation import Operation, Pair, Random, Span

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BrainAffine"]


class BrainAffine(Operation):
    """Rotate, shift and, where asked, scale the brain: trilinear, in one pass, signal and mask together.

    Parameters
    ----------
    probability : float
        How often.
    rotation_degrees : tuple of float
        Range of the angle about each axis, drawn uniformly.
    translation_voxels : tuple of float
        Range of the shift along each axis, drawn uniformly.
    scale : tuple of float
        Range of the factor on lengths, drawn uniformly. Off by default: the size of a brain tells age and sex.
    anisotropic : bool
        Whether each axis has a factor of its own.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainAffined
    >>> RandBrainAffined("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    stage = "scanner"
    rotation_degrees: Annotated[Pair, Span(ge=-45.0, le=45.0)] = (-3.0, 3.0)
    translation_voxels: Annotated[Pair, Span(ge=-16.0, le=16.0)] = (-1.0, 1.0)
    scale: Annotated[Pair, Span(ge=0.5, le=2.0)] = (1.0, 1.0)
    anisotropic: bool = False

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw what leads from a place in the view to one in the volume, in voxels about the centre."""
        from monai.transforms.utils import create_rotate

        angles = np.deg2rad(random.uniform(*self.rotation_degrees, 3))
        translation, scales = random.uniform(*self.translation_voxels, 3), random.uniform(*self.scale, 3)
        if not self.anisotropic:
            scales[:] = scales[0]
        return {"matrix": create_rotate(3, angles)[:3, :3] / scales, "translation": translation.tolist()}

    def change_brain(
        self, s_CDHW: Tensor, brain_CDHW: Tensor, *, matrix: NDArray[np.float64], translation: Sequence[float]
    ) -> tuple[Tensor, Tensor]:
        """Return signal and brain at ``matrix · (voxel − centre) + centre + translation``.

        `matrix` (3, 3) and `translation` (3) are in voxels and lead from the new volume's places to the old one's,
        as in ``scipy.ndimage.affine_transform``. Beyond the border there is nothing. A voxel is of the brain where at
        least half of what it is made of is, so that no dim rim makes the brain larger.
        """
        import torch
        from monai.transforms import Affine

        affine = np.eye(4)
        affine[:3, :3], affine[:3, 3] = matrix, translation
        resample = Affine(affine=affine, padding_mode="zeros", device=s_CDHW.device, image_only=True)
        # Interpolated together: one grid, and one pass over it.
        moved = resample(torch.cat([s_CDHW, brain_CDHW.to(s_CDHW.dtype)])).as_tensor()
        n_channels = s_CDHW.shape[0]
        return moved[:n_channels], moved[n_channels:] >= 0.5
