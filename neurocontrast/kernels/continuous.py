"""Kernels on a continuous column: age, a score, a vector of measures."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)
from torch import Tensor

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels.base import Kernel, Metadata
from neurocontrast.kernels.column import ColumnKernel, Missing
from neurocontrast.settings import Column, NonNegative, Positive, checked

_EXACT = "donot_use_mm_for_euclid_dist"
_Twin = Literal["formula", "supremum"]
_POSITIVE_IN_JSON = {"type": "number", "exclusiveMinimum": 0}


def _bandwidth(sigma: Any) -> float | tuple[float, ...] | str:
    """Check a bandwidth; arrays and tensors become tuples."""
    if hasattr(sigma, "tolist"):
        sigma = sigma.tolist()
    if sigma in ("scott", "silverman"):
        return str(sigma)
    if isinstance(sigma, list | tuple) and sigma:
        return tuple(map(_positive, sigma))
    return _positive(sigma)


def _positive(sigma: object) -> float:
    if isinstance(sigma, int | float) and not isinstance(sigma, bool) and 0 < sigma < math.inf:
        return float(sigma)
    raise ValueError("must be a number above 0 (a standard deviation), 'scott' or 'silverman'")


def _without_rule(standardise: bool, info: ValidationInfo) -> bool:
    if standardise and isinstance(info.data.get("sigma"), str):
        raise ValueError(
            "is for a sigma that is a number: 'scott' and 'silverman' measure the spread themselves"
        )
    return standardise


Bandwidth = Annotated[
    float | Sequence[float] | Literal["scott", "silverman"],
    PlainValidator(_bandwidth),
    PlainSerializer(lambda sigma: sigma),
    WithJsonSchema(
        {
            "anyOf": [
                _POSITIVE_IN_JSON,
                {"type": "array", "items": _POSITIVE_IN_JSON, "minItems": 1},
                {"enum": ["scott", "silverman"]},
            ]
        }
    ),
]
"""A number σ > 0, one a dimension, or the rule that a cohort's σ is fitted by."""
_Standardise = Annotated[bool, AfterValidator(_without_rule)]


class _Bandwidth(ColumnKernel):
    """A kernel of (y − y')/σ."""

    sigma: Tensor
    norm: float
    """Order of the norm that the dimensions of y are added by."""

    @checked
    def __init__(
        self,
        column: Column,
        *,
        sigma: Bandwidth,
        standardise: _Standardise = False,
        missing: Missing = "error",
    ) -> None:
        super().__init__(column, missing=missing)
        self.standardise = standardise
        self.bandwidth = sigma
        self.rule = sigma if isinstance(sigma, str) else None
        # σ is stored with the checkpoint, NaN while it is not fitted.
        self.fitted = not (standardise or self.rule)
        first = sigma if self.fitted else math.nan
        self.register_buffer("sigma", torch.as_tensor(first, dtype=torch.float64))

    def fit(self, metadata: Metadata) -> Kernel:
        """Set σ by the rule, or by `standardise`, on the training cohort, per dimension; else it stays.

        Scott: σ = s·n^(−1/(p+4)); Silverman: σ = s·(n(p+2)/4)^(−1/(p+4)), with s the standard
        deviation (n − 1 in its denominator) of a dimension, n the number of observed scans, p of
        dimensions.
        """
        if not (self.standardise or self.rule):
            return self
        values = self.values(metadata, dtype=torch.float64)
        values = values[self.observed(values)]
        n, p = values.shape
        spread = values.std(dim=0) if n > 1 else values.new_zeros(p)
        constant = (~(spread > 0)).nonzero()[:, 0].tolist()
        if constant:
            which = (
                f"dimensions {constant} of '{self.column}' have"
                if p > 1
                else f"'{self.column}' has"
            )
            raise DataError(
                f"{self._to_fit()} needs a column that varies, but {which} the same value in all {n} scans that have "
                "one. Give sigma as a number, or leave the column out."
            )
        if self.standardise:
            sigma = (
                self._per_dimension(torch.as_tensor(self.bandwidth).to(spread), p)
                * spread
                * p ** (1 / self.norm)
            )
        else:
            sigma = spread * (n if self.rule == "scott" else n * (p + 2) / 4) ** (-1 / (p + 4))
        self.sigma = (sigma[0] if p == 1 else sigma).to(self.sigma.device)
        self.fitted = True
        return self

    def scaled(self, values: Tensor) -> Tensor:
        if not self.fitted:
            raise ConfigError(
                f"{self._to_fit()} of the kernel on '{self.column}' is not fitted yet: "
                "call kernel.fit(metadata) with the training cohort first."
            )
        sigma = self._per_dimension(self.sigma, values.shape[1])
        if sigma.ndim == 0 and sigma.device == values.device:  # takes the dtype of the values
            return values / sigma
        return values / sigma.to(values)

    def _to_fit(self) -> str:
        return "standardise=True" if self.standardise else f"sigma='{self.rule}'"

    def _per_dimension(self, sigma: Tensor, p: int) -> Tensor:
        if sigma.ndim == 1 and sigma.shape[0] != p:
            raise DataError(
                f"sigma has {sigma.shape[0]} numbers, but column '{self.column}' has {p} dimensions."
            )
        return sigma

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(f"{prefix}sigma")
        if stored is not None:
            self.sigma = torch.empty_like(stored, device=self.sigma.device)
            self.fitted = not bool(stored.isnan().any())
        super()._load_from_state_dict(state_dict, prefix, *args)


