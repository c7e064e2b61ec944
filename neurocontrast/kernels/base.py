"""Base class of kernels on metadata, symmetric weights w(y, y') of two scans; products and sums."""

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
"""Metadata columns by name: tensors, or values that `column_of` turns into tensors."""
Kind = Literal["continuous", "categorical"]
Block = Callable[[slice, slice], Tensor]
"""Function ``block(i, j)`` of two slices, which returns the kernel's weights between row scans
``i`` and column scans ``j`` as a new tensor (n_i, n_j)."""

_EVERYTHING = slice(None)


class Kernel(nn.Module):
    """Symmetric weight between two scans, computed from metadata such as age, sex or site.

    ``kernel(metadata)`` is the (n, n) matrix of a batch, ``kernel(rows, cols)`` the (n, m) matrix
    between two sets of scans. Kernels compose: ``a * b`` is the product of kernels a and b, ``2.0 *
    a + b`` a weighted sum. Metadata is a dictionary of tensors on one device: continuous columns
    (n,) or (n, p) with NaN where a value is missing, categorical columns integer codes (n,) with -1
    where missing. Lists, arrays and the columns of a DataFrame are accepted too, categories then
    also as words. Missing cells are None, NaN, "", "n/a" and similar marks, as in tables. Weights
    carry no gradient.
    """

    columns: dict[str, Kind]
    """Kind of each metadata column that the kernel reads, by name: continuous or categorical."""
    supremum: float
    """Largest possible weight ‖w‖∞ over all metadata, such as 1 for a Gaussian; infinite if weights
    have no upper bound."""
    nonnegative: bool
    """Whether weights are at least 0 for all metadata."""
    positive_semidefinite: bool = True
    """Whether every matrix of weights of scans without missing values is positive semi-definite."""

    def supremum_over(
        self,
        metadata: Metadata,  # noqa: ARG002
        *,
        dtype: torch.dtype | None = None,  # noqa: ARG002
    ) -> float | Tensor:
        """Return the largest weight ‖w‖∞: ``supremum`` if finite, or else the batch's maximum.

        `metadata` are the columns of the batch.
        """
        return self.supremum

    @abstractmethod
    def bind(self, rows: Metadata, cols: Metadata, *, dtype: torch.dtype | None = None) -> Block:
        """Prepare metadata of row and column scans once, to compute any part of the weight matrix.

        Parameters
        ----------
        rows, cols : mapping
            Metadata of the scans. If ``cols`` is the object ``rows``, scans are compared with
            themselves; if not, no scan may be in both.
        dtype : torch.dtype, optional
            Data type of the weights; by default the column's, or float32.

        Returns
        -------
        callable
            ``block(i, j)``, which returns the weights for slices of rows and columns.
        """

    def fit(self, metadata: Metadata) -> Kernel:  # noqa: ARG002
        """Fit bandwidths that are given as a rule to `metadata` of the training cohort, in place.

        The kernel itself is returned. A kernel without such a rule stays unchanged.
        """
        return self

    @abstractmethod
    def check(
        self, metadata: Metadata, *, names: Sequence[str] | None = None, nonnegative: bool = False
    ) -> None:
        """Refuse a cohort whose metadata the kernel cannot read, before training begins.

        Parameters
        ----------
        metadata : mapping
            Columns of the cohort.
        names : sequence of str, optional
            Name of each row, for messages; row numbers by default.
        nonnegative : bool
            Whether to refuse metadata with weights below zero too, because y-Aware InfoNCE and
            conditional uniformity need weights of at least 0.

        Raises
        ------
        DataError
            Naming the column and all rows at fault.
        """

    def forward(self, rows: Metadata, cols: Metadata | None = None) -> Tensor:
        """Return the (n, n) weights of a batch, or the (n, m) weights of ``rows`` with ``cols``."""
        if cols is None:
            cols = rows
        block = self.bind(rows, cols, dtype=self.precision_for(rows))
        return block(_EVERYTHING, _EVERYTHING)

    def precision_for(self, metadata: Metadata) -> torch.dtype:
        """Return the dtype of weights: float64 if any column read is float64, or else float32."""
        wide = any(
            column in metadata and getattr(metadata[column], "dtype", None) == torch.float64
            for column in self.columns
        )
        if wide:
            return torch.float64
        return torch.float32

    def __mul__(self, other: Kernel | float) -> Product | WeightedSum:
        if isinstance(other, Kernel):
            return Product(self, other)
        return WeightedSum((other, self))

    def __rmul__(self, factor: float) -> WeightedSum:
        return WeightedSum((factor, self))

    def __add__(self, other: Kernel) -> WeightedSum:
        return WeightedSum(self, other)


def column_of(
    metadata: Metadata | None, name: str, *, needed_by: str, words: bool = False
) -> Tensor:
    """Return a column of metadata as a tensor (n,) or (n, p), or refuse a missing column.

    Parameters
    ----------
    metadata : mapping or None
        Columns by name.
    name : str
        Name of the column.
    needed_by : str
        Name of the loss or kernel, for messages.
    words : bool
        Whether to turn names of categories into integer codes.

    Raises
    ------
    DataError
        If the column is missing, or holds anything but numbers in one or two dimensions.
    """
    if metadata is not None and not hasattr(metadata, "keys"):
        raise DataError(
            f"metadata must be columns by name, as in {{'{name}': values}}, "
            f"got {type(metadata).__name__}."
        )
    if metadata is None or name not in metadata:
        reason = "metadata was not given"
        if metadata is not None:
            reason = f"it has {one_of(metadata) or 'none'}"
        near = suggestion(name, metadata or ())
        raise DataError(
            f"metadata has no column '{name}', which {needed_by} needs; {reason}.{near}"
        )
    column = _as_tensor(metadata[name], name, words=words)
    if column.ndim not in (1, 2):
        raise DataError(
            f"metadata['{name}'] must have shape (n,) or (n, p), got shape {tuple(column.shape)}."
        )
    return column


