"""Random changes at the brain's edge, which imitate other brain masks, and random cut-out boxes."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from neurocontrast.transforms import augment
from neurocontrast.transforms.rand_intensity import (
    blur,
    n_terms,
    normal_numbers,
    polynomials,
    smooth_fields,
)
from neurocontrast.transforms.rand_place import boxes_of
from neurocontrast.transforms.rand_volumes import RandSignald, RandVolumed, change_chosen
from neurocontrast.transforms.volumes import Array, Drawn, Numbers, index_of, per_sample

_DEEPEST = (
    1.5  # deviations of the Gaussian beyond which a mask under it tells too little of the depth
)
_SOFT = 0.1  # range of signal over which a voxel passes from cut to kept
_ORDER = 5  # degree of the polynomial by which the depth of a rim varies: over some centimetres


class _RandRimd(RandSignald):
    """Base class of operations on a rim of the brain: the layer of voxels at the brain's surface.

    The depth of the rim is in voxels below the surface, and varies smoothly along it.
    """

    settings: augment.TightMask | augment.MaskEdge
    moves_brain = True

    def n_further(self, n_channels: int) -> int:  # noqa: ARG002
        """Return the number of random coefficients by which one sample's rim varies in depth.

        The rim is the layer of voxels at the brain's surface. The random numbers for the ranges in
        `limits` are not counted.
        """
        return n_terms(_ORDER)

    def further(self, uniforms: Array, n_channels: int) -> Numbers:  # noqa: ARG002
        """Return the coefficients of a random polynomial that varies the depth of a sample's rim.

        The rim is the layer of voxels at the brain's surface. Coefficients (b, n, n, n) are of a
        polynomial of the voxel position for each sample (see `smooth_fields`). They are made of
        `uniforms`, random numbers in [0, 1), and scaled by ``variation_voxels`` of the settings.
        """
        variation = polynomials(_ORDER, normal_numbers(uniforms))
        return {"coefficients": self.settings.variation_voxels * variation}


class RandTightMaskd(_RandRimd):
    """Remove dark voxels near the brain's surface, as brain extraction along the folds does.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    depth_voxels : (float, float), default (0.5, 1.5)
        Range of the mean depth below the surface to which voxels are removed, in voxels. Limits:
        above 0, at most 3.
    variation_voxels : float, default 0.5
        Standard deviation of the depth across the volume, in voxels. Range: 0 to 3.
    below : (float, float), default (0.2, 0.5)
        Range of the signal below which voxels are removed, on a scale from the darkest voxel (0) to
        the brain's 99th percentile (1). Limits: 0 to 1.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandTightMaskd
    >>> RandTightMaskd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    settings: augment.TightMask
    operation = "tight_mask"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        depth_voxels: augment.Pair = (0.5, 1.5),
        variation_voxels: float = 0.5,
        below: augment.Pair = (0.2, 0.5),
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.TightMask(
            probability=prob,
            depth_voxels=depth_voxels,
            variation_voxels=variation_voxels,
            below=below,
        )
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def change_brain(
        self, s_BCDHW: Tensor, brain_BCDHW: Tensor, **numbers: Array
    ) -> tuple[Tensor, Tensor]:
        """Return signals and brain masks without the dark voxels near the brain's surface.

        A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's
        99th percentile. `numbers` are the arguments of `cut_rim`.
        """
        return cut_rim(s_BCDHW.mul_(brain_BCDHW), brain_BCDHW, **numbers)


