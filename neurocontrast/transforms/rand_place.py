"""Random changes of the brain's position: mirroring, rotating, shifting, scaling, cropping."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from monai.data import MetaTensor
from torch import Tensor
from torch.nn import functional

from neurocontrast.transforms import augment
from neurocontrast.transforms.rand_volumes import RandSignald, RandVolumed
from neurocontrast.transforms.volumes import Array, Numbers, chosen, index_of, replaced

Places = tuple[Tensor, Tensor, Tensor]
"""Coordinates along each axis, in voxels, from which moved voxels take values; three tensors that
broadcast to (b, D, H, W)."""


class _RandPlaced(RandVolumed):
    """Base class of operations that move voxels, and that update an image's affine accordingly."""

    def origins(self, shape: Sequence[int], /, *_: Any, **numbers: Any) -> Array:
        """Return matrices (b, 4, 4) from voxel indices after an operation to indices before.

        `shape` is that of the volumes, and `numbers` are the operation's random numbers. A subclass
        defines the matrices.
        """
        raise NotImplementedError

    def change_item(self, item: dict[Hashable, Any], key: Hashable) -> None:
        """Replace the volume under `key` in dictionary `item`, in place, by the changed volume.

        The affine of a MetaTensor is changed accordingly.
        """
        image = item[key]
        super().change_item(item, key)
        if item[key] is not image and isinstance(image, MetaTensor):
            (origin,) = self.origins(image.shape[1:], **self.drawn_for(len(image)).numbers)
            item[key].affine = image.affine @ torch.from_numpy(origin).to(image.affine)


class RandMirrord(_RandPlaced):
    """Mirror volumes along one axis, drawn from a list of axes.

    MONAI's `RandAxisFlipd` draws from all axes.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    axes : sequence of int, default (0, 1, 2)
        Axes to draw from: 0 left to right, 1 back to front, 2 bottom to top.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandMirrord
    >>> mirror = RandMirrord("image", prob=1.0, axes=(0,))
    >>> mirror({"image": torch.arange(2.0).reshape(1, 2, 1, 1)})["image"].flatten()
    tensor([1., 0.])
    """

    settings: augment.Flip
    operation = "flip"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        axes: augment.Axes = (0, 1, 2),
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.Flip(probability=prob, axes=axes)
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def limits(self) -> dict[str, augment.Pair]:
        """Return an empty dictionary of ranges, because an axis is chosen from a list."""
        return {}

    def n_further(self, n_channels: int) -> int:  # noqa: ARG002
        """Return 1, the number of random numbers that choose a sample's axis of mirroring."""
        return 1

    def further(self, uniforms: Array, n_channels: int) -> Numbers:  # noqa: ARG002
        """Return for each sample the axis to mirror along, chosen by the random numbers `uniforms`.

        The axis is one of the settings' axes.
        """
        axes = np.array(self.settings.axes)
        return {"axis": axes[(uniforms[:, 0] * len(axes)).astype(np.intp)]}

    def change(self, x_BCDHW: Tensor, *, axis: npt.NDArray[np.intp]) -> Tensor:
        """Return volumes mirrored along `axis`, one axis for each sample."""
        for number in np.unique(axis).tolist():
            index = index_of(np.flatnonzero(axis == number), x_BCDHW)
            mirrored = chosen(x_BCDHW, index).flip(2 + number)
            x_BCDHW = replaced(x_BCDHW, index, mirrored)
        return x_BCDHW

    def change_mask(self, brain_BCDHW: Tensor, **numbers: Any) -> Tensor:
        """Return brain masks mirrored along the samples' axes, as `change` mirrors volumes."""
        return self.change(brain_BCDHW, **numbers)

    def origins(self, shape: Sequence[int], *, axis: npt.NDArray[np.intp]) -> Array:
        """Return matrices (b, 4, 4) that reverse voxel indices along each sample's axis."""
        matrices = np.tile(np.eye(4), (len(axis), 1, 1))
        rows = np.arange(len(axis))
        matrices[rows, axis, axis] = -1.0
        matrices[rows, axis, 3] = np.array(shape)[axis] - 1.0
        return matrices


