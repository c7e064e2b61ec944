"""Result of an evaluation in sentences: in short, in plain words, and for a methods reviewer."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from neurocontrast.documents.figures import Increment, Metric
from neurocontrast.reporting.baselines import (
    MeasuredBaseline,
    list_baselines,
    say_baselines,
    say_estimators,
    say_weights,
    strongest,
)
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.naming import name_covariates, name_probe, name_splits
from neurocontrast.reporting.prose import judge_difference, say_increment
from neurocontrast.reporting.texts import (
    count_texts,
    counted,
    one_line,
    permutation_result,
)
from neurocontrast.reporting.voiced_prose import VoicedResult
from neurocontrast.reporting.wording import (
    DASH,
    Named,
    capitalise,
    describe_metric,
    interval_text,
    number_text,
    point_estimate,
)

_NO_FIGURE = "No figure of merit could be computed from these scans"


class ResultProse(Protocol):
    """Sentences about an evaluation's result in one metric, for scans or for other samples."""

    def sentence(self) -> str:
        """Return the evaluation's result as one sentence, for the top of the report's page."""

    def plain(self) -> str:
        """Return the evaluation's result as a text of plain sentences, without technical terms."""

    def reviewer(self) -> str:
        """Return the result as a text with details for a reviewer of methods."""

    def data(self) -> str:
        """Return a text on the evaluated samples, such as "120 scans, 98 subjects, 5 sites"."""


