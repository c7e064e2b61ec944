"""Kernels on metadata, symmetric weights w(y, y') between two scans; products and weighted sums of kernels."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from neurocontrast.exceptions import ConfigError

__all__ = ["Block", "Kernel", "Kind", "Metadata", "Product", "WeightedSum"]

Metadata = Mapping[str, Tensor]
Kind = Literal["continuous", "categorical"]
Block = Callable[[slice, slice], Tensor]
"""``block(i, j)``: the weights of row scans ``i`` with column scans ``j``, a fresh (n_i, n_j) tensor."""

_EVERYTHING = slice(None)


class Kernel(nn.Module):
    """A symmetric weight between scans, computed from their metadata.

    ``kernel(metadata)`` is the (n, n) matrix of a batch, ``kernel(rows, cols)`` a rectangular
    (n, m) part of it. Kernels compose: ``a * b`` is their product, ``2.0 * a + b`` a weighted sum.

    Metadata is a dictionary of tensors on one device: continuous columns (n,) or (n, p) with NaN
    where a value is missing, categorical columns integer codes (n,) with -1 where missing.
    Weights carry no gradient.
    """

    @property
    @abstractmethod
    def columns(self) -> dict[str, Kind]:
        """The metadata columns that are read, and how."""

    @property
    @abstractmethod
    def supremum(self) -> float:
        """‖w‖∞ over all possible metadata: infinite where only a batch has a maximum."""

    @property
    @abstractmethod
    def nonnegative(self) -> bool:
        """Whether w ≥ 0 whatever the metadata."""

    @property
    def positive_semidefinite(self) -> bool:
        """Whether every matrix of weights without missing values is positive semi-definite."""
        return True

    missing: Literal["error", "marginal"]

    def features(self, metadata: Metadata) -> Tensor | None:  # noqa: ARG002
        """F of shape (n, r) with w = F Fᵀ where the kernel has such explicit features, else None."""
        return None

    @abstractmethod
    def supremum_over(self, metadata: Metadata, *, dtype: torch.dtype | None = None) -> float | Tensor:
        """‖w‖∞ of a batch: ``supremum`` where that is finite, else the maximum over the batch."""

    @abstractmethod
    def bind(
        self,
        rows: Metadata,
        cols: Metadata,
        *,
        batch: Metadata | None = None,
        dtype: torch.dtype | None = None,
        offset: int | None = None,
    ) -> Block:
        """Prepare the columns once, and return the function that computes any block of weights.

        Parameters
        ----------
        rows, cols : dict of Tensor
            Metadata of the row scans and of the column scans.
        batch : dict of Tensor, optional
            The scans whose observed pairs give the mean that replaces a missing factor; by default
            the pairs of ``rows`` with ``cols``.
        dtype : torch.dtype, optional
            Of the weights; by default that of the column, float32 for categories, integers and half precision.
        offset : int, optional
            Place of the first row scan among the column scans, for a kernel that knows a scan with itself; by default
            0 where ``cols`` is ``rows``, and otherwise no scan is in both.
        """

    @abstractmethod
    def fit(self, metadata: Metadata) -> Kernel:
        """Fit bandwidths that are given by a rule on the training cohort; returns itself."""

    @abstractmethod
    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None, nonnegative: bool = False) -> None:
        """Check the metadata of a whole cohort once, before training.

        Parameters
        ----------
        metadata : dict of Tensor
            The cohort's columns.
        names : sequence of str, optional
            One a row, for the message; row numbers by default.
        nonnegative : bool
            Also refuse metadata on which the kernel goes below zero, as y-Aware InfoNCE and
            conditional uniformity need.

        Raises
        ------
        DataError
            Naming the column and all rows at fault.
        """

    def forward(self, rows: Metadata, cols: Metadata | None = None) -> Tensor:
        """Return the (n, n) weights of a batch, or the (n, m) block of ``rows`` with ``cols``."""
        wide = any(column in rows and rows[column].dtype == torch.float64 for column in self.columns)
        dtype = torch.float64 if wide else torch.float32
        return self.bind(rows, rows if cols is None else cols, dtype=dtype)(_EVERYTHING, _EVERYTHING)

    def __mul__(self, other: Kernel | float) -> Product | WeightedSum:
        return Product(self, other) if isinstance(other, Kernel) else WeightedSum((other, self))

    def __rmul__(self, factor: float) -> WeightedSum:
        return WeightedSum((factor, self))

    def __add__(self, other: Kernel) -> WeightedSum:
        return WeightedSum(self, other)


class _Composite(Kernel):
    """What product and weighted sum share."""

    parts: nn.ModuleList

    def _set_parts(self, kernels: Sequence[Kernel]) -> None:
        self.parts = nn.ModuleList(kernels)
        self.missing = "marginal" if any(kernel.missing == "marginal" for kernel in kernels) else "error"
        _ = self.columns

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels it is made of."""
        return [part for part in self.parts if isinstance(part, Kernel)]

    @property
    def columns(self) -> dict[str, Kind]:
        """The columns of all parts."""
        found: dict[str, Kind] = {}
        for kernel in self.kernels:
            for column, kind in kernel.columns.items():
                if found.setdefault(column, kind) != kind:
                    raise ConfigError(f"Column '{column}' is read both as {found[column]} and as {kind}; choose one.")
        return found

    @property
    def nonnegative(self) -> bool:
        """True when every part is."""
        return all(kernel.nonnegative for kernel in self.kernels)

    @property
    def positive_semidefinite(self) -> bool:
        """True when every part is."""
        return all(kernel.positive_semidefinite for kernel in self.kernels)

    def fit(self, metadata: Metadata) -> Kernel:
        """Fit the bandwidths of all parts."""
        for kernel in self.kernels:
            kernel.fit(metadata)
        return self

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None, nonnegative: bool = False) -> None:
        """Check every part; each must be at least 0 where the whole has to be."""
        for kernel in self.kernels:
            kernel.check(metadata, names=names, nonnegative=nonnegative)