class RandBrainAffined(_RandPlaced, RandSignald):
    """Rotate, shift and scale the brain about the volume's centre, as another head position.

    Equivalent to MONAI's `RandAffined` on the signal (trilinear) and on the brain mask (nearest
    voxel), with 0 outside the volume. Angle, shift and factor are drawn for each axis.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    rotation_degrees : (float, float), default (-3.0, 3.0)
        Range of the angle about each axis, in degrees. Limits: within ±45.
    translation_voxels : (float, float), default (-1.0, 1.0)
        Range of the shift along each axis, in voxels. Limits: within ±16.
    scale : (float, float), default (1.0, 1.0)
        Range of the factor on lengths along each axis; the factor's reciprocal is drawn uniformly.
        No scaling by default, because brain size carries information on age and sex. Limits: 0.5 to
        2.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainAffined
    >>> RandBrainAffined("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    settings: augment.Affine
    operation = "affine"
    moves_brain = True

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        rotation_degrees: augment.Pair = (-3.0, 3.0),
        translation_voxels: augment.Pair = (-1.0, 1.0),
        scale: augment.Pair = (1.0, 1.0),
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.Affine(
            probability=prob,
            rotation_degrees=rotation_degrees,
            translation_voxels=translation_voxels,
            scale=scale,
        )
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def limits(self) -> dict[str, augment.Pair]:
        """Return an empty dictionary: ranges of numbers that are drawn once for a sample.

        The method `further` draws a number for each axis from the ranges of the settings.
        """
        return {}

    def n_further(self, n_channels: int) -> int:  # noqa: ARG002
        """Return 9, the number of a sample's random numbers: angle, shift and factor by axis."""
        return 9

    def further(self, uniforms: Array, n_channels: int) -> Numbers:  # noqa: ARG002
        """Return random angles in degrees, shifts in voxels, and reciprocals of scale factors.

        Each is an array (b, 3), a number for each axis, made of the random numbers `uniforms`. A
        scale factor multiplies the brain's lengths along an axis: a reciprocal above 1 shrinks the
        brain.
        """
        lowest, highest = self.settings.scale
        limits = {
            "rotation_degrees": self.settings.rotation_degrees,
            "translation_voxels": self.settings.translation_voxels,
            "shrinking": (1.0 / highest, 1.0 / lowest),
        }
        numbers = {}
        for number, (name, (low, high)) in enumerate(limits.items()):
            position = uniforms[:, 3 * number : 3 * number + 3]
            numbers[name] = low + (high - low) * position
        return numbers

    def change_brain(
        self, s_BCDHW: Tensor, brain_BCDHW: Tensor, **numbers: Array
    ) -> tuple[Tensor, Tensor]:
        """Return moved signals and brain masks, given angles, shifts and factors of each sample.

        A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's
        99th percentile. Signals are interpolated trilinearly; masks take the nearest voxel.
        """
        places = _places(self.origins(s_BCDHW.shape[2:], **numbers), s_BCDHW)
        corners = Corners.around(places, s_BCDHW)
        return corners.interpolate(s_BCDHW), corners.nearest(brain_BCDHW)

    def origins(
        self,
        shape: Sequence[int],
        *,
        rotation_degrees: Array,
        translation_voxels: Array,
        shrinking: Array,
    ) -> Array:
        """Return matrices (b, 4, 4) from voxel indices of moved brains to indices before.

        Indices are scaled, shifted and then rotated about the volume's centre.
        """
        matrices = np.tile(np.eye(4), (len(shrinking), 1, 1))
        rotation = _rotations(np.deg2rad(rotation_degrees))
        matrices[:, :3, :3] = rotation * shrinking[:, None, :]
        shift = (rotation * translation_voxels[:, None, :]).sum(axis=2)
        centre = (np.array(shape) - 1.0) / 2.0
        matrices[:, :3, 3] = centre + shift - (matrices[:, :3, :3] * centre).sum(axis=2)
        return matrices


