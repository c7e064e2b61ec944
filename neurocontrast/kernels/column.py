"""Kernels on one metadata column, with its missing values."""

import inspect
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.kernels.base import Block, Kernel, Kind, Metadata, column_of
from neurocontrast.settings import Column, Settings, checked

_STREAMED_SCANS = 1024


Missing = Literal["error", "marginal"]
"""Effect of a missing value on a kernel of its column; see `ColumnKernel`."""


class FactorSettings(Settings):
    """Keys that a configuration may give to every kernel on a column.

    A kernel's further keys are the parameters of its constructor.

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
    """A kernel on one metadata column.

    A kernel of your own is one class: a constructor, whose parameters are its keys in a
    configuration, and ``weights``. See ``docs/own_kernel.md``.

    Parameters
    ----------
    column : str
        The metadata column.
    missing : {"error", "marginal"}, default "error"
        What a missing value does. ``"error"`` refuses it. ``"marginal"`` keeps the scan: a pair of
        scans with a missing side takes the mean of this factor over all ordered pairs of different
        observed scans of the batch. Two views of a scan are the same person, known or not: a scan
        whose value is missing is as alike to itself as observed scans are to themselves, on
        average. Without any observed scan both are 1.

    Examples
    --------
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
    ...         return (1 - (rows - cols.T).abs() / self.width).clamp(min=0).to(dtype)
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
        """Return the arguments of the constructor."""
        names = inspect.signature(type(self)).parameters
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def values(self, metadata: Metadata, *, dtype: torch.dtype | None = None) -> Tensor:
        """Return the column as (n, p), or refuse metadata without the column."""
        column = column_of(
            metadata, self.column, needed_by=type(self).__name__, words=self.kind == "categorical"
        )
        if column.requires_grad:
            column = column.detach()
        if self.kind == "continuous":
            if dtype is None:
                dtype = (
                    column.dtype
                    if column.dtype in (torch.float32, torch.float64)
                    else torch.float32
                )
            column = column.to(dtype)
        if column.ndim == 1:
            column = column.unsqueeze(1)
        return column

    def observed(self, values: Tensor) -> Tensor:
        """Which rows of (n, p) values have nothing missing."""
        return ~values.isnan().any(dim=1)

    def are_observed(self, values: Tensor) -> bool:
        """Say whether no value is missing, in two operators where `observed` is the package's."""
        is_own = type(self).observed is ColumnKernel.observed
        if is_own and not math.isnan(float(values.sum())):  # NaN of any value, and of +∞ − ∞
            return True
        return bool(self.observed(values).all())

    def scaled(self, values: Tensor) -> Tensor:
        """Return features of (n, p) values, once a batch, such as y/σ; by default the values."""
        return values

    @abstractmethod
    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        """The formula: (n, p) and (m, p) features to a fresh (n, m) tensor."""

    def bind(self, rows: Metadata, cols: Metadata, *, dtype: torch.dtype | None = None) -> Block:
        row_values = self.values(rows, dtype=dtype)
        col_values = row_values if cols is rows else self.values(cols, dtype=dtype)
        if row_values.shape[1] != col_values.shape[1]:
            raise DataError(
                f"metadata['{self.column}'] has {row_values.shape[1]} dimensions in rows and "
                f"{col_values.shape[1]} in cols; both must have as many."
            )
        dtype = dtype or (row_values.dtype if row_values.is_floating_point() else torch.float32)
        own = self.own(rows, len(row_values), dtype) if cols is rows else None
        a, seen_a = self._features(row_values)
        b, seen_b = (a, seen_a) if cols is rows else self._features(col_values)
        block: Block = lambda i, j: self._exact(_rows(a, i), _rows(b, j), dtype)  # noqa: E731
        if seen_a is not None and seen_b is not None:
            mean, of_formula = self._observed_means(a, seen_a, b, seen_b, dtype)
            own = of_formula if own is None else own
            exact = block
            block = lambda i, j: torch.where(seen_a[i].unsqueeze(1) & seen_b[j], exact(i, j), mean)  # noqa: E731
        if own is None:
            return block
        scans = torch.arange(len(own), device=own.device)
        return lambda i, j: torch.where(
            scans[i].unsqueeze(1) == scans[j], own[i].unsqueeze(1), block(i, j)
        )

    def own(self, metadata: Metadata, n: int, dtype: torch.dtype) -> Tensor | None:  # noqa: ARG002
        """Return weights of scans with themselves, (n,); None for the formula's."""
        return None

    def _exact(self, a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
        """Compute weights without gradient and without autocast's half precision."""
        with torch.no_grad(), torch.autocast(a.device.type, enabled=False):
            return self.weights(a, b, dtype)

    def _features(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the features of values, and with `missing="marginal"` the rows that are observed.

        Features of other rows are those of 0. Where a missing value is an error, on an accelerator
        it makes the weights NaN.
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
        """Return mean weights over pairs of different observed scans, and of scans with themselves.

        Where `b` are other scans than `a`, the second is None. In O(n) memory: blocks are summed
        and dropped. Of a single observed scan, the mean is its weight with itself.
        """
        row_means = a.new_zeros(len(a), dtype=dtype)
        own = a.new_zeros(len(a), dtype=dtype)
        n_others = (seen_b.sum() - int(a is b)).clamp_min(1)
        for start in range(0, len(a), _STREAMED_SCANS):
            i = slice(start, start + _STREAMED_SCANS)
            for first in range(0, len(b), _STREAMED_SCANS):
                j = slice(first, first + _STREAMED_SCANS)
                weights = self._exact(a[i], b[j], dtype)
                if a is b and i == j:
                    own[i] = weights.diagonal()
                    weights.fill_diagonal_(0)
                row_means[i] += weights.mul_(seen_b[j]).sum(1) / n_others
        mean, mean_own = (
            (each * seen_a).sum() / seen_a.sum().clamp_min(1) for each in (row_means, own)
        )
        if a is not b:
            return torch.where(seen_a.any() & seen_b.any(), mean, 1.0), None
        mean_own = torch.where(seen_a.any(), mean_own, 1.0)
        return torch.where(seen_a.sum() > 1, mean, mean_own), torch.where(seen_a, own, mean_own)

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
        """Refuse a user's kernel whose weights of a cohort break a promise of its class."""
        kept = seen.nonzero()[:, 0]
        features = self.scaled(values[kept])
        for start in range(0, len(features), _STREAMED_SCANS):
            rows = features[start : start + _STREAMED_SCANS]
            weights = self._exact(rows, features, features.dtype)
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

    def _problems_of(self, weights: Tensor, turned: Tensor) -> dict[str, Tensor]:
        """Mark the pairs whose weights break a promise of the class, by the name of the promise."""
        rounding = 1e-5 * weights.abs().clamp_min(1)
        return {
            "not finite": ~weights.isfinite(),
            "not symmetric": (weights - turned).abs() > rounding,
            f"above its supremum, {self.supremum:g}": weights > self.supremum + rounding,
            "below 0, which nonnegative denies": (weights < 0) & self.nonnegative,
        }

    def _check_sign(self, values: Tensor, seen: Tensor, names: Sequence[str] | None) -> None:
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
                f"The {type(self).__name__} kernel on '{self.column}' goes down to {lowest:.3g} (between "
                f"{listed(sorted(set(pair)), names)}), but this loss needs weights of at least 0. Use a Gaussian "
                "or Laplacian kernel, or shift the column so that no product is negative."
            )

    def _missing_message(self, rows: list[int], names: Sequence[str] | None) -> str:
        return (
            f"Column '{self.column}' is missing for {listed(rows, names)}. Fill it in, leave these out, or use "
            "missing='marginal', which keeps them and takes the mean weight of this column in their place."
        )


def _rows(features: Tensor, rows: slice) -> Tensor:
    """Return some rows of features, which are the features where all are asked for."""
    if not rows.start and (rows.stop is None or rows.stop >= len(features)):
        return features
    return features[rows]


def listed(rows: list[int], names: Sequence[str] | None) -> str:
    """Return how many rows there are, and the names of the first 20."""
    shown = [names[row] if names is not None else str(row) for row in rows[:20]]
    more = f" and {len(rows) - 20} more" if len(rows) > 20 else ""
    return f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}: {', '.join(shown)}{more}"
