"""Kernels on a continuous column: age, a score, a vector of measures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.kernels.base import Kernel, Metadata
from neurocontrast.kernels.column import ColumnKernel

__all__ = ["Cosine", "Gaussian", "Laplacian", "Linear", "Polynomial"]

_RULES = ("scott", "silverman")


class _Bandwidth(ColumnKernel):
    """A kernel of (y − y')/σ."""

    sigma: Tensor

    def __init__(
        self,
        column: str,
        *,
        sigma: float | Sequence[float] | Literal["scott", "silverman"],
        missing: Literal["error", "marginal"] = "error",
    ) -> None:
        super().__init__(column, missing=missing)
        self.rule: str | None = None
        if isinstance(sigma, str):
            if sigma not in _RULES:
                raise ConfigError(
                    f"sigma must be a number, one number a dimension, or one of {one_of(_RULES)}; got {sigma!r}."
                    f"{suggestion(sigma, _RULES)}"
                )
            self.rule = sigma
            sigma = math.nan
        elif not (values := torch.as_tensor(sigma, dtype=torch.float64)).isfinite().all() or (values <= 0).any():
            raise ConfigError(
                f"sigma must be positive (a standard deviation in the unit of '{column}'), got {sigma!r}."
            )
        self.fitted = self.rule is None
        self.register_buffer("sigma", torch.as_tensor(sigma, dtype=torch.float64))

    def fit(self, metadata: Metadata) -> Kernel:
        """Set σ by the rule on the training cohort, per dimension; a given number stays.

        Scott: σ = s·n^(−1/(p+4)); Silverman: σ = s·(n(p+2)/4)^(−1/(p+4)), with s the standard deviation
        (n − 1 in its denominator) of a dimension, n the number of observed scans, p of dimensions.
        """
        if self.rule is None:
            return self
        values = self.values(metadata, dtype=torch.float64)
        values = values[self.observed(values)]
        n, p = values.shape
        spread = values.std(dim=0) if n > 1 else values.new_zeros(p)
        if not (spread > 0).all():
            raise DataError(
                f"sigma='{self.rule}' needs a column that varies, but '{self.column}' has the same value in all "
                f"{n} scans that have one. Give sigma as a number."
            )
        count = n if self.rule == "scott" else n * (p + 2) / 4
        sigma = spread * count ** (-1 / (p + 4))
        self.sigma = (sigma[0] if p == 1 else sigma).to(self.sigma.device)
        self.fitted = True
        return self

    def scaled(self, values: Tensor) -> Tensor:
        """y/σ."""
        if not self.fitted:
            raise ConfigError(
                f"sigma='{self.rule}' of the kernel on '{self.column}' is not fitted yet: "
                "call kernel.fit(metadata) with the training cohort first."
            )
        if self.sigma.ndim == 1 and self.sigma.shape[0] != values.shape[1]:
            raise DataError(
                f"sigma has {self.sigma.shape[0]} numbers, but column '{self.column}' has {values.shape[1]} dimensions."
            )
        return values / self.sigma.to(values)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(f"{prefix}sigma")
        if stored is not None:
            self.sigma = torch.empty_like(stored, device=self.sigma.device)
            self.fitted = self.rule is None or not bool(stored.isnan().any())
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        """Return the column and σ, for ``print``."""
        return f"'{self.column}', sigma={self.sigma.tolist() if self.fitted else self.rule}, missing='{self.missing}'"


class Gaussian(_Bandwidth):
    """Gaussian (RBF) kernel, w = exp(−‖(y − y')/σ‖²/2); ‖w‖∞ = 1.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,) or (n, p).
    sigma : float, sequence of float, "scott" or "silverman"
        Standard deviation in the column's own unit (years for an age), never a variance; one, or one a
        dimension. A rule is fitted on the training cohort by ``fit``. Scans within about σ of each other
        attract; σ → 0 leaves only the two views of one scan, a large σ makes everyone alike.
    missing : {"error", "marginal"}
        See `ColumnKernel`.

    Examples
    --------
    >>> import torch
    >>> Gaussian("age", sigma=5.0)({"age": torch.tensor([20.0, 25.0])})
    tensor([[1.0000, 0.6065],
            [0.6065, 1.0000]])
    """

    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        """exp(−‖a − b‖²/2) of the scaled columns."""
        if rows.shape[1] == 1:
            distances = torch.sub(rows, cols.T)
        else:
            distances = torch.cdist(rows, cols, compute_mode="donot_use_mm_for_euclid_dist")
        return distances.square_().mul_(-0.5).exp_().to(dtype)


class Laplacian(_Bandwidth):
    """Laplacian kernel, w = exp(−‖(y − y')/σ‖₁); ‖w‖∞ = 1.

    Sharper at 0 and with heavier tails than `Gaussian`: nearest scans count most, distant ones still a little.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,) or (n, p).
    sigma : float, sequence of float, "scott" or "silverman"
        Scale in the column's own unit; see `Gaussian`.
    missing : {"error", "marginal"}
        See `ColumnKernel`.
    """

    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        """exp(−‖a − b‖₁) of the scaled columns."""
        distances = torch.sub(rows, cols.T).abs_() if rows.shape[1] == 1 else torch.cdist(rows, cols, p=1.0)
        return distances.neg_().exp_().to(dtype)


class Cosine(ColumnKernel):
    """Cosine kernel, w = <y, y'> / (‖y‖‖y'‖); ‖w‖∞ = 1; 0 for a zero vector. It can be negative.

    Parameters
    ----------
    column : str
        A continuous metadata column (n, p); with p = 1 it is the product of the signs.
    missing : {"error", "marginal"}
        See `ColumnKernel`.
    """

    @property
    def nonnegative(self) -> bool:
        """False: vectors more than 90 degrees apart have w < 0."""
        return False

    def scaled(self, values: Tensor) -> Tensor:
        """y/‖y‖."""
        return torch.nn.functional.normalize(values, dim=1)

    def features(self, metadata: Metadata) -> Tensor | None:
        """y/‖y‖, unless missing values are replaced by a mean weight."""
        return self._complete(self.values(metadata)) if self.missing == "error" else None

    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        """<a, b>."""
        return (rows @ cols.T).to(dtype)


class Linear(ColumnKernel):
    """Linear kernel, w = <y, y'>; ‖w‖∞ is the maximum over the batch. It can be negative.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,) or (n, p).
    missing : {"error", "marginal"}
        See `ColumnKernel`.
    """

    @property
    def supremum(self) -> float:
        """Infinite: see ``supremum_over`` for a batch's."""
        return math.inf

    @property
    def nonnegative(self) -> bool:
        """False."""
        return False

    def supremum_over(self, metadata: Metadata, *, dtype: torch.dtype | None = None) -> float | Tensor:
        """Maximum over the batch; by Cauchy–Schwarz it is that of a scan with itself, found in O(n)."""
        values = self.values(metadata, dtype=dtype)
        seen = self.observed(values)
        largest = values.masked_fill(~seen.unsqueeze(1), 0).square().sum(1).max()
        return (
            torch.where(seen.any(), self._of_product(largest), 1.0)
            if self.missing == "marginal"
            else (self._of_product(largest))
        )

    def _of_product(self, product: Tensor) -> Tensor:
        return product

    def scaled(self, values: Tensor) -> Tensor:
        """The values as they are."""
        return values

    def features(self, metadata: Metadata) -> Tensor | None:
        """The column itself, unless missing values are replaced by a mean weight."""
        return self._complete(self.values(metadata)) if self.missing == "error" else None

    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        """<y, y'>."""
        return self._of_product(rows @ cols.T).to(dtype)


class Polynomial(Linear):
    """Polynomial kernel, w = (γ<y, y'> + coef0)^degree; ‖w‖∞ is the maximum over the batch.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,) or (n, p).
    degree : int
        At least 1; an even degree never goes below zero.
    gamma, coef0 : float
        γ > 0 and coef0 ≥ 0.
    missing : {"error", "marginal"}
        See `ColumnKernel`.
    """

    def __init__(
        self,
        column: str,
        *,
        degree: int = 3,
        gamma: float = 1.0,
        coef0: float = 1.0,
        missing: Literal["error", "marginal"] = "error",
    ) -> None:
        super().__init__(column, missing=missing)
        if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
            raise ConfigError(f"degree must be a whole number of at least 1, got {degree!r}.")
        if not gamma > 0 or not math.isfinite(gamma):
            raise ConfigError(f"gamma must be positive, got {gamma!r}.")
        if not coef0 >= 0 or not math.isfinite(coef0):
            raise ConfigError(f"coef0 must be at least 0, got {coef0!r}.")
        self.degree, self.gamma, self.coef0 = degree, gamma, coef0

    def features(self, metadata: Metadata) -> Tensor | None:  # noqa: ARG002
        """None: the explicit features of a polynomial are too many to be of use."""
        return None

    @property
    def nonnegative(self) -> bool:
        """True for an even degree."""
        return self.degree % 2 == 0

    def _of_product(self, product: Tensor) -> Tensor:
        return (self.gamma * product + self.coef0) ** self.degree
