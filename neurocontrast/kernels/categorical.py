"""The kernel on a category: sex, site, diagnosis."""

from __future__ import annotations

import torch
from torch import Tensor

from neurocontrast.kernels.base import ColumnKernel, Kind

__all__ = ["Categorical"]


class Categorical(ColumnKernel):
    """Categorical kernel, w = 1 where the categories are equal, else 0; ‖w‖∞ = 1.

    Parameters
    ----------
    column : str
        A categorical metadata column: integer codes (n,), −1 (or NaN) where missing. With (n, p) codes
        all p must be equal.
    missing : {"error", "marginal"}
        See `ColumnKernel`.
    """

    kind: Kind = "categorical"

    def observed(self, values: Tensor) -> Tensor:
        """Codes of at least 0; NaN and negative codes are missing."""
        return (values >= 0).all(dim=1)

    def is_complete(self, values: Tensor) -> bool:
        """Whether no code is missing."""
        return bool((values >= 0).all())

    def scaled(self, values: Tensor) -> Tensor:
        """The codes; a missing one, where the device could not be asked, becomes NaN in the weights."""
        return values

    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        """1 where equal."""
        equal = rows[:, 0].unsqueeze(1) == cols[:, 0]
        for dimension in range(1, rows.shape[1]):
            equal &= rows[:, dimension].unsqueeze(1) == cols[:, dimension]
        weights = equal.to(dtype)
        if rows.device.type != "cpu":  # no host transfer to raise an error: the loss turns NaN and training stops
            weights = weights.masked_fill_(~self.observed(rows).unsqueeze(1) | ~self.observed(cols), torch.nan)
        return weights
