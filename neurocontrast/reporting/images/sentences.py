"""The result of an evaluation of images in words: one plain sentence, one for a reviewer, one on fairness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.images.origin import PARTS, parts_of
from neurocontrast.reporting.metrics import (
    DASH,
    chance_level,
    choose_headline,
    describe_metric,
    interval_text,
    metric_range,
    metric_text,
    number_text,
    point_estimate,
)
from neurocontrast.reporting.naming import join_words, probe_text, value_text

__all__ = [
    "design_text",
    "probe_details",
    "say_for_reviewer",
    "say_plainly",
    "say_sensitive",
]


def design_text(files: EvaluationFiles) -> str:
    """Say what was tested: "10,000 test images, apart from the start", or how folds were made."""
    n = (files.summary.get("n") or {}).get("scans")
    if files.fixed:
        parts = parts_of(files)
        return "fixed split: " + (join_words([f"{count:,} {PARTS[name]}" for name, count in parts.items()]) or "?")
    repeats = f" × {files.summary['n_repeats']} repeats" if (files.summary.get("n_repeats") or 1) > 1 else ""
    how = "read from a split file" if files.summary["splits"] == "file" else "stratified by the target"
    size = f" of {n:,} images" if n is not None else ""
    return f"{files.summary.get('n_folds', '?')} folds{repeats}{size}, {how}"


def say_plainly(files: EvaluationFiles) -> str:
    """Say what the headline means, without a technical term."""
    key = choose_headline(files.kind, files.metrics, files.words)
    values = (files.metrics.get(key) if key else None) or {}
    value = point_estimate(values)
    if key is None or value is None:
        return "No figure of merit could be computed from these images; see the warnings for why."
    if key != "accuracy":
        about = describe_metric(key, files.words)
        interval = interval_text(values.get("interval"))
        return f"{about.label} of {files.target}: {number_text(value)} ({files.level:.0%} interval {interval})."
    share = metric_range(key, values.get("interval")).replace("%", "")
    text = f"Of 100 images that the probe had not seen, {value * 100:.1f} are given the right one of "
    text += f"{len(files.classes)} classes ({files.level:.0%} interval {share}); naming a class at random would give "
    text += f"{100 / len(files.classes):.2g}"
    commonest = point_estimate(files.baseline.get("accuracy")) if not files.covariates else None
    text += f", always naming the commonest {commonest * 100:.2g}." if commonest is not None else "."
    top5 = point_estimate(files.metrics.get("top5_accuracy"))
    if top5 is not None:
        text += f" For {top5 * 100:.1f} of 100 the right class is among the five likeliest."
    return text


def say_for_reviewer(files: EvaluationFiles) -> str:
    """Say the same with what a reviewer asks for first."""
    key = choose_headline(files.kind, files.metrics, files.words)
    start = f"Linear evaluation: frozen features, {probe_details(files)}; {design_text(files)}. "
    if (files.summary.get("probe") or {}).get("name") == "knn":
        start = start.replace("Linear evaluation", "Evaluation", 1)
    if key is None:
        return start + "No metric was defined."
    values = files.metrics[key]
    name = describe_metric(key, files.words).name
    where = "on the test images" if files.fixed else "pooled out-of-fold"
    text = f"{name[:1].upper()}{name[1:]} {metric_text(key, point_estimate(values), digits=2)} {where}"
    if values.get("interval"):
        text += f" ({_bootstrap(files)} {metric_range(key, values['interval'])})"
    chance = chance_level(key, len(files.classes), files.words)
    text += f"; chance {metric_text(key, chance)}" if chance is not None else ""
    mean, sd = values.get("mean"), values.get("sd")
    if sd is not None:
        text += f"; over folds {metric_text(key, mean)}, SD {metric_text(key, sd)} (a spread, not an interval)"
    return (
        f"{start}{text}. The interval is about other images of this kind, given this encoder and this probe; it leaves "
        "out what another seed of pretraining would change."
    )


def probe_details(files: EvaluationFiles, by: str = "") -> str:
    """Name the probe, `by` what it is fitted, on which images, and how its strength was chosen."""
    probe = files.summary.get("probe") or {}
    split = files.summary.get("split") or {}
    sgd = probe.get("sgd")
    name = probe_text(files) + by
    if isinstance(sgd, Mapping):
        told = [f"{str(key).replace('_', ' ')} {value}" for key, value in sgd.items() if value is not None]
        name += f", by stochastic gradient descent ({', '.join(told)})"
    strength = ""
    if probe.get("strength") is not None and probe.get("strength_name"):
        strength = f", {str(probe['strength_name']).replace('_', ' ')} = {value_text(probe['strength'])}"
    if not files.fixed:
        inside = ", inside" if by else " fitted inside"
        return f"{name}{inside} each training fold, {strength.removeprefix(', ') or 'its penalty'} chosen there"
    chosen = split.get("chosen_on")
    strength += f" chosen on {_on(chosen)}" if chosen and strength else ""
    fitted = [PARTS.get(str(part), str(part)) for part in split.get("refit_on") or []]
    on = f", fitted on the {split['n_fitted']:,} images of {join_words(fitted)}" if split.get("n_fitted") else ""
    return f"{name}{strength}{on}"


def _on(chosen: Any) -> str:
    return "the validation images" if chosen == "validation" else str(chosen)


def _bootstrap(files: EvaluationFiles) -> str:
    bootstrap = files.summary.get("bootstrap") or {}
    draws = f", {bootstrap['n']:,} draws" if bootstrap.get("n") else ""
    method = f" {bootstrap['method']}" if bootstrap.get("method") else ""
    return f"{files.level:.0%} bootstrap over images{method}{draws}:"


def say_sensitive(files: EvaluationFiles) -> str:
    """Say how much of the sensitive variable the features still hold."""
    block = files.summary.get("sensitive") or {}
    whole, constant = block.get("mse") or {}, block.get("constant_mse")
    value = whole.get("value")
    if value is None or constant is None:
        return "How far the sensitive variable can be read from the features could not be measured."
    interval = interval_text((whole.get("low"), whole.get("high")), digits=4)
    columns = [str(name) for name in block.get("columns") or {}]
    what = join_words(columns[:4]) if len(columns) <= 4 else f"{len(columns)} columns"
    text = f"Predicted linearly from the features, {what} {'are' if len(columns) > 1 else 'is'} missed by a mean "
    text += f"squared error of {number_text(value, digits=4)} ({files.level:.0%} interval {interval}); predicting the "
    text += f"same value for every image gives {number_text(constant, digits=4)}. "
    r2 = block.get("r2") or {"value": 1 - value / constant if constant else None}
    share, low = r2.get("value"), r2.get("low")
    told = interval_text((low * 100, r2["high"] * 100), digits=0) if low is not None else DASH
    between = "" if told == DASH else f" ({files.level:.0%} interval {told}%)"
    if share is None or share <= 0 or (low is not None and low <= 0):
        return text + f"Nothing of it could be read linearly: the share of variance explained{between} reaches zero."
    return text + (
        f"The features hold {share:.0%} of its variance{between} in a form that a linear model can read; the higher "
        "the error, the fairer the representation."
    )
