"""Conditional embedding operator of CCL-K, which weights samples by the similarity of metadata."""

import math

import torch
from torch import Tensor, nn

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels.base import Kernel, Metadata, Product
from neurocontrast.kernels.categorical import Categorical
from neurocontrast.kernels.column import ColumnKernel


def conditional_operator(
    kernel: Kernel, metadata: Metadata, *, ridge: float, dtype: torch.dtype | None = None
) -> Tensor:
    """Compute the operator (K + λI)⁻¹ K of a batch, (n, n), without gradient or autocast.

    K is the kernel matrix of the batch's metadata. K and the solution are in float64 for any
    `dtype` of the result: a rounding error of K is multiplied by up to n/λ, so that in float32 no
    digit of a gradient could be trusted.

    Parameters
    ----------
    kernel : Kernel
        Positive semi-definite kernel on metadata.
    metadata : mapping
        Columns of the batch.
    ridge : float
        Ridge penalty λ > 0.
    dtype : torch.dtype, optional
        Data type of the result; by default the columns', or float32.
    """
    device = next(iter(metadata.values())).device.type
    dtype = dtype or kernel.precision_for(metadata)
    exact = {"mps": dtype}.get(device, torch.float64)  # Apple's chips have no float64
    with torch.no_grad(), torch.autocast(device, enabled=False):
        matrix = kernel.bind(metadata, metadata, dtype=exact)(slice(None), slice(None))
        if _is_partition(kernel):  # in closed form, without rounding by a solver
            return (matrix * (1 / (matrix.sum(1) + ridge))).to(dtype)
        if not _fills_missing(kernel):
            return _solve(matrix, ridge).to(dtype)
        # Mean weights for missing values may make the matrix indefinite: take the nearest that is
        # positive semi-definite.
        values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
        values = values.clamp_min(0)
        return ((vectors * (values / (values + ridge))) @ vectors.T).to(dtype)


class ConditionalEmbedding(nn.Module):
    """Conditional embedding operator W = (K + λI)⁻¹ K of a kernel on metadata.

    K is the kernel matrix of the batch's conditions, the metadata values of its samples. The
    columns of W weight the samples of the batch to represent "a sample drawn under this condition":
    [K_XY W]_ii estimates the mean of exp(similarity) given the condition of sample i (Tsai et al.
    2022, eq. 6). W carries no gradient.

    A categorical kernel has W in closed form: W_ij is 1 / (class size + λ) within a class and 0
    elsewhere. A kernel with ``missing="marginal"`` may give a matrix that is not positive
    semi-definite, which is replaced by the nearest positive semi-definite matrix.

    Parameters
    ----------
    kernel : Kernel
        Kernel on metadata, positive semi-definite.
    ridge : float, default 0.1
        Ridge penalty λ > 0, at least the rounding level of K (ten times float64's epsilon times the
        trace of K). With a small λ, W comes close to the identity for distinct conditions; with a
        large λ, W is small and smooth.

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
        if (
            isinstance(ridge, bool)
            or not isinstance(ridge, (int, float))
            or not 0 < ridge < math.inf
        ):
            raise ConfigError(f"ridge must be a finite number above 0, got {ridge!r}.")
        self.ridge = float(ridge)

    def forward(self, metadata: Metadata) -> Tensor:
        """Compute the operator W = (K + λI)⁻¹ K, (n, n), from the metadata of a batch of n samples.

        K is the matrix of the weights of `kernel` between all samples, λ the ridge penalty `ridge`,
        and I the identity matrix. W has no gradient.
        """
        return conditional_operator(self.kernel, metadata, ridge=self.ridge)


def check_condition(kernel: Kernel) -> Kernel:
    """Return `kernel` unchanged if positive semi-definite; raise a ConfigError if not."""
    if kernel.positive_semidefinite:
        return kernel
    names = []
    for factor in kernel.modules():
        if isinstance(factor, ColumnKernel) and not factor.positive_semidefinite:
            names.append(f"{type(factor).__name__}('{factor.column}')")
    raise ConfigError(
        "kernel: a conditional embedding (CCL-K) needs a positive semi-definite kernel, and "
        f"{', '.join(names)} is none. To forget a category, give FairCCLK the Categorical kernel "
        "on it; to attract across categories, give Different to YAwareInfoNCE or "
        "ConditionalAlignmentUniformity."
    )


def _fills_missing(kernel: Kernel) -> bool:
    """Tell whether any factor of `kernel` was made with ``missing="marginal"``.

    Such a kernel gives mean weights to pairs with missing values.
    """
    missing = [getattr(factor, "missing", "error") for factor in kernel.modules()]
    return set(missing) != {"error"}


def _is_partition(kernel: Kernel) -> bool:
    """Tell whether `kernel` is 1 for scans of one class and 0 for others, in any batch.

    This holds for `Categorical` kernels that refuse missing values, and for their products.
    """
    if isinstance(kernel, Product):
        return all(map(_is_partition, kernel.kernels))
    return type(kernel) is Categorical and kernel.missing == "error"  # not a derived class


def _solve(matrix: Tensor, ridge: float) -> Tensor:
    """Return W that solves (`matrix` + `ridge` I) W = `matrix`, by Cholesky, all (n, n).

    On a CPU, a DataError refuses a matrix that is not positive semi-definite; on a GPU, W becomes
    NaN, so that the GPU is not waited for.
    """
    identity = torch.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
    rounding = 10 * torch.finfo(matrix.dtype).eps * torch.trace(matrix)
    factor, failed = torch.linalg.cholesky_ex(matrix + rounding.clamp_min(ridge) * identity)
    if matrix.device.type == "cpu" and not torch.compiler.is_compiling() and bool(failed):
        raise DataError(
            "kernel must give a positive semi-definite matrix for a conditional embedding, and on "
            "this batch it does not, or holds a value that is not finite. Standardise the column, "
            "give a larger ridge, or use another kernel."
        )
    return torch.where(failed > 0, torch.nan, torch.cholesky_solve(matrix, factor))
