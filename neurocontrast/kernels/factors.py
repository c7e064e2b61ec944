"""Kernels as a configuration writes them: a list of factors, each with the ``type`` of its kernel."""

from functools import reduce
from operator import mul
from typing import Annotated, Any

from pydantic import (
    Field,
    PlainValidator,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from neurocontrast.kernels.base import Kernel
from neurocontrast.kernels.categorical import Categorical, Different
from neurocontrast.kernels.column import ColumnKernel
from neurocontrast.kernels.continuous import Cosine, Gaussian, Laplacian, Linear, Polynomial
from neurocontrast.settings import choose

KERNELS: dict[str, type[ColumnKernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "cosine": Cosine,
    "linear": Linear,
    "polynomial": Polynomial,
    "categorical": Categorical,
    "different": Different,
}


def _factor(given: Any, info: ValidationInfo) -> Any:
    settings = {name: kernel.Settings for name, kernel in KERNELS.items()}
    return choose(given, "type", list(settings), settings.get, from_json=info.mode == "json")


def _factors_or_kernel(
    given: Any, factors: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> Any:
    if info.mode == "json" or isinstance(given, list | tuple):
        return factors(tuple(given) if isinstance(given, list) else given)
    if not isinstance(given, Kernel):
        found = type(given).__name__
        raise ValueError(
            f"must be a kernel on metadata such as Gaussian('age', sigma=5.0), got {found}"
        )
    return given


KernelSettings = Annotated[
    tuple[Annotated[Any, PlainValidator(_factor)], ...],
    Field(min_length=1),
    WrapValidator(_factors_or_kernel),
]
"""Factors of a product, one of which is a kernel by itself; from Python also a `Kernel`."""


def build_kernel(factors: Any) -> Kernel:
    """Return the product of the factors; a kernel is returned as it is."""
    if isinstance(factors, Kernel):
        return factors
    kernels = [
        KERNELS[each.type](**{key: value for key, value in each if key != "type"})
        for each in factors
    ]
    return reduce(mul, kernels)
