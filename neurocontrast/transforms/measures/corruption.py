"""Some measures replaced by those of other people."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from neurocontrast.seeds import derive_uniforms
from neurocontrast.settings import Settings

__all__ = ["MeasureCorruption"]


class MeasureCorruption(Settings):
    """Replace some measures by those of people learned from, each measure by that of a person drawn for it.

    So every replaced value is one that the measure takes, while the measures of a person no longer belong together
    (SCARF, Bahri et al. 2022, section 3).

    Parameters
    ----------
    fraction : float
        Part of the measures that is replaced, on average.
    """

    fraction: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2

    def change(
        self, values: npt.NDArray[np.float32], seeds: npt.ArrayLike, learned: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Return changed measures (n, n_measures); `learned` (n_people, n_measures) are those of the training."""
        uniforms = derive_uniforms("measure view", "corruption", samples=seeds, n_numbers=values.shape[1])
        replaced = uniforms < self.fraction
        person = np.minimum((uniforms / self.fraction * len(learned)).astype(np.int64), len(learned) - 1)
        return np.where(replaced, np.take_along_axis(learned, person, axis=0), values)
