"""What every loss is, how its inputs become a pool, and sums of losses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar, cast

import numpy as np
import torch
from pydantic import Field, PlainValidator, ValidationInfo, field_validator
from torch import Tensor, nn

from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.kernels import Categorical, Kernel, Kind, Metadata, Product
from neurocontrast.kernels.base import column_of
from neurocontrast.kernels.column import listed
from neurocontrast.kernels.factors import build_kernel
from neurocontrast.losses.core import Pool
from neurocontrast.losses.registry import read_objective
from neurocontrast.parallel.collectives import Processes, gather_samples, gather_sizes, is_distributed
from neurocontrast.settings import Configurable, NonNegative, Positive, Settings

__all__ = ["LossSettings", "Objective", "SumOfObjectives", "check_complete", "normalise"]

_KERNELS = ("kernel", "negatives")
_Result = TypeVar("_Result")


class LossSettings(Settings):
    """What every loss can be told; each loss adds its own keys in a nested class ``Settings``."""

    loss: str = ""


class Objective(Configurable, nn.Module):
    """A loss on two views of a batch, and optionally its metadata.

    A loss of your own is one class: its keys in a nested ``Settings``, ``title`` and ``citation`` for reports, and
    ``parts``. See ``docs/losses.md``.

    Under autocast a loss computes in float32. In a distributed run candidates, metadata and counts are those of all
    processes, and every process returns the loss of the whole batch (see `neurocontrast.parallel.collectives`).

    Parameters
    ----------
    temperature : float or torch.nn.Parameter
        Temperature τ > 0. A parameter learns: it gets its gradient, and is the loss's own.
    """

    title: ClassVar[str]
    """Name in reports."""
    citation: ClassVar[str] = ""
    """Reference in reports: authors, title, venue and year."""
    tag = "loss"
    kernel: Any  # a `Kernel`, or None
    negatives: Any  # a `Kernel`, or None
    temperature: Any  # a number, or a tensor of one
    needs_nonnegative = True
    contrasts: ClassVar[bool] = True
    """Whether embeddings are compared with one another, so that their spread over the sphere can be measured."""
    normalise: bool = True
    """Whether embeddings are divided by their norm."""
    n_views: ClassVar[tuple[int, int | None]] = (2, 2)
    """The fewest views that the loss takes, and the most; None for any number."""

    class Settings(LossSettings):
        temperature: Positive = 0.1

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__()
        self.kernel = self.negatives = None
        learnt = keywords.get("temperature")
        if isinstance(learnt, Tensor):
            if learnt.numel() != 1:
                raise ConfigError(f"temperature must be one number, got a tensor of shape {tuple(learnt.shape)}.")
            keywords["temperature"] = float(learnt.detach())
        self.configure(*arguments, **keywords)
        if isinstance(learnt, Tensor):
            del self.temperature
            self.temperature = learnt
        _ = self.columns

    def accept(self, name: str, value: Any) -> None:
        """Keep a value of the settings; factors become a kernel, a column of labels the kernel of equal labels."""
        if name in ("label", "cluster"):
            self.kernel = Categorical(value)
        super().accept(name, build_kernel(value) if name in _KERNELS and value is not None else value)

    @property
    def columns(self) -> dict[str, Kind]:
        """The metadata columns that are needed, and how they are read."""
        kernels = self._kernels()
        return Product(*kernels).columns if kernels else {}

    @property
    def scale(self) -> float:
        """What multiplies inner products: 1/τ; where τ learns, its gradient goes through the embeddings."""
        temperature = getattr(self, "temperature", 1.0)
        return 1 / float(temperature.detach() if isinstance(temperature, Tensor) else temperature)

    def forward(
        self, z1: Tensor | Sequence[Tensor], z2: Tensor | None = None, metadata: Metadata | None = None
    ) -> Tensor:
        """Return the loss of the embeddings (n, d) of two views, of any norm, and of the metadata ``columns``.

        Views are given as ``z1`` and ``z2``, or as a list in place of ``z1``. Metadata are a dictionary or DataFrame of
        the columns, as kernels take them (`neurocontrast.kernels.Kernel`), for instance a batch of a `CohortDataset`.
        """
        return self._with_pool(self.value, z1, z2, metadata)

    def terms(
        self, z1: Tensor | Sequence[Tensor], z2: Tensor | None = None, metadata: Metadata | None = None
    ) -> dict[str, Tensor]:
        """Return the named parts that sum to the loss."""
        return self._with_pool(self.parts, z1, z2, metadata)

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
        z1: Tensor | Sequence[Tensor],
        z2: Tensor | None,
        metadata: Metadata | None,
    ) -> _Result:
        """Call a function of a pool with the pool of two views, or of a list of views, and their metadata."""
        views = _views(z1, z2)
        fewest, most = self.n_views
        if not fewest <= len(views) <= (most or len(views)):
            allowed = f"{fewest} views" if fewest == most else f"at least {fewest} views"
            raise DataError(f"{type(self).__name__} takes {allowed} of every scan, got {len(views)}.")
        with torch.autocast(views[0].device.type, enabled=False):
            columns = {
                name: _column(metadata, name, kind, views[0], words=self.contrasts)
                for name, kind in self.columns.items()
            }
            embeddings = normalise(*views) if self.normalise else torch.stack(views).to(_at_least_float32(views[0]))
            embeddings = self.carry_temperature(embeddings)
            processes = Processes()
            if is_distributed():
                processes = Processes(torch.distributed.get_rank(), torch.distributed.get_world_size())
                gather = partial(gather_samples, sizes=gather_sizes(embeddings.shape[1], embeddings.device))
                columns = {name: gather(column) for name, column in columns.items()}
                embeddings = gather(embeddings.transpose(0, 1).contiguous()).transpose(0, 1).contiguous()
            return use(Pool(embeddings, embeddings, columns, scale=self.scale, processes=processes))

    def carry_temperature(self, embeddings: Tensor) -> Tensor:
        """Multiply embeddings by √(τ₀/τ), τ₀ what a learning τ is now: by 1, with the gradient of s = <·, ·>/τ."""
        temperature = getattr(self, "temperature", None)
        if not isinstance(temperature, Tensor):
            return embeddings
        return embeddings * (temperature.detach() / temperature).sqrt().reshape(()).to(embeddings)

    def extra_repr(self) -> str:
        names = [name for name in self.__signature__.parameters if name not in _KERNELS]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


_Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]


def _single(given: Any, info: ValidationInfo) -> Any:
    if isinstance(given, nn.Module):
        if not isinstance(given, Objective) or not given.contrasts:
            raise ValueError(f"must be a contrastive loss of neurocontrast.losses, got {given!r}")
        return given
    return read_objective(given, from_json=info.mode == "json", sums=False)


class SumOfObjectives(Configurable, nn.Module):
    """Weighted sum of objectives on the same two views, each with its own kernel.

    For instance conditional alignment and uniformity on age, plus a fair loss on the site, which is forgotten.

    Parameters
    ----------
    objectives : mapping of str to Objective
        Each under the name its terms are logged with.
    weights : mapping of str to float, optional
        At least 0, by the same names; 1 where not given.

    Examples
    --------
    >>> from neurocontrast import losses
    >>> from neurocontrast.kernels import Categorical, Gaussian
    >>> both = losses.SumOfObjectives(
    ...     {
    ...         "learn": losses.ConditionalAlignmentUniformity(Gaussian("age", sigma=5.0)),
    ...         "forget": losses.FairCCLK(Categorical("site")),
    ...     },
    ...     weights={"forget": 0.5},
    ... )
    >>> sorted(both.columns)
    ['age', 'site']
    """

    contrasts = True
    tag = "loss"

    class Settings(LossSettings):
        objectives: Annotated[dict[_Name, Annotated[Any, PlainValidator(_single)]], Field(min_length=1)]
        weights: dict[str, NonNegative] = Field(default_factory=dict)

        @field_validator("weights")
        @classmethod
        def _of_objectives(cls, weights: dict[str, float], info: ValidationInfo) -> dict[str, float]:
            names = info.data.get("objectives", {})
            for name in weights.keys() - names.keys() if names else ():
                near = suggestion(name, names)
                raise ValueError(f"must be by the objectives' names, {one_of(names)}, got '{name}'.{near}")
            return weights

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__()
        self.configure(*arguments, **keywords)
        _ = self.columns

    def accept(self, name: str, value: Any) -> None:
        """Keep a value of the settings; an objective without a weight has the weight 1."""
        if name == "objectives":
            self.objectives = nn.ModuleDict(value)
        else:
            self.weights = {name: float(value.get(name, 1.0)) for name in self.objectives}

    @property
    def columns(self) -> dict[str, Kind]:
        """The metadata columns that any of them needs."""
        found: dict[str, Kind] = {}
        for name, objective in self._parts():
            for column, kind in objective.columns.items():
                if found.setdefault(column, kind) != kind:
                    raise ConfigError(
                        f"Column '{column}' is read as {kind} by '{name}' and as {found[column]} by another objective; "
                        "choose one."
                    )
        return found

    def forward(
        self, z1: Tensor | Sequence[Tensor], z2: Tensor | None = None, metadata: Metadata | None = None
    ) -> Tensor:
        """Return the weighted sum, a scalar; the arguments are those of `Objective`."""
        first, *others = (self.weights[name] * objective(z1, z2, metadata) for name, objective in self._parts())
        return sum(others, first)

    def terms(
        self, z1: Tensor | Sequence[Tensor], z2: Tensor | None = None, metadata: Metadata | None = None
    ) -> dict[str, Tensor]:
        """Return the weighted parts of every objective, as ``name/part``; they sum to the loss."""
        return {
            f"{name}/{part}": self.weights[name] * value
            for name, objective in self._parts()
            for part, value in objective.terms(z1, z2, metadata).items()
        }

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None) -> None:
        for _, objective in self._parts():
            objective.check(metadata, names=names)

    def fit(self, metadata: Metadata) -> None:
        for _, objective in self._parts():
            objective.fit(metadata)

    def extra_repr(self) -> str:
        return f"weights={self.weights}"

    def _parts(self) -> list[tuple[str, Objective]]:
        return [(name, part) for name, part in self.objectives.items() if isinstance(part, Objective)]


def normalise(*views: Tensor) -> Tensor:
    """Stack views (n, d) to (V, n, d) of unit norm, in at least float32; a zero vector stays zero, without gradient."""
    stacked = torch.stack(views).to(_at_least_float32(views[0]))
    norms = torch.linalg.vector_norm(stacked, dim=2, keepdim=True)
    return stacked / norms.masked_fill(norms <= 1e-12, torch.inf)


def _at_least_float32(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _views(z1: Tensor | Sequence[Tensor], z2: Tensor | None) -> list[Tensor]:
    views: dict[str, Any] = (
        {"z1": z1} if isinstance(z1, Tensor | np.ndarray) else {f"z1[{k}]": z for k, z in enumerate(z1)}
    )
    if z2 is not None:
        views["z2"] = z2
    views = {name: torch.as_tensor(z) if isinstance(z, np.ndarray) else z for name, z in views.items()}
    if not views:
        raise DataError("z1 must be a tensor or a list of views, got an empty list.")
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


def _column(metadata: Metadata | None, name: str, kind: Kind, view: Tensor, *, words: bool) -> Tensor:
    column = column_of(metadata, name, needed_by="the loss", words=words and kind == "categorical")
    if metadata is not None and not isinstance(metadata[name], Tensor):
        column = column.to(view.device)
    if len(column) != len(view):
        found = f"n = {len(view)}; got shape {tuple(column.shape)}"
        raise DataError(f"metadata['{name}'] must be a tensor with one row a sample, {found}.")
    if column.device != view.device:
        raise DataError(f"metadata['{name}'] is on {column.device}, but the embeddings are on {view.device}; move it.")
    if kind == "continuous":
        column = column.to(torch.float64 if view.dtype == torch.float64 else torch.float32)
    return column.detach()


def check_complete(metadata: Metadata, name: str, kind: Kind, *, names: Sequence[str] | None = None) -> None:
    """Refuse a vector, and missing or infinite values; the rows at fault are named by `names`."""
    values = column_of(metadata, name, needed_by="the loss")
    if values.ndim != 1:
        raise DataError(f"objective.column: '{name}' is a vector; name a single column.")
    wrong = values < 0 if kind == "categorical" else ~values.isfinite()
    if wrong.any():
        rows = cast(list[int], wrong.nonzero()[:, 0].tolist())
        raise DataError(
            f"objective.column: '{name}' is missing or infinite for {listed(rows, names)}. Fill it in, or "
            "leave these out (data.where)."
        )