@dataclass(frozen=True)
class ScanResult:
    """Sentences about metric `key` of an evaluation of scans; `key` is None without any metric."""

    files: EvaluationFolder
    key: str | None

    @property
    def metric(self) -> Metric:
        """Values of the embedding in metric `key`, pooled and over folds; empty if not computed."""
        return self.files.metrics.get(self.key or "") or Metric()

    @property
    def named(self) -> Named:
        """Names and meaning of metric `key`, with the smallest and largest possible value.

        The `Named` has nouns that fit the samples, such as scans.
        """
        return describe_metric(self.key or "", self.files.words)

    @property
    def value(self) -> float | None:
        """Value of metric `key` that the embedding reaches; None if undefined."""
        return point_estimate(self.metric)

    @property
    def value_of_covariates(self) -> float | None:
        """Value of metric `key` that covariates alone reach; None without covariates."""
        s = self.files.summary
        if not s.baseline_covariates:
            return None
        return point_estimate(s.baseline.get(self.key or ""))

    @property
    def covariates(self) -> str:
        """Covariates that the baseline reads, in running text: "age and sex"."""
        return name_covariates(self.files.summary.baseline_covariates)

    @cached_property
    def baselines(self) -> list[MeasuredBaseline]:
        """Models that the embedding is tested against, except the baseline of covariates."""
        return list_baselines(self.files.summary)

    def data(self) -> str:
        """Return the numbers of evaluated scans, subjects and sites as a text.

        For example "120 scans, 98 subjects, 5 sites"; numbers that were not recorded are left out.
        """
        return ", ".join(count_texts(self.files.summary.n))

    def sentence(self) -> str:
        """Return a sentence with the values of metric `key` of the embedding and its baselines."""
        value = self.value
        if value is None:
            return f"{_NO_FIGURE}."
        files = self.files
        sentence = f"{self.named.label} of {files.target}: {number_text(value, digits=2)}"
        alone = None
        if self.key == "auc" and files.kind == "binary":
            sentence = (
                f"Of 100 pairs of a “{files.positive}” and a “{files.negative}” scan, the model "
                f"puts {value * 100:.0f} in the right order"
            )
            alone = ""
        elif self.key == "balanced_accuracy":
            sentence = (
                f"The model gives {value * 100:.0f} of 100 scans the right class, every class "
                "counting the same"
            )
            alone = ""
        elif self.key == "mae":
            sentence = (
                f"The model misses {files.target} by {self._amount(value)}{self._unit} on average"
            )
            alone = "by "
        if alone is not None and self.value_of_covariates is not None:
            reached = self._amount(self.value_of_covariates)
            sentence += f", and {self.covariates} alone {alone}{reached}"
        for baseline in strongest(self.baselines, self.key or ""):
            by = "by " if self.key == "mae" else ""
            amount = self._amount(baseline.value(self.key or ""))
            sentence += f"; {baseline.named}{baseline.without} {by}{amount}"
        return one_line(f"{sentence}{self._where()}")

    def _where(self) -> str:
        n_sites = self.files.summary.n.sites
        if not n_sites or n_sites < 2:
            return "."
        places = {
            "unseen": ", at sites that it was not fitted on.",
            "known": ", at sites that it was fitted on.",
        }
        return places.get(self.files.sites_tested, ".")

    @property
    def _unit(self) -> str:
        if self.files.target == "age":
            return " years"
        return ""

    def _amount(self, value: float | None) -> str:
        """Return a value of metric `key` as text, such as "71" (of 100 scans) for 0.71."""
        if value is None:
            return DASH
        if self.key == "mae":
            return number_text(value, digits=_digits_of_error(value))
        if self.key in ("auc", "balanced_accuracy"):
            return f"{value * 100:.0f}"
        return number_text(value, digits=2)

    def plain(self) -> str:
        """Return the result in plain sentences: metric of embedding, covariates and baselines.

        The sentences avoid technical terms. The last one warns that the result is about groups and
        no diagnosis of a person, or that the data are simulated.
        """
        value = self.value
        if value is None:
            return f"{_NO_FIGURE}; see the warnings and the fold table for why."
        s = self.files.summary
        simulated = "This is about groups in this study and is no diagnosis of any one person."
        if s.simulated:
            simulated = "The data are simulated: this says nothing about patients."
        sentences = [
            self._say_value(value),
            self._say_value_of_covariates(value),
            self.increment(),
            say_baselines(s, self.key or ""),
            say_weights(s),
            say_estimators(s),
            simulated,
        ]
        return one_line(" ".join(sentences))

    def _say_value(self, value: float) -> str:
        """Return a plain sentence on the embedding's `value` of metric `key`, with an interval.

        The interval is the value's, and is read from the evaluation. The words differ between
        metrics.
        """
        files = self.files
        if self.key == "auc" and files.kind == "binary":
            return (
                f"Take one scan labelled “{files.positive}” and one labelled “{files.negative}” at "
                "random: the model gives the higher score to the right one in "
                f"{value * 100:.0f} of 100 such pairs{self._within(100, 0)}; guessing would give "
                "50."
            )
        if self.key == "balanced_accuracy":
            guess = ""
            if files.classes:
                guess = f"; guessing would give {100 / len(files.classes):.0f}"
            return (
                f"With every class counting the same, {value * 100:.0f} of 100 scans are given the "
                f"right class of {files.target}{self._within(100, 0)}{guess}."
            )
        if self.key == "mae":
            digits = _digits_of_error(value)
            return (
                f"The predicted {files.target} misses the true one by "
                f"{number_text(value, digits=digits)}{self._unit} on average"
                f"{self._within(1, digits)}."
            )
        return (
            f"{self.named.label} of {files.target}: {number_text(value, digits=2)}"
            f"{self._within(1, 2)}."
        )

    def _say_value_of_covariates(self, value: float) -> str:
        """Return a plain sentence on the value of metric `key` that covariates alone reach.

        The text is "" if the evaluation has no covariates, such as age, or the metric is undefined
        for covariates. A mean absolute error is written with as many decimals as `value`, the
        embedding's.
        """
        alone = self.value_of_covariates
        if alone is None:
            return ""
        knowing = f"Knowing only {self.covariates}, and not the scan"
        if self.key == "balanced_accuracy" or (self.key == "auc" and self.files.kind == "binary"):
            return f"{knowing}, gives {alone * 100:.0f}."
        if self.key == "mae":
            miss = number_text(alone, digits=_digits_of_error(value))
            return f"{knowing}, the miss is {miss}{self._unit}."
        return f"With {self.covariates} alone: {number_text(alone, digits=2)}."

    def _within(self, scale: float, digits: int) -> str:
        interval = self.metric.interval
        if not interval:
            return ""
        low = number_text(interval[0] * scale, digits=digits)
        high = number_text(interval[1] * scale, digits=digits)
        return f" ({self.files.percent} interval {low} to {high})"

    def increment(self) -> str:
        """Return a sentence on whether the embedding predicts better than the covariates alone."""
        s = self.files.summary
        change = s.increment.get(self.key or "", Increment())
        if not s.baseline_covariates or change.difference is None:
            return "What the scan adds to the covariates was not computed."
        verdict = judge_difference(change.interval, higher_is_better=self.named.higher_is_better)
        return say_increment(verdict, self.covariates, same_estimator=_same_estimator(self.files))

    def reviewer(self) -> str:
        """Return the result as a text with details for a reviewer of methods.

        Estimator, people and folds come first; then values with intervals and tests of embedding
        and baselines.
        """
        s = self.files.summary
        opening = f"{self._fitting()}; {self._people()}; {name_splits(self.files)}."
        if self.key is None:
            return one_line(f"{opening} No metric was defined.")
        figures = f"{self._pooled()}{self._over_folds()}{self._beside_covariates()}"
        for baseline in self.baselines:
            figures += self._beside_baseline(baseline)
        return one_line(f"{opening} {figures}. {say_weights(s)} {say_estimators(s)}")

    def _fitting(self) -> str:
        s = self.files.summary
        where = "inside each training fold"
        if self.files.fixed:
            where = "on the scans of training"
        if s.finetuning:
            return f"{capitalise(s.probe.name or '')}, trained end to end {where}"
        probe = name_probe(self.files)
        if not s.probe.own:
            probe = f"standardisation and {probe}"
        return f"Frozen features, {probe} fitted {where}"

    def _people(self) -> str:
        n = self.files.summary.n
        scans = counted(n.scans, "scan")
        return f"{scans} of {counted(n.subjects, 'subject')} at {counted(n.sites, 'site')}"

    def _pooled(self) -> str:
        s = self.files.summary
        name = f"Pooled out-of-fold {self.named.name}"
        if self.files.fixed:
            name = f"{capitalise(self.named.name)} of the test scans"
        pooled = f"{name} {number_text(self.value)}"
        if not self.metric.interval:
            return pooled
        of_units = f" over {s.bootstrap.unit}s" if s.bootstrap.unit else ""
        draws = f", {s.bootstrap.n:,} draws" if s.bootstrap.n else ""
        ends = interval_text(self.metric.interval)
        return f"{pooled} ({self.files.percent} bootstrap{of_units}{draws}: {ends})"

    def _over_folds(self) -> str:
        metric = self.metric
        if metric.mean is None or self.files.fixed:
            return ""
        spread = "" if metric.sd is None else f", SD {number_text(metric.sd)}"
        return (
            f"; mean over folds {number_text(metric.mean)}{spread} (a spread between folds, not a "
            "confidence interval)"
        )

    def _beside_covariates(self) -> str:
        s = self.files.summary
        figures = ""
        alone = self.value_of_covariates
        if alone is not None:
            figures = f"; covariates alone ({self.covariates}) {number_text(alone)}"
        if s.baseline_covariates:
            change = _change_text(s.increment.get(self.key or "", Increment()))
            if change:
                figures += f"; difference {change}"
        return figures + self._permuted()

    def _permuted(self) -> str:
        test = permutation_result(self.files, self.key)
        if test is None:
            return ""
        within = f" within {test.within}" if test.within else ""
        return (
            f"; one-sided permutation p = {test.p_value:.3g} ({test.k:,} of {test.n:,} "
            f"permutations{within} as good)"
        )

    def _beside_baseline(self, baseline: MeasuredBaseline) -> str:
        key = self.key or ""
        if key not in baseline.metrics:
            return ""
        increment = baseline.increment.get(key, Increment())
        figures = f"; {baseline.named} {number_text(point_estimate(baseline.metrics[key]))}"
        change = _change_text(increment)
        if change:
            figures += f", difference {change}"
        if increment.p_value is not None:
            figures += f", corrected resampled t-test over folds p = {increment.p_value:.3g}"
            if increment.p_adjusted is not None:
                n_models = len(self.baselines)
                figures += f" ({increment.p_adjusted:.3g} by Holm, for {n_models} models)"
        return figures


