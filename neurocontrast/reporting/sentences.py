"""The result in plain words: one sentence for a clinician, one for a methods reviewer."""

from __future__ import annotations

from typing import Any

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import (
    DASH,
    choose_headline,
    describe_metric,
    interval_text,
    number_text,
    point_estimate,
)
from neurocontrast.reporting.naming import covariates_text, probe_text, splits_text
from neurocontrast.reporting.testing import permutation_result

__all__ = ["say_for_clinician", "say_for_reviewer", "say_increment", "say_voxels"]


def say_for_clinician(files: EvaluationFiles) -> str:
    """Say what the headline means, without a technical term."""
    key = choose_headline(files.kind, files.metrics)
    value = point_estimate(files.metrics.get(key)) if key else None
    if key is None or value is None:
        return "No figure of merit could be computed from these scans; see the warnings and the fold table for why."
    baseline = point_estimate(files.baseline.get(key))
    say = {"auc": _say_pairs, "balanced_accuracy": _say_accuracy, "mae": _say_error}.get(key, _say_any)
    parts = [say(files, key, value, baseline), say_increment(files, key), say_voxels(files, key), _scope(files)]
    return " ".join(part for part in parts if part)


def say_increment(files: EvaluationFiles, key: str) -> str:
    """Say whether the embedding adds to the covariates, as far as its interval allows."""
    increment = files.increment.get(key) or {}
    difference, interval = increment.get("difference"), increment.get("interval")
    names = covariates_text(files)
    if difference is None:
        return "What the scan adds to the covariates was not computed."
    if not interval:
        return f"No interval of the difference was computed, so whether the scan adds to {names} stays open."
    low, high = interval if describe_metric(key).higher_is_better else (-interval[1], -interval[0])
    if low > 0:
        return f"The scan holds information beyond {names}: the interval of the difference excludes zero."
    if high < 0:
        return f"The scan does worse than {names} alone: the interval of the difference lies below zero."
    return f"Whether the scan adds anything to {names} is not settled by these data: the difference may well be zero."


def say_voxels(files: EvaluationFiles, key: str) -> str:
    """Say whether the encoder adds to a linear look at the scans; nothing where the scans were not at hand."""
    increment = files.voxels_increment.get(key) or {}
    difference, interval = increment.get("difference"), increment.get("interval")
    if difference is None:
        return ""
    value = f"{describe_metric(key).name} {number_text(point_estimate(files.voxels.get(key)), digits=2)}"
    start = f"Principal components of the plain voxels, without any encoder, reach {value}:"
    if not interval:
        return f"{start} no interval of the difference was computed."
    low, high = interval if describe_metric(key).higher_is_better else (-interval[1], -interval[0])
    if low > 0:
        return f"{start} the embedding does better, by an interval of the difference that excludes zero."
    if high < 0:
        return f"{start} the embedding does worse, by an interval of the difference that excludes zero."
    return f"{start} that the embedding does better is not shown."


def say_for_reviewer(files: EvaluationFiles) -> str:
    """Say the same with what a reviewer asks for first."""
    key = choose_headline(files.kind, files.metrics)
    n = files.summary.get("n") or {}
    who = f"{n.get('scans', '?')} scans of {n.get('subjects', '?')} subjects at {n.get('sites', '?')} sites"
    own = (files.summary.get("probe") or {}).get("own")  # a user's estimator is given the features as they are
    fitted = f"{probe_text(files)} fitted" if own else f"standardisation and {probe_text(files)} fitted"
    start = f"Frozen features, {fitted} inside each training fold; {who}; "
    start += f"{splits_text(files)}. "
    if key is None:
        return start + "No metric was defined."
    values = files.metrics[key]
    name = describe_metric(key).name
    text = f"Pooled out-of-fold {name} {number_text(point_estimate(values))}"
    text += f" ({_bootstrap_text(files)} {interval_text(values.get('interval'))})" if values.get("interval") else ""
    mean, sd = values.get("mean"), values.get("sd")
    if mean is not None:
        spread = f", SD {number_text(sd)}" if sd is not None else ""
        text += f"; mean over folds {number_text(mean)}{spread} (a spread between folds, not a confidence interval)"
    if files.baseline.get(key):
        text += f"; covariates alone ({covariates_text(files)}) {number_text(point_estimate(files.baseline[key]))}"
    increment = files.increment.get(key) or {}
    if increment.get("difference") is not None:
        text += f"; difference {number_text(increment['difference'], signed=True)}"
        interval = interval_text(increment.get("interval"), signed=True)
        text += f" ({interval})" if interval != DASH else " (no interval)"
    return f"{start}{text}{_permutation_text(files, key)}{_voxels_text(files, key)}."


