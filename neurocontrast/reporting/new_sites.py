"""How the model does at sites that it has not seen, beside the sites that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import chance_level, choose_headline, describe_metric

__all__ = [
    "CONSTANT",
    "MODELS",
    "Estimate",
    "Verdict",
    "constant_estimate",
    "estimate",
    "is_error",
    "is_lost",
    "judge_constant",
    "new_site_metric",
    "new_site_metrics",
    "nothing_left",
    "ratio",
    "recentred",
    "site_rows",
]

MODELS: Mapping[str, str] = {
    "embedding": "Embedding",
    "recentred": "Embedding, recentred (transductive)",
    "baseline": "Covariates only",
    "constant": "Constant guess",
}
"""What the models of new_sites.tsv are called."""

CONSTANT: Mapping[str, str] = {
    "continuous": "the median of the training sites, the same for everybody",
    "binary": "the share of positives at the training sites, the same for everybody",
    "multiclass": "the shares of the classes at the training sites, the same for everybody",
}
"""What the constant guess is, by kind of target."""

_ORDERS = {"auc", "auc_within_fold", "average_precision", "pearson", "spearman", "age_bias_slope", "calibration_slope",
           "calibration_intercept"}  # fmt: skip
"""Metrics that ask for the order of scans, of which a guess that is the same for everybody has none."""
_MEANS = ("mae", "brier", "log_loss", "accuracy", "bias")
_PARTS = ("", "_low", "_high")


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, if it has one.

    Attributes
    ----------
    value : float
        The value.
    low, high : float or None
        Ends of the interval; None without one.
    n : int or None
        Scans behind it.
    """

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval; None where there is none, or one of no width."""
        return (
            (self.low, self.high) if self.low is not None and self.high is not None and self.low < self.high else None
        )


@dataclass(frozen=True)
class Verdict:
    """How the embedding at unseen sites compares with a guess that is the same for everybody.

    Attributes
    ----------
    word : str
        ``better``, ``worse``, ``no better``, or ``not shown``: better by its value, but not beyond its interval.
    constant : Estimate
        What the constant guess reaches.
    """

    word: str
    constant: Estimate


def is_error(metric: str) -> bool:
    """Whether a metric is an error: less is better, and none is best."""
    about = describe_metric(metric)
    return not about.higher_is_better and about.ideal is None


def new_site_metric(files: EvaluationFiles) -> str | None:
    """Return the metric that the panel leads with; None where there is none."""
    named = (files.summary.get("new_site") or {}).get("metric")
    metrics = new_site_metrics(files)
    return str(named) if named in metrics else choose_headline(files.kind, metrics)


def new_site_metrics(files: EvaluationFiles) -> list[str]:
    """Return the metrics that the panel has, in the order of the files."""
    unseen = ((files.summary.get("new_site") or {}).get("unseen") or {}).get("embedding") or {}
    columns = [] if files.new_sites is None else list(files.new_sites.columns)
    in_table = [name for name in columns if f"home_{name}" in columns]
    return list(dict.fromkeys([*unseen, *in_table]))


def estimate(files: EvaluationFiles, part: str, model: str, metric: str) -> Estimate | None:
    """Return a pooled value of evaluation.json: `part` is ``home``, ``unseen``, ``ratio`` …; None where absent."""
    section = ((files.summary.get("new_site") or {}).get(part) or {}).get(model) or {}
    figures: Mapping[str, Any] = section.get(metric) or {}
    value = figures.get("value", figures.get("difference"))
    if value is None:
        return None
    n = figures.get("n")
    return Estimate(float(value), figures.get("low"), figures.get("high"), None if n is None else int(n))


def ratio(files: EvaluationFiles, metric: str, *, model: str = "embedding") -> Estimate | None:
    """Return the error at unseen sites over that at known ones; None where it means nothing."""
    return estimate(files, "ratio", model, metric) if is_error(metric) else None


def recentred(files: EvaluationFiles) -> bool:
    """Whether features were recentred by site, with unlabelled scans of the unseen site."""
    table = files.new_sites
    in_table = table is not None and bool((table["model"] == "recentred").any())
    return in_table or bool(((files.summary.get("new_site") or {}).get("unseen") or {}).get("recentred"))


def constant_estimate(files: EvaluationFiles, metric: str) -> Estimate | None:
    """Return what a constant guess reaches at the unseen sites, pooled; None where it cannot be told.

    Where evaluation.json does not have it, metrics that are means over scans are averaged over the
    sites of new_sites.tsv, each counting its scans.
    """
    if metric in _ORDERS:
        return None
    known = estimate(files, "unseen", "constant", metric)
    if known is not None or files.new_sites is None or metric not in _MEANS or metric not in files.new_sites:
        return known
    rows = files.new_sites[(files.new_sites["model"] == "constant") & files.new_sites[metric].notna()]
    if rows.empty or not rows["n"].sum() > 0:
        return None
    return Estimate(float(np.average(rows[metric], weights=rows["n"])), n=int(rows["n"].sum()))


def judge_constant(files: EvaluationFiles, metric: str, *, model: str = "embedding") -> Verdict | None:
    """Compare the embedding at unseen sites with the constant guess; None where either is missing.

    A paired difference decides where there is one; else the intervals must lie apart, which is stricter.
    """
    unseen, constant = estimate(files, "unseen", model, metric), constant_estimate(files, metric)
    if unseen is None or constant is None:
        return None
    sign = -1.0 if is_error(metric) else 1.0
    paired = estimate(files, "unseen_minus_constant", model, metric)
    gain = paired.value if paired is not None else unseen.value - constant.value
    low, high = _gain_limits(unseen, constant, paired)
    low, high = (sign * low, sign * high) if sign > 0 else (sign * high, sign * low)
    word = "better" if low > 0 else "worse" if high < 0 else "not shown" if sign * gain > 0 else "no better"
    return Verdict(word, constant)


def nothing_left(files: EvaluationFiles, metric: str) -> bool:
    """Whether these data do not show the embedding at unseen sites to be better than a guess without the scan."""
    verdict = judge_constant(files, metric)
    chance = chance_level(metric, len(files.classes))
    unseen = estimate(files, "unseen", "embedding", metric)
    if unseen is not None and chance is not None:
        return unseen.interval is not None and unseen.interval[0] <= chance
    return verdict is not None and verdict.word != "better" and unseen is not None and unseen.interval is not None


def is_lost(files: EvaluationFiles, metric: str) -> bool:
    """Whether the intervals say that an unseen site does worse than known ones."""
    grown = ratio(files, metric)
    if grown is not None:
        return grown.interval is not None and grown.interval[0] > 1
    home, unseen = (estimate(files, part, "embedding", metric) for part in ("home", "unseen"))
    if home is None or unseen is None or home.interval is None or unseen.interval is None:
        return False
    return unseen.interval[0] > home.interval[1] if is_error(metric) else unseen.interval[1] < home.interval[0]


def _gain_limits(unseen: Estimate, constant: Estimate, paired: Estimate | None) -> tuple[float, float]:
    """Return the least and the greatest difference from the constant guess that the intervals allow."""
    nothing = (-np.inf, np.inf)
    if paired is not None:
        return paired.interval or nothing
    if unseen.interval is None:
        return nothing
    other = constant.interval or (constant.value, constant.value)
    return unseen.interval[0] - other[1], unseen.interval[1] - other[0]


def site_rows(files: EvaluationFiles, metric: str) -> pd.DataFrame:
    """Return one row a site, the largest first.

    Returns
    -------
    DataFrame
        ``site``, ``n``, ``n_train``, ``note``, and of each model ``<model>_home`` and ``<model>_unseen`` with
        their ends ``…_low`` and ``…_high``; NaN where a model or a value is absent.
    """
    table = files.new_sites
    if table is None:
        table = pd.DataFrame({name: pd.Series(dtype=object) for name in ("site", "model", "n", "n_train", "note")})
    table = table.assign(site=table["site"].fillna("not stated"))
    main = table[table["model"] == "embedding"].drop_duplicates("site")
    rows = main.reindex(columns=["site", "n", "n_train", "note"]).reset_index(drop=True)
    rows["note"] = rows["note"].fillna("").astype(object)
    for model in MODELS:
        values = table[table["model"] == model].drop_duplicates("site").set_index("site")
        for end in _PARTS:
            for part, source in (("home", f"home_{metric}{end}"), ("unseen", f"{metric}{end}")):
                found = values[source] if source in values else pd.Series(np.nan, index=values.index)
                rows[f"{model}_{part}{end}"] = found.reindex(rows["site"]).to_numpy(dtype=float)
    return rows.sort_values(["n", "site"], ascending=[False, True], ignore_index=True)
