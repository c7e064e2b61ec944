"""Evaluations of different models on the same folds, compared pair by pair."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.metrics import METRICS, RANKED
from neurocontrast.evaluation.paired import paired_test, sensitive_comparison
from neurocontrast.evaluation.significance import corrected_resampled_t, holm
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import Resamples, bootstrap_metrics, pooled_metrics
from neurocontrast.evaluation.units import choose_units
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.seeds import derive_seed

__all__ = ["Evaluated", "check_comparable", "compare_models", "compare_sensitive", "load_evaluated"]

_FORMAT = 1
_KEYS = ["participant_id", "session", "repeat"]
_SHARED = {"target": "target", "kind": "kind of target", "classes": "classes", "positive": "positive class"}


@dataclass(frozen=True)
class Evaluated:
    """A finished evaluation, as far as a comparison needs it.

    Attributes
    ----------
    name : str
        What the model is called.
    summary : dict
        ``evaluation.json``.
    predictions, folds : DataFrame
        Their tables; predictions in order of participant, session and repeat.
    site : dict
        ``balanced_accuracy``, ``low``, ``high`` and ``chance`` of the site, read off the embedding (``confounds.tsv``);
        empty where it was not.
    sensitive : DataFrame or None
        ``sensitive_predictions.tsv``, where there is one.
    """

    name: str
    summary: dict[str, Any]
    predictions: pd.DataFrame
    folds: pd.DataFrame
    site: dict[str, float] = field(default_factory=dict)
    sensitive: pd.DataFrame | None = None


def load_evaluated(folder: str | os.PathLike[str], *, name: str | None = None) -> Evaluated:
    """Read an evaluation folder.

    Raises
    ------
    ConfigError
        If it is none.
    DataError
        If it lacks columns that a comparison needs.
    """
    root = Path(folder)
    if not (root / "evaluation.json").is_file():
        raise ConfigError(f"evaluations: '{root}' is not the folder of an evaluation: it has no evaluation.json.")
    try:
        summary = json.loads((root / "evaluation.json").read_text(encoding="utf-8"))
        fits = isinstance(summary, dict) and summary.get("format") == _FORMAT and summary.keys() >= _SHARED.keys()
        if not fits:
            raise ValueError(f"evaluation.json must have format {_FORMAT} and the keys {one_of(_SHARED)}")
        text = dict.fromkeys(("participant_id", "subject_id", "session", "site", "y_pred"), str)
        if summary["kind"] != "continuous":
            text["y_true"] = str
        predictions = pd.read_csv(root / "predictions.tsv", sep="\t", dtype=text, keep_default_na=False, na_values=[""])
        folds = pd.read_csv(root / "folds.tsv", sep="\t")
        scores = [f"score_{name}" for name in summary["classes"]] if summary["kind"] == "multiclass" else ["y_score"]
        needed = {*text, *_KEYS, "fold", "y_true", *scores} - ({"y_pred"} if summary["kind"] == "continuous" else set())
        _check_columns("predictions.tsv", predictions, {"repeat", "fold", *scores}, needed=needed)
        sizes = {"repeat", "fold", "n_train", "n_test"}
        _check_columns("folds.tsv", folds, {*sizes, *METRICS[summary["kind"]]}, needed={*sizes, "held_out_site"})
        predictions["session"] = predictions["session"].fillna("")
        predictions = predictions.sort_values(_KEYS, ignore_index=True)
        site = _read_site(root / "confounds.tsv")
        sensitive = _read_sensitive(root / "sensitive_predictions.tsv")
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"'{root}': not readable as an evaluation ({error}). Evaluate again.") from error
    return Evaluated(name or root.name, summary, predictions, folds, site, sensitive)


def _read_sensitive(path: Path) -> pd.DataFrame | None:
    if not path.is_file():
        return None
    table = pd.read_csv(path, sep="\t", dtype={"participant_id": str, "session": str}, keep_default_na=False,
                        na_values=["", "n/a"])  # fmt: skip
    numeric = {str(name) for name in table if str(name).startswith(("true_", "predicted_"))}
    _check_columns(path.name, table, numeric, needed={"participant_id", "session"})
    return table.assign(session=table["session"].fillna(""))


def _read_site(path: Path) -> dict[str, float]:
    """Return how well the site is told from the embedding, over all scans; nothing where that was not computed."""
    if not path.is_file():
        return {}
    table = pd.read_csv(path, sep="\t", dtype={"column": str, "within": str, "metric": str}, keep_default_na=False,
                        na_values=["", "n/a"])  # fmt: skip
    if table.empty:  # no covariate to look for
        return {}
    columns = {"balanced_accuracy": "value", "low": "low", "high": "high", "chance": "chance"}
    _check_columns("confounds.tsv", table, set(columns.values()), needed={"column", "within", "metric", "value"})
    here = (table["column"] == "site") & (table["metric"] == "balanced_accuracy") & (table["within"] == "all")
    rows = table[here & table["value"].notna()]
    if rows.empty:
        return {}
    found = {name: rows[column].iloc[0] for name, column in columns.items() if column in rows}
    return {name: float(value) for name, value in found.items() if pd.notna(value)}


def _check_columns(file: str, table: pd.DataFrame, numeric: set[str], *, needed: set[str]) -> None:
    lacking = sorted(needed - set(table.columns))
    if lacking:
        raise ValueError(f"{file} lacks {one_of(lacking)}")
    for name in sorted(numeric & set(table.columns)):
        if table[name].dtype.kind not in "fiu":
            raise ValueError(f"{file}, column '{name}' must hold numbers")


def check_comparable(evaluations: Sequence[Evaluated]) -> None:
    """Refuse evaluations of different targets, scans or folds: their difference would mean nothing."""
    if len(evaluations) < 2:
        raise ConfigError(f"evaluations: a comparison needs two or more, got {len(evaluations)}.")
    names = [evaluation.name for evaluation in evaluations]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"names: every model needs a name of its own, but '{twice[0]}' stands twice.")
    first = evaluations[0]
    for other in evaluations[1:]:
        for key, word in _SHARED.items():
            if first.summary.get(key) != other.summary.get(key):
                raise DataError(
                    f"'{first.name}' and '{other.name}' have a different {word}: {first.summary.get(key)!r} and "
                    f"{other.summary.get(key)!r}. Evaluate both alike."
                )
        _check_rows(first, other)


def compare_models(
    evaluations: Sequence[Evaluated], *, n_bootstraps: int, level: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of models, and one of the differences of every other model from the first.

    Intervals are bootstrap intervals (BCa) over resamples, the same for all models, of what the first evaluation
    resampled: subjects, or sites. ``p_value`` is of
    the corrected resampled t-test (Nadeau and Bengio) over folds; ``p_adjusted`` counts the
    comparisons of a metric (Holm). Where sites are held out, folds are no random draws, and
    both are empty. Of the fixed design there is one test set: ``p_value`` is of McNemar's exact test, or DeLong's
    (`paired_test`), and figures that rank the images of each of several classes have no interval.
    """
    check_comparable(evaluations)
    fixed = evaluations[0].summary.get("splits") == "fixed"
    target, rows_of_scans = _target_of(evaluations[0])
    units = _units_of(evaluations[0], rows_of_scans)
    models = {evaluation.name: _out_of_fold(evaluation, target) for evaluation in evaluations}
    folds = {evaluation.name: evaluation.folds for evaluation in evaluations}
    pooled = {name: pooled_metrics(target, model, rows=model.tested) for name, model in models.items()}
    seed = derive_seed("compare", seed)
    rows = models[evaluations[0].name].tested
    names = _resampled(target, fixed=fixed)
    drawn = bootstrap_metrics(target, models, units, n_bootstraps=n_bootstraps, seed=seed, rows=rows, names=names)
    reference = evaluations[0].name
    table, differences = [], []
    for metric in target.metric_names:
        for name in models:
            low, high = _ends(drawn[name].get(metric), level)
            table.append({"model": name, "metric": metric, "value": pooled[name][metric][0], "low": low, "high": high})
        found = []
        for name in list(models)[1:]:
            known = metric in drawn[name]
            low, high = _ends(drawn[name][metric] - drawn[reference][metric] if known else None, level)
            difference = pooled[name][metric][0] - pooled[reference][metric][0]
            row = {"metric": metric, "model": name, "reference": reference, "difference": difference}
            if fixed:
                test = paired_test(target, metric, models[name], models[reference], units)
            else:
                test = _test_over_folds(folds[name], folds[reference], metric)
            found.append(row | {"low": low, "high": high} | test)
        for row, adjusted in zip(found, holm([row["p_value"] for row in found]), strict=True):
            differences.append(row | {"p_adjusted": adjusted})
    return pd.DataFrame(table), pd.DataFrame(differences)


