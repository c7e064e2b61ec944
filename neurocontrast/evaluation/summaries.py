"""Figures of an evaluation, from its out-of-fold predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.metrics import METRICS, POOLED_ONLY, compute_metrics, explain_undefined, explain_value
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.table import NO_SITE
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import bootstrap_metrics, percentile_interval, pooled_metrics
from neurocontrast.seeds import derive_seed

__all__ = ["fold_table", "metric_summary", "site_table"]

Models = dict[str, OutOfFold]


def fold_table(target: Target, splits: list[Split], models: Models, *, strength_name: str) -> pd.DataFrame:
    """Return one row a split: sizes, metrics of the embedding and of the baseline, the chosen `strength_name`."""
    rows = []
    for number, split in enumerate(splits):
        row: dict[str, Any] = {
            "repeat": split.repeat,
            "fold": split.fold,
            "n_train": len(split.train),
            "n_test": len(split.test),
            "n_positive_test": int((target.values[split.test] == 1).sum()) if target.kind == "binary" else None,
        }
        for prefix, model in _prefixed(models):
            values = compute_metrics(
                target.kind,
                target.values[split.test],
                model.scores[split.repeat, split.test],
                decisions=model.decisions[split.repeat, split.test],
            )
            row |= {prefix + name: _number(values[name][0]) for name in _fold_metrics(target)}
        row[strength_name] = models["embedding"].strengths[number]
        row["held_out_site"] = split.held_out_site
        rows.append(row)
    return pd.DataFrame(rows)


def metric_summary(
    target: Target, folds: pd.DataFrame, models: Models, subjects: npt.NDArray[np.object_], settings: EvaluationSettings
) -> dict[str, Any]:
    """Return ``metrics``, ``baseline`` and ``increment`` of evaluation.json.

    ``mean`` and ``sd`` are over the folds in which a metric is defined, ``pooled`` is of all
    out-of-fold predictions together (averaged over repeats), ``interval`` is of ``pooled``.
    A metric that is not defined is None and has a ``reason``.
    """
    rows = models["embedding"].tested
    pooled = {name: pooled_metrics(target, model, rows=rows) for name, model in models.items()}
    resamples: dict[str, dict[str, np.ndarray]] = {}
    if settings.n_bootstraps:
        seed = derive_seed("intervals", settings.seed)
        resamples = bootstrap_metrics(
            target, models, subjects, n_bootstraps=settings.n_bootstraps, seed=seed, rows=rows
        )
    parts: dict[str, Any] = {}
    for model, (prefix, _) in zip(models, _prefixed(models), strict=True):
        parts[model] = {
            name: _describe(
                folds.get(prefix + name.removesuffix("_within_fold")),  # within one fold, the two are one
                pooled[model][name][0],
                resamples.get(model, {}).get(name),
                settings.confidence_level,
                explain_value(name, explain_undefined(target.kind, target.values[rows], target.classes)),
            )
            for name in METRICS[target.kind]
        }
    increment = {}
    for name in METRICS[target.kind]:
        difference = _number(pooled["embedding"][name][0] - pooled["baseline"][name][0])
        drawn = resamples["embedding"][name] - resamples["baseline"][name] if resamples else None
        increment[name] = {
            "difference": difference,
            "interval": _interval(drawn, difference, settings.confidence_level),
        }
    return {"metrics": parts["embedding"], "baseline": parts["baseline"], "increment": increment}


def site_table(
    table: pd.DataFrame,
    target: Target,
    models: Models,
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
) -> pd.DataFrame:
    """Return one row a site: counts, pooled out-of-fold metrics with intervals, the baseline's, and a note.

    Intervals resample the subjects of the site; a site with fewer than ``min_site_n`` has none.
    """
    sites = table["site"].fillna(NO_SITE).to_numpy()
    rows = []
    tested = models["embedding"].tested
    for site in sorted(set(sites[tested])):
        members = tested[sites[tested] == site]
        row: dict[str, Any] = {"site": site, "n": len(members)}
        if target.kind != "continuous":
            counts = np.bincount(target.values[members], minlength=len(target.classes))
            row |= {f"n_{name}": int(count) for name, count in zip(target.classes, counts, strict=True)}
        drawn: dict[str, np.ndarray] = {}
        if settings.n_bootstraps and len(set(subjects[members])) >= settings.min_site_n:
            drawn = bootstrap_metrics(
                target,
                {"embedding": models["embedding"]},
                subjects,
                n_bootstraps=settings.n_bootstraps,
                seed=derive_seed("site-intervals", settings.seed, site),
                rows=members,
            )["embedding"]
        pooled = {name: pooled_metrics(target, model, rows=members) for name, model in models.items()}
        for name in _fold_metrics(target):
            value = _number(pooled["embedding"][name][0])
            low, high = _interval(drawn.get(name), value, settings.confidence_level) or (None, None)
            row |= {name: value, f"{name}_low": low, f"{name}_high": high}
        row |= {f"baseline_{name}": _number(pooled["baseline"][name][0]) for name in _fold_metrics(target)}
        row["note"] = _note(target, members, subjects, settings)
        rows.append(row)
    return pd.DataFrame(rows)


def _note(
    target: Target, members: npt.NDArray[np.intp], subjects: npt.NDArray[np.object_], settings: EvaluationSettings
) -> str | None:
    reason = explain_undefined(target.kind, target.values[members], target.classes)
    n = len(set(subjects[members]))
    small = f"fewer than {settings.min_site_n} subjects ({n}): no interval" if n < settings.min_site_n else None
    return "; ".join(text for text in (reason, small) if text) or None


def _describe(
    folds: pd.Series | None, pooled: float, drawn: np.ndarray | None, level: float, reason: str
) -> dict[str, Any]:
    per_fold = np.array([]) if folds is None else folds.dropna().to_numpy(dtype=float)
    value = _number(pooled)
    described: dict[str, Any] = {
        "mean": _number(per_fold.mean()) if len(per_fold) else None,
        "sd": _number(per_fold.std(ddof=1)) if len(per_fold) > 1 else None,
        "pooled": value,
        "interval": _interval(drawn, value, level),
        "n_folds_defined": len(per_fold),
    }
    if value is None:
        described["reason"] = reason
    return described


def _interval(drawn: np.ndarray | None, value: float | None, level: float) -> list[float] | None:
    found = None if drawn is None or value is None else percentile_interval(drawn, level=level)
    return None if found is None else list(found)


def _fold_metrics(target: Target) -> list[str]:
    return [name for name in METRICS[target.kind] if name not in POOLED_ONLY]


def _prefixed(models: Models) -> list[tuple[str, OutOfFold]]:
    return [("" if name == "embedding" else f"{name}_", model) for name, model in models.items()]


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