def _rotations(radians: Array) -> Array:
    """Return the rotation matrix (3, 3) of each sample for three angles in `radians` (b, 3).

    Points are rotated about the third, then the second, then the first axis.
    """
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
    """Crop a randomly placed box, and enlarge the box to the volume's shape trilinearly.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    fraction : (float, float), default (0.75, 0.75)
        Range of the box's side, as a share of the volume's side. Limits: above 0, at most 1.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandResizedCropd
    >>> RandResizedCropd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    settings: augment.Crop
    operation = "crop"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        fraction: augment.Pair = (0.75, 0.75),
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.Crop(probability=prob, fraction=fraction)
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def n_further(self, n_channels: int) -> int:  # noqa: ARG002
        """Return 3, the number of random numbers that place a sample's box, one for each axis."""
        return 3

    def further(self, uniforms: Array, n_channels: int) -> Numbers:  # noqa: ARG002
        """Return the argument ``place`` of `change`: `uniforms`, the position of each sample's box.

        A position has a number for each axis, from 0 (the box at the volume's beginning) to 1 (at
        its end).
        """
        return {"place": uniforms}

    def change(self, x_BCDHW: Tensor, *, fraction: Array, place: Array) -> Tensor:
        """Return a box of each volume, enlarged to the volume's shape by trilinear interpolation.

        The sides of a box are the share `fraction` of the volume's. `place` is the box's position
        along each axis, from 0 (at the volume's beginning) to 1 (at its end).
        """
        positions = _positions_in_boxes(x_BCDHW.shape[2:], fraction=fraction, place=place)
        for axis, position in enumerate(positions, start=2):
            near = np.floor(position)
            far = np.minimum(near + 1.0, x_BCDHW.shape[axis] - 1.0)
            weight = _along(position - near, axis - 2, x_BCDHW)[:, None]
            of_near = _gathered(x_BCDHW, axis, near)
            x_BCDHW = of_near.lerp_(_gathered(x_BCDHW, axis, far), weight)
        return x_BCDHW

    def change_mask(self, brain_BCDHW: Tensor, *, fraction: Array, place: Array) -> Tensor:
        """Return brain masks cropped to the box of `change`, and enlarged to the volume's shape.

        Each voxel of an enlarged mask takes the value of the nearest voxel.
        """
        positions = _positions_in_boxes(brain_BCDHW.shape[2:], fraction=fraction, place=place)
        for axis, position in enumerate(positions, start=2):
            brain_BCDHW = _gathered(brain_BCDHW, axis, np.rint(position))
        return brain_BCDHW

    def origins(self, shape: Sequence[int], *, fraction: Array, place: Array) -> Array:
        """Return matrices (b, 4, 4) from voxel indices of enlarged boxes to indices of volumes."""
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
    """Return first corners and sizes of boxes in volumes of given shape, in voxels, (b, 3) each.

    Sizes are `fraction` (b,) of `shape`, rounded up to voxels. `place` (b, 3) is the position of
    each box along each axis, from 0 (at the volume's beginning) to 1 (at its end).
    """
    sides = np.array(shape)
    # The small number takes back what rounding may have added: 0.75 of 4 is 3 voxels, never 4.
    sizes = np.minimum(sides, np.ceil(fraction[:, None] * sides - 1e-9)).astype(np.int64)
    return (place * (sides - sizes + 1)).astype(np.int64), sizes


def _positions_in_boxes(shape: Sequence[int], *, fraction: Array, place: Array) -> list[Array]:
    """Return the position in the original volume of each voxel of an enlarged box, by axis.

    A box in the volume is enlarged to the volume's shape. The list has an array (b, side) for each
    axis: the coordinate, in voxels of the volume, from which each voxel of the enlarged box takes
    its value. Coordinates are limited to the centres of the box's outermost voxels.
    """
    corners, sizes = boxes_of(shape, fraction=fraction, place=place)
    positions = []
    for axis, side in enumerate(shape):
        inside = (np.arange(side) + 0.5) * (sizes[:, axis, None] / side) - 0.5
        inside = np.clip(inside, 0.0, sizes[:, axis, None] - 1.0)
        positions.append(corners[:, axis, None] + inside)
    return positions


def _gathered(x_BCDHW: Tensor, axis: int, voxels: Array) -> Tensor:
    """Return volumes whose voxels along `axis` are taken from indices `voxels` (b, side)."""
    lengths = list(x_BCDHW.shape)
    lengths[axis] = voxels.shape[1]
    index = torch.from_numpy(voxels.astype(np.int64)).to(x_BCDHW.device)
    ones = [len(voxels), 1, 1, 1, 1]
    ones[axis] = voxels.shape[1]
    return x_BCDHW.gather(axis, index.view(ones).expand(lengths))