def compare_sensitive(evaluations: Sequence[Evaluated], *, n_bootstraps: int, level: float, seed: int) -> pd.DataFrame:
    """Return the errors of sensitive columns by model, with paired differences from the first (`sensitive_comparison`).

    Empty unless every evaluation has the same columns of the same images.
    """
    constants = {}
    for each in evaluations:
        columns = (each.summary.get("sensitive") or {}).get("columns") or {}
        constants[each.name] = {name: float(figures["constant_mse"]) for name, figures in columns.items()}
    predictions = {each.name: each.sensitive for each in evaluations}
    key = derive_seed("compare-sensitive", seed)
    return sensitive_comparison(predictions, constants, n_bootstraps=n_bootstraps, level=level, seed=key)


def _resampled(target: Target, *, fixed: bool) -> tuple[str, ...]:
    """Return the metrics that have an interval; ranking images of ten classes anew takes minutes for some models."""
    ranked = RANKED if fixed and target.kind == "multiclass" else ()
    return tuple(name for name in target.metric_names if name not in ranked)


def _ends(drawn: Resamples | None, level: float) -> tuple[float | None, float | None]:
    return (None if drawn is None else drawn.interval(level=level)) or (None, None)


def _check_rows(first: Evaluated, other: Evaluated) -> None:
    same_scans = first.predictions[_KEYS].equals(other.predictions[_KEYS])
    if not same_scans:
        a, b = (set(map(tuple, evaluation.predictions[_KEYS].to_numpy())) for evaluation in (first, other))
        shown = ", ".join(str(key[0]) for key in sorted(a ^ b, key=str)[:5])
        raise DataError(
            f"'{first.name}' and '{other.name}' tested different scans ({len(a)} and {len(b)} rows; not in both: "
            f"{shown}). Evaluate both on the same scans, the second with split_file={first.name}/splits.tsv."
        )
    for column, word in (("y_true", "truth"), ("fold", "fold")):
        differing = np.flatnonzero((first.predictions[column] != other.predictions[column]).to_numpy())
        if len(differing):
            name = first.predictions["participant_id"].iloc[differing[0]]
            raise DataError(
                f"'{first.name}' and '{other.name}' have another {word} for {len(differing)} scans (first: {name}), so "
                f"they cannot be paired. Evaluate the second with split_file={first.name}/splits.tsv."
            )


