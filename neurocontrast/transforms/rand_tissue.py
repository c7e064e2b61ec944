"""Operations on maps of tissue: what another scanner does to them, and images of any contrast that they give.

MONAI's `RandBiasFieldd` multiplies all channels by one field without a constant part, adds nothing, and sets no spread
(its field grows with the degree).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from neurocontrast.transforms.operation import Operation, Pair, Random, Span
from neurocontrast.transforms.rand_intensity import random_polynomial, smooth_field

if TYPE_CHECKING:
    from torch import Tensor

_TISSUES_MAX = 16


class Synthesise(Operation):
    """Show the maps of a scan's tissues (`data.maps`) in random contrasts, in place of the scan.

    Domain randomisation, as SynthBA (Puglisi et al. 2024) and Brain-ID (Liu et al. 2024) train on; each view is
    synthesised, or the scan itself, by its own chance.
    """

    stage = "first"
    contrast: Annotated[Pair, Span("Signal of a tissue, drawn for each by itself.", ge=0.0, le=1.0)] = (0.1, 1.0)
    rim: Annotated[Pair, Span("Signal of what of the brain is in no map.", ge=0.0, le=1.0)] = (0.0, 1.0)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw the signal of each tissue, and of what no map holds."""
        tissues = random.uniform(*self.contrast, _TISSUES_MAX).tolist()
        return {"tissues": tissues, "rim": random.uniform(*self.rim)}

    def change(self, x_CDHW: Tensor, *, tissues: Sequence[float], rim: float) -> Tensor:
        """Return one channel, normalised as the scan is: Σ_k tissue_k·map_k + rim·(1 − Σ_k map_k) inside its brain.

        The first channel is the scan, the others are its maps; each counts from 0 to its largest value.
        """
        from neurocontrast.transforms.signal import from_signal, to_signal

        scan, maps = x_CDHW[:1], x_CDHW[1:].clamp(min=0.0)
        signal = to_signal(scan)
        if signal is None or not len(maps):
            return scan.clone()
        maps /= maps.amax((1, 2, 3), keepdim=True).clamp_(min=1e-6)
        maps /= maps.sum(0).clamp_(min=1.0)
        image = rim * (1.0 - maps.sum(0))
        for tissue, each in zip(tissues, maps, strict=False):
            image.add_(each, alpha=tissue)
        return from_signal(signal._replace(signal_CDHW=image[None] * signal.brain_CDHW))

    def transforms(self, key: str) -> list[Any]:
        """Return the transform that synthesises, and one that leaves the scan alone where it was not applied."""
        from monai.transforms import Lambdad

        return [*super().transforms(key), Lambdad(key, func=_first_channel, track_meta=False)]


def _first_channel(x_CDHW: Tensor) -> Tensor:
    return x_CDHW[:1]


class TissueShift(Operation):
    """Multiply each map of tissue by a smooth field, and add another inside the brain, as another scanner would."""

    order: int = Field(2, ge=1, le=6, description="Total degree of the polynomials.")
    gain: Annotated[Pair, Span("Standard deviation of the factor's logarithm.", ge=0.0, le=1.0)] = (0.0, 0.1)
    shift: Annotated[
        Pair, Span("Standard deviation of what is added, over the largest value of a map.", ge=0.0, le=1.0)
    ] = (0.0, 0.05)

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw both strengths, and the seed of the fields."""
        drawn = {"gain": random.uniform(*self.gain), "shift": random.uniform(*self.shift)}
        return drawn | {"seed": int(random.randint(2**32, dtype=np.int64))}

    def change(self, x_CDHW: Tensor, *, gain: float, shift: float, seed: int) -> Tensor:
        """Return y = x·exp(gain·f) + shift·b·h, with fields f and h of a map, and b from 0 outside the brain to 1.

        Each field is a polynomial whose standard deviation over views and voxels is 1; half of the variance is a
        constant. The brain is where the sum of the maps exceeds half of its largest value; towards zero, b falls with
        the sum, so that smoothed maps get no edge. Nothing falls below the background, or rises above 1 or the largest
        value of the map. Values are counted from the background.
        """
        from neurocontrast.transforms.signal import corner_median

        background = corner_median(x_CDHW)
        maps = (x_CDHW - background).clamp_(min=0.0)
        largest = maps.amax((1, 2, 3), keepdim=True)
        total = maps.sum(0)
        brain = (2.0 * total / total.amax().clamp(min=1e-6)).clamp_(max=1.0)
        random = np.random.RandomState(seed)
        for channel, top in zip(maps, largest.flatten(), strict=True):
            factor, added = (self._field(channel, random) for _ in range(2))
            channel.mul_(factor.mul_(gain).exp_()).add_(added.mul_(shift * top).mul_(brain))
        return maps.clamp_(min=0.0).minimum(largest.clamp(min=1.0)).add_(background)

    def _field(self, x_DHW: Tensor, random: Random) -> Tensor:
        coefficients = random_polynomial(self.order, random)
        coefficients[0, 0, 0] = random.standard_normal()
        return smooth_field(coefficients / math.sqrt(2.0), x_DHW.shape, device=x_DHW.device)
