"""Random changes of maps of tissue."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from neurocontrast.transforms import augment
from neurocontrast.transforms.rand_intensity import random_polynomial, smooth_field
from neurocontrast.transforms.signal import corner_median
from neurocontrast.transforms.volume import Random, RandVolumed


class RandTissueShiftd(RandVolumed):
    """Multiply each map of tissue by a smooth field, and add another inside the brain, as another scanner would.

    MONAI's `RandBiasFieldd` multiplies all channels by one field, and adds nothing. Ranges are the fields of
    `neurocontrast.transforms.augment.TissueShift`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandTissueShiftd
    >>> RandTissueShiftd("image", prob=1.0)({"image": torch.rand(2, 9, 9, 9)})["image"].shape
    torch.Size([2, 9, 9, 9])
    """

    Settings = augment.TissueShift

    def draw(self, random: Random) -> dict[str, Any]:
        """Draw both strengths, and the seed of the fields."""
        drawn = {"gain": random.uniform(*self.settings.gain), "shift": random.uniform(*self.settings.shift)}
        return drawn | {"seed": int(random.randint(2**32, dtype=np.int64))}

    def change(self, x_CDHW: Tensor, *, gain: float, shift: float, seed: int) -> Tensor:
        """Return y = x·exp(gain·f) + shift·b·h, with fields f and h of a map, and b from 0 outside the brain to 1.

        Each field is a polynomial whose standard deviation over views and voxels is 1; half of the variance is a
        constant. The brain is where the sum of the maps exceeds half of its largest value; towards zero, b falls with
        the sum, so that smoothed maps get no edge. Nothing falls below the background, or rises above 1 or the largest
        value of the map. Values are counted from the background.
        """
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
        coefficients = random_polynomial(self.settings.order, random)
        coefficients[0, 0, 0] = random.standard_normal()
        return smooth_field(coefficients / math.sqrt(2.0), x_DHW.shape, device=x_DHW.device)
