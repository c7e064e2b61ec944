"""Read kernels from a configuration, as a product of factors, each a kernel on one column."""

import sys
from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import Annotated, Any

from pydantic import (
    Field,
    GetCoreSchemaHandler,
    PlainValidator,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
)
from pydantic_core import CoreSchema, core_schema

from neurocontrast.exceptions import ConfigError
from neurocontrast.kernels.base import Kernel
from neurocontrast.kernels.categorical import Categorical, Different
from neurocontrast.kernels.column import ColumnKernel, FactorSettings
from neurocontrast.kernels.continuous import Cosine, Gaussian, Laplacian, Linear, Polynomial
from neurocontrast.settings import KindsInSchema, choose, settings_model

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
    """Return the class of a kernel by its name in a configuration; None if unknown.

    The name is one of `KERNELS`, or ``module:Class`` for a user's kernel. A user's module must be
    imported already, because reading a configuration imports no modules.
    """
    if name in KERNELS:
        return KERNELS[name]
    module, _, attribute = name.partition(":")
    kernel = getattr(sys.modules.get(module), attribute or "-", None)
    if not (isinstance(kernel, type) and issubclass(kernel, ColumnKernel)):
        return None
    if getattr(kernel.weights, "__isabstractmethod__", False):
        return None
    return kernel


def factor_model(name: str) -> type[FactorSettings] | None:
    """Return the settings class of kernel `name`, derived from the constructor of the kernel.

    The result is a pydantic model of one factor in a configuration; None for an unknown name.
    """
    kernel = kernel_class(name)
    if kernel is None:
        return None
    return settings_model(kernel, FactorSettings, key="type", name=name)


def _factor(section: Any, info: ValidationInfo) -> Any:
    return choose(section, "type", list(KERNELS), factor_model, from_json=info.mode == "json")


def _models_of_types() -> dict[str, type[FactorSettings]]:
    """Return the settings class of each kernel of this package, by the kernel's name."""
    models = {}
    for name, kernel in KERNELS.items():
        models[name] = settings_model(kernel, FactorSettings, key="type", name=name)
    return models


_Factors = Annotated[
    tuple[
        Annotated[
            Any, PlainValidator(_factor), KindsInSchema("type", _models_of_types, of_user=True)
        ],
        ...,
    ],
    Field(min_length=1),
]


def _factors_or_kernel(
    value: Any, check_factors: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> Any:
    if isinstance(value, list):
        return check_factors(tuple(value))
    if info.mode == "json" or isinstance(value, tuple):
        return check_factors(value)
    if not isinstance(value, Kernel):
        raise ValueError(
            "must be a kernel on metadata such as Gaussian('age', sigma=5.0), "
            f"got {type(value).__name__}"
        )
    return value


class _FactorsOrKernel:
    """Pydantic annotation of a kernel: a `Kernel`, or a list of factors to multiply."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        del source
        factors = handler.generate_schema(_Factors)
        return core_schema.with_info_wrap_validator_function(_factors_or_kernel, factors)


KernelLike = Annotated[Kernel | Sequence[FactorSettings], _FactorsOrKernel()]
"""A `Kernel`, or in a configuration a list of one or more factors to multiply."""


def build_kernel(kernel: KernelLike) -> Kernel:
    """Return the product of the kernels that the factors of a configuration describe.

    `kernel` is a list of such factors, the settings of one kernel each, or a `Kernel`, which is
    returned unchanged.
    """
    if isinstance(kernel, Kernel):
        return kernel
    return reduce(mul, map(_build_factor, kernel))


def _build_factor(settings: FactorSettings) -> Kernel:
    """Return the kernel that `settings`, one factor of a configuration, describe.

    A ConfigError is raised if the module of a user's kernel is not imported.
    """
    kernel = kernel_class(settings.type)
    if kernel is None:
        raise ConfigError(
            f"kernel: type '{settings.type}' is not there. Import its module before its use."
        )
    arguments = dict(settings)
    del arguments["type"]
    return kernel(**arguments)
