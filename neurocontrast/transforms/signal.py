"""Convert preprocessed volumes to signals, whose scale is independent of the normalisation.

A signal is 0 outside the brain, just above 0 at the brain's darkest voxel, and 1 at the brain's
99th percentile.

After any normalisation, a volume's background is one constant, the value of at least half of the
eight corners. Voxels of another value are the brain; in a scan with skull, they are the head and
the air around the head.

A sample's result is the same, bit for bit, in any batch and with any number of threads: means are
sums of whole numbers, which are exact in any order, and percentiles are not interpolated.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.volumes import Drawn, Scale, Volumes, VolumeTransformd

_BRIGHT = 0.99
_N_SORTED = 4096
_STANDARDISED = 1e-2
"""Largest deviation of a volume's mean from 0, and of its standard deviation from 1, at which the
volume counts as z-scored."""
_VOXELS = (2, 3, 4)
_FIXED_POINT = 2.0**20


class _Moments(NamedTuple):
    """Share of brain voxels in volumes, and mean and variance of the brain's intensities.

    Each is a float64 tensor (b, channels, 1, 1, 1).
    """

    share: Tensor
    mean: Tensor
    variance: Tensor

    def in_box(self, background: Tensor) -> "_Moments":
        """Return moments over all voxels of the volumes, from moments over the brain (this object).

        Moments are mean and variance of each volume's intensities. Outside the brain, every voxel
        has the value `background`.
        """
        share = self.share
        mean = share * self.mean + (1.0 - share) * background
        variance = share * (self.variance + (self.mean - mean).square())
        variance += (1.0 - share) * (background - mean).square()
        return _Moments(torch.ones_like(share), mean, variance)

    def is_standard(self) -> Tensor:
        """Tell for each sample whether all channels have mean 0 and standard deviation 1.

        The result is a tensor of booleans (b, 1, 1, 1, 1).
        """
        deviation = self.variance.sqrt()
        is_near = (self.mean.abs() < _STANDARDISED) & ((deviation - 1.0).abs() < _STANDARDISED)
        return is_near.all(1, keepdim=True)


def to_signal(x_BCDHW: Tensor) -> Volumes:
    """Return volumes as signals, with brain masks, and scales to convert signals back.

    A signal is 0 outside the brain, just above 0 at the darkest brain voxel, and 1 at the brain's
    99th percentile. A volume without voxels brighter than the background has no brain.
    """
    background = corner_median(x_BCDHW)
    differs = x_BCDHW.clone().ne_(background)
    low = x_BCDHW.amin(_VOXELS, keepdim=True)
    bright = _bright(x_BCDHW, differs).maximum(low)
    # A thousandth below the darkest voxel where that is not the background: they stay apart.
    floor = torch.where(low == background, low, low - 1e-3 * (bright - low))
    span = (bright - floor).clamp_(min=1e-9)
    brightest = (x_BCDHW.amax(_VOXELS, keepdim=True) - floor) / span
    signal = (x_BCDHW - floor).div_(span).mul_(differs)
    moments = _in_units(_moments(signal, differs), floor, span)
    is_standard_box = moments.in_box(background).is_standard()
    is_dark = (background == 0.0).all(1, keepdim=True)
    is_standard_brain = ~is_standard_box & is_dark & moments.is_standard()
    scale = Scale(background, floor, span, brightest, is_standard_box, is_standard_brain)
    has_signal = (bright > low).to(signal.dtype)
    return Volumes(signal.mul_(has_signal), differs.mul_(has_signal), scale)


def from_signal(signals: Volumes) -> Tensor:
    """Return the volumes for `signals`, normalised as the volumes were before `to_signal`.

    `signals` hold the rescaled volumes that `to_signal` returned, perhaps changed, with brain masks
    and scales. A volume that was z-scored is z-scored again. In any other volume the brain's 99th
    percentile returns to its value before, and no voxel becomes brighter than the brightest voxel
    was.
    """
    brain = signals.brain_BCDHW
    scale = signals.scale
    assert brain is not None
    assert scale is not None
    is_standard = scale.is_standard_box | scale.is_standard_brain
    signal = signals.x_BCDHW * brain
    bright = _bright(signal, brain).clamp_(min=1e-3)
    signal = signal.div_(bright.masked_fill(is_standard, 1.0))
    signal = signal.minimum(scale.brightest.masked_fill(is_standard, torch.inf))
    inside = _in_units(_moments(signal, brain), scale.floor, scale.span)
    box = inside.in_box(scale.background)
    mean = torch.where(scale.is_standard_box, box.mean, inside.mean)
    variance = torch.where(scale.is_standard_box, box.variance, inside.variance)
    mean = mean.masked_fill(~is_standard, 0.0)
    deviation = variance.sqrt().clamp_(min=1e-6).masked_fill_(~is_standard, 1.0)
    outside = (scale.background - mean) / deviation
    outside = outside.masked_fill_(scale.is_standard_brain, 0.0).float()
    slope = (scale.span / deviation).float()
    offset = ((scale.floor - mean) / deviation).float() - outside
    return signal.mul_(slope).add_(offset).mul_(brain).add_(outside)


class ToSignald(VolumeTransformd):
    """Convert volumes to signals, for random transforms of intensity or position inside the brain.

    A signal is 0 outside the brain and 1 at the brain's 99th percentile.

    This package's transforms that need a signal convert volumes by themselves; between `ToSignald`
    and `FromSignald` several transforms share one conversion. MONAI's transforms may follow too, on
    ``image`` and, if they move voxels, on the brain mask ``image_brain`` (with ``mode="nearest"``).

    Parameters
    ----------
    keys, allow_missing_keys : see `monai.transforms.MapTransform`
        Keys of the volumes (channels, D, H, W) in a dictionary.

    Examples
    --------
    >>> import torch
    >>> from monai.transforms import Compose, RandAdjustContrastd, RandAffined
    >>> from neurocontrast.transforms import FromSignald, ToSignald
    >>> keys = ["image", "image_brain"]
    >>> moved = RandAffined(keys, prob=1.0, translate_range=1.0, mode=("bilinear", "nearest"))
    >>> contrast = RandAdjustContrastd("image")
    >>> views = Compose([ToSignald("image"), moved, contrast, FromSignald("image")])
    >>> sorted(views({"image": torch.rand(1, 16, 16, 16)}))
    ['image']
    """

    def apply(self, volumes: Volumes, drawn: Drawn | None) -> None:  # noqa: ARG002
        """Replace volumes by signals in place, and add brain masks and scales to `volumes`.

        A signal is the volume rescaled to 0 outside the brain and 1 at the brain's 99th percentile.
        The brain is where a volume differs from the median of its eight corner voxels. Scales are
        the numbers by which signals are converted back. A DataError refuses volumes that are
        signals already.
        """
        if volumes.scale is not None:
            raise DataError(
                "ToSignald: the volumes are signals already; put FromSignald before it."
            )
        signals = to_signal(volumes.x_BCDHW)
        volumes.x_BCDHW = signals.x_BCDHW
        volumes.brain_BCDHW = signals.brain_BCDHW
        volumes.scale = signals.scale


class FromSignald(VolumeTransformd):
    """Convert signals of `ToSignald` back to volumes, normalised as the volumes were before.

    A signal is 0 outside the brain and 1 at the brain's 99th percentile.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import FromSignald, ToSignald
    >>> volume = torch.rand(1, 16, 16, 16)
    >>> there_and_back = FromSignald("image")(ToSignald("image")({"image": volume}))
    >>> torch.allclose(there_and_back["image"], volume, atol=1e-3)
    True
    """

    def apply(self, volumes: Volumes, drawn: Drawn | None) -> None:  # noqa: ARG002
        """Replace signals by volumes in place, and remove brain masks and scales from `volumes`.

        A signal is a volume that `ToSignald` has rescaled, which added a brain mask and a scale
        (the numbers by which the signal is converted back). The volumes are normalised as they were
        before. A DataError refuses volumes that are no signals.
        """
        if volumes.scale is None:
            raise DataError(
                f"FromSignald needs the signal that ToSignald made of '{self.keys[0]}', and there "
                "is none: put ToSignald before it."
            )
        volumes.x_BCDHW = from_signal(volumes)
        volumes.brain_BCDHW = None
        volumes.scale = None


def corner_median(x_BCDHW: Tensor) -> Tensor:
    """Return the median of each volume's eight corner voxels, the background.

    The result has the shape (b, channels, 1, 1, 1).
    """
    steps = [max(1, side - 1) for side in x_BCDHW.shape[2:]]
    corners = x_BCDHW[:, :, :: steps[0], :: steps[1], :: steps[2]].flatten(2)
    # Of two in the middle the lower: a value that occurs.
    return corners.median(2).values[..., None, None, None]


def _bright(x_BCDHW: Tensor, brain_BCDHW: Tensor) -> Tensor:
    """Return the 99th percentile of the brain's values in each volume, from some thousand voxels.

    The result has the shape (b, channels, 1, 1, 1), and is −inf without brain voxels.
    """
    # Odd: not every other one of a row of even length.
    step = max(1, x_BCDHW[0, 0].numel() // _N_SORTED) | 1
    is_brain = brain_BCDHW.flatten(2)[..., ::step] != 0.0
    values = x_BCDHW.flatten(2)[..., ::step].masked_fill(~is_brain, -torch.inf)
    n_values = values.shape[2]
    n_above = ((1.0 - _BRIGHT) * is_brain.sum(2, keepdim=True)).long()
    n_largest = min(n_values, int((1.0 - _BRIGHT) * n_values) + 2)
    largest = values.topk(n_largest, dim=2).values
    return largest.gather(2, n_above)[..., None, None]


def _moments(signal_BCDHW: Tensor, brain_BCDHW: Tensor) -> _Moments:
    """Return share of brain voxels, and mean and variance of signals over brain masks.

    Signals are volumes that `to_signal` has rescaled. The share is of all voxels of a volume.
    """
    n_voxels = signal_BCDHW[0, 0].numel()
    n_brain = brain_BCDHW.sum(4, keepdim=True).double().sum(_VOXELS, keepdim=True)
    divisor = (n_brain * _FIXED_POINT).clamp_(min=1.0)
    mean = _exact_sum((signal_BCDHW * _FIXED_POINT).round_()) / divisor
    squares = (signal_BCDHW * signal_BCDHW).mul_(_FIXED_POINT).round_()
    variance = (_exact_sum(squares) / divisor - mean.square()).clamp_(min=0.0)
    return _Moments(n_brain / n_voxels, mean, variance)


def _in_units(moments: _Moments, floor: Tensor, span: Tensor) -> _Moments:
    """Convert `moments` of signals, mean and variance, to the units of the volumes' intensities.

    An intensity is `floor` plus `span` times the signal; both are numbers of each volume.
    """
    mean = floor + span * moments.mean
    return _Moments(moments.share, mean, span.double().square() * moments.variance)


def _exact_sum(whole_BCDHW: Tensor) -> Tensor:
    """Return the sum over the voxels of each channel, for whole numbers, in float64.

    Such a sum is exact in any order of summation.
    """
    return whole_BCDHW.double().sum(_VOXELS, keepdim=True)
