"""What every loss is, how its inputs become a pool, and sums of losses."""

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar, cast, get_args

import numpy as np
import torch
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidatorFunctionWrapHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from torch import Tensor, nn

from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.kernels import Kernel, Kind, Metadata, Product
from neurocontrast.kernels.base import column_of
from neurocontrast.kernels.factors import KernelLike, build_kernel
from neurocontrast.losses.core import Pool, Reduction
from neurocontrast.losses.reductions import Unit
from neurocontrast.parallel.collectives import (
    Processes,
    gather_samples,
    gather_sizes,
    is_distributed,
)
from neurocontrast.settings import Positive, checked

Views = Tensor | Sequence[Tensor]
"""Embeddings (n, d) of a view, a list of them, or a tensor (V, n, d)."""

_KERNELS = ("kernel", "negatives")
_Result = TypeVar("_Result")
_LEARNABLE = "learnable"
_FIRST_TEMPERATURE, _LOWEST_TEMPERATURE = 0.07, 0.01  # those of CLIP


def _temperature(value: Any, check_number: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, Tensor):
        return _temperature_of_tensor(value, check_number)
    if isinstance(value, str):
        if value != _LEARNABLE:
            raise ValueError("must be a number above 0, or 'learnable'")
        return value
    return check_number(value)


def _temperature_of_tensor(tensor: Tensor, check_number: ValidatorFunctionWrapHandler) -> Any:
    """Return a parameter as it is, and the number of another tensor."""
    if tensor.numel() != 1:
        raise ConfigError(
            f"temperature must be one number, got a tensor of shape {tuple(tensor.shape)}."
        )
    if tensor.requires_grad and not isinstance(tensor, nn.Parameter):
        raise ConfigError(
            "temperature: a tensor that learns must be a torch.nn.Parameter, or 'learnable'."
        )
    number = check_number(float(tensor.detach()))
    if isinstance(tensor, nn.Parameter):
        return tensor
    return number


