"""Nouns for evaluated samples, names of metrics, and the writing of their values."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

import yaml

DASH = "–"
"""Mark of an absent value in tables."""

SHARES = frozenset({"accuracy", "top5_accuracy", "balanced_accuracy", "sensitivity", "specificity"})
"""Metrics that reports on images write in per cent, as papers on image recognition do."""
_ABSOLUTE_PATH = re.compile(r"(?<![\w.…])(?:/[^/\s'\"=,;:]+)+/(?=[^/\s'\"=,;:]|$|\s)")
_PATH_ALONE = re.compile(r"^([\s-]*(?:[\w.-]+(?:: |=))?['\"]?)/(?:(?!, /|: )[^\n])*/", re.MULTILINE)
"""Pattern of a path that fills a line or a value, so that folders may have blanks and commas."""

_LEADING = {
    "binary": ("auc", "balanced_accuracy", "average_precision"),
    "multiclass": ("balanced_accuracy", "auc", "accuracy"),
    "continuous": ("mae", "r2"),
}


@dataclass(frozen=True)
class Words:
    """Nouns and metrics of reports on one kind of samples, by default of scans.

    Parameters
    ----------
    kind : str
        Name of the kind of samples, a plural.
    item : str
        Noun for a sample, which is a row of predictions.
    unit : str
        Noun for samples that are always in one fold, such as all scans of a subject.
    network : str
        Words behind the name of a network's architecture.
    leading : mapping
        Kind of target → metrics that are named first.
    guessed : sequence
        Metrics for which guessing reaches one divided by the number of classes.
    in_percent : sequence
        Metrics that are written in per cent.
    labels : mapping
        Metric → label and short name, where they differ from those for scans.
    unasked : sequence
        Codes of warnings that are not shown.
    """

    kind: str = "scans"
    item: str = "scan"
    unit: str = "subject"
    network: str = " (3D)"
    leading: Mapping[str, Sequence[str]] = field(default_factory=lambda: _LEADING)
    guessed: Sequence[str] = ("balanced_accuracy",)
    in_percent: Sequence[str] = ()
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unasked: Sequence[str] = ()

    @property
    def items(self) -> str:
        """Plural of `item`, the noun for a sample: "scans"."""
        return f"{self.item}s"

    @property
    def units(self) -> str:
        """Plural of `unit`, the noun for samples that stay in one fold: "subjects"."""
        return f"{self.unit}s"

    def unit_of(self, recorded: str | None) -> str:
        """Return the noun for `recorded`, the unit that a bootstrap resampled.

        If subjects were resampled, or no unit is recorded, this is the noun in the field `unit`;
        any other recorded unit, such as "site", is returned unchanged.
        """
        return self.unit if recorded in (None, "subject") else recorded


SCANS = Words()


@dataclass(frozen=True)
class Named:
    """Names and properties of a metric.

    `meaning` explains the metric in a sentence. `chance` is the value that guessing reaches, and
    `limits` are the smallest and the largest possible value, None without a limit. `ideal` is the
    best value of a metric of which neither more nor less is better.
    """

    key: str
    label: str
    short: str
    meaning: str
    higher_is_better: bool = True
    chance: float | None = None
    limits: tuple[float | None, float | None] = (None, None)
    ideal: float | None = None

    @property
    def name(self) -> str:
        """Name of the metric in a sentence: `short`, unless that is an abbreviation with a dot.

        In place of an abbreviation such as "Bal. acc.", the `label` is used, with a small first
        letter.
        """
        return lower_first(self.label) if "." in self.short else self.short


_METRICS: dict[str, dict[str, Any]] = yaml.safe_load(
    resources.files("neurocontrast.reporting").joinpath("templates/metrics.yaml").read_text("utf-8")
)


def lower_first(text: str) -> str:
    """Return a text with a small first letter, the rest unchanged."""
    return text[:1].lower() + text[1:]


def capitalise(text: str) -> str:
    """Return a text with a capital first letter, the rest unchanged."""
    return text[:1].upper() + text[1:]


def join_words(words: Sequence[str]) -> str:
    """Join words as prose does: "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def describe_metric(key: str, words: Words = SCANS) -> Named:
    """Return names and properties of a metric; an unknown metric is called by its key."""
    name = key.replace("_", " ")
    fields = _METRICS.get(key, {"label": name, "short": name, "meaning": ""})
    named = Named(key, **fields | {"limits": tuple(fields.get("limits", (None, None)))})
    label, short = words.labels.get(key, (named.label, named.short))
    return replace(
        named, label=label, short=short, meaning=named.meaning.replace("{items}", words.items)
    )


def leading_metrics(kind: str, available: Iterable[str], words: Words = SCANS) -> list[str]:
    """Return the leading metrics among `available`, the most important first.

    Leading metrics are the ones that a report prints in each of its tables of metrics; `words`
    lists them for each `kind` of target. Without any of them in `available`, the first three of
    `available` are returned.
    """
    names = list(available)
    return [key for key in words.leading.get(kind, ()) if key in names] or names[:3]


