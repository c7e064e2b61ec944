"""Weighted sum of several losses that compare the same two views."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo
from torch import Tensor, nn

from neurocontrast.exceptions import ConfigError, one_of, suggestion
from neurocontrast.kernels import Kind, Metadata
from neurocontrast.losses.inputs import Views
from neurocontrast.losses.objective import Objective
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
    """Return the `weights` of losses in a sum, or an empty dictionary for None.

    A ValueError refuses a key that is not the name of a loss in the sum.
    """
    if weights is None:
        return {}
    objectives = info.data.get("objectives", {})
    if not objectives:  # refused already
        return weights
    for name in weights.keys() - objectives.keys():
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
    """Weighted sum of losses on the same two views; each loss may have a kernel of its own.

    An example is conditional alignment and uniformity on age, plus a fair loss on the site, to
    forget the site.

    Parameters
    ----------
    objectives : mapping of str to Objective
        Losses by name; the names appear in the metrics of training.
    weights : mapping of str to float, optional
        Weights of losses by name, at least 0; 1 by default.

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
        self.weights = {}
        for name in objectives:
            self.weights[name] = float(chosen.get(name, 1.0))
        _ = self.columns  # refuses a column that is read in two ways

    @property
    def reads_features(self) -> bool:
        """Whether any loss of the sum needs the encoder's features, see `Objective`."""
        return any(objective.reads_features for _, objective in self._parts())

    @property
    def columns(self) -> dict[str, Kind]:
        """Kind of each metadata column that a loss of the sum reads, by name of the column.

        The kind is "continuous" or "categorical". A ConfigError refuses losses of which one reads a
        column as continuous, another as categorical.
        """
        kinds: dict[str, Kind] = {}
        for name, objective in self._parts():
            for column, kind in objective.columns.items():
                if kinds.setdefault(column, kind) != kind:
                    raise ConfigError(
                        f"Column '{column}' is read as {kind} by '{name}' and as {kinds[column]} "
                        "by another objective; choose one."
                    )
        return kinds

    def forward(
        self,
        z1: Views,
        z2: Tensor | None = None,
        metadata: Metadata | None = None,
        *,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Compute the weighted sum of all losses, a scalar; arguments are as in `Objective`."""
        weighted = []
        for name, objective in self._parts():
            weighted.append(self.weights[name] * objective(z1, z2, metadata, weights=weights))
        first, *others = weighted
        return sum(others, first)

    def terms(
        self, z1: Views, z2: Tensor | None = None, metadata: Metadata | None = None, **options: Any
    ) -> dict[str, Tensor]:
        """Return the weighted parts of all losses as ``name/part``, which sum to the loss.

        Arguments are as in `Objective.forward`.
        """
        terms = {}
        for name, objective in self._parts():
            for term, value in objective.terms(z1, z2, metadata, **options).items():
                terms[f"{name}/{term}"] = self.weights[name] * value
        return terms

    def figures(
        self, z1: Views, z2: Tensor | None = None, metadata: Metadata | None = None
    ) -> dict[str, Tensor]:
        """Return the quantities of a batch that training records in ``metrics.csv``, by name.

        They are the quantities of each summed loss, from `Objective.figures`. With NAME for the
        summed loss, names are such as ``NAME/bound``, or ``term_NAME/part`` for a part of its
        value. Only such parts are multiplied by the weight of the summed loss.
        """
        figures = dict[str, Tensor]()
        for name, objective in self._parts():
            for figure, value in objective.figures(z1, z2, metadata).items():
                term = figure.removeprefix("term_")
                if term == figure:
                    figures[f"{name}/{figure}"] = value
                else:
                    figures[f"term_{name}/{term}"] = self.weights[name] * value
        return figures

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None) -> None:
        for _, objective in self._parts():
            objective.check(metadata, names=names)

    def fit(self, metadata: Metadata) -> None:
        for _, objective in self._parts():
            objective.fit(metadata)

    def extra_repr(self) -> str:
        return f"weights={self.weights}"

    def _parts(self) -> list[tuple[str, Objective]]:
        objectives = []
        for name, objective in self.objectives.items():
            if isinstance(objective, Objective):
                objectives.append((name, objective))
        return objectives