class _TemperatureRule:
    """Annotate a temperature: a positive number, "learnable", or from Python a parameter."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        del source
        return core_schema.no_info_wrap_validator_function(
            _temperature,
            handler.generate_schema(Positive),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"const": _LEARNABLE}]}


Temperature = Annotated[float | str | nn.Parameter, _TemperatureRule()]
"""A number τ > 0, "learnable", or a parameter of one number."""


class Objective(nn.Module):
    """A loss on two views of a batch, and optionally its metadata.

    A loss of your own is one class: a constructor, whose parameters are its keys in a
    configuration, ``title`` and ``citation`` for reports, and ``parts``. See ``docs/losses.md``.

    Under autocast a loss computes in float32. In a distributed run candidates, metadata and counts
    are those of all processes, and every process returns the loss of the whole batch (see
    `neurocontrast.parallel.collectives`).

    Parameters
    ----------
    kernel : Kernel, optional
        Kernel w between scans, where the loss has one.
    negatives : Kernel, optional
        Second kernel v between scans.
    temperature : float, "learnable" or torch.nn.Parameter, default 1.0
        Temperature τ > 0; 1 of a loss without any. "learnable" starts at 0.07 and learns log 1/τ,
        as CLIP does; a parameter of one number is τ itself, and learns. Either is a parameter of
        the loss, with its exact gradient, and is kept at 0.01 or above.
    """

    title: ClassVar[str]
    """Name in reports."""
    citation: ClassVar[str] = ""
    """Reference in reports: authors, title, venue and year."""
    kernel: Kernel | None
    negatives: Kernel | None
    log_scale: nn.Parameter | None
    """log 1/τ of a temperature that learns."""
    needs_nonnegative = True
    contrasts: ClassVar[bool] = True
    """Whether embeddings are compared with one another, so that their spread over the sphere can be measured."""
    normalise: bool = True
    """Whether embeddings are divided by their norm."""
    n_views: ClassVar[tuple[int, int | None]] = (2, 2)
    """The fewest views that the loss takes, and the most; None for any number."""
    of_anchors: ClassVar[bool] = True
    """Whether the loss is a mean of one value an anchor, which ``reduction`` can give."""
    reads_features: bool = False
    """Whether the metadata need a column "features", (n, 2p): the encoder's features of both views, side by side."""

    @checked
    def __init__(
        self,
        *,
        kernel: KernelLike | None = None,
        negatives: KernelLike | None = None,
        temperature: Temperature = 1.0,
    ) -> None:
        super().__init__()
        self.kernel = None
        if kernel is not None:
            self.kernel = build_kernel(kernel)
        self.negatives = None
        if negatives is not None:
            self.negatives = build_kernel(negatives)
        self.temperature = temperature
        self.log_scale = None
        if temperature == _LEARNABLE:
            log_scale = torch.tensor(-math.log(_FIRST_TEMPERATURE), dtype=torch.float32)
            self.log_scale = nn.Parameter(log_scale)
        _columns_of(self._kernels())

    @property
    def columns(self) -> dict[str, Kind]:
        """The metadata columns that are needed, and how they are read."""
        return _columns_of(self._kernels())

    @property
    def tau(self) -> float | Tensor:
        """Temperature τ: a number, or a tensor with its gradient where τ learns; 1 of a loss without any."""
        if self.log_scale is not None:
            return (-self.log_scale).exp()
        assert not isinstance(self.temperature, str)
        return self.temperature

    @property
    def scale(self) -> float | Tensor:
        """What multiplies inner products: 1/τ."""
        return 1 / self.tau

    def forward(
        self,
        z1: Views,
        z2: Tensor | None = None,
        metadata: Metadata | None = None,
        *,
        weights: Tensor | None = None,
        reduction: Reduction = "mean",
    ) -> Tensor:
        """Return the loss of the embeddings of the views of a batch.

        Parameters
        ----------
        z1, z2 : Tensor (n, d)
            Embeddings of two views, of any norm; or a list of views, or a tensor (V, n, d), in
            place of ``z1``.
        metadata : mapping or DataFrame, optional
            The ``columns`` that the loss needs, as kernels take them
            (`neurocontrast.kernels.Kernel`), for instance a batch of a `CohortDataset`.
        weights : Tensor (n,), optional
            Weight of each sample in the mean over anchors, at least 0. As candidates all samples
            count alike.
        reduction : {"mean", "sum", "none"}
            Mean or sum over the anchors, or their values, (V, n), multiplied by the weights; 0 of
            an anchor without a positive. Losses that are no mean over anchors (``of_anchors``) have
            their mean alone.
        """
        return self._with_pool(self.value, z1, z2, metadata, weights, reduction)

    def terms(
        self, z1: Views, z2: Tensor | None = None, metadata: Metadata | None = None, **options: Any
    ) -> dict[str, Tensor]:
        """Return the named parts that sum to the loss; the arguments are those of the loss."""
        return self._with_pool(self.parts, z1, z2, metadata, **options)

    def figures(
        self, z1: Views, z2: Tensor | None = None, metadata: Metadata | None = None
    ) -> dict[str, Tensor]:
        """Return what training records of a batch: ``term_`` and the name of each part, and what else is known.

        That is ``temperature`` where it learns, ``bound`` of a loss that bounds an information, and
        ``clamped``, the fraction of clamped anchors, of CCL-K.
        """

        def all_of(pool: Pool) -> dict[str, Tensor]:
            return {f"term_{name}": part for name, part in self.parts(pool).items()} | pool.figures

        found = self._with_pool(all_of, z1, z2, metadata)
        tau = self.tau
        if isinstance(tau, Tensor):
            return {**found, "temperature": tau.detach().reshape(())}
        return found

    def value(self, pool: Pool) -> Tensor:
        """Return the loss of a pool of unit embeddings."""
        first, *others = self.parts(pool).values()
        return sum(others, first)

    @abstractmethod
    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """Return the parts of the loss of a pool of unit embeddings, those of all processes."""

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None) -> None:
        """Check a whole cohort's metadata before training; see ``Kernel.check``."""
        for kernel in self._kernels():
            kernel.check(metadata, names=names, nonnegative=self.needs_nonnegative)

    def fit(self, metadata: Metadata) -> None:
        """Fit the bandwidths that are given by a rule, on the metadata of the training cohort."""
        for kernel in self._kernels():
            kernel.fit(metadata)

    def _kernels(self) -> list[Kernel]:
        return [kernel for kernel in (self.kernel, self.negatives) if kernel is not None]

    def _with_pool(
        self,
        use: Callable[[Pool], _Result],
        z1: Views,
        z2: Tensor | None,
        metadata: Metadata | None,
        weights: Tensor | None = None,
        reduction: Reduction = "mean",
    ) -> _Result:
        """Call a function with the pool of two views, or of a list of views, and their metadata."""
        views = _views(z1, z2)
        reductions = get_args(Reduction) if self.of_anchors else ("mean",)
        if reduction not in reductions:
            raise DataError(
                f"reduction must be {one_of(reductions)} for {type(self).__name__}, got {reduction!r}."
            )
        fewest, most = self.n_views
        if not fewest <= len(views) <= (most or len(views)):
            allowed = f"{fewest} views" if fewest == most else f"at least {fewest} views"
            raise DataError(
                f"{type(self).__name__} takes {allowed} of every scan, got {len(views)}."
            )
        with torch.autocast(views[0].device.type, enabled=False):
            needed: dict[str, Kind] = {
                **self.columns,
                **({"features": "continuous"} if self.reads_features else {}),
            }
            columns = {
                name: self._column(metadata, name, kind, views[0]) for name, kind in needed.items()
            }
            sample_weights = None if weights is None else _weights(weights, views[0])
            # A temperature that learns is kept at the lowest or above, in place, as after an
            # optimiser's step.
            if self.log_scale is not None:
                self.log_scale.data.clamp_(max=-math.log(_LOWEST_TEMPERATURE))
            elif isinstance(self.tau, nn.Parameter):
                self.tau.data.clamp_(min=_LOWEST_TEMPERATURE)
            embeddings = (
                normalise(*views)
                if self.normalise
                else torch.stack(views).to(_at_least_float32(views[0]))
            )
            scale = self.scale
            if isinstance(
                scale, Tensor
            ):  # its gradient goes through the embeddings, which are multiplied by 1
                embeddings = embeddings * (scale / scale.detach()).sqrt().reshape(()).to(embeddings)
                scale = scale.detach().reshape(())  # stays on its device, which is not waited for
            processes = Processes()
            if is_distributed():
                processes = Processes(
                    torch.distributed.get_rank(), torch.distributed.get_world_size()
                )
                gather = partial(
                    gather_samples, sizes=gather_sizes(embeddings.shape[1], embeddings.device)
                )
                columns = {name: gather(column) for name, column in columns.items()}
                embeddings = (
                    gather(embeddings.transpose(0, 1).contiguous()).transpose(0, 1).contiguous()
                )
                sample_weights = None if sample_weights is None else gather(sample_weights)
            return use(
                Pool(
                    embeddings,
                    embeddings,
                    columns,
                    scale,
                    processes,
                    sample_weights,
                    reduction=reduction,
                )
            )

    def extra_repr(self) -> str:
        """Return the arguments of the constructor, without the kernels, which PyTorch shows as modules."""
        names = [name for name in inspect.signature(type(self)).parameters if name not in _KERNELS]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def _column(self, metadata: Metadata | None, name: str, kind: Kind, view: Tensor) -> Tensor:
        """Return a column on the device of a view; words only where the loss codes categories."""
        column = column_of(
            metadata, name, needed_by="the loss", words=self.contrasts and kind == "categorical"
        )
        if metadata is not None and not isinstance(metadata[name], Tensor):
            column = column.to(view.device)
        if len(column) != len(view):
            found = f"n = {len(view)}; got shape {tuple(column.shape)}"
            raise DataError(f"metadata['{name}'] must be a tensor with one row a sample, {found}.")
        if column.device != view.device:
            raise DataError(
                f"metadata['{name}'] is on {column.device}, but the embeddings are on {view.device}; move it."
            )
        if kind == "continuous":
            column = column.to(_at_least_float32(view))
        if column.requires_grad:
            column = column.detach()
        return column