def chance_level(key: str, n_classes: int, words: Words = SCANS) -> float | None:
    """Return the value of metric `key` that guessing reaches; None if there is no one value.

    `n_classes` is the number of classes of the target; for the metrics in `guessed` of `words`,
    guessing reaches one divided by this number. There is no one value of a metric such as the mean
    absolute error, which for a guess depends on the people who are evaluated.
    """
    if n_classes and key in words.guessed:
        return 1 / n_classes
    if key == "top5_accuracy" and n_classes:
        return min(5 / n_classes, 1.0)
    return describe_metric(key).chance


def is_error(key: str) -> bool:
    """Tell whether a metric is an error: less is better, and 0 is best."""
    named = describe_metric(key)
    return not named.higher_is_better and named.ideal is None


def point_estimate(values: Any) -> float | None:
    """Return the pooled out-of-fold value of a metric; if undefined, the mean over folds.

    `values` is a `Metric`, or None. Returned is None without `values`, or if both are undefined.
    """
    for value in (getattr(values, "pooled", None), getattr(values, "mean", None)):
        if value is not None and math.isfinite(value):
            return float(value)
    return None


def number_text(value: Any, *, digits: int = 3, signed: bool = False) -> str:
    """Return a number as text, with fewer decimals from 10 on; a dash for None or NaN."""
    if value is None or not math.isfinite(value):
        return DASH
    if abs(value) >= 10:
        digits = min(digits, 1 if abs(value) >= 100 else 2)
    sign = "+" if signed else ""
    number = f"{value:{sign}.{digits}f}"
    if float(number) == 0.0:  # no "-0.00"
        number = f"{0:.{digits}f}"
    return number.replace("-", "−")


def interval_text(interval: Any, *, digits: int = 3, signed: bool = False) -> str:
    """Return an interval as text: "0.70 to 0.85".

    A dash if an end is missing, or both ends are equal: then all resamples were alike.
    """
    if (
        not interval
        or any(end is None or not math.isfinite(end) for end in interval)
        or interval[0] == interval[1]
    ):
        return DASH
    low, high = (number_text(float(end), digits=digits, signed=signed) for end in interval)
    return f"{low} to {high}"


def estimate_text(value: float, interval: Any, *, digits: int = 2, signed: bool = False) -> str:
    """Return a value with its interval as text, "7.21 (6.80 to 7.70)".

    Without an interval, the text is the value.
    """
    ends = interval_text(interval, digits=digits, signed=signed)
    estimate = number_text(value, digits=digits, signed=signed)
    return estimate if ends == DASH else f"{estimate} ({ends})"


def metric_text(key: str, value: float | None, *, digits: int = 1) -> str:
    """Return a value of a metric as text: accuracies in per cent, other metrics unscaled."""
    if key in SHARES and value is not None:
        return f"{number_text(value * 100, digits=digits)}%"
    return number_text(value)


def metric_range(key: str, interval: Any) -> str:
    """Return an interval of a metric as text: "90.8 to 92.0%"; a dash without interval."""
    if key in SHARES and interval:
        percents = interval_text([end * 100 for end in interval], digits=1)
        return f"{percents}%" if percents[-1].isdigit() else percents
    return interval_text(interval)


def value_text(value: Any) -> str:
    """Return a value of a configuration or a record as one line of text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        shown = ", ".join(map(value_text, value[:8]))
        return shown + (f", … ({len(value)} in all)" if len(value) > 8 else "")
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value_text(item)}" for key, item in value.items())
    return str(value)


def flatten(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted name, such as ``run.seed``, and text of every value of a nested mapping.

    Of absolute paths only the last part is left.
    """
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{name}.")
        elif key == "command" and isinstance(value, list):
            yield name, " ".join(map(shorten_paths, map(str, value)))
        else:
            yield name, shorten_paths(value_text(value))


def level_text(level: float) -> str:
    """Return a confidence level as text, in per cent: "95%", "97.5%"."""
    return f"{level * 100:g}%"


def shorten_paths(text: str) -> str:
    """Leave only the last part of absolute paths: reports travel, and folders can name people."""
    return _ABSOLUTE_PATH.sub("…/", _PATH_ALONE.sub(r"\1…/", text))


def bare_text(text: object) -> str:
    """Return a text without control characters, which no page can show."""
    line = str(text)
    if line.isprintable():
        return line
    return "".join(letter for letter in line if letter.isprintable() or letter in "\n\t ")


def count_text(n: int, noun: str) -> str:
    """Return a count with its noun as text: "1 scan", "1,200 scans"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def interval_phrase(level: float, text: str) -> str:
    """Return the text of an interval with its level: "95% interval 0.70 to 0.85".

    Returned is "no interval" if `text`, the interval as text, is a dash.
    """
    return "no interval" if text == DASH else f"{level * 100:g}% interval {text}"
