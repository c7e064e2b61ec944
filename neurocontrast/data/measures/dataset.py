"""Standardised measures as the samples of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["MeasuresDataset"]


class MeasuresDataset(torch.utils.data.Dataset[dict[str, Any]]):
    """The measures of a cohort, in the order of its rows, each person's as a sample (n_measures, 1).

    Parameters
    ----------
    values : array (n, n_measures), float32
        Standardised measures.
    """

    def __init__(self, values: npt.NDArray[np.float32]) -> None:
        self.values = values
        self.image_shape: tuple[int, ...] = (values.shape[1], 1)
        self.image_dtype: np.dtype[Any] = np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return ``{"image": float32 tensor (n_measures, 1), "index": index}``."""
        return {"image": torch.from_numpy(self.values[index].copy())[:, None], "index": index}

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Write the measures of a person into `out`, of `image_shape`."""
        out[:, 0] = self.values[index]
