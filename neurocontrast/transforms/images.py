"""Convert between MONAI images and NumPy arrays, and read an image's affine and file name."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from monai.data import MetaTensor
from monai.transforms import Compose, MapTransform
from nibabel.affines import voxel_sizes

from neurocontrast.exceptions import DataError, NeurocontrastError
from neurocontrast.files import files_of

_NAME = "filename_or_obj"


class EachImage(MapTransform):
    """Base class of dictionary transforms that change each image under the given keys.

    A subclass defines `made_of`, from an image to the changed image, or `change_item` if the change
    needs other entries of the dictionary.
    """

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return a copy of dictionary `data` with the images under the transform's keys changed."""
        item = dict(data)
        for key in self.key_iterator(item):
            self.change_item(item, key)
        return item

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Replace the image under `key` in dictionary `item`, in place, by the result of `made_of`.

        `made_of`, which a subclass defines, returns the changed image for an image.
        """
        item[key] = self.made_of(item[key])

    def made_of(self, image: Any) -> Any:
        """Return the changed image for `image`; a subclass defines the change."""
        raise NotImplementedError


def apply(compose: Compose, item: Mapping[Hashable, Any], *, start: int = 0) -> dict[str, Any]:
    """Return the dictionary that the transforms of a `Compose` make of `item`.

    Transforms are applied from number `start` on. If a transform fails, a DataError names the scan.
    """
    try:
        transformed: dict[str, Any] = compose(item, start=start)
        return transformed
    except RuntimeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, NeurocontrastError):
            cause = cause.__cause__
        if isinstance(cause, NeurocontrastError):
            raise cause from None
        scan = item.get("image")
        name = "the image"
        if isinstance(scan, str | tuple):
            name = ", ".join(files_of(scan))
        raise DataError(f"{name}: a transform failed ({type(cause).__name__}: {cause}).") from error


def to_image(voxels: npt.NDArray[Any], affine: npt.ArrayLike, *, name: str = "image") -> MetaTensor:
    """Return voxels (C, D, H, W) as a MONAI image with affine and file name, without copying.

    `name` is the file's name, which error messages use.
    """
    affine = np.asarray(affine, dtype=np.float64)
    meta = {
        _NAME: name,
        "original_affine": affine.copy(),
        "spatial_shape": np.array(voxels.shape[1:]),
        "original_channel_dim": float("nan"),
        "space": "RAS",
    }
    return MetaTensor(torch.from_numpy(voxels), affine=torch.from_numpy(affine), meta=meta)


def image_like(image: Any, voxels: npt.NDArray[Any], affine: npt.NDArray[np.float64]) -> MetaTensor:
    """Return a MONAI image of new voxels (C, D, H, W) and affine, with metadata of `image`."""
    if not isinstance(image, MetaTensor):
        return MetaTensor(torch.from_numpy(voxels), affine=torch.from_numpy(affine))
    meta = {key: value for key, value in image.meta.items() if key != "affine"}
    traced = list(image.applied_operations)
    tensor = torch.from_numpy(voxels).to(image.device)
    return MetaTensor(tensor, affine=torch.from_numpy(affine), meta=meta, applied_operations=traced)


def voxels_of(image: Any) -> npt.NDArray[Any]:
    """Return an image's voxels as an array (C, D, H, W), without a copy if in main memory."""
    if isinstance(image, MetaTensor):
        image = image.as_tensor()
    if isinstance(image, torch.Tensor):
        image = image.detach().cpu().numpy()
    voxels: npt.NDArray[Any] = np.asarray(image)
    if voxels.ndim != 4:
        raise ValueError(
            f"an image has the shape (C, D, H, W), got {voxels.shape}; load it with LoadScand, or "
            "with LoadImaged(..., ensure_channel_first=True)."
        )
    return voxels


def affine_of(image: Any) -> npt.NDArray[np.float64]:
    """Return an image's affine (4, 4); an array without affine gets voxels of 1 mm."""
    if isinstance(image, MetaTensor):
        affine: npt.NDArray[np.float64] = image.affine.detach().cpu().numpy().astype(np.float64)
        return affine
    return np.eye(4)


def spacing_of(affine: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the voxel size in millimetres along each axis of the grid of `affine`, as a tuple."""
    first, second, third = map(float, voxel_sizes(affine))
    return first, second, third


def name_of(image: Any) -> str:
    """Return an image's file name for messages, or ``image`` if the file is unknown."""
    if isinstance(image, MetaTensor):
        return str(image.meta.get(_NAME, "image"))
    return "image"


def corner_median(voxels: npt.NDArray[Any]) -> float:
    """Return the median of a volume's eight corner voxels, which estimates the background."""
    corners = tuple(slice(None, None, max(1, n - 1)) for n in voxels.shape)
    return float(np.median(voxels[corners]))


def centred(shape: Sequence[int], spacing_mm: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the affine of a grid of given shape and voxel size, with its centre at the origin."""
    affine = np.diag([*spacing_mm, 1.0])
    affine[:3, 3] = [-(n - 1) / 2 * step for n, step in zip(shape, spacing_mm, strict=True)]
    return affine


def corners_apart(
    shape: Sequence[int], affine: npt.NDArray[np.float64], other: npt.NDArray[np.float64]
) -> float:
    """Return how far the corners of a grid lie apart under two affines, in mm.

    The result is the largest difference in any coordinate of any corner.
    """
    corners = np.array([[*corner, 1] for corner in np.ndindex(2, 2, 2)]) * [*np.array(shape) - 1, 1]
    return float(np.abs(corners @ (affine - other).T).max())


def times(lengths: Any) -> str:
    """Return `lengths` as text for messages, joined by multiplication signs: "121 × 145 × 121"."""
    return " × ".join(f"{length:g}" for length in lengths)
