"""How the parts of an evaluation are named in running text, and sentences written as Jinja text."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import resources
from typing import Any

import jinja2
import yaml

from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.page import wording
from neurocontrast.page.wording import join_words, value_text

_NAMES: dict[str, dict[str, str]] = yaml.safe_load(
    resources.files("neurocontrast.findings").joinpath("templates/names.yaml").read_text("utf-8")
)
PARTS = _NAMES["parts"]
"""What the parts of a fixed split are called."""
_MAX_NAMED = 6
"""More classes than this are counted and not named in a title."""


def target_text(files: EvaluationFolder) -> str:
    """Say what was predicted: "diagnosis: patient against control"."""
    text = f"Predicting {files.target}"
    if files.kind == "binary":
        return f"{text}: “{files.positive}” against “{files.negative}”"
    if files.kind == "continuous":
        return text
    if len(files.classes) > _MAX_NAMED:
        return f"{text}: {len(files.classes)} classes"
    return f"{text}: {join_words([f'“{name}”' for name in files.classes])}"


def head_facts(files: EvaluationFolder) -> list[tuple[str, str]]:
    """Return what a reader wants to know first: encoder, objective, folds and data."""
    return [
        ("Encoder", encoder_text(files)),
        ("Pretraining", pretraining_text(files.run, files.summary.objective)),
        ("Evaluation", splits_text(files)),
        ("Data", write("result.j2", files, what="data") or "not recorded"),
    ]


def count_texts(n: Any) -> list[str]:
    """Write how many scans, subjects and sites there are, those that are recorded: "120 scans"."""
    counts = {"scans": n.scans, "subjects": n.subjects, "sites": n.sites}
    return [wording.count_text(count, key[:-1]) for key, count in counts.items() if count is not None]


def covariates_text(files: EvaluationFolder) -> str:
    """Name the covariates of the baseline."""
    return join_words(list(map(column_text, files.summary.baseline_covariates))) or "the covariates"


def column_text(name: str) -> str:
    """Name a column of the table of scans: "head size (TIV)"."""
    return _NAMES["columns"].get(name, name)


def kernel_text(kernel: Any) -> str:
    """Write a kernel as a product: "age (gaussian, sigma 5.0) × sex (categorical)"."""
    factors = []
    for factor in kernel or []:
        about = [str(factor.get("type", "kernel"))]
        about += [
            f"{key} {value_text(value)}"
            for key, value in factor.items()
            if key not in ("type", "column") and (key, value) != ("missing", "error")
            if value is not None and value is not False
        ]
        factors.append(f"{factor.get('column', '?')} ({', '.join(about)})")
    return " × ".join(factors)


def objective_text(objective: Any) -> str:
    """Name the loss and the metadata it uses."""
    if not isinstance(objective, Mapping) or not objective.get("loss"):
        return "not recorded"
    parts = objective.get("objectives")
    if isinstance(parts, Mapping):
        weights = objective.get("weights") or {}
        named = [f"{value_text(weights.get(key, 1))} × ({objective_text(part)})" for key, part in parts.items()]
        return "sum of " + join_words(named)
    text = str(objective.get("title") or objective["loss"])
    if objective["loss"] == "none":
        return text
    if objective.get("kernel"):
        negatives = objective.get("negatives")
        against = f", negatives weighted by {kernel_text(negatives)}" if negatives else ""
        return f"{text}, kernel on {kernel_text(objective['kernel'])}{against}"
    if objective.get("column"):
        return f"{text} of {objective['column']}"
    column = objective.get("label") or objective.get("cluster")
    return f"{text}, groups of {column}" if column else f"{text}, no metadata"


def pretraining_text(run: Mapping[str, Any], objective: Any) -> str:
    """Name the loss of a run, or of each encoder whose features were joined."""
    blocks = run.get("blocks") or {}
    texts = {name: objective_text(block.get("objective")) for name, block in blocks.items()}
    if len(set(texts.values())) > 1:
        return join_words([f"“{name}”: {text}" for name, text in texts.items()])
    return next(iter(texts.values()), objective_text(objective))


def loss_citations(objective: Mapping[str, Any]) -> list[str]:
    """Return the references of an objective and its parts, each once."""
    parts = [objective, *(objective.get("objectives") or {}).values()]
    return list(dict.fromkeys(str(part["citation"]) for part in parts if part.get("citation")))


def encoder_text(files: EvaluationFolder) -> str:
    """Name the encoder and its number of features, or each encoder whose features were joined."""
    blocks = files.run.get("blocks")
    if blocks:
        return join_words(
            [
                f"“{name}” ({_encoder_name(files, block['run'].get('encoder'))}, {block['n_features']} features)"
                for name, block in blocks.items()
            ]
        )
    text = _encoder_name(files, files.run.get("encoder"))
    return f"{text}, {files.summary.n.features} features" if files.summary.n.features else text


def _encoder_name(files: EvaluationFolder, encoder: Any) -> str:
    about = encoder if isinstance(encoder, Mapping) else {"name": encoder}
    name = str(about.get("name") or "")
    known = _NAMES["encoders"]
    text = known.get(name, name) or "encoder not recorded"
    text += files.words.network if name in known and name not in ("pca", "lda") else ""
    if about.get("stem") and "ResNet" in text:
        text += f", stem {about['stem']}"
    return text


def splits_text(files: EvaluationFolder) -> str:
    """Say how the folds were made: "5 folds, stratified by target × site"; of a fixed split, the sizes of its parts."""
    if files.fixed:
        parts = join_words([f"{count:,} {PARTS[name]}" for name, count in files.parts.items()])
        return f"fixed split: {parts or '?'}"
    s = files.summary
    how = f"made by {s.splitter}" if s.splits == "custom" else design_text(s.splits, with_sites=bool(s.n.sites))
    return f"{folds_text(s.n_folds, s.n_repeats)}, {how}"


def folds_text(n_folds: int | None, n_repeats: int | None) -> str:
    """Write the number of folds and repeats: "5 folds × 3 repeats"."""
    return f"{n_folds or '?'} folds" + (f" × {n_repeats} repeats" if (n_repeats or 1) > 1 else "")


def design_text(splits: str, *, with_sites: bool = True) -> str:
    """Say how folds were made: "stratified by target × site"."""
    stratified = "stratified by target × site" if with_sites else "stratified by the target"
    return stratified if splits == "stratified" else _NAMES["splits"].get(splits, splits)


def probe_text(files: EvaluationFolder) -> str:
    """Name the model that was put on the frozen features."""
    name = files.summary.probe.name or ("ridge" if files.kind == "continuous" else "logistic")
    if name == "logistic" and files.kind == "multiclass":
        return "multinomial logistic regression"
    return _NAMES["probes"].get(name, name)


def threshold_text(files: EvaluationFolder) -> str:
    """Say by which rule a scan was given to a class: "at the threshold 0.5"."""
    rule = files.summary.threshold.rule
    values = [value for value in files.summary.threshold.values if value is not None]
    if files.kind != "binary":
        against = " beside each class's share of the training fold" if rule == "prevalence" else ""
        return f"by the highest probability{against}"
    if rule in (None, "half") or isinstance(rule, int | float):
        return f"at the threshold {rule if isinstance(rule, int | float) else 0.5:g}"
    spread = f" ({min(values):.2f} to {max(values):.2f} over folds)" if values else ""
    return f"at the threshold of each fold{spread}, " + (
        "set to the share of positives in the training fold" if rule == "prevalence" else f"set by the rule {rule}"
    )


def permutation_result(files: EvaluationFolder, metric: str | None) -> dict[str, Any] | None:
    """Return the permutation test of a metric, with ``p_value = (1 + k)/(1 + n)``; None where there was none."""
    test = files.summary.permutation
    p_value = test.p_values.get(metric or "") if test else None
    if test is None or p_value is None or not test.n:
        return None
    k, observed = round(p_value * (1 + test.n)) - 1, test.observed.get(metric or "")
    return {**vars(test), "p_value": p_value, "k": k, "unit": test.unit or "subject", "observed": observed}


_JINJA = jinja2.Environment(
    loader=jinja2.PackageLoader("neurocontrast.findings", "templates"),
    undefined=jinja2.ChainableUndefined,
    autoescape=False,  # plain text, which the page escapes
    extensions=["jinja2.ext.do"],
)
_JINJA.filters |= {
    "number": wording.number_text,
    "interval": wording.interval_text,
    "value": value_text,
    "listed": join_words,
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
    "naming": sys.modules[__name__],
}


def template_of(text: str, words: wording.Words) -> jinja2.Template:
    """Return a Jinja text as a template: the file of that name, where the text ends in ``.j2``.

    A file in the folder of what was evaluated, such as ``images/``, comes before that of all evaluations.
    """
    return _JINJA.select_template([f"{words.kind}/{text}", text]) if text.endswith(".j2") else _JINJA.from_string(text)


def write(text: str, files: Any, **names: Any) -> str:
    """Fill a Jinja text and set it as one line of prose.

    The text sees `files`, its `words`, evaluation.json as `s`, the run as `run`, and `names`.
    """
    return _one_line(_fill(text, files, names))


def write_paragraphs(text: str, files: Any, **names: Any) -> list[tuple[str, str]]:
    """Fill a Jinja text of several paragraphs, and return each that says something, with its ``## Heading.``."""
    parts = [part.partition("\n") for part in re.split(r"^\s*## ", _fill(text, files, names), flags=re.MULTILINE)[1:]]
    return [(heading.strip(), _one_line(body)) for heading, _, body in parts if body.strip()]


def _fill(text: str, files: Any, names: dict[str, Any]) -> str:
    run = getattr(files, "run", {})
    return template_of(text, files.words).render(files=files, words=files.words, s=files.summary, run=run, **names)


def _one_line(text: str) -> str:
    """Join lines, and take out the blanks that conditions leave before punctuation."""
    return re.sub(r"(?<=\() | (?=[.,;:)])", "", " ".join(text.split()))
