"""Kernels on a continuous column, such as age, a score, or a vector of measures."""

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
    """Return a checked kernel bandwidth σ: a float, a tuple of floats, or the name of a rule.

    Arrays and tensors become tuples.
    """
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
"""Bandwidth σ > 0, as one number, one number a dimension, or a rule that fits σ to a cohort."""
_Standardise = Annotated[bool, AfterValidator(_without_rule)]


class _Bandwidth(ColumnKernel):
    """Base class of kernels of the scaled difference (y − y')/σ, where σ can be fitted.

    σ is the bandwidth, a number for all dimensions of y or one for each.
    """

    sigma: Tensor
    norm: float
    """Order of the norm that combines the dimensions of y."""

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
        self.fitted = not (standardise or self.rule)
        # σ is stored with the checkpoint, NaN before fitting.
        stored = sigma if self.fitted else math.nan
        self.register_buffer("sigma", torch.as_tensor(stored, dtype=torch.float64))

    def fit(self, metadata: Metadata) -> Kernel:
        """Fit σ of each dimension to the training cohort, by a rule or by `standardise`.

        Scott: σ = s·n^(−1/(p+4)); Silverman: σ = s·(n(p+2)/4)^(−1/(p+4)), with s the standard
        deviation of a dimension (denominator n − 1), n the number of observed scans and p the
        number of dimensions. With `standardise`, the given σ is multiplied by s·p^(1/`norm`);
        without, a σ given as a number stays unchanged. The kernel itself is returned.
        """
        if not (self.standardise or self.rule):
            return self
        values = self.values(metadata, dtype=torch.float64)
        values = values[self.observed(values)]
        n, p = values.shape
        spread = values.std(dim=0) if n > 1 else values.new_zeros(p)
        constant = (~(spread > 0)).nonzero()[:, 0].tolist()
        if constant:
            which = f"'{self.column}' has"
            if p > 1:
                which = f"dimensions {constant} of '{self.column}' have"
            raise DataError(
                f"{self._to_fit()} needs a column that varies, but {which} the same value in all "
                f"{n} scans that have one. Give sigma as a number, or leave the column out."
            )
        if self.standardise:
            bandwidth = self._per_dimension(torch.as_tensor(self.bandwidth).to(spread), p)
            sigma = bandwidth * spread * p ** (1 / self.norm)
        elif self.rule == "scott":
            sigma = spread * n ** (-1 / (p + 4))
        else:
            sigma = spread * (n * (p + 2) / 4) ** (-1 / (p + 4))
        if p == 1:
            sigma = sigma[0]
        self.sigma = sigma.to(self.sigma.device)
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
        if self.standardise:
            return "standardise=True"
        return f"sigma='{self.rule}'"

    def _per_dimension(self, sigma: Tensor, p: int) -> Tensor:
        if sigma.ndim == 1 and sigma.shape[0] != p:
            raise DataError(
                f"sigma has {sigma.shape[0]} numbers, but column '{self.column}' has {p} "
                "dimensions."
            )
        return sigma

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(f"{prefix}sigma")
        if stored is not None:
            self.sigma = torch.empty_like(stored, device=self.sigma.device)
            self.fitted = not bool(stored.isnan().any())
        super()._load_from_state_dict(state_dict, prefix, *args)


def _differences(rows: Tensor, cols: Tensor, *, norm: float) -> Tensor:
    """Return differences (n, m) of `rows` (n, 1) and `cols` (m, 1), or distances of vectors.

    Distances, by the given order of the `norm`, are between values (n, p) and (m, p) with p above
    1.
    """
    if rows.shape[1] == 1:
        return torch.sub(rows, cols.T)
    return torch.cdist(rows, cols, norm, _EXACT)


