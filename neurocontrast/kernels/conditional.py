"""The conditional embedding operator of CCL-K: how much each sample's condition speaks for another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels.base import Block, Kernel, Metadata, Product, WeightedSum
from neurocontrast.kernels.categorical import Categorical, Different

__all__ = ["ConditionalEmbedding", "ConditionalOperator", "check_condition", "check_ridge", "conditional_operator"]

_ALL = slice(None)
_ROWS_AT_ONCE = 1024


class ConditionalOperator(NamedTuple):
    """A symmetric (n, n) operator, of which ``rows(start, stop)`` are some rows, (stop - start, n)."""

    rows: Callable[[int, int], Tensor]


def conditional_operator(
    kernel: Kernel, metadata: Metadata, *, ridge: float, dtype: torch.dtype | None = None
) -> ConditionalOperator:
    """Return (K + λI)⁻¹ K of a batch by the cheapest exact route; `dtype` is that to solve in."""
    with _exactly(metadata):
        block = kernel.bind(metadata, metadata, dtype=dtype)
        if _is_partition(kernel):  # FᵀF of one-hot features F is the diagonal of class sizes: no solve at all
            scale = 1 / (_row_sums(block, _n_samples(kernel, metadata)) + ridge)
            return ConditionalOperator(lambda start, stop: block(slice(start, stop), _ALL) * scale)
        features = _low_rank_features(kernel, _cast(metadata, dtype))
        if features is not None and features.shape[1] < len(features):  # F (λI + FᵀF)⁻¹ Fᵀ (Woodbury)
            solved = _solve(features.T @ features, features.T, ridge).T
            return ConditionalOperator(lambda start, stop: solved[start:stop] @ features.T)
        matrix = block(_ALL, _ALL)
        is_filled = any(getattr(part, "missing", "error") == "marginal" for part in kernel.modules())
        whole = _spectral(matrix, ridge) if is_filled else _solve(matrix, matrix, ridge)
        return ConditionalOperator(lambda start, stop: whole[start:stop])


class ConditionalEmbedding(nn.Module):
    """Conditional embedding operator W = (K + λI)⁻¹ K of a kernel on metadata.

    With K the kernel matrix of the batch's conditions, the columns of W say how the samples of the
    batch are to be weighed to stand for "a sample drawn under this condition": [K_XY W]_ii estimates
    the mean of exp(similarity) given the condition of sample i (Tsai et al. 2022, eq. 6). W carries no
    gradient.

    Three routes give the same numbers. A kernel of low rank with explicit features (linear, cosine)
    solves an (r, r) system in place of the (n, n) one; a categorical kernel needs no solve, W_ij being
    1 / (class size + λ) within a class and 0 elsewhere; every other kernel takes an (n, n) Cholesky
    solve. A kernel that fills missing values with ``missing="marginal"`` may give a matrix that is not
    positive semi-definite; it is then replaced by the nearest one that is.

    Parameters
    ----------
    kernel : Kernel
        Kernel on metadata, positive semi-definite.
    ridge : float
        λ > 0. Small: W comes close to the identity for distinct conditions and each sample speaks for
        itself. Large: W is small and smooth. It is raised to the rounding level of K (ten times machine
        epsilon times its trace) where it falls below, so that the solve stands in float32.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Categorical, ConditionalEmbedding
    >>> site = {"site": torch.tensor([0, 0, 1])}
    >>> ConditionalEmbedding(Categorical("site"), ridge=1.0)(site)
    tensor([[0.3333, 0.3333, 0.0000],
            [0.3333, 0.3333, 0.0000],
            [0.0000, 0.0000, 0.5000]])
    """

    def __init__(self, kernel: Kernel, *, ridge: float = 0.1) -> None:
        super().__init__()
        self.kernel = check_condition(kernel)
        self.ridge = check_ridge(ridge)

    def forward(self, metadata: Metadata) -> Tensor:
        """Return W, (n, n), for the conditions of a batch."""
        operator = conditional_operator(self.kernel, metadata, ridge=self.ridge)
        with _exactly(metadata):
            return operator.rows(0, _n_samples(self.kernel, metadata))

    def extra_repr(self) -> str:
        """Show the ridge."""
        return f"ridge={self.ridge}"


def check_condition(kernel: Kernel) -> Kernel:
    """Return the kernel, or raise a ConfigError where its matrix need not be positive semi-definite."""
    if kernel.positive_semidefinite:
        return kernel
    parts = [part for part in kernel.modules() if isinstance(part, Different) and not part.positive_semidefinite]
    named = ", ".join(f"Different('{part.column}')" for part in parts)
    raise ConfigError(
        f"kernel: a conditional embedding (CCL-K) needs a positive semi-definite kernel, and {named} is none. To "
        "forget a category, give FairCCLK the Categorical kernel on it; to attract across categories, give Different "
        "to YAwareInfoNCE or ConditionalAlignmentUniformity."
    )


def check_ridge(ridge: float) -> float:
    """Return λ as a float, or raise a ConfigError."""
    if isinstance(ridge, bool) or not isinstance(ridge, (int, float)) or not math.isfinite(ridge) or ridge <= 0:
        raise ConfigError(f"ridge must be a finite number above 0, got {ridge!r}.")
    return float(ridge)


@contextmanager
def _exactly(metadata: Metadata) -> Iterator[None]:
    """Compute without gradient and without autocast's half precision."""
    device = next(iter(metadata.values())).device.type
    with torch.no_grad(), torch.autocast(device, enabled=False):
        yield


