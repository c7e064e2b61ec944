"""Kernels as a configuration writes them: factors, each with the ``type`` of its kernel."""

import sys
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

from neurocontrast.exceptions import ConfigError
from neurocontrast.kernels.base import Kernel
from neurocontrast.kernels.categorical import Categorical, Different
from neurocontrast.kernels.column import ColumnKernel, FactorSettings
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


def kernel_class(name: str) -> type[ColumnKernel] | None:
    """Find the class of a factor: one of `KERNELS`, or ``module:Class``; None if unknown.

    A module of the user's must have been imported by the program already. A configuration never
    makes one be imported.
    """
    if name in KERNELS:
        return KERNELS[name]
    module, _, attribute = name.partition(":")
    found = getattr(sys.modules.get(module), attribute or "-", None)
    if not (isinstance(found, type) and issubclass(found, ColumnKernel)):
        return None
    if getattr(found.weights, "__isabstractmethod__", False):
        return None
    return found


def _settings_of(name: str) -> type[FactorSettings] | None:
    return getattr(kernel_class(name), "Settings", None)


def _factor(given: Any, info: ValidationInfo) -> Any:
    return choose(given, "type", list(KERNELS), _settings_of, from_json=info.mode == "json")


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
    return reduce(mul, list(map(_build_factor, factors)))


def _build_factor(settings: FactorSettings) -> Kernel:
    """Build the kernel of one factor, whose ``type`` was checked when the configuration was read."""
    kernel = kernel_class(settings.type)
    if kernel is None:
        raise ConfigError(
            f"kernel: type '{settings.type}' is not there. Import its module before its use."
        )
    return kernel(**{key: value for key, value in settings if key != "type"})
