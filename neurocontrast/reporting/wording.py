"""Nouns for evaluated samples, names of metrics, and the writing of their values."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

import yaml

DASH = "–"
"""Printed for an absent value, beside its reason."""

SHARES = frozenset({"accuracy", "top5_accuracy", "balanced_accuracy", "sensitivity", "specificity"})
"""Metrics that are written in per cent for images, as the field does."""
_ABSOLUTE_PATH = re.compile(r"(?<![\w.…])(?:/[^/\s'\"=,;:]+)+/(?=[^/\s'\"=,;:]|$|\s)")
_PATH_ALONE = re.compile(r"^([\s-]*(?:[\w.-]+(?:: |=))?['\"]?)/(?:(?!, /|: )[^\n])*/", re.MULTILINE)
"""A path that is all of a line or of its value: its folders may have blanks and commas in their names."""

_LEADING = {
    "binary": ("auc", "balanced_accuracy", "average_precision"),
    "multiclass": ("balanced_accuracy", "auc", "accuracy"),
    "continuous": ("mae", "r2"),
}


@dataclass(frozen=True)
class Words:
    """Nouns of a report for a row of predictions (`item`) and for rows kept in one fold (`unit`).

    The defaults are those of scans; what else can be evaluated has its words, and texts, in a
    folder of templates.

    `network` follows the name of an architecture, `leading` are the first metrics by kind of
    target, `guessed` those whose chance is one in the number of classes, `in_percent` those written
    in per cent, `labels` label and short name of metrics with another name, and `unasked` the codes
    of warnings that are not shown.
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
        """Several rows."""
        return f"{self.item}s"

    @property
    def units(self) -> str:
        """Several units."""
        return f"{self.unit}s"

    def unit_of(self, recorded: str | None) -> str:
        """Return the noun for the unit that a bootstrap drew: `unit` for a subject."""
        return self.unit if recorded in (None, "subject") else recorded


SCANS = Words()


@dataclass(frozen=True)
class Named:
    """Names and properties of a metric.

    `ideal` is the best value where neither more nor less is better.
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
        """Name of a metric in a sentence: the short name, or the long one for a clipped word."""
        return lower_first(self.label) if "." in self.short else self.short


_METRICS: dict[str, dict[str, Any]] = yaml.safe_load(
    resources.files("neurocontrast.reporting").joinpath("templates/metrics.yaml").read_text("utf-8")
)


def lower_first(text: str) -> str:
    """Return text with a small first letter."""
    return text[:1].lower() + text[1:]


def capitalise(text: str) -> str:
    """Return text with a capital first letter, the rest unchanged."""
    return text[:1].upper() + text[1:]


def join_words(words: Sequence[str]) -> str:
    """Join words as prose does: "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def describe_metric(key: str, words: Words = SCANS) -> Named:
    """Return the description of a metric; one that is not known keeps its own name."""
    name = key.replace("_", " ")
    about = _METRICS.get(key, {"label": name, "short": name, "meaning": ""})
    found = Named(key, **about | {"limits": tuple(about.get("limits", (None, None)))})
    label, short = words.labels.get(key, (found.label, found.short))
    return replace(
        found, label=label, short=short, meaning=found.meaning.replace("{items}", words.items)
    )


def leading_metrics(kind: str, available: Iterable[str], words: Words = SCANS) -> list[str]:
    """Return the metrics that go into every table, the most important first."""
    names = list(available)
    return [key for key in words.leading.get(kind, ()) if key in names] or names[:3]


def chance_level(key: str, n_classes: int, words: Words = SCANS) -> float | None:
    """Return the value that guessing reaches; None for a value that depends on the cohort."""
    if n_classes and key in words.guessed:
        return 1 / n_classes
    if key == "top5_accuracy" and n_classes:
        return min(5 / n_classes, 1.0)
    return describe_metric(key).chance


def is_error(key: str) -> bool:
    """Return whether a metric is an error: less is better, and 0 is best."""
    about = describe_metric(key)
    return not about.higher_is_better and about.ideal is None


def point_estimate(values: Any) -> float | None:
    """Return the pooled out-of-fold value of a metric, else its mean over folds.

    Return None without the metric or a value.
    """
    for value in (getattr(values, "pooled", None), getattr(values, "mean", None)):
        if value is not None and math.isfinite(value):
            return float(value)
    return None


def number_text(value: Any, *, digits: int = 3, signed: bool = False) -> str:
    """Write a number for a table; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return DASH
    if abs(value) >= 10:
        digits = min(digits, 1 if abs(value) >= 100 else 2)
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    if float(text) == 0.0:  # no "-0.00"
        text = f"{0:.{digits}f}"
    return text.replace("-", "−")


def interval_text(interval: Any, *, digits: int = 3, signed: bool = False) -> str:
    """Write an interval as "0.70 to 0.85".

    A dash where there is none, or one of no width (resamples all alike).
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
    """Write a value with its interval: "7.21 (6.80 to 7.70)"."""
    ends = interval_text(interval, digits=digits, signed=signed)
    text = number_text(value, digits=digits, signed=signed)
    return text if ends == DASH else f"{text} ({ends})"


def metric_text(key: str, value: float | None, *, digits: int = 1) -> str:
    """Write a value of a metric: accuracies in per cent, others as they are."""
    if key in SHARES and value is not None:
        return f"{number_text(value * 100, digits=digits)}%"
    return number_text(value)


def metric_range(key: str, interval: Any) -> str:
    """Write an interval of a metric: "90.8 to 92.0%"; a dash where there is none."""
    if key in SHARES and interval:
        text = interval_text([end * 100 for end in interval], digits=1)
        return f"{text}%" if text[-1].isdigit() else text
    return interval_text(interval)


def value_text(value: Any) -> str:
    """Write a value of a configuration as one line of text."""
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
    """Yield the leaves of a nested mapping under dotted names, without the folders of absolute paths."""
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{name}.")
        elif key == "command" and isinstance(value, list):
            yield name, " ".join(shorten_paths(str(part)) for part in value)
        else:
            yield name, shorten_paths(value_text(value))


def level_text(level: float) -> str:
    """Return the share that intervals hold in per cent: "95%", "97.5%"."""
    return f"{level * 100:g}%"


def shorten_paths(text: str) -> str:
    """Leave only the last part of absolute paths: reports travel, and folders can name people."""
    return _ABSOLUTE_PATH.sub("…/", _PATH_ALONE.sub(r"\1…/", text))


def bare_text(text: object) -> str:
    """Return text without the control characters that no page can show."""
    line = str(text)
    if line.isprintable():
        return line
    return "".join(letter for letter in line if letter.isprintable() or letter in "\n\t ")


def count_text(n: int, noun: str) -> str:
    """Write a count with its noun: "1 scan", "1,200 scans"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def interval_phrase(level: float, text: str) -> str:
    """Return "95% interval 0.70 to 0.85" for an interval that is written already; "no interval" for a dash."""
    return "no interval" if text == DASH else f"{level * 100:g}% interval {text}"
