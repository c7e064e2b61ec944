"""Noise on every measure."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from neurocontrast.seeds import derive_uniforms
from neurocontrast.settings import Settings

__all__ = ["MeasureNoise", "normal_numbers"]


def normal_numbers(operation: str, seeds: npt.ArrayLike, n_numbers: int) -> npt.NDArray[np.float64]:
    """Return standard normal numbers (n_seeds, n_numbers), each row from its own seed."""
    from scipy.special import ndtri

    uniforms = derive_uniforms("measure view", operation, samples=seeds, n_numbers=n_numbers)
    numbers: npt.NDArray[np.float64] = ndtri(uniforms + 2.0**-33)  # between the steps, so that none is infinite
    return numbers


class MeasureNoise(Settings):
    """Add normal noise to every measure.

    Parameters
    ----------
    sd : float
        Standard deviation of the noise, in standard deviations of the measure.
    """

    sd: Annotated[float, Field(gt=0.0, le=10.0, allow_inf_nan=False)] = 0.3

    def change(
        self, values: npt.NDArray[np.float32], seeds: npt.ArrayLike, learned: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Return changed measures (n, n_measures); `learned` is not looked at."""
        del learned
        noise = normal_numbers("noise", seeds, values.shape[1])
        return np.asarray(values + self.sd * noise, dtype=np.float32)
