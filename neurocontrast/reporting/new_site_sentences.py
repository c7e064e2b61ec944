"""What happens at a site that the model has not seen, in sentences that can be quoted."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, chance_level, describe_metric, interval_text, number_text
from neurocontrast.reporting.naming import join_words
from neurocontrast.reporting.new_sites import (
    CONSTANT,
    Estimate,
    constant_estimate,
    estimate,
    is_error,
    judge_constant,
    new_site_metric,
    ratio,
    site_rows,
)

__all__ = [
    "FEW_SITES",
    "say_new_site",
    "say_new_site_details",
    "say_nothing_left",
    "say_recentred",
    "say_spread",
    "written",
]

FEW_SITES = 10
"""With fewer sites left out, their number is said to be too small to speak for another site."""


def written(value: Estimate | None, *, digits: int = 2, signed: bool = False) -> str:
    """Write a value with its interval: "7.21 (6.80 to 7.70)"."""
    if value is None:
        return DASH
    text = number_text(value.value, digits=digits, signed=signed)
    interval = interval_text(value.interval, digits=digits, signed=signed)
    return text if interval == DASH else f"{text} ({interval})"


def say_new_site(files: EvaluationFiles) -> str | None:
    """Say in one sentence what an unseen site costs, and whether anything is left; None where it is not known."""
    metric = new_site_metric(files)
    unseen = estimate(files, "unseen", "embedding", metric) if metric else None
    if metric is None or unseen is None:
        return None
    text = f"At a site that the model has not seen, the {_name(files, metric)} is {_full(files, unseen)}"
    if is_error(metric):
        return f"{text}, {_against_home(files, metric)}{_against_constant(files, metric)}."
    home = estimate(files, "home", "embedding", metric)
    beside = f", against {written(home)} at sites that it knows" if home else ""
    return f"{text}{beside}.{_against_chance(files, metric, unseen)}{_error_grows(files, metric)}"


def _name(files: EvaluationFiles, metric: str) -> str:
    about = describe_metric(metric)
    if metric == "mae":
        return f"mean absolute error of {files.target}"
    return f"{about.name} of {files.target}"


def _full(files: EvaluationFiles, value: Estimate) -> str:
    unit = " years" if files.target == "age" and files.kind == "continuous" else ""
    text = f"{number_text(value.value, digits=2)}{unit}"
    interval = interval_text(value.interval, digits=2)
    parts = [f"{files.level:.0%} interval {interval}" if interval != DASH else "no interval"]
    parts += [f"{value.n:,} scans"] if value.n is not None else []
    return f"{text} ({'; '.join(parts)})"


def _against_home(files: EvaluationFiles, metric: str) -> str:
    home, grown = estimate(files, "home", "embedding", metric), ratio(files, metric)
    known = f"{written(home)} at sites that it knows" if home else "that at sites that it knows"
    if grown is None:
        return f"against {known}"
    times = f"{number_text(grown.value, digits=2)} times"
    if grown.interval is None:
        return f"{times} (no interval) the {known}" if home else f"{times} (no interval) {known}"
    low, high = grown.interval
    text = f"{times} ({interval_text(grown.interval, digits=2)}) " + (f"the {known}" if home else known)
    return f"{text} (whether that is a change at all, these data do not settle)" if low <= 1 <= high else text


def _against_constant(files: EvaluationFiles, metric: str) -> str:
    verdict = judge_constant(files, metric)
    if verdict is None:
        return "; a constant guess was not compared"
    guess = f"the constant guess ({number_text(verdict.constant.value, digits=2)})"
    return {
        "better": f"; that is better than {guess}",
        "worse": f"; that is worse than {guess}, which never looks at a scan",
        "no better": f"; that is no better than {guess}",
        "not shown": f"; that this is better than {guess} is not shown by these data",
    }[verdict.word]


def _against_chance(files: EvaluationFiles, metric: str, unseen: Estimate) -> str:
    chance = chance_level(metric, len(files.classes))
    if chance is None:
        return ""
    level = number_text(chance, digits=2)
    if unseen.interval is None or unseen.interval[0] <= chance <= unseen.interval[1]:
        return f" That it is better than chance ({level}) there is not shown by these data."
    side = "above" if unseen.value > chance else "below"
    return f" That is {side} chance ({level})."


def _error_grows(files: EvaluationFiles, metric: str) -> str:
    """Say what becomes of an error metric, where the leading one is none."""
    errors = ((files.summary.get("new_site") or {}).get("ratio") or {}).get("embedding") or {}
    key = next((name for name in ("brier", "log_loss", "mae") if name in errors and name != metric), None)
    grown = ratio(files, key) if key else None
    if key is None or grown is None:
        return ""
    text = f" The {describe_metric(key).label} there is {written(grown)} times that at known sites"
    return f"{text}{_against_constant(files, key)}."


def say_spread(files: EvaluationFiles) -> str | None:
    """Say from where to where it runs over the left-out sites; None with fewer than two of them."""
    metric = new_site_metric(files)
    if metric is None:
        return None
    rows = site_rows(files, metric).dropna(subset=["embedding_unseen"])
    if len(rows) < 2:
        return None
    best_last = rows.sort_values("embedding_unseen", ascending=is_error(metric), kind="stable")
    best, worst = (_at(row) for row in (best_last.iloc[0], best_last.iloc[-1]))
    text = f"Site by site the {describe_metric(metric).name} runs from {best} to {worst}."
    if len(rows) < FEW_SITES:
        text += (
            f" Intervals are about other people at these {len(rows)} sites; so few sites cannot say what another site "
            "would bring, and their spread is the better guide."
        )
    return text


def _at(row: pd.Series) -> str:
    return f"{number_text(row['embedding_unseen'], digits=2)} ({row['site']}, n = {number_text(row['n'], digits=0)})"


def say_new_site_details(files: EvaluationFiles) -> str:
    """Say for a methods reviewer how the sites were left out, what the rank and the level do, and who is missing."""
    block = files.summary.get("new_site") or {}
    text = (
        f"{_design(files)}, with standardisation and penalty chosen without them; known: the same people in the main "
        "cross-validation, in which others of their site were trained on. Constant guess: "
        f"{CONSTANT[files.kind]}."
    )
    if block.get("bootstrap_unit"):
        text += (
            f" Intervals: bootstrap of {block['bootstrap_unit']}s, the same resamples throughout, probes held fixed."
        )
    if files.kind == "continuous":
        pooled = {key: estimate(files, "unseen", "embedding", key) for key in ("spearman", "r2", "bias")}
        ranks = [
            f"{'mean error' if key == 'bias' else describe_metric(key).name} {written(value, signed=key == 'bias')}"
            for key, value in pooled.items()
            if value is not None
        ]
        text += f" Pooled over left-out sites: {join_words(ranks)}." if ranks else ""
        text += _worst_bias(files)
    skipped = [f"{each['site']} ({each.get('why') or 'no reason given'})" for each in block.get("skipped") or []]
    return text + (f" Not left out: {join_words(skipped)}." if skipped else "")


def _design(files: EvaluationFiles) -> str:
    block = files.summary.get("new_site") or {}
    n_sites = block.get("n_sites") or len(block.get("left_out") or []) or len(site_rows(files, "n"))
    if str(block.get("design") or "leave-one-site-out") == "leave-one-site-out":
        return f"Each of {n_sites} sites was left out once and predicted by a probe fitted on the others"
    return f"{n_sites} sites were left out ({block['design']}) and predicted by probes fitted on the others"


def say_nothing_left(files: EvaluationFiles, metric: str) -> str:
    """Say that a guess without the scan does as well at unseen sites."""
    constant = constant_estimate(files, metric)
    chance = chance_level(metric, len(files.classes))
    guess = f"the constant guess {written(constant)}" if chance is None else f"chance {number_text(chance, digits=2)}"
    value = written(estimate(files, "unseen", "embedding", metric))
    return (
        f"At a site that the model has not seen, it is not shown to be better than a guess without the scan: "
        f"{describe_metric(metric).name} {value}, {guess}."
    )


def _worst_bias(files: EvaluationFiles) -> str:
    rows = site_rows(files, "bias").dropna(subset=["embedding_unseen_low", "embedding_unseen_high"])
    sure = rows[(rows["embedding_unseen_low"] > 0) | (rows["embedding_unseen_high"] < 0)]
    if sure.empty:
        return ""
    row = sure.iloc[int(sure["embedding_unseen"].abs().to_numpy().argmax())]
    side = "above" if row["embedding_unseen"] > 0 else "below"
    value = Estimate(
        abs(row["embedding_unseen"]), *sorted(abs(row[f"embedding_unseen_{end}"]) for end in ("low", "high"))
    )
    return (
        f" The largest shift of level is at {row['site']}: predictions lie {written(value)} {side} the truth on "
        "average; only labelled scans of the site show it."
    )


def say_recentred(files: EvaluationFiles) -> str:
    """Say what recentring reaches, and what it takes: it is never to be read as the result of a new scan."""
    metric = new_site_metric(files)
    value = estimate(files, "unseen", "recentred", metric) if metric else None
    text = (
        "Transductive: each site's own mean was taken out of its features, that of the unseen site from its unlabelled "
        "scans. It needs a batch of scans of the site before the first prediction, and takes out real differences "
        "between the people of sites too, where they were not kept on purpose; a single scan of a new site does not "
        "get it. The result above, and what is said of other test sets, is of recentred features as well; “known” and "
        "“unseen” without the word are not."
    )
    if metric is None or value is None:
        return text
    plain = estimate(files, "unseen", "embedding", metric)
    grown = ratio(files, metric, model="recentred")
    times = f", {written(grown)} times that at known sites, recentred too" if grown else ""
    constant = constant_estimate(files, metric)
    guess = f"; constant guess: {number_text(constant.value, digits=2)}" if constant else ""
    return (
        f"{text} {describe_metric(metric).label} at unseen sites: {written(value)}{times}; without recentring: "
        f"{written(plain)}{guess}."
    )
