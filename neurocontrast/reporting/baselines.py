"""Baselines (models that the embedding is tested against): metrics, and sentences about them.

A baseline has no encoder, or reads a part of the embedding's features alone, or joins features of
its own with the embedding. Baselines of one input, such as the regional measures, share a sentence
on each metric, which gives the verdict of the one that is least favourable to the embedding.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pandas as pd

from neurocontrast.documents.figures import Increment, Metric
from neurocontrast.documents.result import Probe, Result
from neurocontrast.reporting.prose import Verdict, judge_difference
from neurocontrast.reporting.wording import (
    capitalise,
    describe_metric,
    interval_phrase,
    interval_text,
    join_words,
    number_text,
    point_estimate,
)

_OUTCOMES: tuple[Verdict, ...] = ("worse", "unknown", "open", "better")
"""Verdicts about the embedding, the least favourable first."""
NETWORK = "the network"
"""Value of `MeasuredBaseline.lacks` for the baseline that reads only the principal components that
an encoder keeps beside its network, without the features of the network.
"""
_LEVEL = 0.95
_TITLES = {"logistic": "logistic regression", "ridge": "ridge regression"}
"""Name of a linear probe → its shorter title in sentences."""
_VERDICTS: dict[Verdict, str] = {
    "better": "the embedding does better, by an interval of the difference that excludes zero",
    "worse": "the embedding does worse, by an interval of the difference that excludes zero",
    "open": "that the embedding does better is not shown",
    "unknown": "no interval of the difference was computed",
}

_VERDICTS_ON_GAINS: dict[Verdict, str] = {
    "better": "which is a gain",
    "worse": "which is a loss",
    "open": "no gain is shown",
}


@dataclass(frozen=True)
class MeasuredBaseline:
    """A model that the embedding is tested against: names, metrics, and differences in metrics.

    Parameters
    ----------
    key : str
        Key of the model in ``evaluation.json``.
    name : str
        Name in tables and legends, such as ``regions``.
    plural : str
        Name in a sentence, such as ``12 regional measures``.
    metrics : dict
        Metric → the model's values of the metric, pooled and over folds.
    increment : dict
        Metric → the embedding's value minus the model's.
    by : str
        Estimator in a sentence; empty in evaluations of versions that recorded none.
    of : str
        Key of the first model of the same measures, which is the model's own key unless the model
        is a second one with another estimator.
    lacks : str
        Part of the embedding that the model does without; empty for a model without encoder.
    beside : str
        Key of the model whose features this model joins with the embedding; empty for a model
        that joins none.
    gain : dict
        Metric → the model's value minus the value of the model `beside`, which reads the same
        features but not the embedding; empty for a model that joins none.
    """

    key: str
    name: str
    plural: str
    metrics: dict[str, Metric]
    increment: dict[str, Increment]
    by: str = ""
    of: str = ""
    lacks: str = ""
    beside: str = ""
    gain: dict[str, Increment] = field(default_factory=dict)

    @property
    def alone(self) -> str:
        """Name of the model in a figure: "only regions"; "regions + embedding" for a joined model.

        A joined model reads the embedding together with the features of another baseline, whose key
        is `beside`. The `name` of a joined model says so, and is returned unchanged; any other
        `name` follows "only".
        """
        if self.beside:
            return self.name
        return f"only {self.name}"

    @property
    def without(self) -> str:
        """Words after the model's name in a sentence: " without an encoder"; "" for a joined model.

        A joined model reads the embedding together with the features of another baseline
        (`beside`). For a model that lacks only a part of the embedding, the words are " without"
        and that part, `lacks`.
        """
        if self.beside:
            return ""
        return f" without {self.lacks or 'an encoder'}"

    @property
    def named(self) -> str:
        """Words for baseline and estimator: "12 regional measures by ridge regression"."""
        return with_estimator(self.plural, self.by)

    def value(self, metric: str) -> float | None:
        """Return the baseline's pooled value of `metric`; if undefined, the mean over folds.

        None if both are undefined.
        """
        return point_estimate(self.metrics.get(metric))

    def difference(self, metric: str) -> float | None:
        """Return the embedding's value of `metric` minus the baseline's; None if not computed."""
        return self.increment.get(metric, Increment()).difference

    def outcome(self, metric: str) -> Verdict:
        """Return a word for whether the embedding beats the baseline in `metric`.

        ``better`` or ``worse`` if the interval of the difference excludes zero, ``open`` if zero is
        within, ``unknown`` without interval.
        """
        interval = self.increment.get(metric, Increment()).interval
        higher_is_better = describe_metric(metric).higher_is_better
        return judge_difference(interval, higher_is_better=higher_is_better)


def list_baselines(s: Result) -> list[MeasuredBaseline]:
    """List the baselines that have metrics in ``evaluation.json``, without the covariates.

    `s` is the content of that file. The baselines are the voxels, the regional measures, and the
    models of its section ``rivals``, in this order.
    """
    names = {
        "voxels": ("voxels", f"{s.voxels_about.n_components} principal components of the voxels"),
        "regional": ("regions", f"{len(s.regional_columns)} regional measures"),
    }
    for key, described in s.rivals.items():
        names[key] = (described.name, described.what)
    measured = []
    for key, (name, plural) in names.items():
        figures = s.models.get(key)
        if figures is None or not figures.metrics:
            continue
        by = estimator_title(s.estimators.get(key))
        model = MeasuredBaseline(
            key, name, plural, figures.metrics, figures.increment, by=by, of=key
        )
        recorded = s.rivals.get(key)
        if recorded is not None:
            model = replace(
                model,
                of=recorded.of or key,
                lacks=recorded.lacks or "",
                beside=recorded.beside or "",
                gain=figures.gain,
            )
        measured.append(model)
    return measured


def estimator_title(estimator: Probe | None) -> str:
    """Return the name of an estimator in a sentence; empty where the evaluation recorded none."""
    if estimator is None or estimator.name is None:
        return ""
    return _TITLES.get(estimator.name, estimator.title or estimator.name)


def with_estimator(words: str, title: str) -> str:
    """Return `words` followed by the name of an estimator: "6.00 by ridge regression".

    `title` is the estimator's name in words; if it is empty, `words` is returned unchanged.
    """
    if not title:
        return words
    return f"{words} by {title}"


def strongest(models: list[MeasuredBaseline], metric: str) -> list[MeasuredBaseline]:
    """List the models with the best value of `metric`, one for each kind of input among `models`.

    Best is the highest value, or the lowest of a metric for which less is better, such as an error.
    Models of one kind of input, such as the regional measures, differ in their estimator. Models
    without a value are passed over.
    """
    sign = -1.0
    if describe_metric(metric).higher_is_better:
        sign = 1.0
    best: dict[str, tuple[float, MeasuredBaseline]] = {}
    for model in models:
        value = model.value(metric)
        if value is None:
            continue
        if model.of not in best or sign * value > best[model.of][0]:
            best[model.of] = (sign * value, model)
    return [model for _, model in best.values()]


def say_baselines(s: Result, metric: str) -> str:
    """Return a text on whether the embedding beats the baselines in `metric`, a sentence an input.

    Baselines of one input, such as the regional measures, differ in their estimator and share a
    sentence. The text is "" if no baseline has both a value and a difference from the embedding.
    """
    alike: dict[str, list[MeasuredBaseline]] = {}
    for model in list_baselines(s):
        if None not in (model.difference(metric), model.value(metric)):
            alike.setdefault(model.of, []).append(model)
    sentences = []
    for models in sorted(alike.values(), key=_is_no_part):
        best = strongest(models, metric)[0]
        verdict = _VERDICTS[best.outcome(metric)]
        if len(models) > 1:
            verdict = _judge(models, best, metric)
        elif best.lacks == NETWORK:
            verdict = _say_gain(s, "what the network adds to them", best.increment, metric)
        elif best.beside:
            verdict = _say_gain(s, "what the embedding adds to them", best.gain, metric)
        sentences.append(f"{_reach(models, metric)}: {verdict}.")
    return " ".join(sentences)


def _is_no_part(models: list[MeasuredBaseline]) -> bool:
    """Return False, which sorts first, for models that read a part of the embedding alone.

    Such `models`, baselines of one input, lack the network's features, and read only the linear
    components that the embedding has besides.
    """
    return models[0].lacks != NETWORK


def _say_gain(s: Result, subject: str, increments: dict[str, Increment], metric: str) -> str:
    """Return words on a gain in `metric`, as a part of a sentence: size, interval and verdict.

    A gain is the metric with certain features minus the metric without, for example with and
    without the network's features, both times with the same principal components; `increments`
    holds the gains by metric. The words begin with `subject`, a name for the gain such as "what the
    network adds to them" (to the components).
    """
    gain = increments.get(metric, Increment())
    amount = number_text(gain.difference, digits=2, signed=True)
    if gain.interval is None:
        return f"{subject} is {amount}, and no interval of the difference was computed"
    level = s.bootstrap.level or _LEVEL
    ends = interval_text(gain.interval, digits=2, signed=True)
    higher_is_better = describe_metric(metric).higher_is_better
    verdict = judge_difference(gain.interval, higher_is_better=higher_is_better)
    unit = ""
    if not higher_is_better:
        unit = "; negative is better"
    conclusion = _VERDICTS_ON_GAINS[verdict]
    return f"{subject} is {amount} ({interval_phrase(level, ends)}{unit}), {conclusion}"


def say_weights(s: Result) -> str:
    """Return words on the share in the embedding's variance that each group of features was given.

    Inner folds chose the shares. Groups are, for example, the features of the network and those of
    the encoder's linear components. The text is "" if the evaluation recorded no shares.
    """
    weights = s.probe.weights
    if not weights:
        return ""
    shares = []
    for name, weight in weights.items():
        of_folds = pd.Series(s.probe.fold_weights.get(name, [weight]), dtype=float)
        spread = ""
        if of_folds.min() < of_folds.max():
            spread = f" ({100 * of_folds.min():.0f} to {100 * of_folds.max():.0f} % by fold)"
        shares.append(f"{100 * weight:.0f} % of the variance is the {name}'s{spread}")
    mean = ""
    if s.probe.n_members:
        mean = ", in the mean of the members"
    return f"Inner folds weighed the blocks of the embedding: {join_words(shares)}{mean}."


def _judge(models: list[MeasuredBaseline], best: MeasuredBaseline, metric: str) -> str:
    """Return words on whether the embedding is better in `metric` than each of several baselines.

    The baselines, `models`, have the same input and differ in their estimator; `best` is the one
    with the best value of the metric. The verdict is the one least favourable to the embedding. The
    words, which end a sentence of `say_baselines`, name that baseline's estimator.
    """
    by_favour = sorted(models, key=lambda model: _OUTCOMES.index(model.outcome(metric)))
    outcome = by_favour[0].outcome(metric)
    deciding = by_favour[0]
    whose = "the weaker"
    if best.outcome(metric) == outcome:
        deciding = best
        whose = "the stronger"
    if outcome == "better":
        return (
            "the embedding does better than each of them, by intervals of the differences that "
            f"exclude zero; the stronger is {best.by}"
        )
    if outcome == "unknown":
        return "no interval of the differences was computed"
    if outcome == "worse":
        return (
            f"the embedding does worse than {whose}, {deciding.by}, by an interval of the "
            "difference that excludes zero"
        )
    beaten = [model.by for model in models if model.outcome(metric) == "better"]
    verdict = f"that the embedding does better is not shown beside {whose}, {deciding.by}"
    if beaten:
        verdict += f" (it does better than {join_words(beaten)} alone)"
    return verdict


def _reach(models: list[MeasuredBaseline], metric: str) -> str:
    """Return the beginning of a sentence: the value of `metric` that each of `models` reaches.

    The models have the same input, such as the regional measures, and differ in their estimator,
    which is named after each value: "12 regional measures, without any encoder, reach AUC 0.71 by
    ridge regression and 0.70 by …".
    """
    values = []
    for model in models:
        value = number_text(model.value(metric), digits=2)
        values.append(with_estimator(value, model.by))
    measures = capitalise(models[0].plural)
    name = describe_metric(metric).name
    without = ", without any encoder,"
    if models[0].lacks:
        without = f", without {models[0].lacks},"
    if models[0].beside:
        without = ", as two blocks,"
    return f"{measures}{without} reach {name} {join_words(values)}"


def say_estimators(s: Result) -> str:
    """Return a sentence on the estimator that was fitted to each model; "" if none is recorded.

    Models are the embedding, the covariates alone, and the baselines of `list_baselines`.
    """
    names = {"embedding": "embedding"}
    if s.baseline_covariates:
        names["baseline"] = "covariates"
    for baseline in list_baselines(s):
        names[baseline.key] = baseline.name
    models: dict[str, list[str]] = {}
    for key, name in names.items():
        title = estimator_title(s.estimators.get(key))
        if title:
            models.setdefault(title, []).append(name)
    if not models:
        return ""
    fits = []
    for title, fitted in models.items():
        fits.append(f"{join_words(fitted)} by {title}")
    return f"Models are fitted as follows: {'; '.join(fits)}."
