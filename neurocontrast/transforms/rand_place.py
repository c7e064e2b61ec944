"""Random changes of where the brain is in the volume: mirrored, in another position, or cropped and enlarged."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from monai.data import MetaTensor
from torch import Tensor
from torch.nn import functional

from neurocontrast.transforms import augment
from neurocontrast.transforms.rand_volumes import RandSignald, RandVolumed
from neurocontrast.transforms.volumes import Array, chosen, index_of, replaced

Places = tuple[Tensor, Tensor, Tensor]
"""Where voxels come from, along each axis, in voxels of the volume: tensors that broadcast to (b, D, H, W)."""


class _RandPlaced(RandVolumed):
    """Base of the operations that move voxels: a subclass has `origins`, and images keep a true affine."""

    def origins(self, shape: Sequence[int], **numbers: Any) -> Array:
        """Return matrices (b, 4, 4) from voxels of the changed volumes to those of the volumes."""
        raise NotImplementedError

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Put the changed volume in the place of the volume, with its affine."""
        image = item[key]
        super().change_item(item, key)
        if item[key] is not image and isinstance(image, MetaTensor):
            (origin,) = self.origins(image.shape[1:], **self.drawn_for(len(image)).numbers)
            item[key].affine = image.affine @ torch.from_numpy(origin).to(image.affine)


class RandMirrord(_RandPlaced):
    """Mirror volumes along one of some axes.

    MONAI's `RandAxisFlipd` chooses among all axes. Settings are the fields of
    `neurocontrast.transforms.augment.Flip`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandMirrord
    >>> RandMirrord("image", prob=1.0, axes=(0,))({"image": torch.arange(2.0).reshape(1, 2, 1, 1)})["image"].flatten()
    tensor([1., 0.])
    """

    Settings = augment.Flip
    operation = "flip"

    def limits(self) -> dict[str, augment.Pair]:
        """Return no ranges: axes are numbers to choose among."""
        return {}

    def n_further(self, n_channels: int) -> int:  # noqa: ARG002
        """Count the number by which the axis is chosen."""
        return 1

    def further(self, uniforms: Array, n_channels: int) -> dict[str, Any]:  # noqa: ARG002
        """Draw the axis."""
        axes = np.array(self.settings.axes)
        return {"axis": axes[(uniforms[:, 0] * len(axes)).astype(np.intp)]}

    def change(self, x_BCDHW: Tensor, *, axis: npt.NDArray[np.intp]) -> Tensor:
        """Return the mirrored volumes."""
        for number in np.unique(axis).tolist():
            index = index_of(np.flatnonzero(axis == number), x_BCDHW)
            mirrored = chosen(x_BCDHW, index).flip(2 + number)
            x_BCDHW = replaced(x_BCDHW, index, mirrored)
        return x_BCDHW

    def change_mask(self, brain_BCDHW: Tensor, **numbers: Any) -> Tensor:
        """Return the mirrored masks."""
        return self.change(brain_BCDHW, **numbers)

    def origins(self, shape: Sequence[int], *, axis: npt.NDArray[np.intp]) -> Array:
        """Return matrices that count voxels of an axis from its end."""
        matrices = np.tile(np.eye(4), (len(axis), 1, 1))
        rows = np.arange(len(axis))
        matrices[rows, axis, axis] = -1.0
        matrices[rows, axis, 3] = np.array(shape)[axis] - 1.0
        return matrices


