"""The sections of a comparison: what differs, by how much, and how sure one may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from neurocontrast.reporting.blocks import (
    Block,
    Cell,
    Code,
    Facts,
    Items,
    Numbered,
    Paragraph,
    Pictures,
    Section,
    Table,
)
from neurocontrast.reporting.comparison import ComparisonFiles
from neurocontrast.reporting.figures import draw_differences, draw_learning_of_models, draw_models
from neurocontrast.reporting.methods_statistics import describe_intervals
from neurocontrast.reporting.metrics import DASH, describe_metric, interval_text, number_text
from neurocontrast.reporting.naming import flatten, join_words, objective_text, shorten_paths
from neurocontrast.reporting.references import Citations
from neurocontrast.reporting.sections.images import comparison as of_images
from neurocontrast.reporting.sections.tradeoff import build_tradeoff
from neurocontrast.reporting.tables import cell, count_cell
from neurocontrast.reporting.words import IMAGES

__all__ = ["COMPARISON_SECTIONS", "build_comparison"]

SIGNIFICANCE = 0.05
"""An adjusted p-value from here on speaks against a difference that an interval shows."""


def build_comparison(files: ComparisonFiles) -> list[Section]:
    """Return the sections of a comparison, in the order in which they are read."""
    if files.words is not IMAGES:
        return [build(files) for build in COMPARISON_SECTIONS]
    builders = [build for build in _IMAGE_SECTIONS if build is not _build_learning or files.learning is not None]
    return [build(files) for build in builders]


def _build_warnings(files: ComparisonFiles) -> Section:
    found: dict[str, list[str]] = {}
    explained: dict[str, str] = {}
    for model in files.summary.get("models") or []:
        for warning in model.get("warnings") or []:
            code = warning.get("code", "") if isinstance(warning, dict) else str(warning)
            found.setdefault(str(code), []).append(str(model.get("name")))
            explained[str(code)] = warning.get("explanation", "") if isinstance(warning, dict) else ""
    if not found:
        text = "None of the evaluations raised a warning."
        return Section("warnings", "Read this first", [Paragraph(text, role="note")])
    everybody = len(files.names)
    items = []
    for code, names in found.items():
        whose = "all models" if len(names) == everybody else join_words(names)
        items.append((f"{code.replace('_', ' ').capitalize()} ({whose}).", explained[code]))
    lead = "Warnings of the evaluations that are compared; their reports say more."
    title = f"Read this first: {len(items)} warning{'s' if len(items) > 1 else ''}"
    return Section("warnings", title, [Items(items, role="warnings")], lead=lead)


def _build_result(files: ComparisonFiles) -> Section:
    blocks: list[Block] = [Paragraph(_say(files), role="quote")]
    pictures = []
    for metric in files.leading[:2]:
        drawn = (
            draw_models(files.models, metric, n_classes=files.n_classes),
            draw_differences(files.differences, metric),
        )
        pictures += [picture for picture in drawn if picture is not None]
    blocks.append(Pictures(pictures) if pictures else Paragraph("No metric is defined.", role="note"))
    blocks.append(_table(files, files.leading, folded=False))
    rest = [metric for metric in files.metrics if metric not in files.leading]
    if rest:
        blocks.append(_table(files, rest, folded=True))
    return Section("result", "Result", blocks)


def _say(files: ComparisonFiles) -> str:
    """Say for each model whether it differs in the headline metric, by interval and test."""
    if not files.leading:
        return "No metric is defined for any model."
    key = files.leading[0]
    about = describe_metric(key)
    sentences = []
    for row in files.differences[files.differences["metric"] == key].to_dict("records"):
        if pd.isna(row["difference"]):
            continue
        interval = interval_text((row["low"], row["high"]), signed=True)
        words = _verdict(row, higher_is_better=about.higher_is_better)
        p = f", adjusted p = {row['p_adjusted']:.3g}" if pd.notna(row["p_adjusted"]) else ", not tested over folds"
        sentences.append(
            f"{row['model']} {words}: {about.name} {number_text(row['difference'], signed=True)} ({interval}{p})."
        )
    start = f"Beside {files.reference}, "
    return (
        start + " ".join(sentences)
        if sentences
        else f"The {about.name} of the models is defined for none of the pairs."
    )


def _verdict(row: dict[Any, Any], *, higher_is_better: bool) -> str:
    """Call a model better or worse only where interval and test over folds agree that it differs."""
    direction = "better" if (row["difference"] > 0) == higher_is_better else "worse"
    outside = row["low"] > 0 or row["high"] < 0
    refuted = pd.notna(row["p_adjusted"]) and row["p_adjusted"] >= SIGNIFICANCE
    if outside and not refuted:
        return f"is {direction}"
    if outside:
        return f"looks {direction}, but only the interval says so, not the corrected test over folds"
    return "cannot be told apart from it by these data"


def _table(files: ComparisonFiles, metrics: list[str], *, folded: bool) -> Table:
    rows = []
    keyed = files.differences.set_index(["metric", "model"])
    for metric in metrics:
        of_metric = files.models[files.models["metric"] == metric]
        for number, row in enumerate(of_metric.to_dict("records")):
            key = (metric, row["model"])
            is_reference = row["model"] == files.reference
            reason = "the reference itself" if is_reference else "not computed"
            other = keyed.loc[key].to_dict() if key in keyed.index else {}
            rows.append(
                (
                    Cell(describe_metric(metric).label if number == 0 else "", heading=number == 0),
                    Cell(str(row["model"]) + (" (reference)" if is_reference else "")),
                    cell(row["value"], reason="not defined"),
                    _interval(row, signed=False, reason="not computed"),
                    cell(other.get("difference"), reason=reason, signed=True),
                    _interval(other, signed=True, reason=reason),
                    count_cell(other.get("n_folds"), reason=reason),
                    _p_value(other.get("p_value"), reason=reason),
                    _p_value(other.get("p_adjusted"), reason=reason),
                )
            )
    header = ("Metric", "Model", "Value", "Interval", "Difference", "Its interval", "Folds", "p", "p adjusted")
    caption = "Further metrics of all models." if folded else "All models, and their differences from the reference."
    return Table(caption, header, rows, text_columns=(0, 1), folded=folded)


def _interval(row: dict, *, signed: bool, reason: str) -> Cell:
    text = interval_text((row.get("low"), row.get("high")), signed=signed)
    return Cell(text, reason=reason if text == DASH else "")


def _p_value(value: object, *, reason: str) -> Cell:
    if value is None or pd.isna(value):  # type: ignore[call-overload]
        why = (
            reason
            if "reference" in reason
            else "no test: folds of held-out sites are no random draws; or folds are too few, or all differ alike"
        )
        return Cell(DASH, reason=why)
    return Cell(f"{float(value):.3g}" if float(value) >= 0.0001 else "< 0.0001")  # type: ignore[arg-type]


def _build_learning(files: ComparisonFiles) -> Section:
    title = "Learning curves"
    pictures = []
    if files.learning is not None:
        names = list(dict.fromkeys(files.learning["model"]))
        drawn = (
            draw_learning_of_models(files.learning, metric, names=names, n_classes=files.n_classes, words=files.words)
            for metric in files.leading[:2]
        )
        pictures = [picture for picture in drawn if picture is not None]
    if not pictures:
        text = (
            "Not shown: fewer than two of the evaluations hold a learning curve. Make them with `neurocontrast "
            "evaluate … --train-sizes 100,200,…`."
        )
        return Section("learning", title, [Paragraph(text, role="note")])
    tested = files.words.items if files.fixed else "folds"
    lead = f"The same test {tested}; the same draws of {files.words.units} where the evaluations have the same seed."
    return Section("learning", title, [Pictures(pictures, wide=True)], lead=lead)


def _build_methods(files: ComparisonFiles) -> Section:
    cite, s = Citations(), files.summary
    intervals = describe_intervals(files.level, s.get("interval_method"), cite)
    text = (
        "All models were evaluated on the same scans in the same folds. Of values and of paired differences, "
        f"{intervals[0].lower() + intervals[1:]} {s.get('n_bootstraps', 0):,} bootstrap draws from "
        "the pooled out-of-fold predictions, the same draws for all models, with models held fixed. "
        f"Differences over folds were tested by the corrected resampled t-test {cite('nadeau')}, which allows for the "
        "overlap of training folds (two-sided), and p-values were adjusted for the number of models within each metric "
        f"by Holm's method {cite('holm')}. Where sites are held out in turn, folds are no random draws and there is no "
        f"test. Seed {s.get('seed', 'not recorded')}."
    )
    text += _about_unseen(files, cite)
    lead = "Generated from the record of this comparison, to be pasted into a paper; check it before it goes there."
    return Section("methods", "Methods", [Paragraph(text), Numbered("References", cite.listed())], lead=lead)


def _about_unseen(files: ComparisonFiles, cite: Citations) -> str:
    """Return how unseen sites were evaluated; nothing where they were not."""
    if files.tradeoff is None or files.tradeoff["unseen"].isna().all():
        return ""
    return (
        " For unseen sites, the probe of each model was fitted with sites left out in turn "
        f"{cite('internal_external')}; how well the site can be told is its balanced accuracy in cross-validation of a "
        "linear probe. The intervals of both are those of each evaluation by itself, not of differences between models."
    )


def _build_silences(files: ComparisonFiles) -> Section:
    del files
    items = [
        ("Not another pretraining.", "Each model is one encoder. Another seed of its pretraining may turn a small "
                                     "difference round; compare several seeds before calling an objective better."),
        ("Not equal effort.", "Nothing here says that the models were tuned with the same care."),
        ("Not no difference.", "An interval that reaches zero says that the data do not settle it, no more."),
        (
            "Intervals and tests ask different things.",
            "An interval is about other people scored by these same models; the test over folds also counts how models "
            "vary with the people they are trained on. Where they disagree, the cautious one holds.",
        ),
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


COMPARISON_SECTIONS: tuple[Callable[[ComparisonFiles], Section], ...] = (
    _build_warnings,
    _build_result,
    build_tradeoff,
    _build_learning,
    _build_methods,
    _build_silences,
    _build_provenance,
)
"""The builders, in reading order."""

_IMAGE_SECTIONS: tuple[Callable[[ComparisonFiles], Section], ...] = (
    _build_warnings,
    of_images.build_result,
    of_images.build_fairness,
    _build_learning,
    of_images.build_methods,
    of_images.build_silences,
    _build_provenance,
)
"""Those of a comparison of images."""
