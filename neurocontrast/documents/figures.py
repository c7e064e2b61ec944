"""Results of the models of an evaluation, and the keys of the results in ``evaluation.json``.

The embedding's metrics are under ``metrics`` and the covariates' under ``baseline``. A further
model has its metrics under its own key, KEY; the embedding's metrics minus the model's under
``KEY_increment``; and, for a model with the embedding added to its features, its metrics minus
those of the model without the embedding under ``KEY_gain_increment``. No other module names such
keys.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

from __future__ import annotations

from collections.abc import Mapping

from pydantic import StrictFloat, StrictInt

from neurocontrast.documents.section import ResultSection

Interval = tuple[StrictFloat, StrictFloat] | None
_OF_EARLIER_VERSIONS = ("voxels", "regional")
"""Models whose results earlier versions wrote without naming the model in ``rivals``."""
_ELSEWHERE = ("embedding", "baseline")
"""Models whose results are fields of `Result`, not entries of ``models``."""
_KEYS = {"metrics": "{}", "increment": "{}_increment", "gain": "{}_gain_increment"}
"""Field of `ModelFigures` → pattern of the key in ``evaluation.json``, filled with the model's
key.
"""


class Metric(ResultSection):
    """Value of a metric for one model: over folds, and of all out-of-fold predictions together."""

    mean: StrictFloat | None = None
    """Mean of the metric over folds in which the metric is defined."""
    sd: StrictFloat | None = None
    """Standard deviation of the metric over folds."""
    pooled: StrictFloat | None = None
    """Metric computed once from all out-of-fold predictions together."""
    interval: Interval = None
    """Bootstrap interval of the pooled value, lower and upper end."""
    n_folds_defined: StrictInt | None = None
    reason: str | None = None
    """Reason why the metric is undefined; None if defined."""

    @property
    def value(self) -> float | None:
        """Metric of all predictions together; if undefined, the mean of the metric over folds."""
        if self.pooled is None:
            return self.mean
        return self.pooled


class Increment(ResultSection):
    """Difference in a metric: the embedding minus another model, on the same scans."""

    difference: StrictFloat | None = None
    interval: Interval = None
    p_value: StrictFloat | None = None
    p_adjusted: StrictFloat | None = None
    """The p-value after Holm's correction for the number of models that the embedding is compared
    with; None with a single one.
    """

    @property
    def p_tested(self) -> float | None:
        """P-value of the embedding's difference from another model, after Holm's correction if any.

        The correction is for the number of models that the embedding is compared with, if several.
        """
        if self.p_adjusted is None:
            return self.p_value
        return self.p_adjusted


class Estimate(ResultSection):
    """Metric, or ratio or difference of metrics, with an interval and the number of scans."""

    value: StrictFloat | None = None
    low: StrictFloat | None = None
    high: StrictFloat | None = None
    n: StrictInt | None = None

    @property
    def interval(self) -> Interval:
        """Both ends of the interval; None if the estimate has no interval."""
        if self.low is None or self.high is None:
            return None
        return self.low, self.high

    def as_columns(self, name: str) -> dict[str, float | None]:
        """Return the value and both ends as cells of a table's row: ``NAME``, ``NAME_low`` ….

        `name` is the name of the column of the value.
        """
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


class ModelFigures(ResultSection):
    """Results of a model that the embedding is compared with, by metric."""

    metrics: dict[str, Metric] = {}
    increment: dict[str, Increment] = {}
    """Metric → the embedding's value minus the model's."""
    gain: dict[str, Increment] = {}
    """Metric → gain by adding the embedding to the model's features; empty for other models."""


def gather_models(content: Mapping[str, object]) -> dict[str, object]:
    """Return the content of ``evaluation.json`` with results of models moved into ``models``.

    Of the model ``voxels``, ``models`` has the values of the file's keys ``voxels``,
    ``voxels_increment`` and ``voxels_gain_increment``. Results of the embedding and of the
    covariates keep their keys.
    """
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
    """List the keys of all models in ``evaluation.json`` but the embedding and the covariates.

    `content` is the file's. Models are named by the sections ``rivals`` and ``estimators``. Earlier
    versions did not name ``voxels`` and ``regional``, so these two are listed for every file.
    """
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
    """Return the results of models under the keys that they have in ``evaluation.json``.

    `models` is name of a model → field of `ModelFigures` → value; a key is such as
    ``voxels_increment``.
    """
    content = {}
    for field, key in _KEYS.items():
        for model, figures in models.items():
            if field in figures:
                content[key.format(model)] = figures[field]
    return content


def keys_in_file(keys: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Translate a location in `Result` to the keys in ``evaluation.json``, for an error message."""
    if keys[:1] != ("models",) or len(keys) < 2:
        return keys
    model, *rest = keys[1:]
    if not rest:
        return (model,)
    return (_KEYS[str(rest[0])].format(model), *rest[1:])