def _digits_of_error(value: float) -> int:
    """Return the number of decimals to write of an error, such as a mean absolute error."""
    return 1 if abs(value) >= 1 else 3


def _same_estimator(files: EvaluationFolder) -> bool:
    """Tell whether embedding and covariates have the same estimator in an evaluation.

    True for a fine-tuned network, and if the estimators are not recorded.
    """
    estimators = files.summary.estimators
    if files.summary.finetuning or not {"embedding", "baseline"} <= set(estimators):
        return True
    return estimators["embedding"].name == estimators["baseline"].name


def result_prose(files: EvaluationFolder) -> ResultProse:
    """Return the object whose methods write sentences about an evaluation's headline metric.

    The headline metric is the most important one for the kind of target. The object is a
    `ScanResult` for scans, and a `VoicedResult`, which has other nouns, for other samples such as
    images.
    """
    if files.voice is None:
        return ScanResult(files, files.headline)
    return VoicedResult(files, files.headline)


def _change_text(change: Increment) -> str:
    """Return a difference in a metric with its interval as text: "+0.050 (+0.010 to +0.090)".

    The text is "" if the difference was not computed.
    """
    if change.difference is None:
        return ""
    ends = interval_text(change.interval, signed=True)
    if ends == DASH:
        ends = "no interval"
    return f"{number_text(change.difference, signed=True)} ({ends})"
