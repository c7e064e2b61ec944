"""Kernels on metadata, symmetric weights w(y, y') between two scans; products and weighted sums of kernels."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add, mul
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from neurocontrast.cells import level_of
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.seeds import derive_seed

Metadata = Mapping[str, Any]
"""Columns by name: tensors, or what `column_of` makes tensors of."""
Kind = Literal["continuous", "categorical"]
Block = Callable[[slice, slice], Tensor]
"""``block(i, j)``: the weights of row scans ``i`` with column scans ``j``, a fresh (n_i, n_j) tensor."""

_EVERYTHING = slice(None)


class Kernel(nn.Module):
    """A symmetric weight between scans, computed from their metadata.

    ``kernel(metadata)`` is the (n, n) matrix of a batch, ``kernel(rows, cols)`` a rectangular (n,
    m) part of it. Kernels compose: ``a * b`` is their product, ``2.0 * a + b`` a weighted sum.
    Metadata is a dictionary of tensors on one device: continuous columns (n,) or (n, p) with NaN
    where a value is missing, categorical columns integer codes (n,) with -1 where missing. Lists,
    arrays and the columns of a DataFrame are taken too, categories then also as words. Cells are
    missing as in tables: None, NaN, "", "n/a" and their like. Weights carry no gradient.
    """

    columns: dict[str, Kind]
    """The metadata columns that are read, and how."""
    supremum: float
    """‖w‖∞ over all possible metadata: infinite where only a batch has a maximum."""
    nonnegative: bool
    """Whether w ≥ 0 whatever the metadata."""
    positive_semidefinite: bool = True
    """Whether every matrix of weights without missing values is positive semi-definite."""

    def supremum_over(
        self,
        metadata: Metadata,  # noqa: ARG002
        *,
        dtype: torch.dtype | None = None,  # noqa: ARG002
    ) -> float | Tensor:
        """‖w‖∞ of a batch: ``supremum`` where that is finite, else the maximum over the batch."""
        return self.supremum

    @abstractmethod
    def bind(self, rows: Metadata, cols: Metadata, *, dtype: torch.dtype | None = None) -> Block:
        """Prepare the columns of row and column scans once; return the function that computes any block of weights.

        Scans are compared with themselves where ``cols`` is ``rows``; otherwise no scan is in both.
        `dtype` is that of the weights, by default the column's or float32.
        """

    def fit(self, metadata: Metadata) -> Kernel:  # noqa: ARG002
        """Fit bandwidths that are given by a rule on the training cohort; returns itself."""
        return self

    @abstractmethod
    def check(
        self, metadata: Metadata, *, names: Sequence[str] | None = None, nonnegative: bool = False
    ) -> None:
        """Refuse metadata of a cohort that the kernel cannot read, naming the column and all rows at fault.

        `names` are those of the rows, for the message. With `nonnegative`, metadata on which the
        kernel goes below zero are refused too, as y-Aware InfoNCE and conditional uniformity need.
        """

    def forward(self, rows: Metadata, cols: Metadata | None = None) -> Tensor:
        """Return the (n, n) weights of a batch, or the (n, m) block of ``rows`` with ``cols``."""
        return self.bind(rows, rows if cols is None else cols, dtype=self.precision_for(rows))(
            _EVERYTHING, _EVERYTHING
        )

    def precision_for(self, metadata: Metadata) -> torch.dtype:
        """Return the dtype of the weights of scans: float64 where a column is, else float32."""
        wide = any(
            column in metadata and getattr(metadata[column], "dtype", None) == torch.float64
            for column in self.columns
        )
        return torch.float64 if wide else torch.float32

    def __mul__(self, other: Kernel | float) -> Product | WeightedSum:
        return Product(self, other) if isinstance(other, Kernel) else WeightedSum((other, self))

    def __rmul__(self, factor: float) -> WeightedSum:
        return WeightedSum((factor, self))

    def __add__(self, other: Kernel) -> WeightedSum:
        return WeightedSum(self, other)


def column_of(
    metadata: Metadata | None, name: str, *, needed_by: str, words: bool = False
) -> Tensor:
    """Return a column of one or two dimensions, or refuse metadata without it; with `words`, words become codes."""
    if metadata is not None and not hasattr(metadata, "keys"):
        raise DataError(
            f"metadata must be columns by name, as in {{'{name}': values}}, got {type(metadata).__name__}."
        )
    if metadata is None or name not in metadata:
        given = (
            "metadata was not given" if metadata is None else f"it has {one_of(metadata) or 'none'}"
        )
        near = suggestion(name, metadata or ())
        raise DataError(f"metadata has no column '{name}', which {needed_by} needs; {given}.{near}")
    column = _as_tensor(metadata[name], name, words=words)
    if column.ndim not in (1, 2):
        raise DataError(
            f"metadata['{name}'] must have shape (n,) or (n, p), got shape {tuple(column.shape)}."
        )
    return column


def _as_tensor(given: Any, name: str, *, words: bool) -> Tensor:
    """Return what was given as a tensor: numbers as they are, words as codes that are the same in every batch."""
    if isinstance(given, Tensor):
        return given.as_subclass(Tensor)  # of MONAI's MetaTensor, too
    values = np.asarray(given)
    values = (
        np.asarray(given, dtype=object) if values.dtype.kind in "US" else values
    )  # else NaN is the word "nan"
    if values.dtype.kind in "biuf":
        return torch.tensor(
            values if values.dtype.kind == "f" else values.astype(np.int64)
        )  # pandas' are read-only
    cells = values.ravel()
    try:
        if words:
            return torch.tensor([_code_of(cell) for cell in cells]).reshape(values.shape)
        return torch.tensor(list(map(_number_of, cells)), dtype=torch.float32).reshape(values.shape)
    except (TypeError, ValueError):
        allowed = "numbers, or words of categories," if words else "numbers"
        raise DataError(
            f"metadata['{name}'] must hold {allowed} one a sample, got {given!r:.80}."
        ) from None


def _number_of(cell: Any) -> float:
    """Return the number in a cell; NaN for a missing one."""
    if level_of(cell) is None:
        return math.nan
    return float(cell)


def _code_of(cell: object) -> int:
    """Return the code of a category's name, the same in every batch, and -1 for a missing cell."""
    level = level_of(cell)
    if level is None:
        return -1
    return derive_seed("category", level)