class Gaussian(_Bandwidth):
    """Gaussian (RBF) kernel, w = exp(−‖(y − y')/σ‖²/2); ‖w‖∞ = 1.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,) or (n, p).
    sigma : float, sequence of float, "scott" or "silverman"
        Bandwidth σ, a standard deviation in the unit of the column (years for age), as one number
        or one a dimension. A rule is fitted on the training cohort by ``fit``. Scans within about σ
        of each other attract; with σ → 0 only the two views of one scan do, and with a large σ all
        scans do.
    standardise : bool, default False
        Whether to divide each dimension by its standard deviation over the training cohort and by
        √p for p dimensions. ``sigma`` then has no unit and does not depend on p: w = exp(−d²/2σ²),
        with d² the mean squared difference of the standardised values, which is 2 on average for
        two people drawn at random. Use with a vector of regional volumes, as in AnatCL (Barbano et
        al. 2024).
    missing : {"error", "marginal"}, default "error"
        Treatment of missing values, see `ColumnKernel`.

    Examples
    --------
    >>> import torch
    >>> Gaussian("age", sigma=5.0)({"age": torch.tensor([20.0, 25.0])})
    tensor([[1.0000, 0.6065],
            [0.6065, 1.0000]])
    """

    norm = 2.0

    def weights(self, rows: Tensor, cols: Tensor, dtype: torch.dtype) -> Tensor:
        distances = _differences(rows, cols, norm=2.0)
        return distances.square_().mul_(-0.5).exp_().to(dtype)


class Laplacian(_Bandwidth):
    """Laplacian kernel, w = exp(−‖(y − y')/σ‖₁), or with the Euclidean norm (`norm`); ‖w‖∞ = 1.

    Compared with `Gaussian`, the kernel is sharper at 0 and has heavier tails: the nearest scans
    count most, distant scans still a little.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,) or (n, p).
    sigma : float, sequence of float, "scott" or "silverman"
        Scale in the unit of the column; see `Gaussian`.
    standardise : bool, default False
        As for `Gaussian`: w = exp(−d/σ), with d the mean absolute difference of the standardised
        values, or with ``norm=2`` the root of the mean squared difference.
    norm : {1, 2}, default 1
        Order of the norm over the dimensions; the released code of CCL-K uses 2.
    missing : {"error", "marginal"}, default "error"
        Treatment of missing values, see `ColumnKernel`.

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
        distances = _differences(rows, cols, norm=self.norm).abs_()
        return distances.neg_().exp_().to(dtype)


class Cosine(ColumnKernel):
    """Cosine kernel, w = <y, y'> / (‖y‖‖y'‖), 0 for a zero vector; can be negative; ‖w‖∞ = 1.

    Parameters
    ----------
    column : str
        A continuous metadata column (n, p); with p = 1 the weight is the product of the signs.
    missing : {"error", "marginal"}, default "error"
        Treatment of missing values, see `ColumnKernel`.

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
    """Linear kernel, w = <y, y'>; can be negative; ‖w‖∞ is the maximum over the batch.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,) or (n, p).
    twin : {"formula", "supremum"}, default "formula"
        Weight between the two views of one scan. ``"formula"`` gives w(y, y), which is below ‖w‖∞
        for all scans but the one with the longest y, so that conditional uniformity repels the
        views of these scans. ``"supremum"`` gives ‖w‖∞, the largest weight of the batch.
    missing : {"error", "marginal"}, default "error"
        Treatment of missing values, see `ColumnKernel`.

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
        if self.twin == "formula":
            return None
        return self.supremum_over(metadata, dtype=dtype).expand(n)

    def supremum_over(self, metadata: Metadata, *, dtype: torch.dtype | None = None) -> Tensor:
        # By Cauchy–Schwarz the maximum is the weight of a scan with itself.
        values = self.values(metadata, dtype=dtype)
        seen = self.observed(values)
        largest = values.masked_fill(~seen.unsqueeze(1), 0).square().sum(1).max()
        supremum = self._of_product(largest)
        if self.missing == "marginal":
            return torch.where(seen.any(), supremum, 1.0)
        return supremum

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
        Weight between the two views of one scan, see `Linear`.
    degree : int, default 3
        Exponent, at least 1; with an even degree weights are never below 0.
    gamma, coef0 : float
        Scale γ > 0 of the inner product, and added constant coef0 ≥ 0; both 1 by default.
    missing : {"error", "marginal"}, default "error"
        Treatment of missing values, see `ColumnKernel`.

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
