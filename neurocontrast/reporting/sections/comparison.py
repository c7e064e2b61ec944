"""The sections of a comparison: what differs, by how much, and how sure one may be."""

from __future__ import annotations

from typing import Any

import pandas as pd

from neurocontrast.reporting.comparison import ComparisonFiles
from neurocontrast.reporting.page import (
    Block,
    Citations,
    Code,
    Facts,
    Items,
    Numbered,
    Paragraph,
    Section,
    Table,
    note,
    pictures,
)
from neurocontrast.reporting.plots import Series, draw_intervals
from neurocontrast.reporting.prose import flatten, pretraining_text, shorten_paths, write_paragraphs
from neurocontrast.reporting.sections.learning import draw_learning
from neurocontrast.reporting.sections.tradeoff import build_fairness, build_tradeoff
from neurocontrast.reporting.style import Picture, distinct_labels, plain_label
from neurocontrast.reporting.tables import Column, make_table
from neurocontrast.reporting.wording import IMAGES, SHARES, interval_text, join_words, number_text

__all__ = ["build_comparison"]

_SIGNIFICANT_P = 0.05


def build_comparison(files: ComparisonFiles) -> list[Section]:
    """Return the sections of a comparison that have something to say, in the order in which they are read."""
    built = (
        _build_warnings(files), _build_result(files), build_tradeoff(files), build_fairness(files),
        _build_learning(files), _build_methods(files), _build_silences(files), _build_provenance(files),
    )  # fmt: skip
    return [section for section in built if section is not None]


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
        return Section("warnings", "Read this first", [note(text)])
    items = []
    for code, names in found.items():
        whose = "all models" if len(names) == len(files.names) else join_words(names)
        items.append((f"{code.replace('_', ' ').capitalize()} ({whose}).", explained[code]))
    lead = "Warnings of the evaluations that are compared; their reports say more."
    title = f"Read this first: {len(items)} warning{'s' if len(items) > 1 else ''}"
    return Section("warnings", title, [Items(items, role="warnings")], lead=lead)


def _build_result(files: ComparisonFiles) -> Section:
    drawn = [draw(files, metric) for metric in files.leading[:2] for draw in (_draw_models, _draw_differences)]
    blocks: list[Block] = [Paragraph(_say(files), role="quote")]
    blocks += pictures(*drawn) or [note("No metric is defined.")]
    blocks.append(_table(files, files.leading, "All models, and their differences from the reference."))
    rest = [metric for metric in files.metrics if metric not in files.leading]
    if rest:
        blocks.append(_table(files, rest, "Further metrics of all models.", folded=True))
    return Section("result", "Result", blocks)


def _draw_models(files: ComparisonFiles, metric: str) -> Picture | None:
    """Draw a metric of every model; None where no model has it."""
    rows = files.models[(files.models["metric"] == metric) & files.models["value"].notna()].reset_index(drop=True)
    about, pooled = files.describe(metric), "" if files.words is IMAGES else ", pooled out-of-fold"
    return draw_intervals(
        f"models_{metric}",
        [Series(rows)],
        distinct_labels(rows["model"], length=26),
        f"{about.label} of each model{pooled}, with bootstrap intervals over the same resamples.",
        xlabel=about.label,
        reference=(files.chance(metric), "Chance"),
        limits=about.limits,
        numbers=rows,
    )


def _draw_differences(files: ComparisonFiles, metric: str) -> Picture | None:
    """Draw the difference of every model from the reference; None where there is none."""
    rows = files.differences[files.differences["metric"] == metric].dropna(subset=["difference"])
    rows = rows.rename(columns={"difference": "value"}).reset_index(drop=True)
    about, reference = files.describe(metric), plain_label(files.reference, length=24)
    settled = (rows["low"] > 0) | (rows["high"] < 0)
    return draw_intervals(
        f"differences_{metric}",
        [Series(rows[settled], marker="s"), Series(rows[~settled], marker="s", filled=False)],
        distinct_labels(rows["model"], length=26),
        f"Paired differences in {about.name} from {reference}, with bootstrap intervals.",
        note="Filled squares: the interval leaves out zero; hollow ones: it does not.",
        xlabel=f"Difference in {about.name} from {reference}",
        reference=(0.0, "No difference"),
        sides=("worse ←", "→ better") if about.higher_is_better else ("better ←", "→ worse"),
        numbers=rows,
    )


def _say(files: ComparisonFiles) -> str:
    """Say for each model whether it differs in the headline metric, by interval and test."""
    if not files.leading:
        return "No metric is defined for any model."
    key = files.leading[0]
    about = files.describe(key)
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
    if pd.notna(row["p_adjusted"]) and row["p_adjusted"] >= _SIGNIFICANT_P:
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
    rows["label"] = [files.describe(key).label for key in rows["metric"]]
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
        draw_learning(files, words, table, metric, how="draws and folds")
        for metric in files.leading[:2]
        if table is not None and table.loc[table["metric"] == metric, "model"].nunique() > 1
    ]
    if not drawn:
        text = (
            "Not shown: fewer than two of the evaluations hold a learning curve. Make them with `neurocontrast "
            "evaluate … --train-sizes 100,200,…`."
        )
        return Section("learning", title, [note(text)])
    tested = words.items if files.fixed else "folds"
    lead = f"The same test {tested}; the same draws of {words.units} where the evaluations have the same seed."
    return Section("learning", title, pictures(*drawn, wide=True), lead=lead)


def _build_methods(files: ComparisonFiles) -> Section:
    cite = Citations()
    tests = set(files.differences["test"].dropna()) if "test" in files.differences else set()
    unseen = files.tradeoff is not None and bool(files.tradeoff["unseen"].notna().any())
    (_, text), *_ = write_paragraphs("comparison.j2", files, what="methods", cite=cite, tests=tests, unseen=unseen)
    lead = "Generated from the record of this comparison, to be checked and pasted into a paper."
    return Section("methods", "Methods", [Paragraph(text), Numbered("References", cite.listed())], lead=lead)


def _build_silences(files: ComparisonFiles) -> Section:
    return Section("silences", "What this page does not say", [Items(write_paragraphs("comparison.j2", files))])


def _build_provenance(files: ComparisonFiles) -> Section:
    blocks: list[Block] = []
    for model in files.summary.get("models") or []:
        embeddings = model.get("embeddings") or {}
        facts = [
            ("Objective", pretraining_text(model.get("run") or {}, model.get("objective"))),
            ("Embeddings", shorten_paths(str(embeddings.get("file") or "not recorded"))),
            ("Digest", str(embeddings.get("digest") or "not recorded")),
            (f"{files.words.units.capitalize()} also in pretraining", str(model.get("n_overlap"))),
        ]
        blocks.append(Facts(facts, title=str(model.get("name"))))
    environment = {key: value for key, value in (files.summary.get("environment") or {}).items() if key != "command"}
    lines = "\n".join(f"{name}: {text}" for name, text in flatten(environment))
    blocks.append(Code("Environment", lines))
    return Section("provenance", "Provenance", blocks)