class Gaussian(_Bandwidth):
    """Gaussian (RBF) kernel, w = exp(−‖(y − y')/σ‖²/2); ‖w‖∞ = 1.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,) or (n, p).
    sigma : float, sequence of float, "scott" or "silverman"
        Standard deviation in the column's own unit (years for an age), never a variance; one, or
        one a dimension. A rule is fitted on the training cohort by ``fit``. Scans within about σ of
        each other attract; σ → 0 leaves only the two views of one scan, a large σ makes everyone
        alike.
    standardise : bool, default False
        Measures each dimension in its standard deviation over the cohort given to ``fit``, times
        √p, so that ``sigma`` has no unit and does not depend on how many dimensions there are: w =
        exp(−d²/2σ²), with d² the mean squared difference of the standardised values. Two people
        drawn at random have d² = 2 on average. For a vector of regional volumes, as in AnatCL
        (Barbano et al. 2024).
    missing : {"error", "marginal"}, default "error"
        See `ColumnKernel`.

    Examples
    --------
    >>> import torch
    >>> Gaussian("age", sigma=5.0)({"age": torch.tensor([20.0, 25.0])})
    tensor([[1.0000, 0.6065],
            [0.6065, 1.0000]])
    """

    norm = 2.0

    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        distances = (
            torch.sub(rows, cols.T) if rows.shape[1] == 1 else torch.cdist(rows, cols, 2.0, _EXACT)
        )
        return distances.square_().mul_(-0.5).exp_().to(dtype)


class Laplacian(_Bandwidth):
    """Laplacian kernel, w = exp(−‖(y − y')/σ‖₁), or of the Euclidean norm; ‖w‖∞ = 1.

    Sharper at 0 and with heavier tails than `Gaussian`: nearest scans count most, distant ones
    still a little.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,) or (n, p).
    sigma : float, sequence of float, "scott" or "silverman"
        Scale in the column's own unit; see `Gaussian`.
    standardise : bool, default False
        As for `Gaussian`; dimensions count by their mean absolute difference, in standard
        deviations.
    norm : {1, 2}, default 1
        Order of the norm; 2 is that of the released code of CCL-K.
    missing : {"error", "marginal"}, default "error"
        See `ColumnKernel`.

    Examples
    --------
    >>> import torch
    >>> Laplacian("age", sigma=5.0)({"age": torch.tensor([20.0, 25.0])})[0]
    tensor([1.0000, 0.3679])
    """

    @checked
    def __init__(
        self,
        column: Column,
        *,
        sigma: Bandwidth,
        standardise: _Standardise = False,
        norm: Literal[1, 2] = 1,
        missing: Missing = "error",
    ) -> None:
        super().__init__(column, sigma=sigma, standardise=standardise, missing=missing)
        self.norm = norm

    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        distances = (
            torch.sub(rows, cols.T).abs_()
            if rows.shape[1] == 1
            else torch.cdist(rows, cols, self.norm, _EXACT)
        )
        return distances.neg_().exp_().to(dtype)


