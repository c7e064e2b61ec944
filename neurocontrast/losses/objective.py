"""Base class of losses: checks inputs, gathers embeddings of all processes, keeps temperatures."""

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, TypeVar, get_args

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
from neurocontrast.losses.inputs import (
    Views,
    at_least_float32,
    checked_views,
    checked_weights,
    normalise,
)
from neurocontrast.parallel.collectives import (
    Processes,
    gather_samples,
    gather_sizes,
    is_distributed,
)
from neurocontrast.settings import Positive, checked

_KERNELS = ("kernel", "negatives")
_Result = TypeVar("_Result")
_LEARNABLE = "learnable"
_FIRST_TEMPERATURE = 0.07
"""Value of a "learnable" temperature before training, as in CLIP."""
_LOWEST_TEMPERATURE = 0.01
"""Lower limit of a learned temperature during training, as in CLIP."""


def _temperature(value: Any, check_number: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, Tensor):
        return _temperature_of_tensor(value, check_number)
    if isinstance(value, str):
        if value != _LEARNABLE:
            raise ValueError("must be a number above 0, or 'learnable'")
        return value
    return check_number(value)


def _temperature_of_tensor(tensor: Tensor, check_number: ValidatorFunctionWrapHandler) -> Any:
    """Return a loss's temperature given as a tensor: a parameter unchanged, others as a float.

    A ConfigError refuses a tensor of several numbers, or with a gradient but no parameter.
    """
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
    """Pydantic annotation of a temperature: a positive number, "learnable", or a parameter."""

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
"""Temperature: a number τ > 0, "learnable", or a `torch.nn.Parameter` of one number."""