def _n_samples(kernel: Kernel, metadata: Metadata) -> int:
    return metadata[next(iter(kernel.columns))].shape[0]


def _row_sums(block: Block, n_samples: int) -> Tensor:
    """Return the sum of each row of the kernel, without the whole matrix."""
    starts = range(0, n_samples, _ROWS_AT_ONCE)
    return torch.cat([block(slice(start, start + _ROWS_AT_ONCE), _ALL).sum(1) for start in starts])


def _is_partition(kernel: Kernel) -> bool:
    """Say whether the kernel is 1 within a class and 0 between classes, whatever the batch."""
    if isinstance(kernel, Product):
        return all(_is_partition(factor) for factor in kernel.kernels)
    return isinstance(kernel, Categorical) and kernel.missing == "error"


def _cast(metadata: Metadata, dtype: torch.dtype | None) -> Metadata:
    """Return the metadata with its continuous columns in the given type, if one is given."""
    if dtype is None:
        return metadata
    return {name: column.to(dtype) if column.is_floating_point() else column for name, column in metadata.items()}


def _low_rank_features(kernel: Kernel, metadata: Metadata) -> Tensor | None:
    """Return F with K = FFᵀ where the kernel has such features of its own, else None."""
    if not isinstance(kernel, WeightedSum):
        return kernel.features(metadata)
    parts = [_low_rank_features(part, metadata) for part in kernel.kernels]
    found = [part * factor**0.5 for part, factor in zip(parts, kernel.factors, strict=True) if part is not None]
    return torch.cat(found, dim=1) if len(found) == len(parts) else None


def _solve(matrix: Tensor, right: Tensor, ridge: float) -> Tensor:
    """Return (matrix + ridge I)⁻¹ right by Cholesky, without a host transfer on an accelerator."""
    identity = torch.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
    rounding = 10 * torch.finfo(matrix.dtype).eps * torch.trace(matrix)
    factor, failed = torch.linalg.cholesky_ex(matrix + rounding.clamp_min(ridge) * identity)
    if matrix.device.type == "cpu" and not torch.compiler.is_compiling() and bool(failed):
        raise DataError(
            "kernel must give a positive semi-definite matrix for a conditional embedding, and on this batch it does "
            "not, or holds a value that is not finite. Standardise the column, give a larger ridge, or use another "
            "kernel."
        )
    return torch.where(failed > 0, torch.nan, torch.cholesky_solve(right, factor))


def _spectral(matrix: Tensor, ridge: float) -> Tensor:
    """Return (P + ridge I)⁻¹ P with P the nearest positive semi-definite matrix."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    values = values.clamp_min(0)
    return (vectors * (values / (values + ridge))) @ vectors.T
