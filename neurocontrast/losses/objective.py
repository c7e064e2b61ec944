"""What every loss of the house is, and how its inputs become a pool."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from neurocontrast.collectives import gather_samples, gather_sizes, is_distributed
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.kernels import Kernel, Kind, Metadata, Product
from neurocontrast.losses.core import Pool
from neurocontrast.losses.fused import SMALL, fused, tangent, to_unit_norm

__all__ = ["Objective", "check_number", "normalise"]


class Objective(nn.Module):
    """A loss on two views of a batch, and optionally its metadata.

    Under ``torch.compile`` a loss runs eagerly, between the compiled parts: its gradient is written by hand already.
    Under autocast it computes in float32. In a distributed run candidates, metadata and counts are those of all
    processes, and every process returns the loss of the whole batch (see `neurocontrast.collectives`).

    Parameters
    ----------
    temperature : float
        τ > 0.
    tile : int, optional
        Embeddings on the side of a tile of similarities. A pool that fits in one tile is computed
        densely, a larger one in tiles, with the same numbers; None chooses what is faster.
    """

    kernel: Kernel | None
    negatives: Kernel | None
    needs_nonnegative = True

    def __init__(self, *, temperature: float = 0.1, tile: int | None = None) -> None:
        super().__init__()
        self.kernel = None
        self.negatives = None
        self.temperature = check_number("temperature", temperature, above=0.0)
        if tile is not None and (isinstance(tile, bool) or not isinstance(tile, int) or tile < 1):
            raise ConfigError(f"tile must be None or a whole number of at least 1, got {tile!r}.")
        self.tile = tile

    @property
    def columns(self) -> dict[str, Kind]:
        """The metadata columns it needs, and how they are read."""
        kernels = self._kernels()
        return Product(*kernels).columns if kernels else {}

    @property
    def positives(self) -> list[Kernel]:
        """The kernel whose alike scans it pulls together; empty where only the views of one scan are."""
        return []

    def forward(self, z1: Tensor, z2: Tensor, metadata: Metadata | None = None) -> Tensor:
        """Return the loss, a scalar.

        Parameters
        ----------
        z1, z2 : Tensor (n, d)
            Embeddings of the two views, of any norm.
        metadata : dict of Tensor, optional
            The columns in ``columns``, one value (or row) a sample.
        """
        return cast(Tensor, self._with_pool(self.value, z1, z2, metadata, self.closed_form))

    def terms(self, z1: Tensor, z2: Tensor, metadata: Metadata | None = None) -> dict[str, Tensor]:
        """Return the named parts that sum to the loss."""
        return self._with_pool(self.parts, z1, z2, metadata)

    def bounds(self, z1: Tensor, z2: Tensor, metadata: Metadata | None = None) -> dict[str, Tensor]:
        """Return the bounds that the loss implies, without gradient; empty where there is none."""
        with torch.no_grad():
            return self._with_pool(self.pool_bounds, z1, z2, metadata)

    def value(self, pool: Pool) -> Tensor:
        """The loss, of a pool of unit embeddings."""
        first, *others = self.parts(pool).values()
        return sum(others, first)

    closed_form: Callable[[Pool], tuple[Tensor, Tensor]] | None = None
    """Where a loss has one: its value, and the gradient with respect to the units, of a small pool of two views.

    A loss derived from one that has it, with other ``parts``, needs its own, or None.
    """

    @abstractmethod
    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """The parts of the loss, of a pool of unit embeddings."""

    def pool_bounds(self, pool: Pool) -> dict[str, Tensor]:  # noqa: ARG002
        """The bounds, of a pool of unit embeddings."""
        return {}

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None) -> None:
        """Check a whole cohort's metadata once, before training; see ``Kernel.check``."""
        for kernel in self._kernels():
            kernel.check(metadata, names=names, nonnegative=self.needs_nonnegative)

    def fit(self, metadata: Metadata) -> None:
        """Fit the bandwidths that are given by a rule, on the metadata of the training cohort."""
        for kernel in self._kernels():
            kernel.fit(metadata)

    def _kernels(self) -> list[Kernel]:
        return [kernel for kernel in (self.kernel, self.negatives) if kernel is not None]

    @torch.compiler.disable
    def _eagerly(self, *arguments):  # type: ignore[no-untyped-def]
        return self._with_pool(*arguments)

    def _with_pool(self, use, z1, z2, metadata, closed_form=None):  # type: ignore[no-untyped-def]
        if torch.compiler.is_compiling():
            return self._eagerly(use, z1, z2, metadata, closed_form)
        views = _views(z1, z2)
        device = views[0].device.type
        if torch.is_autocast_enabled(device):
            with torch.autocast(device, enabled=False):
                return self._evaluate(use, views, metadata, closed_form)
        return self._evaluate(use, views, metadata, closed_form)

    def _evaluate(self, use, views, metadata, closed_form):  # type: ignore[no-untyped-def]
        columns = self._columns(metadata, views[0])
        if is_distributed():
            return use(self._gathered(normalise(*views), columns))
        if closed_form and len(views) == 2 and 2 * len(views[0]) <= min(self.tile or SMALL, SMALL):
            return fused(views, lambda units: closed_form(Pool(units, units, columns, columns, tile=self.tile)))
        rows = normalise(*views)
        return use(Pool(rows, rows, columns, columns, tile=self.tile))

    def _gathered(self, rows: Tensor, columns: Metadata) -> Pool:
        sizes = gather_sizes(rows.shape[1], rows.device)
        gather = partial(gather_samples, sizes=sizes)
        everyone = {name: gather(column) for name, column in columns.items()}
        cols = gather(rows.transpose(0, 1).contiguous()).transpose(0, 1).contiguous()
        offset = sum(sizes[: torch.distributed.get_rank()])
        return Pool(rows, cols, columns, everyone, offset=offset, distributed=True, tile=self.tile)

    def _columns(self, metadata: Metadata | None, view: Tensor) -> Metadata:
        return {name: _column(metadata, name, kind, view) for name, kind in self.columns.items()}

    def extra_repr(self) -> str:
        """Return the temperature, for ``print``."""
        return f"temperature={self.temperature}"


