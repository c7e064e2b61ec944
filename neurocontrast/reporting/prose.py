"""Sentences with the numbers of an evaluation in them, written as Jinja text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import jinja2

from neurocontrast.reporting import naming
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import (
    chance_level,
    describe_metric,
    interval_text,
    metric_range,
    metric_text,
    number_text,
    point_estimate,
)

if TYPE_CHECKING:
    from neurocontrast.reporting.comparison import ComparisonFiles

__all__ = ["template_of", "write", "write_paragraphs"]

_JINJA = jinja2.Environment(
    loader=jinja2.PackageLoader("neurocontrast.reporting", "templates"),
    undefined=jinja2.ChainableUndefined,
    autoescape=False,  # plain text, which the page escapes
    extensions=["jinja2.ext.do"],
)
_JINJA.filters |= {
    "number": number_text,
    "interval": interval_text,
    "value": naming.value_text,
    "listed": naming.join_words,
    "cap": naming.capitalise,
}
_JINJA.globals |= {
    "metric": describe_metric,
    "metric_text": metric_text,
    "metric_range": metric_range,
    "point": point_estimate,
    "chance": chance_level,
    "naming": naming,
}


def template_of(text: str) -> jinja2.Template:
    """Return a Jinja text as a template: the file of that name, where the text ends in ``.j2``."""
    return _JINJA.get_template(text) if text.endswith(".j2") else _JINJA.from_string(text)


def write(text: str, files: EvaluationFiles | ComparisonFiles, **names: Any) -> str:
    """Fill a Jinja text and set it as one line of prose.

    The text sees `files`, its `words`, evaluation.json as `s`, the run as `run`, and `names`.
    """
    return _one_line(_fill(text, files, names))


def write_paragraphs(text: str, files: EvaluationFiles | ComparisonFiles, **names: Any) -> list[tuple[str, str]]:
    """Fill a Jinja text of several paragraphs, and return each that says something, with its ``## Heading.``."""
    parts = [part.partition("\n") for part in re.split(r"^\s*## ", _fill(text, files, names), flags=re.MULTILINE)[1:]]
    return [(heading.strip(), _one_line(body)) for heading, _, body in parts if body.strip()]


def _fill(text: str, files: EvaluationFiles | ComparisonFiles, names: dict[str, Any]) -> str:
    run = getattr(files, "run", {})
    return template_of(text).render(files=files, words=files.words, s=files.summary, run=run, **names)


def _one_line(text: str) -> str:
    """Join lines, and take out the blanks that conditions leave before punctuation."""
    return re.sub(r"(?<=\() | (?=[.,;:)])", "", " ".join(text.split()))