class _Composite(Kernel):
    """What product and weighted sum share; weights and suprema of the parts are combined alike."""

    parts: nn.ModuleList

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(kernels)
        self.nonnegative = all(kernel.nonnegative for kernel in kernels)
        self.positive_semidefinite = all(kernel.positive_semidefinite for kernel in kernels)
        self.supremum = float(self.combine(kernel.supremum for kernel in kernels))
        self.columns = {}
        for kernel in kernels:
            for column, kind in kernel.columns.items():
                if self.columns.setdefault(column, kind) != kind:
                    raise ConfigError(
                        f"Column '{column}' is read both as {self.columns[column]} and as {kind}; choose one."
                    )

    @abstractmethod
    def combine(self, values: Iterable[Any]) -> Any:
        """Return the product or the weighted sum of one number or tensor a part."""

    @property
    def kernels(self) -> list[Kernel]:
        return [part for part in self.parts if isinstance(part, Kernel)]

    def supremum_over(
        self, metadata: Metadata, *, dtype: torch.dtype | None = None
    ) -> float | Tensor:
        combined: float | Tensor = self.combine(
            kernel.supremum_over(metadata, dtype=dtype) for kernel in self.kernels
        )
        return combined

    def bind(self, rows: Metadata, cols: Metadata, *, dtype: torch.dtype | None = None) -> Block:
        blocks = [kernel.bind(rows, cols, dtype=dtype) for kernel in self.kernels]
        return lambda i, j: self.combine(block(i, j) for block in blocks)

    def fit(self, metadata: Metadata) -> Kernel:
        for kernel in self.kernels:
            kernel.fit(metadata)
        return self

    def check(
        self, metadata: Metadata, *, names: Sequence[str] | None = None, nonnegative: bool = False
    ) -> None:
        for kernel in self.kernels:
            kernel.check(metadata, names=names, nonnegative=nonnegative)


class Product(_Composite):
    """Product of kernels: alike only where every factor says so (age **and** sex). ``a * b`` makes one.

    Parameters
    ----------
    *kernels : Kernel
        The factors; ‖w‖∞ is the product of theirs.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Categorical, Gaussian
    >>> kernel = Gaussian("age", sigma=5.0) * Categorical("sex")
    >>> kernel({"age": torch.tensor([20.0, 25.0, 25.0]), "sex": torch.tensor([0, 0, 1])})[0]
    tensor([1.0000, 0.6065, 0.0000])
    """

    def __init__(self, *kernels: Kernel) -> None:
        nested = [kernel.kernels if isinstance(kernel, Product) else [kernel] for kernel in kernels]
        super().__init__([kernel for part in nested for kernel in part])

    def combine(self, values: Iterable[Any]) -> Any:
        return reduce(mul, values)


class WeightedSum(_Composite):
    """Weighted sum of kernels: alike where any part says so. ``2.0 * a + b`` makes one.

    Parameters
    ----------
    *terms : Kernel or (float, Kernel)
        A kernel alone counts once; ‖w‖∞ is the same weighted sum of theirs.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Categorical, Gaussian
    >>> kernel = 2.0 * Gaussian("age", sigma=5.0) + Categorical("sex")
    >>> kernel({"age": torch.tensor([20.0, 25.0]), "sex": torch.tensor([0, 1])})
    tensor([[3.0000, 1.2131],
            [1.2131, 3.0000]])
    """

    def __init__(self, *terms: Kernel | tuple[float, Kernel]) -> None:
        flat = [
            part
            for term in terms
            for part in _weighted(*((1.0, term) if isinstance(term, Kernel) else term))
        ]
        self.factors = tuple(float(factor) for factor, _ in flat)
        super().__init__([kernel for _, kernel in flat])

    def combine(self, values: Iterable[Any]) -> Any:
        weighted = (
            value if factor == 1 else factor * value
            for factor, value in zip(self.factors, values, strict=True)
        )
        return reduce(add, weighted)

    def extra_repr(self) -> str:
        return f"factors={self.factors}"


def _weighted(factor: float, kernel: Kernel) -> Iterator[tuple[float, Kernel]]:
    """Yield the weighted kernels of a term, those of a sum one by one."""
    if not isinstance(factor, (int, float)) or not math.isfinite(factor) or factor <= 0:
        raise ConfigError(f"A kernel's weight in a sum must be a positive number, got {factor!r}.")
    if not isinstance(kernel, WeightedSum):
        yield factor, kernel
        return
    for inner, part in zip(kernel.factors, kernel.kernels, strict=True):
        yield factor * inner, part
