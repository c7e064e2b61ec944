"""Figures of an evaluation, from its out-of-fold predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.intervals import Resamples
from neurocontrast.evaluation.metrics import (
    POOLED_ONLY,
    compute_metrics,
    explain_undefined,
    explain_value,
    finite_or_none,
)
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import bootstrap_metrics, pooled_metrics, resampled_names
from neurocontrast.seeds import derive_seed

__all__ = ["fold_table", "metric_summary"]

Models = dict[str, OutOfFold]


def fold_table(target: Target, splits: list[Split], models: Models, *, strength_name: str | None) -> pd.DataFrame:
    """Return one row a split: sizes, metrics of embedding and baseline, the chosen `strength_name` if any."""
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
            row |= {prefix + name: finite_or_none(values[name][0]) for name in _fold_metrics(target)}
        if strength_name is not None:
            row[strength_name] = models["embedding"].strengths[number]
        row["held_out_site"] = split.held_out_site
        rows.append(row)
    return pd.DataFrame(rows)


def metric_summary(
    target: Target, folds: pd.DataFrame, models: Models, units: npt.NDArray[np.object_], settings: EvaluationSettings
) -> dict[str, Any]:
    """Return ``metrics``, ``baseline`` and ``increment`` of evaluation.json, and where there are voxels theirs.

    ``mean`` and ``sd`` are over the folds in which a metric is defined, ``pooled`` is of all
    out-of-fold predictions together (averaged over repeats), ``interval`` is of ``pooled``, over
    resamples of `units` (the subject or site of each scan).
    A metric that is not defined is None and has a ``reason``.
    """
    rows = models["embedding"].tested
    pooled = {name: pooled_metrics(target, model, rows=rows) for name, model in models.items()}
    resamples: dict[str, dict[str, Resamples]] = {}
    if settings.n_bootstraps:
        seed = derive_seed("intervals", settings.seed)
        names = resampled_names(target, rows, fixed=settings.split_column is not None)
        resamples = bootstrap_metrics(
            target, models, units, n_bootstraps=settings.n_bootstraps, seed=seed, rows=rows, names=names
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
            for name in target.metric_names
        }
    figures = {"metrics": parts["embedding"], "baseline": parts["baseline"]}
    for model, key in (("baseline", "increment"), ("voxels", "voxels_increment")):
        if model in models:
            figures[key] = {
                name: _difference(pooled, resamples, name, model, settings.confidence_level)
                for name in target.metric_names
            }
    return figures | ({"voxels": parts["voxels"]} if "voxels" in models else {})


def _difference(
    pooled: dict[str, dict[str, npt.NDArray[np.float64]]],
    resamples: dict[str, dict[str, Resamples]],
    name: str,
    other: str,
    level: float,
) -> dict[str, Any]:
    """Return the embedding minus another model, and its interval."""
    difference = finite_or_none(pooled["embedding"][name][0] - pooled[other][name][0])
    ours = resamples.get("embedding", {})
    drawn = ours[name] - resamples[other][name] if name in ours else None
    return {"difference": difference, "interval": _interval(drawn, difference, level)}


def _describe(
    folds: pd.Series | None, pooled: float, drawn: Resamples | None, level: float, reason: str
) -> dict[str, Any]:
    per_fold = np.array([]) if folds is None else folds.dropna().to_numpy(dtype=float)
    value = finite_or_none(pooled)
    described: dict[str, Any] = {
        "mean": finite_or_none(per_fold.mean()) if len(per_fold) else None,
        "sd": finite_or_none(per_fold.std(ddof=1)) if len(per_fold) > 1 else None,
        "pooled": value,
        "interval": _interval(drawn, value, level),
        "n_folds_defined": len(per_fold),
    }
    if value is None:
        described["reason"] = reason
    return described


def _interval(drawn: Resamples | None, value: float | None, level: float) -> list[float] | None:
    found = None if drawn is None or value is None else drawn.interval(level=level)
    return None if found is None else list(found)


def _fold_metrics(target: Target) -> list[str]:
    return [name for name in target.metric_names if name not in POOLED_ONLY]


def _prefixed(models: Models) -> list[tuple[str, OutOfFold]]:
    return [("" if name == "embedding" else f"{name}_", model) for name, model in models.items()]