class Objective(nn.Module):
    """Base class of a loss on two views of a batch, and optionally on metadata.

    To write a loss, define a class with a constructor, whose parameters become keys in a
    configuration, with ``title`` and ``citation`` for reports, and with a method ``parts``. See
    ``docs/losses.md``.

    Under autocast a loss computes in float32. In a distributed run, a loss gathers embeddings and
    metadata of all processes, and every process returns the loss of the whole batch (see
    `neurocontrast.parallel.collectives`).

    Parameters
    ----------
    kernel : Kernel, optional
        Kernel w between scans, if the loss has one.
    negatives : Kernel, optional
        Second kernel v between scans, which weights the repulsion if the loss has one.
    temperature : float, "learnable" or torch.nn.Parameter, default 1.0
        Temperature τ > 0; 1 for a loss without a temperature. "learnable" starts at 0.07 and learns
        log 1/τ, as CLIP does; a parameter of one number is learned as τ itself. A learned
        temperature is a parameter of the loss, with the exact gradient, and is kept at 0.01 or
        above.
    """

    title: ClassVar[str]
    """Name of the loss in reports."""
    citation: ClassVar[str] = ""
    """Reference of the loss in reports: authors, title, venue and year."""
    kernel: Kernel | None
    negatives: Kernel | None
    log_scale: nn.Parameter | None
    """Learned logarithm of 1/τ; None for a temperature that is not "learnable"."""
    needs_nonnegative = True
    contrasts: ClassVar[bool] = True
    """Whether the loss compares embeddings with one another, so that training measures alignment
    and uniformity."""
    normalise: bool = True
    """Whether embeddings are divided by their norm before comparison."""
    n_views: ClassVar[tuple[int, int | None]] = (2, 2)
    """Smallest and largest number of views that the loss accepts; None for no largest number."""
    of_anchors: ClassVar[bool] = True
    """Whether the loss is a mean of one value for each anchor, so that ``reduction="none"`` is
    possible."""
    reads_features: bool = False
    """Whether the loss needs a metadata column "features", (n, 2p), with the encoder's p features
    of both views side by side."""

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
        """Kind of each metadata column that the loss reads, by name: continuous or categorical."""
        return _columns_of(self._kernels())

    @property
    def tau(self) -> float | Tensor:
        """Temperature τ: a number, or a tensor with gradient if learned; 1 without temperature."""
        if self.log_scale is not None:
            return (-self.log_scale).exp()
        assert not isinstance(self.temperature, str)
        return self.temperature

    @property
    def scale(self) -> float | Tensor:
        """Factor 1/τ of inner products of embeddings."""
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
        """Compute the loss of the embeddings of two or more views of a batch.

        Parameters
        ----------
        z1, z2 : Tensor (n, d)
            Embeddings of two views, of any norm; or a list of views, or a tensor (V, n, d), in
            place of ``z1``.
        metadata : mapping or DataFrame, optional
            Metadata with the ``columns`` that the loss reads, in the form that
            `neurocontrast.kernels.Kernel` describes, for instance a batch of a `CohortDataset`.
        weights : Tensor (n,), optional
            Weight of each sample as an anchor in the mean over anchors, at least 0. As candidates,
            with which anchors are compared, all samples count alike.
        reduction : {"mean", "sum", "none"}
            Mean or sum over the anchors, or "none" for the anchors' values, (V, n), times the
            weights; the value of an anchor without a positive is 0. A loss that is not a mean over
            anchors (``of_anchors`` is False) accepts "mean" alone.

        Returns
        -------
        Tensor
            A scalar, or (V, n) with ``reduction="none"``.

        Raises
        ------
        DataError
            If embeddings, metadata or weights have a wrong shape or type, or are missing.
        """
        return self._with_pool(self.value, z1, z2, metadata, weights, reduction)

    def terms(
        self, z1: Views, z2: Tensor | None = None, metadata: Metadata | None = None, **options: Any
    ) -> dict[str, Tensor]:
        """Return the parts that sum to the loss, by name; arguments are as in `forward`."""
        return self._with_pool(self.parts, z1, z2, metadata, **options)

    def figures(
        self, z1: Views, z2: Tensor | None = None, metadata: Metadata | None = None
    ) -> dict[str, Tensor]:
        """Compute the quantities of a batch that training records in ``metrics.csv``.

        Returns
        -------
        dict
            ``term_NAME`` for each part of the loss; ``temperature`` if τ is learned; ``bound``, a
            lower bound of the views' mutual information, for losses that have one; ``clamped``, the
            share of clamped anchors, for CCL-K.
        """

        def all_of(pool: Pool) -> dict[str, Tensor]:
            terms = {}
            for name, term in self.parts(pool).items():
                terms[f"term_{name}"] = term
            return terms | pool.figures

        figures = self._with_pool(all_of, z1, z2, metadata)
        tau = self.tau
        if isinstance(tau, Tensor):
            figures["temperature"] = tau.detach().reshape(())
        return figures

    def value(self, pool: Pool) -> Tensor:
        """Return the loss of a batch, a `Pool`, as a scalar: the sum of the loss's `parts`.

        With ``reduction="none"`` the result is a tensor (V, n) in place of the scalar: the sum of
        the parts for each of V views of n samples.
        """
        first, *others = self.parts(pool).values()
        return sum(others, first)

    @abstractmethod
    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """Return the named parts that sum to the loss of a batch, given as a `Pool`.

        A subclass defines this formula.
        """

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None) -> None:
        """Refuse metadata of a whole cohort that the loss's kernels cannot read, before training.

        See `Kernel.check` for errors and for `names`.
        """
        for kernel in self._kernels():
            kernel.check(metadata, names=names, nonnegative=self.needs_nonnegative)

    def fit(self, metadata: Metadata) -> None:
        """Fit the bandwidths of the loss's kernels to `metadata` of the training cohort, in place.

        Bandwidths given as a rule, such as "scott", are fitted; numbers stay.
        """
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
        """Return the result of function `use` for the `Pool` of a batch.

        Views `z1` and `z2`, `metadata` and `weights` are checked and combined to the pool, over all
        processes in a distributed run.
        """
        views = checked_views(z1, z2)
        self._check_call(len(views), reduction)
        with torch.autocast(views[0].device.type, enabled=False):
            columns = self._columns_for(metadata, views[0])
            sample_weights = None
            if weights is not None:
                sample_weights = checked_weights(weights, views[0])
            self._clamp_temperature()
            embeddings = self._embeddings_of(views)
            scale = self.scale
            if isinstance(scale, Tensor):
                # The gradient of 1/τ goes through the embeddings, which are multiplied by 1.
                embeddings = embeddings * (scale / scale.detach()).sqrt().reshape(()).to(embeddings)
                scale = scale.detach().reshape(())  # stays on the device: nothing waits for it
            pool = Pool(
                embeddings,
                embeddings,
                columns,
                scale,
                sample_weights=sample_weights,
                reduction=reduction,
            )
            if is_distributed():
                pool = _gathered(pool)
            return use(pool)

    def _check_call(self, n_views: int, reduction: Reduction) -> None:
        """Raise a DataError for a reduction or a number of views that this loss does not accept."""
        reductions: tuple[str, ...] = ("mean",)
        if self.of_anchors:
            reductions = get_args(Reduction)
        if reduction not in reductions:
            raise DataError(
                f"reduction must be {one_of(reductions)} for {type(self).__name__}, "
                f"got {reduction!r}."
            )
        fewest, most = self.n_views
        if not fewest <= n_views <= (most or n_views):
            allowed = f"at least {fewest} views"
            if fewest == most:
                allowed = f"{fewest} views"
            raise DataError(f"{type(self).__name__} takes {allowed} of every scan, got {n_views}.")

    def _columns_for(self, metadata: Metadata | None, view: Tensor) -> dict[str, Tensor]:
        """Return the columns of `metadata` that this loss reads, by name, on the device of `view`.

        A DataError refuses columns of another length than `view`, embeddings (n, d).
        """
        needed = dict(self.columns)
        if self.reads_features:
            needed["features"] = "continuous"
        columns = {}
        for name, kind in needed.items():
            columns[name] = self._column(metadata, name, kind, view)
        return columns

    def _clamp_temperature(self) -> None:
        """Raise a learned temperature to `_LOWEST_TEMPERATURE` if below, in place."""
        if self.log_scale is not None:
            self.log_scale.data.clamp_(max=-math.log(_LOWEST_TEMPERATURE))
        elif isinstance(self.tau, nn.Parameter):
            self.tau.data.clamp_(min=_LOWEST_TEMPERATURE)

    def _embeddings_of(self, views: Sequence[Tensor]) -> Tensor:
        """Stack the embeddings of all views to (V, n, d), with unit norm if `normalise` is True."""
        if self.normalise:
            return normalise(*views)
        return torch.stack(list(views)).to(at_least_float32(views[0]))

    def extra_repr(self) -> str:
        """Return the loss's constructor arguments as text, without kernels, for PyTorch's display.

        The text is like ``temperature=0.1, symmetric=True``.
        """
        names = [name for name in inspect.signature(type(self)).parameters if name not in _KERNELS]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def _column(self, metadata: Metadata | None, name: str, kind: Kind, view: Tensor) -> Tensor:
        """Return column `name` of `metadata` as a tensor on the device of embeddings `view`.

        A DataError refuses a column of another length, and a tensor on another device.
        """
        column = column_of(
            metadata, name, needed_by="the loss", words=self.contrasts and kind == "categorical"
        )
        if metadata is not None and not isinstance(metadata[name], Tensor):
            column = column.to(view.device)
        if len(column) != len(view):
            raise DataError(
                f"metadata['{name}'] must be a tensor with one row a sample, n = {len(view)}; "
                f"got shape {tuple(column.shape)}."
            )
        if column.device != view.device:
            raise DataError(
                f"metadata['{name}'] is on {column.device}, but the embeddings are on "
                f"{view.device}; move it."
            )
        if kind == "continuous":
            column = column.to(at_least_float32(view))
        if column.requires_grad:
            column = column.detach()
        return column


def _columns_of(kernels: Sequence[Kernel]) -> dict[str, Kind]:
    """Return the kind of each metadata column that several kernels read, by name of the column.

    The kind is "continuous" or "categorical". A column that one kernel reads as number and another
    as category is refused.
    """
    if not kernels:
        return {}
    if len(kernels) == 1:
        return kernels[0].columns
    return Product(*kernels).columns


def _gathered(pool: Pool) -> Pool:
    """Return one `Pool` with the embeddings, metadata and weights of the samples of all processes.

    `pool` has the samples of this process.
    """
    sizes = gather_sizes(pool.n_samples, pool.anchors.device)
    columns = {}
    for name, column in pool.metadata.items():
        columns[name] = gather_samples(column, sizes)
    samples_first = pool.anchors.transpose(0, 1).contiguous()
    embeddings = gather_samples(samples_first, sizes).transpose(0, 1).contiguous()
    sample_weights = pool.sample_weights
    if sample_weights is not None:
        sample_weights = gather_samples(sample_weights, sizes)
    return replace(
        pool,
        anchors=embeddings,
        candidates=embeddings,
        metadata=columns,
        processes=Processes(torch.distributed.get_rank(), torch.distributed.get_world_size()),
        sample_weights=sample_weights,
    )