class Cosine(ColumnKernel):
    """Cosine kernel, w = <y, y'> / (‖y‖‖y'‖); ‖w‖∞ = 1; 0 for a zero vector. It can be negative.

    Parameters
    ----------
    column : str
        A continuous metadata column (n, p); with p = 1 it is the product of the signs.
    missing : {"error", "marginal"}, default "error"
        See `ColumnKernel`.

    Examples
    --------
    >>> import torch
    >>> Cosine("scores")({"scores": torch.tensor([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.0]])})[0]
    tensor([ 1.0000,  0.7071, -1.0000])
    """

    nonnegative = False

    def scaled(self, values: Tensor) -> Tensor:
        return torch.nn.functional.normalize(values, dim=1)

    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        return (rows @ cols.T).to(dtype)


class Linear(ColumnKernel):
    """Linear kernel, w = <y, y'>; ‖w‖∞ is the maximum over the batch. It can be negative.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,) or (n, p).
    twin : {"formula", "supremum"}, default "formula"
        Weight of the two views of a scan. ``"formula"``: w(y, y), which is below ‖w‖∞ for all but
        the longest y of the batch, so that conditional uniformity repels the views of all others.
        ``"supremum"``: ‖w‖∞, so that a scan is as alike to itself as anything can be.
    missing : {"error", "marginal"}, default "error"
        See `ColumnKernel`.

    Examples
    --------
    >>> import torch
    >>> Linear("scores")({"scores": torch.tensor([[1.0, 2.0], [3.0, 1.0]])})
    tensor([[ 5.,  5.],
            [ 5., 10.]])
    """

    supremum = math.inf
    nonnegative = False

    @checked
    def __init__(
        self, column: Column, *, twin: _Twin = "formula", missing: Missing = "error"
    ) -> None:
        super().__init__(column, missing=missing)
        self.twin = twin

    def own(self, metadata: Metadata, n: int, dtype: torch.dtype) -> Tensor | None:
        return (
            self.supremum_over(metadata, dtype=dtype).expand(n) if self.twin == "supremum" else None
        )

    def supremum_over(self, metadata: Metadata, *, dtype: torch.dtype | None = None) -> Tensor:
        # By Cauchy–Schwarz the maximum is that of a scan with itself.
        values = self.values(metadata, dtype=dtype)
        seen = self.observed(values)
        largest = values.masked_fill(~seen.unsqueeze(1), 0).square().sum(1).max()
        supremum = self._of_product(largest)
        return torch.where(seen.any(), supremum, 1.0) if self.missing == "marginal" else supremum

    def _of_product(self, product: Tensor) -> Tensor:
        return product

    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        return self._of_product(rows @ cols.T).to(dtype)


class Polynomial(Linear):
    """Polynomial kernel, w = (γ<y, y'> + coef0)^degree; ‖w‖∞ is the maximum over the batch.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,) or (n, p).
    twin : {"formula", "supremum"}, default "formula"
        See `Linear`.
    degree : int, default 3
        At least 1; an even degree never goes below zero.
    gamma, coef0 : float
        Scale γ > 0 and constant coef0 ≥ 0.
    missing : {"error", "marginal"}, default "error"
        See `ColumnKernel`.

    Examples
    --------
    >>> import torch
    >>> Polynomial("score", degree=2)({"score": torch.tensor([1.0, 2.0])})
    tensor([[ 4.,  9.],
            [ 9., 25.]])
    """

    @checked
    def __init__(
        self,
        column: Column,
        *,
        twin: _Twin = "formula",
        degree: Annotated[int, Field(ge=1)] = 3,
        gamma: Positive = 1.0,
        coef0: NonNegative = 1.0,
        missing: Missing = "error",
    ) -> None:
        super().__init__(column, twin=twin, missing=missing)
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.nonnegative = degree % 2 == 0

    def _of_product(self, product: Tensor) -> Tensor:
        return (self.gamma * product + self.coef0) ** self.degree
