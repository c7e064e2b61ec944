"""Figures of the models of an evaluation, and their keys in ``evaluation.json``.

The embedding's metrics are under ``metrics`` and the covariates' under ``baseline``. A further
model has its metrics under its own key, KEY, what the embedding reaches above them under
``KEY_increment``, and what the model reaches above the same one without the embedding beside under
``KEY_gain_increment``. No other module knows these keys.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

from __future__ import annotations

from collections.abc import Mapping

from pydantic import StrictFloat, StrictInt

from neurocontrast.documents.section import ResultSection

Interval = tuple[StrictFloat, StrictFloat] | None
_OF_EARLIER_VERSIONS = ("voxels", "regional")
"""Models that earlier versions fitted, without an entry in ``rivals``."""
_ELSEWHERE = ("embedding", "baseline")
"""Models whose figures are fields of `Result`."""
_KEYS = {"metrics": "{}", "increment": "{}_increment", "gain": "{}_gain_increment"}
"""Field of `ModelFigures` → key in the file, by the model's key."""


class Metric(ResultSection):
    """A metric over folds (`mean`, `sd`), and of all out-of-fold predictions together (`pooled`, `interval`)."""

    mean: StrictFloat | None = None
    sd: StrictFloat | None = None
    pooled: StrictFloat | None = None
    interval: Interval = None
    n_folds_defined: StrictInt | None = None
    reason: str | None = None

    @property
    def value(self) -> float | None:
        """The value of all predictions together, or the mean over folds of a metric that has none."""
        return self.mean if self.pooled is None else self.pooled


class Increment(ResultSection):
    """A metric of the embedding minus that of another model."""

    difference: StrictFloat | None = None
    interval: Interval = None
    p_value: StrictFloat | None = None
    p_adjusted: StrictFloat | None = None
    """The p-value adjusted by Holm for the number of rivals; None where there is one."""

    @property
    def p_tested(self) -> float | None:
        """The p-value, adjusted where there are several rivals."""
        if self.p_adjusted is None:
            return self.p_value
        return self.p_adjusted


class Estimate(ResultSection):
    """A value and its interval."""

    value: StrictFloat | None = None
    low: StrictFloat | None = None
    high: StrictFloat | None = None
    n: StrictInt | None = None


class ModelFigures(ResultSection):
    """Figures of a model beside the embedding, by metric."""

    metrics: dict[str, Metric] = {}
    increment: dict[str, Increment] = {}
    """The embedding minus the model."""
    gain: dict[str, Increment] = {}
    """The model minus the same one without the embedding beside; empty for other models."""


def gather_models(content: Mapping[str, object]) -> dict[str, object]:
    """Return the content of the file with the figures of further models under ``models``."""
    gathered = dict(content)
    models = {}
    for model in _models_of(content):
        figures = {}
        for field, key in _KEYS.items():
            value = gathered.pop(key.format(model), None)
            if value is not None:
                figures[field] = value
        if figures:
            models[model] = figures
    gathered["models"] = models
    return gathered


def _models_of(content: Mapping[str, object]) -> list[str]:
    """Return the keys of the models beside the embedding and the covariates, as far as known."""
    keys = list(_OF_EARLIER_VERSIONS)
    for section in ("rivals", "estimators"):
        described = content.get(section)
        if isinstance(described, Mapping):
            keys += map(str, described)
    return [key for key in dict.fromkeys(keys) if key not in _ELSEWHERE]


def spread_models(models: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return the figures of further models under their keys in the file: metrics of all, then the others."""
    content = {}
    for field, key in _KEYS.items():
        for model, figures in models.items():
            if field in figures:
                content[key.format(model)] = figures[field]
    return content


def place_in_file(place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the keys in the file for keys of `Result`, as an error names them."""
    if place[:1] != ("models",) or len(place) < 2:
        return place
    model, *rest = place[1:]
    if not rest:
        return (model,)
    return (_KEYS[str(rest[0])].format(model), *rest[1:])
