"""The sections of a comparison: what differs, by how much, and how sure one may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from neurocontrast.reporting.blocks import Block, Code, Facts, Items, Numbered, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.comparison import ComparisonFiles
from neurocontrast.reporting.figures.scores import draw_differences, draw_models
from neurocontrast.reporting.figures.training import draw_learning
from neurocontrast.reporting.metrics import SHARES, describe_metric, interval_text, number_text
from neurocontrast.reporting.naming import flatten, join_words, objective_text, shorten_paths
from neurocontrast.reporting.prose import write
from neurocontrast.reporting.section import Citations
from neurocontrast.reporting.sections.tradeoff import build_fairness, build_tradeoff
from neurocontrast.reporting.tables import Column, make_table
from neurocontrast.reporting.words import IMAGES

__all__ = ["build_comparison"]

SIGNIFICANCE = 0.05
"""An adjusted p-value from here on speaks against a difference that an interval shows."""

_METHODS = """
{% from "references.j2" import CCLK, DELONG, INTERNAL_EXTERNAL, intervals %}
{% set how = intervals(files.level, s.interval_method, cite)|trim %}
All models were evaluated on {{ "the same test " ~ words.items if files.fixed else "the same " ~ words.items ~
" in the same folds" }}. Of values and of paired differences, {{ how[:1]|lower ~ how[1:] }}
{{ "{:,}".format(s.n_bootstraps or 0) }} bootstrap draws, the same for all, with models held fixed.
{% if "mcnemar" in tests %}
Accuracies were compared by McNemar's exact test {{ cite("McNemar Q. Note on the sampling error of the difference "
"between correlated proportions or percentages. Psychometrika 1947;12:153–157.") }}
{% if "delong" in tests %}, AUCs by DeLong's {{ cite(DELONG) }}{% endif %}.
{% elif not files.fixed %}
Differences over folds were tested by the corrected resampled t-test {{ cite("Nadeau C, Bengio Y. Inference for the "
"generalization error. Mach Learn 2003;52:239–281.") }} (two-sided), which allows for the overlap of training folds;
folds that are no random draws have no test.
{% endif %}
p-values were adjusted for the number of models within each metric by Holm's method {{ cite("Holm S. A simple "
"sequentially rejective multiple test procedure. Scand J Stat 1979;6:65–70.") }}.
{% if unseen %}
For unseen sites, the probe of each model was fitted with sites left out in turn {{ cite(INTERNAL_EXTERNAL) }}; how well
the site can be told is its balanced accuracy in cross-validation of a linear probe. The intervals of both are those of
each evaluation by itself, not of differences.
{% endif %}
{% if files.sensitive is not none %}
The sensitive variable was predicted from the features of each model by ridge regression {{ cite(CCLK) }}.
{% endif %}
Seed {{ s.seed if s.seed is defined else "not recorded" }}.
"""


def build_comparison(files: ComparisonFiles) -> list[Section]:
    """Return the sections of a comparison that have something to say, in the order in which they are read."""
    sections = (build(files) for build in _SECTIONS)
    return [section for section in sections if section is not None]


def _build_warnings(files: ComparisonFiles) -> Section:
    found: dict[str, list[str]] = {}
    explained: dict[str, str] = {}
    for model in files.summary.get("models") or []:
        for warning in model.get("warnings") or []:
            code = warning.get("code", "") if isinstance(warning, dict) else str(warning)
            found.setdefault(str(code), []).append(str(model.get("name")))
            explained[str(code)] = str(warning.get("explanation") or "") if isinstance(warning, dict) else ""
    if not found:
        text = "None of the evaluations raised a warning."
        return Section("warnings", "Read this first", [Paragraph(text, role="note")])
    items = []
    for code, names in found.items():
        whose = "all models" if len(names) == len(files.names) else join_words(names)
        items.append((f"{code.replace('_', ' ').capitalize()} ({whose}).", explained[code]))
    lead = "Warnings of the evaluations that are compared; their reports say more."
    title = f"Read this first: {len(items)} warning{'s' if len(items) > 1 else ''}"
    return Section("warnings", title, [Items(items, role="warnings")], lead=lead)


def _build_result(files: ComparisonFiles) -> Section:
    pictures = []
    for metric in files.leading[:2]:
        drawn = (
            draw_models(files.models, metric, n_classes=files.n_classes, words=files.words),
            draw_differences(files.differences, metric, words=files.words),
        )
        pictures += [picture for picture in drawn if picture is not None]
    blocks: list[Block] = [Paragraph(_say(files), role="quote")]
    blocks.append(Pictures(pictures) if pictures else Paragraph("No metric is defined.", role="note"))
    blocks.append(_table(files, files.leading, "All models, and their differences from the reference."))
    rest = [metric for metric in files.metrics if metric not in files.leading]
    if rest:
        blocks.append(_table(files, rest, "Further metrics of all models.", folded=True))
    return Section("result", "Result", blocks)


def _say(files: ComparisonFiles) -> str:
    """Say for each model whether it differs in the headline metric, by interval and test."""
    if not files.leading:
        return "No metric is defined for any model."
    key = files.leading[0]
    about = describe_metric(key, files.words)
    points = files.words is IMAGES and key in SHARES
    scale, digits, unit = (100, 1, " points") if points else (1, 3, "")
    sentences = []
    rows = files.differences[files.differences["metric"] == key].dropna(subset=["difference"])
    for row in rows.to_dict("records"):
        value = number_text(row["difference"] * scale, digits=digits, signed=True)
        interval = interval_text((row["low"] * scale, row["high"] * scale), digits=digits, signed=True)
        p = f"adjusted p = {row['p_adjusted']:.3g}" if pd.notna(row["p_adjusted"]) else "not tested over folds"
        verdict = _verdict(row, higher_is_better=about.higher_is_better)
        sentences.append(f"{row['model']} {verdict}: {about.name} {value}{unit} ({interval}, {p}).")
    if not sentences:
        return f"The {about.name} of the models is defined for none of the pairs."
    return f"Beside {files.reference}, {' '.join(sentences)}"


def _verdict(row: dict[Any, Any], *, higher_is_better: bool) -> str:
    """Call a model better or worse only where interval and test agree that it differs."""
    direction = "better" if (row["difference"] > 0) == higher_is_better else "worse"
    if not (row["low"] > 0 or row["high"] < 0):
        return "cannot be told apart from it by these data"
    if pd.notna(row["p_adjusted"]) and row["p_adjusted"] >= SIGNIFICANCE:
        return f"looks {direction}, but only the interval says so, not the corrected test over folds"
    return f"is {direction}"


def _table(files: ComparisonFiles, metrics: list[str], caption: str, *, folded: bool = False) -> Table:
    names = {"low": "value_low", "high": "value_high"}
    rows = files.models[files.models["metric"].isin(metrics)].rename(columns=names)
    paired = files.differences.rename(columns={"low": "difference_low", "high": "difference_high"})
    rows = rows.merge(paired, on=["metric", "model"], how="left", suffixes=("", "_paired"))
    rows = rows.sort_values("metric", key=lambda keys: keys.map(metrics.index), kind="stable")
    is_reference = rows["model"] == files.reference
    untested = "no test: of too few folds, of folds that are no random draws, or not made for this metric"
    for key, otherwise in (("difference", "not computed"), ("p_value", untested), ("p_adjusted", untested)):
        rows[f"{key}_reason"] = is_reference.map({True: "the reference itself", False: otherwise})
    rows["n_folds_reason"] = rows["difference_reason"]
    rows["model"] = rows["model"].where(~is_reference, rows["model"] + " (reference)")
    rows["label"] = [describe_metric(key, files.words).label for key in rows["metric"]]
    rows["label"] = rows["label"].where(~rows["metric"].duplicated(), "")
    columns = (
        Column("Metric", "label", "heading"),
        Column("Model", "model", "text"),
        Column("Value", "value", reason="not defined"),
        Column("Interval", "value", "interval", reason="not computed"),
        Column("Difference", "difference", signed=True),
        Column("Its interval", "difference", "interval", signed=True),
        Column("Folds", "n_folds", "count"),
        Column("p", "p_value", "p"),
        Column("p adjusted", "p_adjusted", "p"),
    )
    return make_table(caption, rows, columns, folded=folded)


def _build_learning(files: ComparisonFiles) -> Section | None:
    title, table, words = "Learning curves", files.learning, files.words
    if table is None and words is IMAGES:
        return None
    drawn = [
        draw_learning(table, metric, how="draws and folds", n_classes=files.n_classes, words=words)
        for metric in files.leading[:2]
        if table is not None and table.loc[table["metric"] == metric, "model"].nunique() > 1
    ]
    pictures = [picture for picture in drawn if picture is not None]
    if not pictures:
        text = (
            "Not shown: fewer than two of the evaluations hold a learning curve. Make them with `neurocontrast "
            "evaluate … --train-sizes 100,200,…`."
        )
        return Section("learning", title, [Paragraph(text, role="note")])
    tested = words.items if files.fixed else "folds"
    lead = f"The same test {tested}; the same draws of {words.units} where the evaluations have the same seed."
    return Section("learning", title, [Pictures(pictures, wide=True)], lead=lead)


def _build_methods(files: ComparisonFiles) -> Section:
    cite = Citations()
    tests = set(files.differences["test"].dropna()) if "test" in files.differences else set()
    unseen = files.tradeoff is not None and bool(files.tradeoff["unseen"].notna().any())
    text = write(_METHODS, files, cite=cite, tests=tests, unseen=unseen)
    lead = "Generated from the record of this comparison, to be checked and pasted into a paper."
    return Section("methods", "Methods", [Paragraph(text), Numbered("References", cite.listed())], lead=lead)


def _build_silences(files: ComparisonFiles) -> Section:
    items = [
        ("Not another pretraining.", "Each model is one encoder. Another seed of its pretraining may turn a small "
                                     "difference round; compare several seeds before calling an objective better."),
        ("Not equal effort.", "Nothing here says that the models were tuned with the same care."),
        ("Not no difference.", "An interval that reaches zero says that the data do not settle it, no more."),
        ("Intervals and tests ask different things.",
         f"An interval is about other {files.words.units} scored by these same models; a test over folds also counts "
         "how models vary with what they are trained on. Where they disagree, the cautious one holds."),
        ("No correction across metrics.", "Adjusted p-values count the models within one metric."),
    ]  # fmt: skip
    return Section("silences", "What this page does not say", [Items(items)])


def _build_provenance(files: ComparisonFiles) -> Section:
    blocks: list[Block] = []
    for model in files.summary.get("models") or []:
        embeddings = model.get("embeddings") or {}
        facts = [
            ("Objective", objective_text(model.get("objective"))),
            ("Embeddings", shorten_paths(str(embeddings.get("file") or "not recorded"))),
            ("Digest", str(embeddings.get("digest") or "not recorded")),
            (f"{files.words.units.capitalize()} also in pretraining", str(model.get("n_overlap"))),
        ]
        blocks.append(Facts(facts, title=str(model.get("name"))))
    environment = {key: value for key, value in (files.summary.get("environment") or {}).items() if key != "command"}
    lines = "\n".join(f"{name}: {shorten_paths(text)}" for name, text in flatten(environment))
    blocks.append(Code("Environment", lines))
    return Section("provenance", "Provenance", blocks)


_SECTIONS: tuple[Callable[[ComparisonFiles], Section | None], ...] = (
    _build_warnings,
    _build_result,
    build_tradeoff,
    build_fairness,
    _build_learning,
    _build_methods,
    _build_silences,
    _build_provenance,
)