def _along(places: Array, axis: int, x_BCDHW: Tensor) -> Tensor:
    """Return numbers `places` (b, side) as a tensor that broadcasts along `axis` of a volume.

    The tensor has four axes, as (b, D, H, W), with length 1 along the two other spatial axes.
    """
    lengths = [len(places), 1, 1, 1]
    lengths[1 + axis] = places.shape[1]
    return torch.from_numpy(places.astype(np.float32)).to(x_BCDHW.device).view(lengths)


def _places(origins: Array, x_BCDHW: Tensor) -> Places:
    """Return the coordinates, in voxels, from which voxels of moved volumes take their values.

    `origins` are matrices (b, 4, 4) from voxel indices after the move to indices before.
    """
    shape = x_BCDHW.shape[2:]
    places = []
    for row in range(3):
        along = _along(origins[:, row, 3:], 0, x_BCDHW)
        for axis, side in enumerate(shape):
            along = along + _along(origins[:, row, axis, None] * np.arange(side), axis, x_BCDHW)
        places.append(along)
    return places[0], places[1], places[2]


@dataclass(frozen=True)
class Corners:
    """The eight voxels around each of many coordinates in a batch of volumes, for interpolation.

    Indices refer to volumes padded by zeros and flattened. Gathering voxels so takes a third of the
    time of `torch.nn.functional.grid_sample`.
    """

    index: Tensor
    """Index of the first of the eight voxels in the flattened volumes, (b, channels, D, H, W)."""
    weights: tuple[Tensor, Tensor, Tensor]
    """Weight of the farther voxel along each axis, which broadcasts to (b, 1, D, H, W)."""
    steps: tuple[int, int, int]
    """Difference in index from a voxel to the next one along each axis."""

    @classmethod
    def around(cls, places: Places, x_BCDHW: Tensor) -> Self:
        """Return indices and weights of the eight voxels around each of the coordinates `places`.

        Returned is a `Corners`. `places` are in voxels, a tensor for each axis, which broadcast to
        (b, D, H, W). The voxels are of volumes with the shape of `x_BCDHW`, which are 0 beyond the
        border.
        """
        n_samples, n_channels, *shape = x_BCDHW.shape
        lengths = [side + 3 for side in shape]
        steps = (lengths[1] * lengths[2], lengths[2], 1)
        n_voxels = lengths[0] * steps[0]
        first = torch.arange(n_samples * n_channels, dtype=torch.int32, device=x_BCDHW.device)
        index = (first * n_voxels).view(n_samples, n_channels, 1, 1, 1)
        weights = []
        for along, side, step in zip(places, shape, steps, strict=True):
            inside = along[:, None].clamp(-1.0, side).add_(1.0)
            corner = inside.floor()
            weights.append(inside.sub_(corner))
            index = index + corner.to(torch.int32).mul_(step)
        return cls(index, (weights[0], weights[1], weights[2]), steps)

    def interpolate(self, x_BCDHW: Tensor) -> Tensor:
        """Return the values of volumes at the coordinates given to `around`, by interpolation.

        Interpolation is trilinear. The result has the shape (b, channels, D, H, W).
        """
        voxels = functional.pad(x_BCDHW, (1, 2) * 3).flatten()
        flat = self.index.flatten()
        slab, row, column = self.steps
        of_slabs = []
        for first in (0, slab):
            of_rows = []
            for start in (first, first + row):
                near = voxels[start:].index_select(0, flat).view(self.index.shape)
                far = voxels[start + column :].index_select(0, flat).view(self.index.shape)
                of_rows.append(near.lerp_(far, self.weights[2]))
            of_slabs.append(of_rows[0].lerp_(of_rows[1], self.weights[1]))
        return of_slabs[0].lerp_(of_slabs[1], self.weights[0])

    def nearest(self, x_BCDHW: Tensor) -> Tensor:
        """Return the values of volumes at the voxels nearest to the coordinates given to `around`.

        The result has the shape (b, channels, D, H, W).
        """
        voxels = functional.pad(x_BCDHW, (1, 2) * 3).flatten()
        step = torch.zeros((), device=x_BCDHW.device)
        for weight, length in zip(self.weights, self.steps, strict=True):
            step = step + weight.round().mul_(length)
        index = self.index + step.to(torch.int32)
        return voxels.index_select(0, index.flatten()).view(self.index.shape)