def check_number(name: str, value: float, *, above: float = -math.inf, at_least: float = -math.inf) -> float:
    """Return a finite number as a float, or raise a ConfigError that names the argument."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= above or value < at_least:
        rule = f"above {above:g}" if above > -math.inf else f"of at least {at_least:g}"
        raise ConfigError(f"{name} must be a number {rule}, got {value!r}.")
    return float(value)


def normalise(*views: Tensor) -> Tensor:
    """Stack views (n, d) to (V, n, d) of unit norm, in at least float32; a zero vector stays zero, without gradient."""
    return cast(Tensor, _Normalise.apply(*views))


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *views: Tensor) -> Tensor:
        units, norms = to_unit_norm(views)
        ctx.save_for_backward(units, norms)
        ctx.dtype = views[0].dtype
        return units

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        units, norms = ctx.saved_tensors
        return tuple(tangent(gradients[0], units, norms).to(ctx.dtype).unbind(0))


def _fit(z1: Tensor, z2: Tensor) -> bool:
    same = z1.shape == z2.shape and z1.dtype == z2.dtype and z1.device == z2.device
    return same and z1.ndim == 2 and len(z1) > 0 and z1.is_floating_point()


def _views(z1: Tensor | Sequence[Tensor], z2: Tensor | None) -> list[Tensor]:
    if isinstance(z1, Tensor) and isinstance(z2, Tensor) and _fit(z1, z2):
        return [z1, z2]
    views = {f"z1[{k}]": z for k, z in enumerate(z1)} if not isinstance(z1, Tensor) else {"z1": z1}
    if z2 is not None:
        views["z2"] = z2
    (first, reference), *others = views.items()
    for name, z in views.items():
        if not isinstance(z, Tensor) or z.ndim != 2 or z.shape[0] == 0 or not z.is_floating_point():
            found = f"{z.dtype} of shape {tuple(z.shape)}" if isinstance(z, Tensor) else type(z).__name__
            raise DataError(f"{name} must be a floating-point tensor of shape (n, d) with n ≥ 1, got {found}.")
    for name, z in others:
        if z.shape != reference.shape or z.dtype != reference.dtype or z.device != reference.device:
            raise DataError(
                f"{name} must match {first} in shape, dtype and device: {first} is {reference.dtype} of shape "
                f"{tuple(reference.shape)} on {reference.device}, {name} is {z.dtype} of shape {tuple(z.shape)} "
                f"on {z.device}."
            )
    return list(views.values())


def _column(metadata: Metadata | None, name: str, kind: Kind, view: Tensor) -> Tensor:
    if metadata is None or name not in metadata:
        given = "metadata was not given" if metadata is None else f"it has {one_of(metadata) or 'none'}"
        raise DataError(
            f"metadata has no column '{name}', which the loss needs; {given}.{suggestion(name, metadata or ())}"
        )
    column = metadata[name]
    if not isinstance(column, Tensor) or column.ndim not in (1, 2) or len(column) != len(view):
        found = f"shape {tuple(column.shape)}" if isinstance(column, Tensor) else type(column).__name__
        raise DataError(f"metadata['{name}'] must be a tensor with one row a sample, n = {len(view)}; got {found}.")
    if column.device != view.device:
        raise DataError(f"metadata['{name}'] is on {column.device}, but the embeddings are on {view.device}; move it.")
    if kind == "continuous":
        column = column.to(torch.float64 if view.dtype == torch.float64 else torch.float32)
    return column.detach()