class Product(_Composite):
    """Product of kernels: alike only where every factor says so (age **and** sex). ``a * b`` makes one.

    Parameters
    ----------
    *kernels : Kernel
        The factors; ‖w‖∞ is the product of theirs.
    """

    def __init__(self, *kernels: Kernel) -> None:
        super().__init__()
        flat: list[Kernel] = []
        for kernel in kernels:
            flat.extend(kernel.kernels if isinstance(kernel, Product) else [kernel])
        self._set_parts(flat)

    @property
    def supremum(self) -> float:
        """Product of the factors' ‖w‖∞."""
        return math.prod(kernel.supremum for kernel in self.kernels)

    def supremum_over(self, metadata: Metadata, *, dtype: torch.dtype | None = None) -> float | Tensor:
        """Product of the factors' ‖w‖∞ over the batch."""
        return math.prod(kernel.supremum_over(metadata, dtype=dtype) for kernel in self.kernels)

    def bind(
        self,
        rows: Metadata,
        cols: Metadata,
        *,
        batch: Metadata | None = None,
        dtype: torch.dtype | None = None,
        offset: int | None = None,
    ) -> Block:
        """Bind every factor; a block is the product of theirs."""
        first, *others = (kernel.bind(rows, cols, batch=batch, dtype=dtype, offset=offset) for kernel in self.kernels)

        def block(i: slice, j: slice) -> Tensor:
            weights = first(i, j)
            for other in others:
                weights.mul_(other(i, j))
            return weights

        return block


class WeightedSum(_Composite):
    """Weighted sum of kernels: alike where any part says so. ``2.0 * a + b`` makes one.

    Parameters
    ----------
    *terms : Kernel or (float, Kernel)
        A kernel alone counts once; ‖w‖∞ is the same weighted sum of theirs.
    """

    factors: tuple[float, ...]

    def __init__(self, *terms: Kernel | tuple[float, Kernel]) -> None:
        super().__init__()
        flat: list[tuple[float, Kernel]] = []
        for term in terms:
            factor, kernel = (1.0, term) if isinstance(term, Kernel) else term
            if not isinstance(factor, (int, float)) or not math.isfinite(factor) or factor <= 0:
                raise ConfigError(f"A kernel's weight in a sum must be a positive number, got {factor!r}.")
            inner = (
                zip(kernel.factors, kernel.kernels, strict=True) if isinstance(kernel, WeightedSum) else [(1.0, kernel)]
            )
            flat.extend((factor * inner_factor, inner_kernel) for inner_factor, inner_kernel in inner)
        self.factors = tuple(float(factor) for factor, _ in flat)
        self._set_parts([kernel for _, kernel in flat])

    @property
    def supremum(self) -> float:
        """Weighted sum of the parts' ‖w‖∞."""
        return sum(factor * kernel.supremum for factor, kernel in zip(self.factors, self.kernels, strict=True))

    def supremum_over(self, metadata: Metadata, *, dtype: torch.dtype | None = None) -> float | Tensor:
        """Weighted sum of the parts' ‖w‖∞ over the batch."""
        suprema = (kernel.supremum_over(metadata, dtype=dtype) for kernel in self.kernels)
        return sum(factor * supremum for factor, supremum in zip(self.factors, suprema, strict=True))

    def bind(
        self,
        rows: Metadata,
        cols: Metadata,
        *,
        batch: Metadata | None = None,
        dtype: torch.dtype | None = None,
        offset: int | None = None,
    ) -> Block:
        """Bind every part; a block is the weighted sum of theirs."""
        first, *others = (kernel.bind(rows, cols, batch=batch, dtype=dtype, offset=offset) for kernel in self.kernels)

        def block(i: slice, j: slice) -> Tensor:
            weights = first(i, j).mul_(self.factors[0])
            for factor, other in zip(self.factors[1:], others, strict=True):
                weights.add_(other(i, j), alpha=factor)
            return weights

        return block

    def extra_repr(self) -> str:
        """Return the factors, for ``print``."""
        return f"factors={self.factors}"
