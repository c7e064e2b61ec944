"""Kernels made of kernels: the product, and the weighted sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from neurocontrast.exceptions import ConfigError
from neurocontrast.kernels.base import Block, Kernel, Kind, Metadata

__all__ = ["Product", "WeightedSum"]


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