class RandBrainAffined(_RandPlaced, RandSignald):
    """Rotate, shift and scale the brain about the centre of the box; outside of the box the signal is 0.

    As MONAI's `RandAffined` on a signal and, by the nearest voxel, on its mask. Ranges are the
    fields of `neurocontrast.transforms.augment.Affine`; every axis has a number of its own.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainAffined
    >>> RandBrainAffined("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.Affine
    operation = "affine"

    def limits(self) -> dict[str, augment.Pair]:
        """Return no ranges: each holds for three numbers."""
        return {}

    def n_further(self, n_channels: int) -> int:  # noqa: ARG002
        """Count angles, shifts and factors of the three axes."""
        return 9

    def further(self, uniforms: Array, n_channels: int) -> dict[str, Any]:  # noqa: ARG002
        """Draw angles in degrees, shifts in voxels, and the reciprocals of the factors on lengths."""
        lowest, highest = self.settings.scale
        limits = {
            "rotation_degrees": self.settings.rotation_degrees,
            "translation_voxels": self.settings.translation_voxels,
            "shrinking": (1.0 / highest, 1.0 / lowest),
        }
        thirds = np.split(uniforms, 3, axis=1)
        return {
            name: low + (high - low) * position
            for (name, (low, high)), position in zip(limits.items(), thirds, strict=True)
        }

    def change_brain(
        self, s_BCDHW: Tensor, brain_BCDHW: Tensor, **numbers: Array
    ) -> tuple[Tensor, Tensor]:
        """Return moved signals, by trilinear interpolation, and brains, by the nearest voxel."""
        places = _places(self.origins(s_BCDHW.shape[2:], **numbers), s_BCDHW)
        return interpolate(s_BCDHW, places), take_nearest(brain_BCDHW, places)

    def origins(
        self,
        shape: Sequence[int],
        *,
        rotation_degrees: Array,
        translation_voxels: Array,
        shrinking: Array,
    ) -> Array:
        """Return matrices that scale, then shift, then rotate the grid about its centre."""
        matrices = np.tile(np.eye(4), (len(shrinking), 1, 1))
        rotation = _rotations(np.deg2rad(rotation_degrees))
        matrices[:, :3, :3] = rotation * shrinking[:, None, :]
        shift = (rotation * translation_voxels[:, None, :]).sum(axis=2)
        centre = (np.array(shape) - 1.0) / 2.0
        matrices[:, :3, 3] = centre + shift - (matrices[:, :3, :3] * centre).sum(axis=2)
        return matrices


def _rotations(radians: Array) -> Array:
    """Return matrices (b, 3, 3) of rotations about the third, then the second, then the first axis."""
    rotation = np.tile(np.eye(3), (len(radians), 1, 1))
    for axis, (first, second) in enumerate(((1, 2), (2, 0), (0, 1))):
        turn = np.tile(np.eye(3), (len(radians), 1, 1))
        cosine = np.cos(radians[:, axis])
        sine = np.sin(radians[:, axis])
        turn[:, first, first] = cosine
        turn[:, second, second] = cosine
        turn[:, first, second] = -sine
        turn[:, second, first] = sine
        rotation = rotation @ turn
    return rotation


class RandResizedCropd(_RandPlaced):
    """Crop a box and resize it to the volume's shape, by trilinear interpolation.

    Ranges are the fields of `neurocontrast.transforms.augment.Crop`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandResizedCropd
    >>> RandResizedCropd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    Settings = augment.Crop
    operation = "crop"

    def n_further(self, n_channels: int) -> int:  # noqa: ARG002
        """Count the numbers that place the box."""
        return 3

    def further(self, uniforms: Array, n_channels: int) -> dict[str, Any]:  # noqa: ARG002
        """Return where the box is, from 0 to 1 along each axis."""
        return {"place": uniforms}

    def change(self, x_BCDHW: Tensor, *, fraction: Array, place: Array) -> Tensor:
        """Return the boxes in the volumes' shape."""
        return interpolate(x_BCDHW, _places_in_boxes(x_BCDHW, fraction=fraction, place=place))

    def change_mask(self, brain_BCDHW: Tensor, *, fraction: Array, place: Array) -> Tensor:
        """Return the boxes of the masks, by the nearest voxel."""
        places = _places_in_boxes(brain_BCDHW, fraction=fraction, place=place)
        return take_nearest(brain_BCDHW, places)

    def origins(self, shape: Sequence[int], *, fraction: Array, place: Array) -> Array:
        """Return matrices from voxels of the enlarged boxes to those of the volumes."""
        corners, sizes = boxes_of(shape, fraction=fraction, place=place)
        matrices = np.tile(np.eye(4), (len(sizes), 1, 1))
        for axis, side in enumerate(shape):
            step = sizes[:, axis] / side
            matrices[:, axis, axis] = step
            matrices[:, axis, 3] = corners[:, axis] + 0.5 * step - 0.5
        return matrices


