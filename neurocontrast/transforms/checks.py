"""Refusing an image that has nothing in it."""

from __future__ import annotations

from typing import Any

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.images import EachImage, name_of, times, voxels_of

__all__ = ["CheckVariesd", "nothing_varies"]


class CheckVariesd(EachImage):
    """Refuse an image in which nothing varies, which `monai.transforms.NormalizeIntensityd` would turn into zeros.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import CheckVariesd
    >>> image = torch.rand(1, 20, 24, 16)
    >>> same = CheckVariesd("image")({"image": image})["image"] is image
    """

    def made_of(self, image: Any) -> Any:
        """Return the image as it is."""
        voxels = voxels_of(image)
        if voxels.min() == voxels.max():
            raise nothing_varies(image)
        return image


def nothing_varies(image: Any) -> DataError:
    """Return the error that refuses an image in which nothing varies."""
    shape = times(voxels_of(image).shape[1:])
    return DataError(f"{name_of(image)}: nothing varies in the {shape} box around the scan's centre.")