def _voxels_text(files: EvaluationFiles, key: str) -> str:
    voxels, increment = files.voxels.get(key), files.voxels_increment.get(key) or {}
    if not voxels:
        return ""
    n = (files.summary.get("voxels_about") or {}).get("n_components", "")
    text = f"; {n} principal components of the voxels {number_text(point_estimate(voxels))}"
    if increment.get("difference") is not None:
        text += f", difference {number_text(increment['difference'], signed=True)}"
        interval = interval_text(increment.get("interval"), signed=True)
        text += f" ({interval})" if interval != DASH else " (no interval)"
    p_value = increment.get("p_value")
    return text + (f", corrected resampled t-test over folds p = {p_value:.3g}" if p_value is not None else "")


def _permutation_text(files: EvaluationFiles, key: str) -> str:
    result = permutation_result(files, key)
    if result is None:
        return ""
    held = [word for word, within in (("site", result.within_site), ("fold", result.within_fold)) if within]
    where = f" within {' and '.join(held)}" if held else ""
    return (
        f"; one-sided permutation p = {result.p_value:.3g} ({result.k:,} of {result.n:,} permutations{where} as good)"
    )


def _bootstrap_text(files: EvaluationFiles) -> str:
    bootstrap = files.summary.get("bootstrap") or {}
    level = f"{float(bootstrap.get('level') or 0.95):.0%}"
    unit = f" over {bootstrap['unit']}s" if bootstrap.get("unit") else ""
    draws = f", {bootstrap['n']:,} draws" if bootstrap.get("n") else ""
    return f"{level} bootstrap{unit}{draws}:"


def _range(files: EvaluationFiles, key: str, *, scale: float = 1.0, digits: int = 0) -> str:
    interval = (files.metrics.get(key) or {}).get("interval")
    if not interval:
        return ""
    low, high = (number_text(end * scale, digits=digits) for end in interval)
    level = f"{float((files.summary.get('bootstrap') or {}).get('level') or 0.95):.0%}"
    return f" ({level} interval {low} to {high})"


def _say_pairs(files: EvaluationFiles, key: str, value: float, baseline: float | None) -> str:
    if files.kind != "binary":
        return _say_any(files, key, value, baseline)
    text = (
        f"Take one scan labelled “{files.positive}” and one labelled “{files.negative}” at random: the model gives the "
        f"higher score to the right one in {value * 100:.0f} of 100 such pairs{_range(files, key, scale=100)}; "
        "guessing would give 50."
    )
    if baseline is not None:
        text += f" Knowing only {covariates_text(files)}, and not the scan, gives {baseline * 100:.0f}."
    return text


def _say_accuracy(files: EvaluationFiles, key: str, value: float, baseline: float | None) -> str:
    chance = f"; guessing would give {100 / len(files.classes):.0f}" if files.classes else ""
    text = (
        f"With every class counting the same, {value * 100:.0f} of 100 scans are given the right class of "
        f"{files.target}{_range(files, key, scale=100)}{chance}."
    )
    if baseline is not None:
        text += f" Knowing only {covariates_text(files)}, and not the scan, gives {baseline * 100:.0f}."
    return text


def _say_error(files: EvaluationFiles, key: str, value: float, baseline: float | None) -> str:
    unit = " years" if files.target == "age" else ""
    digits = _digits(value)
    text = (
        f"The predicted {files.target} misses the true one by {number_text(value, digits=digits)}{unit} on average"
        f"{_range(files, key, digits=digits)}."
    )
    if baseline is not None:
        text += (
            f" Knowing only {covariates_text(files)}, and not the scan, the miss is "
            f"{number_text(baseline, digits=digits)}{unit}."
        )
    return text


def _say_any(files: EvaluationFiles, key: str, value: float, baseline: float | None) -> str:
    text = (
        f"{describe_metric(key).label} of {files.target}: {number_text(value, digits=2)}{_range(files, key, digits=2)}."
    )
    if baseline is not None:
        text += f" With {covariates_text(files)} alone: {number_text(baseline, digits=2)}."
    return text


def _scope(files: EvaluationFiles) -> str:
    if files.simulated:
        return "The data are simulated: this says nothing about patients."
    return "This is about groups in this study and is no diagnosis of any one person."


def _digits(value: Any) -> int:
    return 1 if abs(value) >= 1 else 3