class RandMaskEdged(_RandRimd):
    """Remove a rim of uneven depth from the brain, or add a dark rim, as other brain masks do.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    depth_voxels : (float, float), default (-0.5, 0.75)
        Range of the mean depth that is removed, in voxels; a negative depth adds a rim of that
        width. Limits: −3 to 3.
    variation_voxels : float, default 0.5
        Standard deviation of the depth across the volume, in voxels. Range: 0 to 3.
    rim : (float, float), default (0.2, 0.6)
        Range of the signal of an added rim, as a share of the signal at the brain's edge. Limits: 0
        to 1.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandMaskEdged
    >>> RandMaskEdged("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    settings: augment.MaskEdge
    operation = "mask_edge"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        depth_voxels: augment.Pair = (-0.5, 0.75),
        variation_voxels: float = 0.5,
        rim: augment.Pair = (0.2, 0.6),
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.MaskEdge(
            probability=prob, depth_voxels=depth_voxels, variation_voxels=variation_voxels, rim=rim
        )
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def change_brain(
        self,
        s_BCDHW: Tensor,
        brain_BCDHW: Tensor,
        *,
        depth_voxels: Array,
        coefficients: Array,
        rim: Array,
    ) -> tuple[Tensor, Tensor]:
        """Return signals and brain masks with a rim removed from, or added to, each brain.

        A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's
        99th percentile. A rim is added to a brain whose `depth_voxels` is below 0. The depth varies
        by a random polynomial of the place, with `coefficients` (b, n, n, n). An added rim is `rim`
        times as bright as the brain's edge.
        """
        signals = s_BCDHW.mul_(brain_BCDHW)
        brains = brain_BCDHW
        is_cut = depth_voxels >= 0.0
        cut = {"depth_voxels": np.abs(depth_voxels), "coefficients": coefficients}
        left = {**cut, "rim": rim}
        for change, is_changed, numbers in ((cut_rim, is_cut, cut), (leave_rim, ~is_cut, left)):
            rows = np.flatnonzero(is_changed)
            if len(rows):
                of_rows = Drawn(is_changed, numbers).of(rows).numbers
                index = index_of(rows, signals)
                signals, brains = change_chosen(change, signals, brains, index, of_rows)
        return signals, brains


def cut_rim(
    s_BCDHW: Tensor,
    brain_BCDHW: Tensor,
    *,
    depth_voxels: Array,
    coefficients: Array,
    below: Array | None = None,
) -> tuple[Tensor, Tensor]:
    """Return signals and brain masks with a rim of uneven depth removed from each brain.

    A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's 99th
    percentile. The rim is the layer of voxels below the brain's surface; its mean depth is
    `depth_voxels`, and smooth random fields with `coefficients` (b, n, n, n) vary the depth. With
    `below`, a number for each sample, only voxels of the rim whose signal is lower than that number
    are removed.
    """
    kept, _ = _depth_kept(brain_BCDHW, depth_voxels=depth_voxels, coefficients=coefficients)
    if below is not None:
        brighter = s_BCDHW - per_sample(below, s_BCDHW)
        kept = kept.maximum(brighter.div_(_SOFT).add_(0.5).clamp_(0.0, 1.0))
    return s_BCDHW * kept, brain_BCDHW * kept.sign()


def leave_rim(
    s_BCDHW: Tensor, brain_BCDHW: Tensor, *, depth_voxels: Array, coefficients: Array, rim: Array
) -> tuple[Tensor, Tensor]:
    """Return signals and brain masks, both with a rim of voxels added around each brain.

    A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's 99th
    percentile. The rim is `rim` times as bright as the brain's edge. Its mean width is
    `depth_voxels`, and smooth random fields with Legendre `coefficients` (b, n, n, n) vary the
    width (see `smooth_fields`).
    """
    kept, inside = _depth_kept(brain_BCDHW, depth_voxels=-depth_voxels, coefficients=coefficients)
    edge = blur(s_BCDHW, sigma_voxels=_mask_width(depth_voxels)).div_(inside.clamp_(min=1e-3))
    left = edge.mul_(kept).mul_(per_sample(rim, s_BCDHW)).mul_(1.0 - brain_BCDHW)
    return left.addcmul_(s_BCDHW, brain_BCDHW), brain_BCDHW.maximum(kept.sign_())


def _depth_kept(
    brain_BCDHW: Tensor, *, depth_voxels: Array, coefficients: Array
) -> tuple[Tensor, Tensor]:
    """Return the share of each voxel that lies deeper under the brain's surface than a limit.

    The limit is the mean depth `depth_voxels` of a sample plus smooth fields of the `coefficients`
    (see `smooth_fields`), but keeps the sign of the mean depth; a limit below 0 lies outside the
    brain. The depth of a voxel follows from the brain mask smoothed by a Gaussian, which at a flat
    surface is the normal distribution function of the depth. The Gaussian's standard deviation is
    the size of the mean depth, and at least a voxel; the limit is at most 1.5 standard deviations
    from the surface. The smoothed mask is returned, too.
    """
    width = _mask_width(depth_voxels)
    inside = blur(brain_BCDHW, sigma_voxels=width)
    is_cut = depth_voxels >= 0.0
    fields = smooth_fields(coefficients, brain_BCDHW.shape[2:], device=brain_BCDHW.device)
    depth = fields[:, None].add_(per_sample(depth_voxels, brain_BCDHW))
    depth.div_(per_sample(width, brain_BCDHW))
    least = per_sample(np.where(is_cut, 0.0, -_DEEPEST), brain_BCDHW)
    most = per_sample(np.where(is_cut, _DEEPEST, 0.0), brain_BCDHW)
    depth = depth.clamp_(least, most)
    slope = depth.square().mul_(0.5).exp_()
    slope.mul_(per_sample(width * math.sqrt(2.0 * math.pi), brain_BCDHW))
    mask_there = depth.mul_(math.sqrt(0.5)).erf_().add_(1.0).mul_(0.5)
    return (inside - mask_there).mul_(slope).add_(0.5).clamp_(0.0, 1.0), inside


def _mask_width(depth_voxels: Array) -> Array:
    return np.maximum(1.0, np.abs(depth_voxels))


class RandCutoutd(RandVolumed):
    """Set one randomly placed box, wholly inside the volume, to a constant.

    MONAI's `RandCoarseDropoutd` takes sizes in voxels, not as a share of the volume.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    fraction : (float, float), default (0.25, 0.25)
        Range of the box's side, as a share of the volume's side. Limits: above 0, at most 1.
    value : float, default 0.0
        Intensity of the box; 0 is the mean of a z-scored volume. Range: any finite number.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandCutoutd
    >>> cutout = RandCutoutd("image", prob=1.0, fraction=(0.5, 0.5))
    >>> view = cutout({"image": torch.ones(1, 8, 8, 8)})["image"]
    >>> int((view == 0).sum())
    64
    """

    settings: augment.Cutout
    operation = "cutout"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        fraction: augment.Pair = (0.25, 0.25),
        value: float = 0.0,
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.Cutout(probability=prob, fraction=fraction, value=value)
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
        """Return volumes with one box each set to the transform's `value`.

        The sides of a box are the share `fraction` of the volume's. `place` is the box's position
        along each axis, from 0 (at the volume's beginning) to 1 (at its end).
        """
        shape = x_BCDHW.shape[2:]
        corners, sizes = boxes_of(shape, fraction=fraction, place=place)
        is_cut = torch.ones((), device=x_BCDHW.device)
        for axis, side in enumerate(shape):
            offset = np.arange(side) - corners[:, axis, None]
            lengths = [len(x_BCDHW), 1, 1, 1, 1]
            lengths[2 + axis] = side
            inside = (offset >= 0) & (offset < sizes[:, axis, None])
            is_cut = is_cut * per_sample(inside.reshape(lengths), x_BCDHW)
        x_BCDHW.mul_(1.0 - is_cut)
        return x_BCDHW.add_(is_cut, alpha=self.settings.value)