def _as_tensor(column: Any, name: str, *, words: bool) -> Tensor:
    """Return a metadata column as a tensor: numbers as they are, missing cells as NaN.

    With `words`, names of categories become integer codes that are the same in every batch, -1
    where missing. `name` is the column's name for messages.
    """
    if isinstance(column, Tensor):
        return column.as_subclass(Tensor)  # of MONAI's MetaTensor, too
    values = np.asarray(column)
    if values.dtype.kind in "US":  # where a NaN has become the word "nan"
        values = np.asarray(column, dtype=object)
    # Copies: arrays of pandas are read-only.
    if values.dtype.kind == "f":
        return torch.tensor(values)
    if values.dtype.kind in "biu":
        return torch.tensor(values.astype(np.int64))
    cells = values.ravel()
    try:
        if words:
            return torch.tensor(list(map(_code_of, cells))).reshape(values.shape)
        return torch.tensor(list(map(_number_of, cells)), dtype=torch.float32).reshape(values.shape)
    except (TypeError, ValueError):
        allowed = "numbers"
        if words:
            allowed = "numbers, or words of categories,"
        raise DataError(
            f"metadata['{name}'] must hold {allowed} one a sample, got {column!r:.80}."
        ) from None


def _number_of(cell: Any) -> float:
    """Return the number in `cell` of a metadata column as a float; NaN for a missing cell."""
    if level_of(cell) is None:
        return math.nan
    return float(cell)


def _code_of(cell: object) -> int:
    """Return the integer code of the category that `cell` names; -1 for a missing cell.

    The code is derived from the name, so that a category has the same code in every batch.
    """
    level = level_of(cell)
    if level is None:
        return -1
    return derive_seed("category", level)


class _Composite(Kernel):
    """Base class of products and weighted sums, which combine several kernels."""

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
                        f"Column '{column}' is read both as {self.columns[column]} and as {kind}; "
                        "choose one."
                    )

    @abstractmethod
    def combine(self, values: Iterable[Any]) -> Any:
        """Return the product, or weighted sum, of `values`, of which each kernel gives one."""

    @property
    def kernels(self) -> list[Kernel]:
        return [kernel for kernel in self.parts if isinstance(kernel, Kernel)]

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
    """Product of kernels, ``a * b``: scans are similar only if similar by every factor.

    Parameters
    ----------
    *kernels : Kernel
        Factors, such as kernels on age and on sex; the largest weight ‖w‖∞ is the product of the
        factors' largest weights.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Categorical, Gaussian
    >>> kernel = Gaussian("age", sigma=5.0) * Categorical("sex")
    >>> kernel({"age": torch.tensor([20.0, 25.0, 25.0]), "sex": torch.tensor([0, 0, 1])})[0]
    tensor([1.0000, 0.6065, 0.0000])
    """

    def __init__(self, *kernels: Kernel) -> None:
        factors: list[Kernel] = []
        for kernel in kernels:
            if isinstance(kernel, Product):
                factors += kernel.kernels
            else:
                factors.append(kernel)
        super().__init__(factors)

    def combine(self, values: Iterable[Any]) -> Any:
        return reduce(mul, values)


class WeightedSum(_Composite):
    """Weighted sum of kernels, ``2.0 * a + b``: scans are similar if similar by any kernel.

    Parameters
    ----------
    *terms : Kernel or (float, Kernel)
        Kernels, each with a factor above 0; a kernel without a factor has 1. The largest weight
        ‖w‖∞ is the weighted sum of the kernels' largest weights.

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
        factors = []
        kernels = []
        for term in terms:
            weighted = (1.0, term) if isinstance(term, Kernel) else term
            for factor, kernel in _weighted(*weighted):
                factors.append(float(factor))
                kernels.append(kernel)
        self.factors = tuple(factors)
        super().__init__(kernels)

    def combine(self, values: Iterable[Any]) -> Any:
        weighted = (
            value if factor == 1 else factor * value
            for factor, value in zip(self.factors, values, strict=True)
        )
        return reduce(add, weighted)

    def extra_repr(self) -> str:
        return f"factors={self.factors}"


def _weighted(factor: float, kernel: Kernel) -> Iterator[tuple[float, Kernel]]:
    """Yield (`factor`, `kernel`), a term of a weighted sum; for a nested sum, all terms inside.

    The factors inside a nested sum are multiplied by `factor`. A ConfigError refuses a factor that
    is not a positive number.
    """
    if not isinstance(factor, (int, float)) or not math.isfinite(factor) or factor <= 0:
        raise ConfigError(f"A kernel's weight in a sum must be a positive number, got {factor!r}.")
    if not isinstance(kernel, WeightedSum):
        yield factor, kernel
        return
    for inner_factor, inner in zip(kernel.factors, kernel.kernels, strict=True):
        yield factor * inner_factor, inner
