"""Texts of the report from Jinja templates, with the filters and functions that templates call."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jinja2
import yaml

from neurocontrast.documents.result import Counts
from neurocontrast.reporting import naming, wording
from neurocontrast.reporting.blocks import Block, Section
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.result_tables import TEMPLATES, ResultTables
from neurocontrast.reporting.voices import VOICES
from neurocontrast.reporting.wording import join_words, value_text

_SECTIONS: dict[str, dict[str, str]] = yaml.safe_load(
    (TEMPLATES / "sections.yaml").read_text("utf-8")
)


def count_texts(n: Counts) -> list[str]:
    """List the recorded numbers of scans, subjects and sites as texts, such as "120 scans"."""
    texts = []
    for count, noun in ((n.scans, "scan"), (n.subjects, "subject"), (n.sites, "site")):
        if count is not None:
            texts.append(wording.count_text(count, noun))
    return texts


def counted(n: int | None, noun: str) -> str:
    """Return a count with its noun, "120 scans", or "unrecorded scans" if the count is None or 0.

    `noun` is the singular, such as "scan".
    """
    if not n:
        return f"unrecorded {noun}s"
    return wording.count_text(n, noun)


@dataclass(frozen=True)
class PermutationResult:
    """Permutation test of a metric, with ``p_value = (1 + k)/(1 + n)``.

    In `k` of `n` permutations of labels between units, such as subjects, the metric was at least as
    good as observed. `within_site` and `within_fold`: labels stayed within their site or fold.
    """

    n: int
    k: int
    p_value: float
    unit: str
    within_site: bool
    within_fold: bool

    @property
    def within(self) -> str:
        """Strata within which labels were exchanged: "site and fold"; empty without strata."""
        return within_text(self.within_site, self.within_fold)

    @property
    def among(self) -> str:
        """Words after "between subjects", such as " of the same site"; empty without strata."""
        if self.within_site and self.within_fold:
            return " of the same site and test fold"
        if self.within_site:
            return " of the same site"
        if self.within_fold:
            return " of the same test fold"
        return ""


def within_text(within_site: bool | None, within_fold: bool | None) -> str:
    """Return the strata within which labels were exchanged as text, "site and fold"; "" without."""
    places = []
    if within_site:
        places.append("site")
    if within_fold:
        places.append("fold")
    return " and ".join(places)


def permutation_result(files: ResultTables, metric: str | None) -> PermutationResult | None:
    """Return the result of an evaluation's permutation test of `metric`, with p-value and counts.

    Returned is a `PermutationResult`; None if the metric was not tested.
    """
    test = files.summary.permutation
    p_value = test.p_values.get(metric or "") if test else None
    if test is None or p_value is None or not test.n:
        return None
    return PermutationResult(
        n=test.n,
        k=round(p_value * (1 + test.n)) - 1,
        p_value=p_value,
        unit=test.unit or "subject",
        within_site=bool(test.within_site),
        within_fold=bool(test.within_fold),
    )


def _unique(values: Sequence[object]) -> list[object]:
    return list(dict.fromkeys(values))


_JINJA = jinja2.Environment(
    loader=jinja2.ChoiceLoader(
        [
            jinja2.PackageLoader("neurocontrast.reporting", "templates"),
            jinja2.PrefixLoader({voice.words.kind: voice.templates for voice in VOICES.entries()}),
        ]
    ),
    undefined=jinja2.StrictUndefined,
    autoescape=False,  # plain text, which the page escapes
    extensions=["jinja2.ext.do"],
)
_JINJA.filters |= {
    "number": wording.number_text,
    "interval": wording.interval_text,
    "value": value_text,
    "listed": join_words,
    "quoted": naming.quoted,
    "cap": wording.capitalise,
    "counted": counted,
    "once": _unique,
    "settings": naming.list_settings,
}
_JINJA.globals |= {
    "metric": wording.describe_metric,
    "point": wording.point_estimate,
    "metric_text": wording.metric_text,
    "metric_range": wording.metric_range,
    "chance": wording.chance_level,
    "naming": naming,
}


def template_of(text: str, words: wording.Words) -> jinja2.Template:
    """Return a Jinja text as a template, or the template file if the text ends with ``.j2``.

    A file for the kind of samples, such as images, replaces the file of that name for scans.
    """
    if text.endswith(".j2"):
        return _JINJA.select_template([f"{words.kind}/{text}", text])
    return _JINJA.from_string(text)


def write(text: str, files: EvaluationFolder, **names: object) -> str:
    """Fill a Jinja text about an evaluation, and join its lines to one line of prose.

    The text may use the variables `files` (the evaluation folder), ``words`` (the nouns for the
    samples, such as "scan"), ``s`` (the content of ``evaluation.json``), ``run`` (the pretraining
    run), the keyword arguments `names`, and the variables in ``files.names_of_voice``, which exist
    for samples other than scans, such as images. Any other variable is an error. A text that ends
    with ``.j2`` is the name of a template file.
    """
    return one_line(_fill(text, files.words, _names_of(files) | names))


def write_paragraphs(text: str, files: EvaluationFolder, **names: object) -> list[tuple[str, str]]:
    """Fill a Jinja text about an evaluation, and return its paragraphs with their headings.

    Returned are pairs of a heading and a paragraph; empty paragraphs are left out. A paragraph
    begins with a line ``## Heading.`` in the text. The text may use the same variables as a text of
    the function `write`, such as `files` and the keyword arguments `names`.
    """
    return split_paragraphs(_fill(text, files.words, _names_of(files) | names))


def fill_paragraphs(text: str, words: wording.Words, **names: object) -> list[tuple[str, str]]:
    """Fill a Jinja text of several paragraphs, and return pairs of a heading and a paragraph.

    Empty paragraphs are left out. A line ``## Heading.`` begins a paragraph. The text may use
    ``words`` (the nouns for the samples) and the keyword arguments `names`, but not the variables
    of an evaluation folder, which are there only in a text of `write_paragraphs`.
    """
    return split_paragraphs(_fill(text, words, names))


def split_paragraphs(text: str) -> list[tuple[str, str]]:
    """Split a text at its lines ``## Heading.`` into pairs of a heading and a paragraph.

    Empty paragraphs are left out; the lines of a paragraph are joined.
    """
    paragraphs = []
    for paragraph in re.split(r"^\s*## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = paragraph.partition("\n")
        if body.strip():
            paragraphs.append((heading.strip(), one_line(body)))
    return paragraphs


def section(key: str, blocks: Sequence[Block], *, name: str = "", **values: object) -> Section:
    """Return a section whose title and lead are the entry `key` of ``sections.yaml``.

    `values` fill the placeholders of title and lead; `name` is the anchor, by default the key.
    """
    if key not in _SECTIONS:
        raise KeyError(f"reporting/templates/sections.yaml has no section '{key}': add its lead")
    title = _SECTIONS[key]["title"].format(**values)
    lead = _SECTIONS[key]["lead"].format(**values)
    return Section(name or key, title, blocks, lead=lead.strip())


def _names_of(files: EvaluationFolder) -> dict[str, object]:
    names = {"files": files, "s": files.summary, "run": files.run}
    return names | dict(files.names_of_voice)


def _fill(text: str, words: wording.Words, names: Mapping[str, object]) -> str:
    return template_of(text, words).render(words=words, **names)


def one_line(text: str) -> str:
    """Join the lines of a text to one line, without blanks before punctuation."""
    return re.sub(r"(?<=\() | (?=[.,;:)])", "", " ".join(text.split()))
