"""A sum of objectives, each with its own kernel and weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, PlainValidator, ValidationInfo, model_validator
from torch import Tensor, nn

from neurocontrast.exceptions import ConfigError, one_of, suggestion
from neurocontrast.kernels import Kind, Metadata
from neurocontrast.losses.objective import LossSettings, Objective
from neurocontrast.losses.registry import read_objective
from neurocontrast.settings import NonNegative

__all__ = ["SumOfObjectives"]

_Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


def _single(given: Any, info: ValidationInfo) -> Any:
    return read_objective(given, from_json=info.mode == "json", sums=False)


def _unknown(weights: Mapping[str, float], objectives: Mapping[str, Any]) -> str:
    """Return what is wrong with the names of weights, if anything is."""
    for name in weights:
        if name not in objectives:
            near = suggestion(name, objectives)
            return f"weights must be by the objectives' names, {one_of(objectives)}, got '{name}'.{near}"
    return ""


class SumOfObjectives(nn.Module):
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

    class Settings(LossSettings):
        objectives: Annotated[dict[_Name, Annotated[Any, PlainValidator(_single)]], Field(min_length=1)]
        weights: dict[str, NonNegative] = Field(default_factory=dict)

        @model_validator(mode="after")
        def _known(self) -> Self:
            if problem := _unknown(self.weights, self.objectives):
                raise ValueError(problem)
            return self

    def __init__(self, objectives: Mapping[str, Objective], *, weights: Mapping[str, float] | None = None) -> None:
        super().__init__()
        weights = weights or {}
        if not objectives:
            raise ConfigError("objectives must hold at least one objective, got none.")
        for name, objective in objectives.items():
            if not isinstance(name, str) or not name.isidentifier():
                raise ConfigError(f"An objective's name must be letters, digits and underscores, got {name!r}.")
            if not isinstance(objective, Objective) or not objective.contrasts:
                raise ConfigError(
                    f"objectives['{name}'] must be a contrastive loss of neurocontrast.losses, got {objective!r}."
                )
        if problem := _unknown(weights, objectives):
            raise ConfigError(problem)
        self.objectives = nn.ModuleDict(objectives)
        for name, weight in weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
                raise ConfigError(f"weights['{name}'] must be a number of at least 0, got {weight!r}.")
        self.weights = {name: float(weights.get(name, 1.0)) for name in objectives}
        _ = self.columns

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
