"""Base class of kernels on one metadata column, and the treatment of missing values."""

import inspect
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from neurocontrast.exceptions import DataError, said
from neurocontrast.kernels.base import Block, Kernel, Kind, Metadata, column_of
from neurocontrast.settings import Column, Settings, checked

_STREAMED_SCANS = 1024
"""Number of scans in the rows and in the columns of a block of weights, when a whole weight matrix
is summed or checked block by block to bound memory."""


Missing = Literal["error", "marginal"]
"""Treatment of missing values in a kernel's column; see `ColumnKernel`."""


class FactorSettings(Settings):
    """Keys that a configuration may give to every kernel on a metadata column.

    Further keys are the parameters of the kernel's constructor.

    Examples
    --------
    >>> from neurocontrast.config import load_config
    >>> config = load_config(overrides=["objective.kernel.0.sigma=3"])
    >>> config.objective.kernel[0].sigma
    3.0
    """

    column: Column
    missing: Missing = "error"
    type: str = ""


class ColumnKernel(Kernel):
    """Base class of kernels on one metadata column, also of kernels that a user writes.

    To write a kernel, define a class with a constructor, whose parameters become keys in a
    configuration, and a method ``weights``. See ``docs/own_kernel.md``.

    Parameters
    ----------
    column : str
        The metadata column.
    missing : {"error", "marginal"}, default "error"
        Treatment of missing values. ``"error"`` refuses scans with a missing value. ``"marginal"``
        keeps the scans: a pair in which a value is missing gets the kernel's mean weight over all
        pairs of different observed scans in the batch. The weight of a scan with itself, if the
        scan's value is missing, is the mean weight of observed scans with themselves. Without any
        observed scan, both weights are 1.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import ColumnKernel, Missing
    >>> from neurocontrast.settings import Positive, checked
    >>> class Window(ColumnKernel):
    ...     @checked
    ...     def __init__(
    ...         self, column: str, *, width: Positive = 10.0, missing: Missing = "error"
    ...     ) -> None:
    ...         super().__init__(column, missing=missing)
    ...         self.width = width
    ...
    ...     def weights(self, rows, cols, dtype):
    ...         return (1 - torch.cdist(rows, cols, p=1) / self.width).clamp(min=0).to(dtype)
    >>> Window("age")({"age": [20.0, 25.0]})
    tensor([[1.0000, 0.5000],
            [0.5000, 1.0000]])
    """

    kind: Kind = "continuous"
    supremum = 1.0
    nonnegative = True

    @checked
    def __init__(self, column: Column, *, missing: Missing = "error") -> None:
        super().__init__()
        self.column = column
        self.missing = missing
        self.columns = {column: self.kind}

    def extra_repr(self) -> str:
        """Return the kernel's constructor arguments as text, for PyTorch's display of modules."""
        names = inspect.signature(type(self)).parameters
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def values(self, metadata: Metadata, *, dtype: torch.dtype | None = None) -> Tensor:
        """Return the column of `metadata` that the kernel reads, (n, p), without gradient.

        A missing column is refused. Numbers become floats of the given `dtype`.
        """
        column = column_of(
            metadata, self.column, needed_by=type(self).__name__, words=self.kind == "categorical"
        )
        if column.requires_grad:
            column = column.detach()
        if self.kind == "continuous":
            if dtype is None and column.dtype not in (torch.float32, torch.float64):
                dtype = torch.float32
            column = column.to(dtype or column.dtype)
        if column.ndim == 1:
            column = column.unsqueeze(1)
        return column

    def observed(self, values: Tensor) -> Tensor:
        """Tell for each row of values (n, p) whether no value is missing, as booleans (n,)."""
        return ~values.isnan().any(dim=1)

    def are_observed(self, values: Tensor) -> bool:
        """Tell whether no number is missing in `values` (n, p), the kernel's column of n scans.

        If the sum of all numbers is not NaN, none is missing; the sum is faster than a test of
        each.
        """
        is_own = type(self).observed is ColumnKernel.observed
        if is_own and not math.isnan(float(values.sum())):  # NaN of any value, and of +∞ − ∞
            return True
        return bool(self.observed(values).all())

    def scaled(self, values: Tensor) -> Tensor:
        """Return the column's `values` (n, p) rescaled, such as y/σ; unchanged by default.

        Values are rescaled once a batch, before `weights` compares scans.
        """
        return values

    @abstractmethod
    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        """Compute the kernel's weights (n, m) between n scans `rows` and m scans `cols`.

        Each kernel defines this method. The arguments (n, p) and (m, p) are the values of the
        column after the method `scaled`, which by default leaves them unchanged. The result is a
        new tensor.
        """

    def bind(self, rows: Metadata, cols: Metadata, *, dtype: torch.dtype | None = None) -> Block:
        is_square = cols is rows
        row_values = self.values(rows, dtype=dtype)
        col_values = row_values if is_square else self.values(cols, dtype=dtype)
        if row_values.shape[1] != col_values.shape[1]:
            raise DataError(
                f"metadata['{self.column}'] has {row_values.shape[1]} dimensions in rows and "
                f"{col_values.shape[1]} in cols; both must have as many."
            )
        if dtype is None:
            dtype = row_values.dtype if row_values.is_floating_point() else torch.float32
        a, seen_a = self._features(row_values)
        b, seen_b = (a, seen_a) if is_square else self._features(col_values)
        diagonal = self.own(rows, len(row_values), dtype) if is_square else None
        exact = self._block_of(a, b, dtype)
        if seen_a is None or seen_b is None:
            return _with_diagonal(exact, diagonal)
        mean, mean_diagonal = self._observed_means(a, seen_a, b, seen_b, dtype)
        if diagonal is None:
            diagonal = mean_diagonal
        return _with_diagonal(_with_mean(exact, seen_a, seen_b, mean), diagonal)

    def _block_of(self, a: Tensor, b: Tensor, dtype: torch.dtype) -> Block:
        """Return a function of two slices, which computes weights of rows of `a` with rows of `b`.

        `a` and `b` are values of the kernel's column, as `scaled` returned them, (n, p) and (m, p).
        """

        def block(i: slice, j: slice) -> Tensor:
            return self._exact(_rows(a, i), _rows(b, j), dtype)

        return block

    def own(self, metadata: Metadata, n: int, dtype: torch.dtype) -> Tensor | None:  # noqa: ARG002
        """Return the weights (n,) of n scans with themselves, to replace the results of `weights`.

        None, as by default, keeps the results of the method `weights` for such pairs.
        """
        return None

    def _exact(self, a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the result (n, m) of the method `weights` for values `a` (n, p) and `b` (m, p).

        The values are of the kernel's column, as `scaled` returned them. Autocast is off, so that
        the weights have full precision, and no gradient is recorded.
        """
        with torch.no_grad(), torch.autocast(a.device.type, enabled=False):
            return self.weights(a, b, dtype)

    def _features(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return rescaled `values` (n, p), and a mask (n,) of rows without missing values.

        The mask is None unless ``missing="marginal"``, where a missing value is treated as 0. With
        ``missing="error"``, a missing value on a CPU raises a DataError; on a GPU, weights become
        NaN, so that the GPU is not waited for.
        """
        if self.missing == "marginal":
            seen = self.observed(values)
            return self.scaled(values.masked_fill(~seen.unsqueeze(1), 0)), seen
        is_asked = values.device.type == "cpu" and not torch.compiler.is_compiling()
        if is_asked and not self.are_observed(values):
            missing = (~self.observed(values)).nonzero()[:, 0].tolist()
            raise DataError(self._missing_message(missing, None))
        return self.scaled(values), None

    def _observed_means(
        self, a: Tensor, seen_a: Tensor, b: Tensor, seen_b: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor | None]:
        """Return the mean weight of pairs of scans with known values, and of each scan with itself.

        `a` and `b` are rescaled values of row and column scans, `seen_a` and `seen_b` masks of
        known ones. The second result, (n,), is the kernel's weight of each scan with itself, or
        their mean for a scan without a value; None unless `a` and `b` are the same tensor. With a
        single observed scan, the mean is the scan's weight with itself. Memory is O(n), because the
        weight matrix is computed and summed part by part.
        """
        row_means = a.new_zeros(len(a), dtype=dtype)
        diagonal = a.new_zeros(len(a), dtype=dtype)
        n_others = (seen_b.sum() - int(a is b)).clamp_min(1)
        for start in range(0, len(a), _STREAMED_SCANS):
            i = slice(start, start + _STREAMED_SCANS)
            for first in range(0, len(b), _STREAMED_SCANS):
                j = slice(first, first + _STREAMED_SCANS)
                weights = self._exact(a[i], b[j], dtype)
                if a is b and i == j:
                    diagonal[i] = weights.diagonal()
                    weights.fill_diagonal_(0)
                row_means[i] += weights.mul_(seen_b[j]).sum(1) / n_others
        n_seen = seen_a.sum().clamp_min(1)
        mean = (row_means * seen_a).sum() / n_seen
        if a is not b:
            return torch.where(seen_a.any() & seen_b.any(), mean, 1.0), None
        mean_diagonal = torch.where(seen_a.any(), (diagonal * seen_a).sum() / n_seen, 1.0)
        diagonal = torch.where(seen_a, diagonal, mean_diagonal)
        return torch.where(seen_a.sum() > 1, mean, mean_diagonal), diagonal

    def check(
        self, metadata: Metadata, *, names: Sequence[str] | None = None, nonnegative: bool = False
    ) -> None:
        values = self.values(metadata)
        if self.kind == "continuous" and values.isinf().any():
            rows = values.isinf().any(dim=1).nonzero()[:, 0].tolist()
            raise DataError(
                f"Column '{self.column}' is infinite for {listed(rows, names)}; give finite values."
            )
        seen = self.observed(values)
        if self.missing == "error" and not seen.all():
            raise DataError(self._missing_message((~seen).nonzero()[:, 0].tolist(), names))
        if type(self).__module__.partition(".")[0] != __name__.partition(".")[0]:
            self._check_formula(values, seen, names)
        if nonnegative and not self.nonnegative:
            self._check_sign(values, seen, names)

    def _check_formula(self, values: Tensor, seen: Tensor, names: Sequence[str] | None) -> None:
        """Raise a DataError if a user's kernel computes weights that its class does not allow.

        Weights must have the right shape, be finite and symmetric, lie at or below the class's
        `supremum` (the largest weight that the class declares), and be at least 0 if the class
        declares `nonnegative`. Weights of all pairs of the cohort's `values` are computed. `seen`
        is the mask of rows to use, and `names` name the rows in messages.
        """
        kept = seen.nonzero()[:, 0]
        features = self.scaled(values[kept])
        for start in range(0, len(features), _STREAMED_SCANS):
            rows = features[start : start + _STREAMED_SCANS]
            weights = self._tried(rows, features)
            if weights.shape != (len(rows), len(features)):
                raise DataError(
                    f"{type(self).__name__}: its weights must be of shape ({len(rows)}, "
                    f"{len(features)}), found {tuple(weights.shape)}."
                )
            turned = self._exact(features, rows, features.dtype).T
            for problem, pairs in self._problems_of(weights, turned).items():
                if pairs.any():
                    row, column = pairs.nonzero()[0].tolist()
                    scans = sorted({int(kept[start + row]), int(kept[column])})
                    raise DataError(
                        f"{type(self).__name__} on '{self.column}': the weight "
                        f"{weights[row, column]:.3g} is {problem} (between "
                        f"{listed(scans, names)}). Mend the class, or its attributes."
                    )

    def _tried(self, rows: Tensor, features: Tensor) -> Tensor:
        """Return a user's kernel's weights (n, m) between scans `rows` and scans `features`.

        Both arguments are values of the kernel's column after the method `scaled`, (n, p) and (m,
        p). If the user's code fails with a RuntimeError, a DataError names the kernel and the
        column.
        """
        try:
            return self._exact(rows, features, features.dtype)
        except RuntimeError as error:
            raise DataError(
                f"{type(self).__name__} on '{self.column}': its formula fails on features of shape "
                f"{tuple(features.shape)} ({said(error)}). Mend the class, or name a column that "
                "it can take."
            ) from error

    def _problems_of(self, weights: Tensor, turned: Tensor) -> dict[str, Tensor]:
        """Return a mask (n, m) of wrong pairs of scans for each problem of a user's kernel.

        Masks are by words for the problem: weights that are not finite, not symmetric, above
        `supremum`, or below 0. `weights` (n, m) are from n to m scans. `turned` (n, m) is the
        transpose of the weights that the kernel computes from the m to the n scans, and equals
        `weights` if the kernel is symmetric.
        """
        rounding = 1e-5 * weights.abs().clamp_min(1)
        return {
            "not finite": ~weights.isfinite(),
            "not symmetric": (weights - turned).abs() > rounding,
            f"above its supremum, {self.supremum:g}": weights > self.supremum + rounding,
            "below 0, which nonnegative denies": (weights < 0) & self.nonnegative,
        }

    def _check_sign(self, values: Tensor, seen: Tensor, names: Sequence[str] | None) -> None:
        """Raise a DataError if a weight is below 0, naming the two scans of the lowest weight.

        The kernel computes the weight of a pair from the scans' `values` of the cohort's column.
        `seen` is the mask of scans with known values, and `names` are the scans' names.
        """
        kept = seen.nonzero()[:, 0]
        a = self.scaled(values[kept])
        lowest = math.inf
        pair = (0, 0)
        for start in range(0, len(a), _STREAMED_SCANS):
            weights = self._exact(a[start : start + _STREAMED_SCANS], a, a.dtype)
            value, position = weights.flatten().min(0)
            if value < lowest:
                i, j = divmod(int(position), len(a))
                lowest = float(value)
                pair = (int(kept[start + i]), int(kept[j]))
        if lowest < 0:
            raise DataError(
                f"The {type(self).__name__} kernel on '{self.column}' goes down to {lowest:.3g} "
                f"(between {listed(sorted(set(pair)), names)}), but this loss needs weights of at "
                "least 0. Use a Gaussian or Laplacian kernel, or shift the column so that no "
                "product is negative."
            )

    def _missing_message(self, rows: list[int], names: Sequence[str] | None) -> str:
        return (
            f"Column '{self.column}' is missing for {listed(rows, names)}. Fill it in, leave these "
            "out, or use missing='marginal', which keeps them and takes the mean weight of this "
            "column in their place."
        )


def _with_mean(exact: Block, seen_a: Tensor, seen_b: Tensor, mean: Tensor) -> Block:
    """Return a function as `exact`, but with the weight `mean` of pairs with a missing value.

    `exact` returns weights of two slices of scans. `seen_a` and `seen_b` are masks of the scans in
    rows and columns whose value is known; the mean is put in place if either scan's value is
    missing.
    """

    def block(i: slice, j: slice) -> Tensor:
        return torch.where(seen_a[i].unsqueeze(1) & seen_b[j], exact(i, j), mean)

    return block


def _with_diagonal(block: Block, diagonal: Tensor | None) -> Block:
    """Return a function as `block`, but with the weights `diagonal` (n,) of scans with themselves.

    `block` returns weights of two slices of n scans. If `diagonal` is None, `block` itself is
    returned.
    """
    if diagonal is None:
        return block
    scans = torch.arange(len(diagonal), device=diagonal.device)

    def with_diagonal(i: slice, j: slice) -> Tensor:
        is_same = scans[i].unsqueeze(1) == scans[j]
        return torch.where(is_same, diagonal[i].unsqueeze(1), block(i, j))

    return with_diagonal


def _rows(features: Tensor, rows: slice) -> Tensor:
    """Return the rows of `features`, values of a kernel's column, that the slice `rows` selects.

    For all rows the tensor itself is returned.
    """
    if not rows.start and (rows.stop is None or rows.stop >= len(features)):
        return features
    return features[rows]


def listed(rows: list[int], names: Sequence[str] | None) -> str:
    """Describe `rows` of a table for a message: how many, and the first 20 of them by name.

    Without `names`, which has the names of all rows, the rows' numbers are listed.
    """
    first = list(map(str, rows[:20]))
    if names is not None:
        first = list(map(names.__getitem__, rows[:20]))
    unit = "rows"
    if len(rows) == 1:
        unit = "row"
    listing = f"{len(rows)} {unit}: {', '.join(first)}"
    if len(rows) > 20:
        return f"{listing} and {len(rows) - 20} more"
    return listing
