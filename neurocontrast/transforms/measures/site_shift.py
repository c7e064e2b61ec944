"""Measures as another scanner would give them."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from neurocontrast.seeds import derive_uniforms
from neurocontrast.settings import Settings
from neurocontrast.transforms.augment import Probability
from neurocontrast.transforms.measures.noise import normal_numbers

__all__ = ["MeasureSiteShift"]

_Sd = Annotated[float, Field(ge=0.0, le=10.0, allow_inf_nan=False)]


class MeasureSiteShift(Settings):
    """Shift and scale every measure, each by numbers of its own, as scanners differ from one another.

    Parameters
    ----------
    probability : float
        How often a view is changed.
    shift_sd : float
        Standard deviation of the shifts, in standard deviations of the measure.
    scale_sd : float
        Standard deviation of the logarithms of the factors.
    """

    probability: Probability = 0.5
    shift_sd: _Sd = 0.3
    scale_sd: _Sd = 0.1

    def change(
        self, values: npt.NDArray[np.float32], seeds: npt.ArrayLike, learned: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Return changed measures (n, n_measures); `learned` is not looked at."""
        del learned
        n_measures = values.shape[1]
        is_changed = derive_uniforms("measure view", "site shift", samples=seeds, n_numbers=1) < self.probability
        shift, scale = np.split(normal_numbers("site", seeds, 2 * n_measures), 2, axis=1)
        moved = values * np.exp(self.scale_sd * scale) + self.shift_sd * shift
        return np.where(is_changed, moved, values).astype(np.float32)