def _units_of(evaluation: Evaluated, scans: pd.DataFrame) -> npt.NDArray[np.object_]:
    sites = scans["site"].astype(object).where(scans["site"].notna(), None).tolist()
    unit = evaluation.summary.get("bootstrap", {}).get("unit", "subject")
    subjects = scans["subject_id"].to_numpy(dtype=object)
    return choose_units(unit, sites, subjects, target=evaluation.summary["target"]).labels


def _target_of(evaluation: Evaluated) -> tuple[Target, pd.DataFrame]:
    """Return the target, and the rows of the predictions that hold each scan once."""
    summary, rows = evaluation.summary, evaluation.predictions.drop_duplicates(_KEYS[:2])
    classes = tuple(summary["classes"])
    if summary["kind"] == "continuous":
        values = rows["y_true"].to_numpy(dtype=float)
    else:
        values = pd.Categorical(rows["y_true"], categories=classes).codes.astype(np.int64)
    target = Target(summary["target"], summary["kind"], values, classes, summary["positive"])
    return target, rows


def _out_of_fold(evaluation: Evaluated, target: Target) -> OutOfFold:
    """Return predictions as arrays (repeat, scan); scans in the order of `_target_of`."""
    table = evaluation.predictions
    n, n_repeats = len(target.values), int(table["repeat"].max()) + 1
    place = table.groupby(_KEYS[:2], sort=True).ngroup().to_numpy(), table["repeat"].to_numpy()
    columns = [f"score_{name}" for name in target.classes] if target.kind == "multiclass" else ["y_score"]
    scores = np.full((n_repeats, n, len(columns)), np.nan)
    scores[place[1], place[0]] = table[columns].to_numpy(dtype=float)
    decisions, folds = np.zeros((n_repeats, n), dtype=np.int64), np.full((n_repeats, n), -1, dtype=np.intp)
    folds[place[1], place[0]] = table["fold"]
    if target.kind != "continuous":
        decisions[place[1], place[0]] = pd.Categorical(table["y_pred"], categories=target.classes).codes
    return OutOfFold(scores if target.kind == "multiclass" else scores[..., 0], decisions, folds, [], 0)


def _test_over_folds(model: pd.DataFrame, reference: pd.DataFrame, metric: str) -> dict[str, Any]:
    name = metric.removesuffix("_within_fold")  # within one fold, the two are one
    model, reference = (table.sort_values(["repeat", "fold"], ignore_index=True) for table in (model, reference))
    if not {name} <= set(model) & set(reference):  # a metric that older evaluations did not have
        return {"n_folds": 0, "p_value": None, "test": None}
    differences = (model[name] - reference[name]).dropna()
    if len(differences) < 2 or model["held_out_site"].notna().any():
        return {"n_folds": len(differences), "p_value": None, "test": None}
    sizes = model.loc[differences.index]
    result = corrected_resampled_t(differences, n_train=sizes["n_train"].mean(), n_test=sizes["n_test"].mean())
    p_value = result.p_value if np.isfinite(result.p_value) else None
    return {"n_folds": len(differences), "p_value": p_value, "test": "nadeau-bengio"}
