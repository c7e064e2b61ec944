"""How the parts of an evaluation are named in running text, and sentences written as Jinja text."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import yaml

from neurocontrast.reporting import wording
from neurocontrast.reporting.blocks import Block, Section
from neurocontrast.reporting.folder import TEMPLATES, EvaluationFolder
from neurocontrast.reporting.wording import join_words, value_text

_SECTIONS: dict[str, dict[str, str]] = yaml.safe_load(
    (TEMPLATES / "sections.yaml").read_text("utf-8")
)


def count_texts(n: Any) -> list[str]:
    """Write how many scans, subjects and sites there are, those that are recorded: "120 scans"."""
    counts = {"scans": n.scans, "subjects": n.subjects, "sites": n.sites}
    return [
        wording.count_text(count, key[:-1]) for key, count in counts.items() if count is not None
    ]


def loss_citations(objective: Mapping[str, Any]) -> list[str]:
    """Return the references of an objective and its parts, each once."""
    parts = [objective, *(objective.get("objectives") or {}).values()]
    return list(dict.fromkeys(str(part["citation"]) for part in parts if part.get("citation")))


def permutation_result(files: EvaluationFolder, metric: str | None) -> dict[str, Any] | None:
    """Return the permutation test of a metric, with ``p_value = (1 + k)/(1 + n)``; None where there was none."""
    test = files.summary.permutation
    p_value = test.p_values.get(metric or "") if test else None
    if test is None or p_value is None or not test.n:
        return None
    k = round(p_value * (1 + test.n)) - 1
    observed = test.observed.get(metric or "")
    return {
        **vars(test),
        "p_value": p_value,
        "k": k,
        "unit": test.unit or "subject",
        "observed": observed,
    }


_JINJA = jinja2.Environment(
    loader=jinja2.PackageLoader("neurocontrast.reporting", "templates"),
    undefined=jinja2.ChainableUndefined,
    autoescape=False,  # plain text, which the page escapes
    extensions=["jinja2.ext.do"],
)
_JINJA.filters |= {
    "number": wording.number_text,
    "interval": wording.interval_text,
    "value": value_text,
    "listed": join_words,
    "quoted": lambda text: f"“{text}”",
    "cap": wording.capitalise,
    "counted": lambda n, noun: wording.count_text(n, noun) if n else f"unrecorded {noun}s",
}
_JINJA.globals |= {
    "metric": wording.describe_metric,
    "interval_phrase": wording.interval_phrase,
    "metric_text": wording.metric_text,
    "metric_range": wording.metric_range,
    "point": wording.point_estimate,
    "chance": wording.chance_level,
    "count_texts": count_texts,
    "loss_citations": loss_citations,
}
_JINJA.globals["naming"] = _JINJA.get_template("naming.j2").module


def naming(what: str, *given: Any) -> str:
    """Return what something is called in running text, by a macro of ``naming.j2`` such as ``encoder``."""
    return _one_line(getattr(_JINJA.globals["naming"], what)(*given))


def template_of(text: str, words: wording.Words) -> jinja2.Template:
    """Return a Jinja text as a template: the file of that name, where the text ends in ``.j2``.

    A file in the folder of what was evaluated, such as ``images/``, comes before that of all
    evaluations.
    """
    return (
        _JINJA.select_template([f"{words.kind}/{text}", text])
        if text.endswith(".j2")
        else _JINJA.from_string(text)
    )


def write(text: str, files: Any, **names: Any) -> str:
    """Fill a Jinja text and set it as one line of prose.

    The text sees `files`, its `words`, evaluation.json as `s`, the run as `run`, and `names`.
    """
    return _one_line(_fill(text, files, names))


def write_paragraphs(text: str, files: Any, **names: Any) -> list[tuple[str, str]]:
    """Fill a Jinja text of several paragraphs, and return each that says something, with its ``## Heading.``."""
    parts = [
        part.partition("\n")
        for part in re.split(r"^\s*## ", _fill(text, files, names), flags=re.MULTILINE)[1:]
    ]
    return [(heading.strip(), _one_line(body)) for heading, _, body in parts if body.strip()]


def section(key: str, blocks: Sequence[Block], *, name: str = "", **values: object) -> Section:
    """Return a section with the title and the lead of ``sections.yaml``; its `name` is the key unless given."""
    title, lead = (_SECTIONS[key][part].format(**values) for part in ("title", "lead"))
    return Section(name or key, title, blocks, lead=lead.strip())


def _fill(text: str, files: Any, names: dict[str, Any]) -> str:
    words = getattr(files, "words", wording.SCANS)
    s = getattr(files, "summary", None)
    run = getattr(files, "run", {})
    return template_of(text, words).render(files=files, words=words, s=s, run=run, **names)


def _one_line(text: str) -> str:
    """Join lines, and take out the blanks that conditions leave before punctuation."""
    return re.sub(r"(?<=\() | (?=[.,;:)])", "", " ".join(text.split()))
