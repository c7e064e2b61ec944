"""Weighted sums of losses."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo
from torch import Tensor, nn

from neurocontrast.exceptions import ConfigError, one_of, suggestion
from neurocontrast.kernels import Kind, Metadata
from neurocontrast.losses.objective import Objective, Views
from neurocontrast.losses.registry import models_of_losses, read_objective
from neurocontrast.settings import KindsInSchema, NonNegative, checked

_Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]


def _single(given: Any, info: ValidationInfo) -> Any:
    if isinstance(given, nn.Module):
        if not isinstance(given, Objective) or not given.contrasts:
            raise ValueError(f"must be a contrastive loss of neurocontrast.losses, got {given!r}")
        return given
    return read_objective(given, from_json=info.mode == "json", sums=False)


def _by_objective(weights: dict[str, float] | None, info: ValidationInfo) -> dict[str, float]:
    """Refuse a weight of no objective."""
    if weights is None:
        return {}
    objectives = info.data.get("objectives", {})
    for name in weights.keys() - objectives.keys() if objectives else ():
        near = suggestion(name, objectives)
        raise ValueError(
            f"must be by the objectives' names, {one_of(objectives)}, got '{name}'.{near}"
        )
    return weights


_PARTS_IN_SCHEMA = KindsInSchema("loss", partial(models_of_losses, sums=False), of_user=True)
_Objectives = Annotated[
    Mapping[_Name, Annotated[Any, PlainValidator(_single), _PARTS_IN_SCHEMA]], Field(min_length=1)
]
_Weights = Annotated[dict[str, NonNegative] | None, AfterValidator(_by_objective)]


class SumOfObjectives(nn.Module):
    """Weighted sum of objectives on the same two views, each with its own kernel.

    For instance conditional alignment and uniformity on age, plus a fair loss on the site, which is
    forgotten.

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

    @checked
    def __init__(self, objectives: _Objectives, *, weights: _Weights = None) -> None:
        super().__init__()
        self.objectives = nn.ModuleDict(dict(objectives))
        chosen = weights or {}
        self.weights = {name: float(chosen.get(name, 1.0)) for name in objectives}
        _ = self.columns  # refuses a column that is read in two ways

    @property
    def reads_features(self) -> bool:
        """Whether any of them needs the encoder's features, see `Objective`."""
        return any(part.reads_features for _, part in self._parts())

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
        self,
        z1: Views,
        z2: Tensor | None = None,
        metadata: Metadata | None = None,
        *,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the weighted sum, a scalar; the arguments are those of `Objective`."""
        first, *others = (
            self.weights[name] * part(z1, z2, metadata, weights=weights)
            for name, part in self._parts()
        )
        return sum(others, first)

    def terms(
        self, z1: Views, z2: Tensor | None = None, metadata: Metadata | None = None, **options: Any
    ) -> dict[str, Tensor]:
        """Return the weighted parts of every objective, as ``name/part``; they sum to the loss."""
        return {
            f"{name}/{part}": self.weights[name] * value
            for name, objective in self._parts()
            for part, value in objective.terms(z1, z2, metadata, **options).items()
        }

    def figures(
        self, z1: Views, z2: Tensor | None = None, metadata: Metadata | None = None
    ) -> dict[str, Tensor]:
        """Return what training records, see `Objective.figures`, as ``term_name/part`` and ``name/bound``."""
        found = dict[str, Tensor]()
        for name, objective in self._parts():
            for figure, value in objective.figures(z1, z2, metadata).items():
                part = figure.removeprefix("term_")
                is_term = part != figure
                found[f"{'term_' * is_term}{name}/{part}"] = (
                    self.weights[name] * value if is_term else value
                )
        return found

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None) -> None:
        for _, objective in self._parts():
            objective.check(metadata, names=names)

    def fit(self, metadata: Metadata) -> None:
        for _, objective in self._parts():
            objective.fit(metadata)

    def extra_repr(self) -> str:
        return f"weights={self.weights}"

    def _parts(self) -> list[tuple[str, Objective]]:
        return [
            (name, part) for name, part in self.objectives.items() if isinstance(part, Objective)
        ]