def boxes_of(
    shape: Sequence[int], *, fraction: Array, place: Array
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return corners and sizes (b, 3) of boxes whose sides are `fraction` of `shape`, rounded up.

    `place` (b, 3) goes from 0 to 1 along each axis.
    """
    sides = np.array(shape)
    # The small number takes back what rounding may have added: 0.75 of 4 is 3 voxels, never 4.
    sizes = np.minimum(sides, np.ceil(fraction[:, None] * sides - 1e-9)).astype(np.int64)
    return (place * (sides - sizes + 1)).astype(np.int64), sizes


def _places_in_boxes(x_BCDHW: Tensor, *, fraction: Array, place: Array) -> Places:
    """Return where the voxels of enlarged boxes come from; beyond the outermost voxels' centres they are repeated."""
    shape = x_BCDHW.shape[2:]
    corners, sizes = boxes_of(shape, fraction=fraction, place=place)
    places = []
    for axis, side in enumerate(shape):
        inside = (np.arange(side) + 0.5) * (sizes[:, axis, None] / side) - 0.5
        inside = np.clip(inside, 0.0, sizes[:, axis, None] - 1.0)
        places.append(_along(corners[:, axis, None] + inside, axis, x_BCDHW))
    return places[0], places[1], places[2]


def _along(places: Array, axis: int, x_BCDHW: Tensor) -> Tensor:
    """Return numbers (b, side) along an axis of (b, D, H, W), as float32 on the device of the volumes."""
    lengths = [len(places), 1, 1, 1]
    lengths[1 + axis] = places.shape[1]
    return torch.from_numpy(places.astype(np.float32)).to(x_BCDHW.device).view(lengths)


def _places(origins: Array, x_BCDHW: Tensor) -> Places:
    """Return where the voxels of moved volumes come from, by matrices (b, 4, 4)."""
    places = []
    for row in range(3):
        first, second, third = (
            _along(origins[:, row, axis, None] * np.arange(side) + constant, axis, x_BCDHW)
            for axis, (side, constant) in enumerate(
                zip(x_BCDHW.shape[2:], (0.0, 0.0, origins[:, row, 3, None]), strict=True)
            )
        )
        places.append((first + second) + third)
    return places[0], places[1], places[2]


def interpolate(x_BCDHW: Tensor, places: Places) -> Tensor:
    """Return the volumes at places between voxels, by trilinear interpolation; beyond the border is 0.

    A third of the time of `torch.nn.functional.grid_sample`.
    """
    padded = functional.pad(x_BCDHW, (1, 2) * 3)
    corners = []
    weights = []
    for axis, place in enumerate(places):
        inside = place.clamp(-1.0, x_BCDHW.shape[2 + axis]).add_(1.0)
        corner = inside.floor()
        corners.append(corner)
        weights.append(inside.sub_(corner)[:, None])
    index = _flat_index(corners, padded)
    slabs = []
    for slab in (0, padded.stride(2)):
        rows = []
        for row in (0, padded.stride(3)):
            left, right = (_taken(padded, index, slab + row + step) for step in (0, 1))
            rows.append(left.lerp_(right, weights[2]))
        slabs.append(rows[0].lerp_(rows[1], weights[1]))
    return slabs[0].lerp_(slabs[1], weights[0])


def take_nearest(x_BCDHW: Tensor, places: Places) -> Tensor:
    """Return the volumes' voxels that are nearest to places; beyond the border is 0."""
    padded = functional.pad(x_BCDHW, (1, 1) * 3)
    corners = [
        place.clamp(-1.0, x_BCDHW.shape[2 + axis]).round_().add_(1.0)
        for axis, place in enumerate(places)
    ]
    return _taken(padded, _flat_index(corners, padded), 0)


def _flat_index(corners: Sequence[Tensor], padded_BCDHW: Tensor) -> Tensor:
    """Return where voxels (b, channels, D, H, W) are in the memory of padded volumes."""
    n_samples, n_channels = padded_BCDHW.shape[:2]
    sample, channel, first, second, _ = padded_BCDHW.stride()
    whole = {"dtype": torch.int32, "device": padded_BCDHW.device}
    index = corners[0].to(torch.int32) * first + corners[1].to(torch.int32) * second
    index = index + corners[2].to(torch.int32)
    index = index + (torch.arange(n_samples, **whole) * sample).view(-1, 1, 1, 1)
    return index[:, None] + (torch.arange(n_channels, **whole) * channel).view(-1, 1, 1, 1)


def _taken(padded_BCDHW: Tensor, index: Tensor, step: int) -> Tensor:
    """Return the voxels of an index, or those a step behind them in memory."""
    voxels = padded_BCDHW.flatten()[step:].index_select(0, index.flatten())
    return voxels.view(index.shape)