def _columns_of(kernels: Sequence[Kernel]) -> dict[str, Kind]:
    """Return the columns of kernels; refuse a column that two of them read in two ways."""
    if not kernels:
        return {}
    if len(kernels) == 1:
        return kernels[0].columns
    return Product(*kernels).columns


def normalise(*views: Tensor) -> Tensor:
    """Stack views (n, d) to (V, n, d) of unit norm, in at least float32; a zero vector stays."""
    return cast(Tensor, Unit.apply(_at_least_float32(views[0]), *views))


def _at_least_float32(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _weights(given: Any, view: Tensor) -> Tensor:
    """Return weights of the samples, (n,), on the device of a view."""
    weights = torch.as_tensor(given, dtype=_at_least_float32(view), device=view.device).detach()
    if weights.shape != view.shape[:1]:
        raise DataError(
            f"weights must be one number a sample, ({len(view)},), got shape {tuple(weights.shape)}."
        )
    if weights.device.type == "cpu" and not ((weights >= 0) & weights.isfinite()).all():
        raise DataError("weights must be finite and at least 0.")
    return weights


def _views(z1: Views, z2: Tensor | None) -> list[Tensor]:
    is_one = isinstance(z1, Tensor | np.ndarray) and z1.ndim != 3
    views: dict[str, Any] = {"z1": z1} if is_one else {f"z1[{k}]": z for k, z in enumerate(z1)}
    if z2 is not None:
        views["z2"] = z2
    views = {
        name: torch.as_tensor(z) if isinstance(z, np.ndarray) else z for name, z in views.items()
    }
    if not views:
        raise DataError("z1 must be a tensor or a list of views, got an empty list.")
    (first, reference), *others = views.items()
    for name, z in views.items():
        if not isinstance(z, Tensor) or z.ndim != 2 or z.shape[0] == 0 or not z.is_floating_point():
            found = (
                f"{z.dtype} of shape {tuple(z.shape)}"
                if isinstance(z, Tensor)
                else type(z).__name__
            )
            raise DataError(
                f"{name} must be a floating-point tensor of shape (n, d) with n ≥ 1, got {found}."
            )
    for name, z in others:
        if z.shape != reference.shape or z.dtype != reference.dtype or z.device != reference.device:
            raise DataError(
                f"{name} must match {first} in shape, dtype and device: {first} is {reference.dtype} of shape "
                f"{tuple(reference.shape)} on {reference.device}, {name} is {z.dtype} of shape {tuple(z.shape)} "
                f"on {z.device}."
            )
    return [z.as_subclass(Tensor) for z in views.values()]  # of MONAI's MetaTensor, too
