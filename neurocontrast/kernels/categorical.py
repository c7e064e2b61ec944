"""Kernels on a category: scans are similar if the category is equal (sex) or different (site)."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from neurocontrast.kernels.base import Kind, Metadata
from neurocontrast.kernels.column import ColumnKernel, Missing
from neurocontrast.settings import Column, checked


class _Codes(ColumnKernel):
    """Base class of kernels on integer category codes, which weight pairs by equality of codes."""

    kind: Kind = "categorical"

    def observed(self, values: Tensor) -> Tensor:
        """Tell for each row of `values` (n, p) whether all codes are at least 0, as booleans.

        NaN and negative codes count as missing.
        """
        return (values >= 0).all(dim=1)

    def are_observed(self, values: Tensor) -> bool:
        if type(self).observed is _Codes.observed:
            return bool(values.min().item() >= 0)  # false for NaN, which is the smallest
        return super().are_observed(values)

    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        if rows.shape[1] == 1:
            equal = rows == cols.T
        else:
            equal = torch.ones(len(rows), len(cols), dtype=torch.bool, device=rows.device)
            for of_rows, of_cols in zip(rows.T, cols.T, strict=True):
                equal &= of_rows.unsqueeze(1) == of_cols
        weights = self.of_equality(equal, dtype)
        # On an accelerator no value is read back to raise an error: the loss becomes NaN instead.
        if rows.device.type != "cpu":
            weights = weights.masked_fill_(
                ~self.observed(rows).unsqueeze(1) | ~self.observed(cols), torch.nan
            )
        return weights

    def of_equality(self, equal: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the weight of each pair of scans, 1 for equal codes and 0 for different codes.

        `equal` (n, m) is True for pairs with equal codes; a subclass may define other weights. The
        result is a new tensor (n, m) of `dtype`. Missing codes are the caller's concern.
        """
        return equal.to(dtype)


class Categorical(_Codes):
    """Categorical kernel: w = 1 for scans of one category, 0 for others; ‖w‖∞ = 1.

    Parameters
    ----------
    column : str
        A categorical metadata column: integer codes (n,), −1 (or NaN) where missing. With codes (n,
        p), two scans are equal only if all p codes are.
    missing : {"error", "marginal"}, default "error"
        Treatment of missing values, see `ColumnKernel`.

    Examples
    --------
    >>> import torch
    >>> Categorical("sex")({"sex": torch.tensor([0, 1, 0])})[0]
    tensor([1., 0., 1.])
    """


class Different(_Codes):
    """Inverse of `Categorical`: w = 1 for scans of different categories, `within` for equal ones.

    In ``Gaussian("age", sigma=5.0) * Categorical("sex") * Different("site")`` the factor lets scans
    of similar age and equal sex attract across sites, and not within a site. The largest weight
    ‖w‖∞ is 1. The weight of a scan with itself is always 1, so that the scan's second view stays a
    positive even if all scans of a batch are of one site.

    The kernel is not positive semi-definite with `within` below 1, and so unfit for a conditional
    embedding.

    Parameters
    ----------
    column : str
        A categorical metadata column, see `Categorical`.
    within : float, default 0.0
        Weight of two scans of one category, from 0 to 1. With 0 two scans of one category do not
        attract; with 1 the category does not matter.
    missing : {"error", "marginal"}, default "error"
        Treatment of missing values, see `ColumnKernel`. With ``within=0`` the mean weight is the
        share of pairs of observed scans with different categories.

    Examples
    --------
    >>> import torch
    >>> Different("site", within=0.25)({"site": torch.tensor([0, 0, 1])})
    tensor([[1.0000, 0.2500, 1.0000],
            [0.2500, 1.0000, 1.0000],
            [1.0000, 1.0000, 1.0000]])
    """

    @checked
    def __init__(
        self,
        column: Column,
        *,
        within: Annotated[float, Field(ge=0, le=1)] = 0.0,
        missing: Missing = "error",
    ) -> None:
        super().__init__(column, missing=missing)
        self.within = within
        self.positive_semidefinite = within == 1

    def of_equality(self, equal: Tensor, dtype: torch.dtype) -> Tensor:
        return equal.to(dtype).mul_(self.within - 1).add_(1)

    def own(self, metadata: Metadata, n: int, dtype: torch.dtype) -> Tensor:
        return torch.ones(n, dtype=dtype, device=self.values(metadata).device)
