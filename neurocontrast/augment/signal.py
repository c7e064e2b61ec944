"""Where the brain is in a preprocessed volume, and its intensities as a scanner's signal.

Volumes come normalised in one of several ways, so 0 need not be the background, nor the darkest tissue. What holds
for all of them: the background is one constant, which the corners have (half of the eight, at least). Voxels that
differ from it are the brain; in a scan with its skull, the head and the air around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

__all__ = ["Signal", "from_signal", "to_signal"]

_BRIGHT = 0.99
_N_SORTED = 4096
_STANDARDISED = 1e-2
"""A mean this near 0 and a deviation this near 1 are those of a z-scored volume, stored in half precision."""


@dataclass
class Signal:
    """A volume whose background is 0, whose darkest voxel is just above, and whose 99th percentile is 1.

    Parameters
    ----------
    signal_CDHW : Tensor
        The intensities; anything outside `brain_CDHW` has no meaning.
    brain_CDHW : Tensor
        Where the brain is.
    background, floor, span : Tensor
        What leads back to the volume, each (channels, 1, 1, 1).
    brightest : Tensor
        The largest signal, of the same shape.
    standardised : {"box", "brain", None}
        Over which voxels the volume had mean 0 and deviation 1.
    """

    signal_CDHW: Tensor
    brain_CDHW: Tensor
    background: Tensor
    floor: Tensor
    span: Tensor
    brightest: Tensor
    standardised: Literal["box", "brain"] | None


def to_signal(x_CDHW: Tensor) -> Signal | None:
    """Return a float32 volume as signal; None where nothing stands out of the background."""
    background = _corner_median(x_CDHW)
    brain_CDHW = x_CDHW != background
    low, bright = x_CDHW.amin((1, 2, 3), keepdim=True), _bright(x_CDHW, brain_CDHW)
    if not bool((bright > low).all()):
        return None
    # A thousandth below the darkest voxel where that is not the background: it stays apart from it.
    floor = torch.where(low == background, low, low - 1e-3 * (bright - low))
    span = bright - floor
    return Signal(
        signal_CDHW=(x_CDHW - floor).div_(span).mul_(brain_CDHW),
        brain_CDHW=brain_CDHW,
        background=background,
        floor=floor,
        span=span,
        brightest=(x_CDHW.amax((1, 2, 3), keepdim=True) - floor) / span,
        standardised=_standardised(x_CDHW, brain_CDHW, background),
    )


def from_signal(signal: Signal) -> Tensor:
    """Return the volume, normalised as a scan with this signal would be.

    One that was z-scored is z-scored again. In any other the brain's 99th percentile is put back to where it was,
    and what is then brighter than the volume's brightest voxel is clipped.
    """
    s_CDHW, brain_CDHW = signal.signal_CDHW, signal.brain_CDHW
    if signal.standardised is None:
        s_CDHW = (s_CDHW / _bright(s_CDHW, brain_CDHW).clamp_(min=1e-3)).minimum(signal.brightest)
    x_CDHW = torch.where(brain_CDHW, s_CDHW * signal.span + signal.floor, signal.background)
    if signal.standardised == "box":
        mean, deviation = _moments(x_CDHW)
        return x_CDHW.sub_(mean).div_(deviation.clamp_(min=1e-6))
    if signal.standardised == "brain":
        mean, deviation = _moments(x_CDHW, brain_CDHW)
        return x_CDHW.sub_(mean).div_(deviation.clamp_(min=1e-6)).mul_(brain_CDHW)
    return x_CDHW


def _corner_median(x_CDHW: Tensor) -> Tensor:
    steps = [max(1, side - 1) for side in x_CDHW.shape[1:]]
    corners = x_CDHW[:, :: steps[0], :: steps[1], :: steps[2]].flatten(1).sort(1).values
    # Of two in the middle the lower: a value that occurs.
    return corners[:, (corners.shape[1] - 1) // 2, None, None, None]


def _bright(x_CDHW: Tensor, brain_CDHW: Tensor) -> Tensor:
    """Return the brain's 99th percentile, by a few thousand voxels evenly taken."""
    step = max(1, x_CDHW[0].numel() // _N_SORTED) | 1  # odd: not every other one of a row of even length
    taken, of_brain = x_CDHW.flatten(1)[:, ::step], brain_CDHW.flatten(1)[:, ::step]
    ordered = taken.masked_fill(~of_brain, -torch.inf).sort(1).values
    n_brain = of_brain.sum(1, keepdim=True)
    place = ordered.shape[1] - 1 - ((1.0 - _BRIGHT) * n_brain).long()
    return ordered.gather(1, place)[..., None, None]


def _standardised(x_CDHW: Tensor, brain_CDHW: Tensor, background: Tensor) -> Literal["box", "brain"] | None:
    if _is_standard(*_moments(x_CDHW)):
        return "box"
    if bool((background == 0).all()) and _is_standard(*_moments(x_CDHW, brain_CDHW)):
        return "brain"
    return None


def _is_standard(mean: Tensor, deviation: Tensor) -> bool:
    return bool(((mean.abs() < _STANDARDISED) & ((deviation - 1.0).abs() < _STANDARDISED)).all())


def _moments(x_CDHW: Tensor, brain_CDHW: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation, of the box or of the brain, each (channels, 1, 1, 1)."""
    # Sums and norms: a tenth of the time of torch.var_mean on a CPU.
    if brain_CDHW is None:
        n: Tensor | int = x_CDHW[0].numel()
        mean = x_CDHW.mean((1, 2, 3), keepdim=True)
        away = x_CDHW - mean
    else:
        n = brain_CDHW.sum((1, 2, 3), keepdim=True).clamp_(min=1)
        mean = (x_CDHW * brain_CDHW).sum((1, 2, 3), keepdim=True) / n
        away = (x_CDHW - mean).mul_(brain_CDHW)
    return mean, torch.linalg.vector_norm(away, dim=(1, 2, 3), keepdim=True) / n**0.5
