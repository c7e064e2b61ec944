"""What every loss of the house is, and how its inputs become a pool."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.kernels import Kernel, Kind, Metadata
from neurocontrast.losses.core import Pool
from neurocontrast.losses.gather import gather_samples, gather_sizes, is_distributed

__all__ = ["Objective", "check_number", "normalise"]


class Objective(nn.Module):
    """A loss on two views of a batch, and optionally its metadata.

    Under ``torch.compile`` a loss runs eagerly, between the compiled parts: its gradient is written by hand already.
    Under autocast it computes in float32. In a distributed run candidates, metadata and counts are those of all
    processes, and every process returns the loss of the whole batch (see ``losses.gather``).

    Parameters
    ----------
    temperature : float
        τ > 0.
    tile : int, optional
        Embeddings on the side of a tile of similarities. A pool that fits in one tile is computed
        densely, a larger one in tiles, with the same numbers; None chooses what is faster.
    """

    kernel: Kernel | None
    needs_nonnegative = True

    def __init__(self, *, temperature: float = 0.1, tile: int | None = None) -> None:
        super().__init__()
        self.kernel = None
        self.temperature = check_number("temperature", temperature, above=0.0)
        if tile is not None and (isinstance(tile, bool) or not isinstance(tile, int) or tile < 1):
            raise ConfigError(f"tile must be None or a whole number of at least 1, got {tile!r}.")
        self.tile = tile

    @property
    def columns(self) -> dict[str, Kind]:
        """The metadata columns it needs, and how they are read."""
        return {} if self.kernel is None else self.kernel.columns

    def forward(self, z1: Tensor, z2: Tensor, metadata: Metadata | None = None) -> Tensor:
        """Return the loss, a scalar.

        Parameters
        ----------
        z1, z2 : Tensor (n, d)
            Embeddings of the two views, of any norm.
        metadata : dict of Tensor, optional
            The columns in ``columns``, one value (or row) a sample.
        """
        return cast(Tensor, self._with_pool(self.value, z1, z2, metadata))

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

    @abstractmethod
    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """The parts of the loss, of a pool of unit embeddings."""

    def pool_bounds(self, pool: Pool) -> dict[str, Tensor]:  # noqa: ARG002
        """The bounds, of a pool of unit embeddings."""
        return {}

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None) -> None:
        """Check a whole cohort's metadata once, before training; see ``Kernel.check``."""
        if self.kernel is not None:
            self.kernel.check(metadata, names=names, nonnegative=self.needs_nonnegative)

    @torch.compiler.disable
    def _eagerly(self, use, z1, z2, metadata):  # type: ignore[no-untyped-def]
        return self._with_pool(use, z1, z2, metadata)

    def _with_pool(self, use, z1, z2, metadata):  # type: ignore[no-untyped-def]
        if torch.compiler.is_compiling():
            return self._eagerly(use, z1, z2, metadata)
        views = _views(z1, z2)
        device = views[0].device.type
        if torch.is_autocast_enabled(device):
            with torch.autocast(device, enabled=False):
                return use(self._pool(views, metadata))
        return use(self._pool(views, metadata))

    def _pool(self, views: list[Tensor], metadata: Metadata | None) -> Pool:
        rows = normalise(*views)
        columns = {name: _column(metadata, name, kind, rows) for name, kind in self.columns.items()}
        if not is_distributed():
            return Pool(rows, rows, columns, columns, tile=self.tile)
        sizes = gather_sizes(rows.shape[1], rows.device)
        gather = partial(gather_samples, sizes=sizes)
        everyone = {name: gather(column) for name, column in columns.items()}
        cols = gather(rows.transpose(0, 1).contiguous()).transpose(0, 1).contiguous()
        offset = sum(sizes[: torch.distributed.get_rank()])
        return Pool(rows, cols, columns, everyone, offset=offset, distributed=True, tile=self.tile)

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
        stacked = torch.stack(views)
        if stacked.dtype != torch.float64:
            stacked = stacked.float()
        norms = torch.linalg.vector_norm(stacked, dim=2, keepdim=True)
        inverse = norms.masked_fill_(norms < 1e-12, torch.inf).reciprocal_()
        units = stacked.mul_(inverse)
        ctx.save_for_backward(units, inverse)
        ctx.dtype = views[0].dtype
        return units

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        units, inverse = ctx.saved_tensors
        (gradient,) = gradients
        radial = (gradient * units).sum(2, keepdim=True)
        tangent = (units * radial).neg_().add_(gradient).mul_(inverse)
        return tuple(tangent.to(ctx.dtype).unbind(0))


def _views(z1: Tensor | Sequence[Tensor], z2: Tensor | None) -> list[Tensor]:
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


def _column(metadata: Metadata | None, name: str, kind: Kind, rows: Tensor) -> Tensor:
    if metadata is None or name not in metadata:
        given = "metadata was not given" if metadata is None else f"it has {one_of(metadata) or 'none'}"
        raise DataError(
            f"metadata has no column '{name}', which the loss needs; {given}.{suggestion(name, metadata or ())}"
        )
    column = metadata[name]
    if not isinstance(column, Tensor) or column.ndim not in (1, 2) or column.shape[0] != rows.shape[1]:
        found = f"shape {tuple(column.shape)}" if isinstance(column, Tensor) else type(column).__name__
        raise DataError(f"metadata['{name}'] must be a tensor with one row a sample, n = {rows.shape[1]}; got {found}.")
    if column.device != rows.device:
        raise DataError(f"metadata['{name}'] is on {column.device}, but the embeddings are on {rows.device}; move it.")
    return (column.to(rows.dtype) if kind == "continuous" else column).detach()
