"""Figures of the models of an evaluation, and their keys in ``evaluation.json``.

The embedding's metrics are under ``metrics`` and the covariates' under ``baseline``. A further
model has its metrics under its own key, KEY; the embedding's metrics minus the model's under
``KEY_increment``; and, for a model with the embedding beside its features, its metrics minus those
of the model without the embedding under ``KEY_gain_increment``. No other module names such keys.
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
    """Metric of a model: over folds, and of all out-of-fold predictions together."""

    mean: StrictFloat | None = None
    """Mean over the folds in which the metric is defined."""
    sd: StrictFloat | None = None
    """Standard deviation over folds."""
    pooled: StrictFloat | None = None
    """Value of all out-of-fold predictions together."""
    interval: Interval = None
    """Bootstrap interval of the pooled value."""
    n_folds_defined: StrictInt | None = None
    reason: str | None = None
    """Reason why the metric is undefined."""

    @property
    def value(self) -> float | None:
        """The pooled value; the mean over folds where there is none."""
        if self.pooled is None:
            return self.mean
        return self.pooled


class Increment(ResultSection):
    """Metric of the embedding minus that of another model, on the same predictions."""

    difference: StrictFloat | None = None
    interval: Interval = None
    p_value: StrictFloat | None = None
    p_adjusted: StrictFloat | None = None
    """The p-value adjusted by Holm for the number of baselines; None with a single one."""

    @property
    def p_tested(self) -> float | None:
        """The p-value, adjusted where there are several baselines."""
        if self.p_adjusted is None:
            return self.p_value
        return self.p_adjusted


class Estimate(ResultSection):
    """Value with its interval, and the number of scans or units behind them."""

    value: StrictFloat | None = None
    low: StrictFloat | None = None
    high: StrictFloat | None = None
    n: StrictInt | None = None

    @property
    def interval(self) -> Interval:
        """Both ends of the interval; None without one."""
        if self.low is None or self.high is None:
            return None
        return self.low, self.high


class ModelFigures(ResultSection):
    """Figures of a model beside the embedding, by metric."""

    metrics: dict[str, Metric] = {}
    increment: dict[str, Increment] = {}
    """The embedding minus the model."""
    gain: dict[str, Increment] = {}
    """The model minus the model without the embedding beside; empty for other models."""


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
    further = dict.fromkeys(keys)
    for key in _ELSEWHERE:
        further.pop(key, None)
    return list(further)


def spread_models(models: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return the figures of further models by their keys in the file, metrics of all first."""
    content = {}
    for field, key in _KEYS.items():
        for model, figures in models.items():
            if field in figures:
                content[key.format(model)] = figures[field]
    return content


def keys_in_file(keys: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Translate keys of `Result` to keys in the file, as an error names them."""
    if keys[:1] != ("models",) or len(keys) < 2:
        return keys
    model, *rest = keys[1:]
    if not rest:
        return (model,)
    return (_KEYS[str(rest[0])].format(model), *rest[1:])
