"""How the model does at sites that it has not seen, beside the sites that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, choose_headline, describe_metric, interval_text, number_text

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
"""Metrics of the order of scans, of which a guess that is the same for everybody has none."""


@dataclass(frozen=True)
class Estimate:
    """A value, the ends of its interval, and the scans behind it; all but the value may be unknown."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval; None where there is none, or one of no width."""
        known = self.low is not None and self.high is not None and self.low < self.high
        return (self.low, self.high) if known else None  # type: ignore[return-value]

    def text(self, *, signed: bool = False) -> str:
        """Write the value with its interval: "7.21 (6.80 to 7.70)"."""
        value = number_text(self.value, digits=2, signed=signed)
        interval = interval_text(self.interval, digits=2, signed=signed)
        return value if interval == DASH else f"{value} ({interval})"


def is_error(metric: str) -> bool:
    """Return whether a metric is an error: less is better, and none is best."""
    about = describe_metric(metric)
    return not about.higher_is_better and about.ideal is None


def new_site_metric(files: EvaluationFiles) -> str | None:
    """Return the metric that the panel leads with; None where there is none."""
    named = files.summary.new_site.metric if files.summary.new_site else None
    metrics = new_site_metrics(files)
    return named if named in metrics else choose_headline(files.kind, metrics)


def new_site_metrics(files: EvaluationFiles) -> list[str]:
    """Return the metrics that the panel has, in the order of the files."""
    block = files.summary.new_site
    unseen = block.unseen.get("embedding", {}) if block else {}
    columns = [] if files.new_sites is None else list(files.new_sites.columns)
    in_table = [name for name in columns if f"home_{name}" in columns]
    return list(dict.fromkeys([*unseen, *in_table]))


def estimate(files: EvaluationFiles, part: str, model: str, metric: str) -> Estimate | None:
    """Return a pooled value of evaluation.json: `part` is ``home``, ``unseen``, ``ratio`` …; None where absent."""
    block = files.summary.new_site
    found = getattr(block, part).get(model, {}).get(metric) if block else None
    return None if found is None or found.value is None else Estimate(found.value, found.low, found.high, found.n)


def ratio(files: EvaluationFiles, metric: str, *, model: str = "embedding") -> Estimate | None:
    """Return the error at unseen sites over that at known ones; None where it means nothing."""
    return estimate(files, "ratio", model, metric) if is_error(metric) else None


def recentred(files: EvaluationFiles) -> bool:
    """Return whether features were recentred by site, with unlabelled scans of the unseen site."""
    return files.summary.new_site is not None and "recentred" in files.summary.new_site.unseen


def constant_estimate(files: EvaluationFiles, metric: str) -> Estimate | None:
    """Return what a constant guess reaches at the unseen sites, pooled; None where the metric has no meaning for it."""
    return None if metric in _ORDERS else estimate(files, "unseen", "constant", metric)


def judge_constant(files: EvaluationFiles, metric: str, *, model: str = "embedding") -> str | None:
    """Say how the embedding at unseen sites compares with the constant guess; None where either is missing.

    ``better``, ``worse``, ``no better``, or ``not shown``: better by its value, but not beyond its interval. A paired
    difference decides where there is one; else the intervals must lie apart, which is stricter.
    """
    unseen, constant = estimate(files, "unseen", model, metric), constant_estimate(files, metric)
    if unseen is None or constant is None:
        return None
    paired = estimate(files, "unseen_minus_constant", model, metric)
    gain, ends = unseen.value - constant.value, (-np.inf, np.inf)
    if paired is not None:
        gain, ends = paired.value, paired.interval or ends
    elif unseen.interval is not None:
        low, high = constant.interval or (constant.value, constant.value)
        ends = (unseen.interval[0] - high, unseen.interval[1] - low)
    if is_error(metric):
        gain, ends = -gain, (-ends[1], -ends[0])
    return "better" if ends[0] > 0 else "worse" if ends[1] < 0 else "not shown" if gain > 0 else "no better"


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
    table = table.assign(site=table["site"].fillna("not stated")).drop_duplicates(["model", "site"])
    main = table[table["model"] == "embedding"]
    rows = main.reindex(columns=["site", "n", "n_train", "note"]).reset_index(drop=True)
    rows["note"] = rows["note"].fillna("").astype(object)
    for model in MODELS:
        values = table[table["model"] == model].set_index("site").reindex(rows["site"])
        for end in ("", "_low", "_high"):
            for part, source in (("home", f"home_{metric}{end}"), ("unseen", f"{metric}{end}")):
                rows[f"{model}_{part}{end}"] = values[source].to_numpy(dtype=float) if source in values else np.nan
    return rows.sort_values(["n", "site"], ascending=[False, True], ignore_index=True)
