"""The embedding beside models of the same scans that need no encoder: the verdict is that of the stronger one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from neurocontrast.evaluation.record import Evaluation, Increment, Metric, Probe
from neurocontrast.page.wording import (
    capitalise,
    describe_metric,
    join_words,
    number_text,
    point_estimate,
)

Outcome = Literal["worse", "unknown", "open", "better"]
"""How the embedding does beside a rival; unknown without an interval. The least favourable comes first."""
_OUTCOMES: tuple[Outcome, ...] = ("worse", "unknown", "open", "better")
_TITLES = {"logistic": "logistic regression", "ridge": "ridge regression"}
"""Shorter names of linear probes in sentences."""


@dataclass(frozen=True)
class Rival:
    """A model of the scans without encoder: its key, names in tables and in text, estimator and figures."""

    key: str
    name: str
    what: str
    metrics: dict[str, Metric]
    increment: dict[str, Increment]
    by: str = ""
    """Its estimator in a sentence; empty where an earlier version did not write which it was."""
    of: str = ""
    """Key of the rivals of the same measures."""

    @property
    def named(self) -> str:
        """The measures with the estimator."""
        return f"{self.what} by {self.by}" if self.by else self.what

    def value(self, metric: str) -> float | None:
        """Return a metric of all predictions together, or the mean over folds."""
        return point_estimate(self.metrics.get(metric))

    def difference(self, metric: str) -> float | None:
        """Return the metric of the embedding minus the rival's."""
        return self.increment.get(metric, Increment()).difference

    def outcome(self, metric: str) -> Outcome:
        """Tell whether the interval of the difference shows the embedding to be better, or worse."""
        interval = self.increment.get(metric, Increment()).interval
        if interval is None:
            return "unknown"
        low, high = interval
        if not describe_metric(metric).higher_is_better:
            low, high = -high, -low
        if low > 0:
            return "better"
        return "worse" if high < 0 else "open"


def rivals(s: Evaluation) -> list[Rival]:
    """Return the voxels, the regional measures and further models that need no encoder, as far as they were fitted."""
    names = {
        "voxels": ("voxels", f"{s.voxels_about.n_components} principal components of the voxels"),
        "regional": ("regions", f"{len(s.regional_columns)} regional measures"),
    }
    names |= {key: (rival.name, rival.what) for key, rival in s.rivals.items()}
    fitted = []
    for key, (name, measures) in names.items():
        metrics, increment = s.figures(key)
        if metrics:
            of = s.rivals[key].of if key in s.rivals else None
            by = estimator_title(s.estimators.get(key))
            fitted.append(Rival(key, name, measures, metrics, increment, by, of or key))
    return fitted


def estimator_title(estimator: Probe | None) -> str:
    """Return how an estimator is called in a sentence; nothing where it was not written."""
    if estimator is None or estimator.name is None:
        return ""
    return _TITLES.get(estimator.name, estimator.title or estimator.name)


def strongest(models: list[Rival], metric: str) -> list[Rival]:
    """Return of the rivals of the same measures the one with the best value, for each kind of measures."""
    kept: dict[str, Rival] = {}
    sign = 1.0 if describe_metric(metric).higher_is_better else -1.0
    for model in models:
        value = model.value(metric)
        if value is None:
            continue
        best = kept.get(model.of)
        known = None if best is None else best.value(metric)
        if known is None or sign * value > sign * known:
            kept[model.of] = model
    return list(kept.values())


def say_rivals(s: Evaluation, metric: str) -> str:
    """Say of each kind of measures how the embedding does beside the models of them."""
    compared = [model for model in rivals(s) if model.difference(metric) is not None]
    sentences = []
    for best in strongest(compared, metric):
        alike = [model for model in compared if model.of == best.of]
        sentences.append(_say_one(best, metric) if len(alike) == 1 else _say(alike, best, metric))
    return " ".join(sentences)


def _say_one(model: Rival, metric: str) -> str:
    verdict = {
        "better": "the embedding does better, by an interval of the difference that excludes zero",
        "worse": "the embedding does worse, by an interval of the difference that excludes zero",
        "open": "that the embedding does better is not shown",
        "unknown": "no interval of the difference was computed",
    }[model.outcome(metric)]
    return f"{_reach([model], metric)}: {verdict}."


def _say(models: list[Rival], best: Rival, metric: str) -> str:
    """Say of several models of the same measures how they do: the embedding is better only beside all of them."""
    outcomes = {model.key: model.outcome(metric) for model in models}
    worst = min(outcomes.values(), key=_OUTCOMES.index)
    deciding = best
    if outcomes[best.key] != worst:
        deciding = next(model for model in models if outcomes[model.key] == worst)
    whose = "the stronger" if deciding is best else "the weaker"
    verdict = {
        "better": "the embedding does better than both, by intervals that exclude zero; "
        f"the stronger is {best.by}",
        "worse": f"the embedding does worse than {whose}, {deciding.by}, by an interval of the "
        "difference that excludes zero",
        "open": f"that the embedding does better is not shown beside {whose}, {deciding.by}",
        "unknown": "no interval of the differences was computed",
    }[worst]
    beaten = [model.by for model in models if outcomes[model.key] == "better"]
    only = (
        f" (it does better than {join_words(beaten)} alone)" if beaten and worst == "open" else ""
    )
    return f"{_reach(models, metric)}: {verdict}{only}."


def _reach(models: list[Rival], metric: str) -> str:
    """Name the measures, and the value that each model of them reaches."""
    name = describe_metric(metric).name
    values = [
        f"{number_text(model.value(metric), digits=2)}{f' by {model.by}' if model.by else ''}"
        for model in models
    ]
    measures = capitalise(models[0].what)
    return f"{measures}, without any encoder, reach {name} {join_words(values)}"


def say_estimators(s: Evaluation) -> str:
    """Say which estimator each model has, for all models with the same at once; nothing of earlier versions."""
    names = {"embedding": "embedding"}
    if s.baseline_covariates:
        names["baseline"] = "covariates"
    names |= {rival.key: rival.name for rival in rivals(s)}
    by_title: dict[str, list[str]] = {}
    for key, name in names.items():
        title = estimator_title(s.estimators.get(key))
        if title:
            by_title.setdefault(title, []).append(name)
    texts = [f"{join_words(models)} by {title}" for title, models in by_title.items()]
    return f"Models are fitted as follows: {'; '.join(texts)}." if texts else ""
