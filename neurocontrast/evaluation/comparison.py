"""Evaluations of different models on the same folds: differences pair by pair, and site against target."""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.fitting import OutOfFold
from neurocontrast.evaluation.metrics import METRICS, RANKED, finite_or_none, top_hits
from neurocontrast.evaluation.schema import Estimate, Evaluation, NewSite, read_evaluation
from neurocontrast.evaluation.significance import delong_test, fold_p_value, holm, mcnemar_test
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import bootstrap_metrics, choose_units
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.seeds import derive_seed
from neurocontrast.tables import read_table

__all__ = ["Evaluated", "compare_models", "load_evaluated", "tradeoff_table", "unseen_columns"]

Texts = npt.NDArray[np.object_]
_SCAN = ["participant_id", "session"]
_KEYS = [*_SCAN, "repeat"]
_SHARED = {"target": "target", "kind": "kind of target", "classes": "classes", "positive": "positive class"}


@dataclass(frozen=True)
class Evaluated:
    """A finished evaluation; `site` says how well the embedding tells the site (a row of ``confounds.tsv``)."""

    name: str
    evaluation: Evaluation
    predictions: pd.DataFrame
    folds: pd.DataFrame
    site: dict[str, float] = field(default_factory=dict)


def load_evaluated(folder: str | os.PathLike[str], *, name: str | None = None) -> Evaluated:
    """Read an evaluation folder; refuse one that lacks a file or a column that a comparison needs."""
    root = Path(folder)
    if not (root / "evaluation.json").is_file():
        raise ConfigError(f"evaluations: '{root}' is not the folder of an evaluation: it has no evaluation.json.")
    evaluation = read_evaluation(root)
    kind, scores = evaluation.kind, _score_columns(evaluation)
    texts = {"participant_id", "subject_id", "session", "site", *(() if kind == "continuous" else ("y_pred", "y_true"))}
    sizes = {"repeat", "fold", "n_train", "n_test"}
    predictions = _read_table(
        root / "predictions.tsv", texts=texts, needed={*texts, "repeat", "fold", "y_true", *scores},
        numeric={"repeat", "fold", *scores},
    )  # fmt: skip
    folds = _read_table(root / "folds.tsv", needed={*sizes, "held_out_site"}, numeric={*sizes, *METRICS[kind]})
    site = _read_site(root / "confounds.tsv")
    predictions["session"] = predictions["session"].fillna("")
    predictions = predictions.sort_values(_KEYS, ignore_index=True)
    return Evaluated(name or root.name, evaluation, predictions, folds, site)


def _score_columns(evaluation: Evaluation) -> list[str]:
    return [f"score_{name}" for name in evaluation.classes] if evaluation.kind == "multiclass" else ["y_score"]


def _read_table(
    path: Path, *, needed: set[str], numeric: Set[str] = frozenset(), texts: Set[str] = frozenset()
) -> pd.DataFrame:
    types = dict.fromkeys(texts, str)
    table = read_table(path, needed=sorted(needed), remedy="Evaluate again.", dtype=types, na_values=["", "n/a"])
    for name in sorted(numeric & set(table.columns)):
        if table[name].dtype.kind not in "fiu":
            raise DataError(f"{path}, column '{name}' must hold numbers. Evaluate again.")
    return table


def _read_site(path: Path) -> dict[str, float]:
    """Return how well the site is told from the embedding, over all scans; nothing where that was not computed."""
    if not path.is_file() or read_table(path).empty:  # no covariate to look for
        return {}
    columns = {"balanced_accuracy": "value", "low": "low", "high": "high", "chance": "chance"}
    texts = {"column", "within", "metric"}
    table = _read_table(path, needed={*texts, "value"}, numeric=set(columns.values()), texts=texts)
    here = (table["column"] == "site") & (table["metric"] == "balanced_accuracy") & (table["within"] == "all")
    found = table[here & table["value"].notna()].reindex(columns=list(columns.values())).dropna(axis=1).head(1)
    return {name: float(found[column].iloc[0]) for name, column in columns.items() if len(found) and column in found}


def _check_comparable(evaluations: Sequence[Evaluated]) -> None:
    """Refuse evaluations of different targets, scans or folds: their difference would mean nothing."""
    if len(evaluations) < 2:
        raise ConfigError(f"evaluations: a comparison needs two or more, got {len(evaluations)}.")
    names = [evaluation.name for evaluation in evaluations]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"names: every model needs a name of its own, but '{twice[0]}' is given twice.")
    first = evaluations[0]
    for other in evaluations[1:]:
        for key, word in _SHARED.items():
            ours, theirs = getattr(first.evaluation, key), getattr(other.evaluation, key)
            if ours != theirs:
                raise DataError(
                    f"'{first.name}' and '{other.name}' have a different {word}: {ours!r} and {theirs!r}. Evaluate "
                    "both alike."
                )
        _check_rows(first, other)


def _check_rows(first: Evaluated, other: Evaluated) -> None:
    remedy = f"second with split_file={first.name}/splits.tsv."
    if not first.predictions[_KEYS].equals(other.predictions[_KEYS]):
        a, b = (set(map(tuple, evaluation.predictions[_KEYS].to_numpy())) for evaluation in (first, other))
        shown = ", ".join(str(key[0]) for key in sorted(a ^ b, key=str)[:5])
        raise DataError(
            f"'{first.name}' and '{other.name}' tested different scans ({len(a)} and {len(b)} rows; not in both: "
            f"{shown}). Evaluate both on the same scans, the {remedy}"
        )
    for column, word in (("y_true", "truth"), ("fold", "fold")):
        differing = np.flatnonzero((first.predictions[column] != other.predictions[column]).to_numpy())
        if len(differing):
            name = first.predictions["participant_id"].iloc[differing[0]]
            raise DataError(
                f"'{first.name}' and '{other.name}' have another {word} for {len(differing)} scans (first: {name}), so "
                f"they cannot be paired. Evaluate the {remedy}"
            )


def compare_models(
    evaluations: Sequence[Evaluated], *, n_bootstraps: int, level: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of models, and one of the differences of every other model from the first.

    Intervals are BCa intervals over resamples, the same for all models, of what the first evaluation resampled.
    ``p_value`` is of the corrected resampled t-test over folds, or, of the one test set of the fixed design, of
    `_paired_test`; ``p_adjusted`` counts the comparisons of a metric (Holm). Where sites are held out, folds are no
    random draws, and both are empty. Of several classes of the fixed design, figures that rank have no interval.
    """
    _check_comparable(evaluations)
    fixed = evaluations[0].evaluation.splits == "fixed"
    target, units = _target_of(evaluations[0])
    models = {each.name: _out_of_fold(each, target) for each in evaluations}
    folds = {each.name: each.folds for each in evaluations}
    drawn = bootstrap_metrics(
        target, models, units, n_bootstraps=n_bootstraps, seed=derive_seed("compare", seed),
        rows=models[evaluations[0].name].tested, plain=RANKED if fixed and target.kind == "multiclass" else (),
    )  # fmt: skip
    reference, *others = models
    table, differences = [], []
    for metric in target.metric_names:
        for name in models:
            table.append({"model": name, "metric": metric, **drawn[name][metric].figure(level=level)})
        rows_of_metric = []
        for name in others:
            figure = (drawn[name][metric] - drawn[reference][metric]).figure(level=level)
            row = {"metric": metric, "model": name, "reference": reference, "difference": figure.pop("value")}
            if fixed:
                test = _paired_test(target, metric, models[name], models[reference], units)
            else:
                test = _test_over_folds(folds[name], folds[reference], metric)
            rows_of_metric.append(row | figure | test)
        adjusted = holm([row["p_value"] for row in rows_of_metric])
        differences += [row | {"p_adjusted": each} for row, each in zip(rows_of_metric, adjusted, strict=True)]
    return pd.DataFrame(table), pd.DataFrame(differences)


def _target_of(evaluated: Evaluated) -> tuple[Target, Texts]:
    """Return the target of each scan, and the units that a bootstrap resamples."""
    evaluation, rows = evaluated.evaluation, evaluated.predictions.drop_duplicates(_SCAN)
    classes, values = tuple(evaluation.classes), rows["y_true"].to_numpy()
    if evaluation.kind != "continuous":
        values = pd.Categorical(rows["y_true"], categories=classes).codes.astype(np.int64)
    target = Target(evaluation.target, evaluation.kind, values, classes, evaluation.positive)
    sites = rows["site"].astype(object).where(rows["site"].notna(), None).tolist()
    subjects, unit = rows["subject_id"].to_numpy(dtype=object), evaluation.bootstrap.unit or "subject"
    return target, choose_units(unit, sites, subjects, target=target.name).labels


def _out_of_fold(evaluation: Evaluated, target: Target) -> OutOfFold:
    """Return predictions as arrays (repeat, scan); scans in the order of `_target_of`."""
    table = evaluation.predictions
    n, n_repeats = len(target.values), int(table["repeat"].max()) + 1
    place = table["repeat"].to_numpy(), table.groupby(_SCAN, sort=True).ngroup().to_numpy()
    columns = _score_columns(evaluation.evaluation)
    scores = np.full((n_repeats, n, len(columns)), np.nan)
    scores[place] = table[columns].to_numpy(dtype=float)
    decisions, folds = np.zeros((n_repeats, n), dtype=np.int64), np.full((n_repeats, n), -1, dtype=np.intp)
    folds[place] = table["fold"]
    if target.kind != "continuous":
        decisions[place] = pd.Categorical(table["y_pred"], categories=target.classes).codes
    return OutOfFold(scores if target.kind == "multiclass" else scores[..., 0], decisions, folds, [], 0)


def _test_over_folds(model: pd.DataFrame, reference: pd.DataFrame, metric: str) -> dict[str, Any]:
    name = metric.removesuffix("_within_fold")  # within one fold, the two are one
    model, reference = (table.sort_values(["repeat", "fold"], ignore_index=True) for table in (model, reference))
    if not {name} <= set(model) & set(reference):  # a metric that older evaluations did not have
        return {"n_folds": 0, "p_value": None, "test": None}
    differences = (model[name] - reference[name]).dropna()
    p_value = fold_p_value(differences, model)
    test = "nadeau-bengio" if len(differences) > 1 and model["held_out_site"].isna().all() else None
    return {"n_folds": len(differences), "p_value": p_value, "test": test}


def _paired_test(target: Target, metric: str, model: OutOfFold, reference: OutOfFold, units: Texts) -> dict[str, Any]:
    """Return the p-value of a difference on one test set: McNemar's for shares of images, DeLong's for an AUC.

    Both take images for independent draws: there is none where units hold several.
    """
    rows, found = model.tested, {"n_folds": 1, "p_value": None, "test": None}
    truth, both = target.values[rows], (model, reference)
    if len(set(units[rows])) < len(rows):
        return found
    if metric == "auc" and target.kind == "binary":
        if np.bincount(truth.astype(int), minlength=2).min() < 2:
            return found
        p_value = delong_test(truth, model.scores[0, rows], reference.scores[0, rows]).p_value
        return found | {"p_value": finite_or_none(p_value), "test": "delong"}
    hits = [each.decisions[0, rows] == truth for each in both]
    if metric == "top5_accuracy":
        hits = [top_hits(truth, each.scores[0, rows]) >= 0.5 for each in both]
    elif target.kind == "binary" and metric in ("sensitivity", "specificity"):
        hits = [each[truth == (metric == "sensitivity")] for each in hits]
    elif metric != "accuracy":
        return found
    return found | {"p_value": mcnemar_test(*hits), "test": "mcnemar"}


def tradeoff_table(evaluations: Sequence[Evaluated], models: pd.DataFrame, *, metric: str) -> pd.DataFrame:
    """Return one row a model: how well the site can be told, and the target at known and unseen sites."""
    rows = [
        {"model": each.name} | _site(each) | {"metric": metric} | _target(each, models, metric) for each in evaluations
    ]
    table = pd.DataFrame(rows)
    measured = table[["site_balanced_accuracy", "unseen", "n_outside"]].notna().any(axis=None)
    return table if measured else table.iloc[:0]


def _site(evaluated: Evaluated) -> dict[str, float | None]:
    new_site = evaluated.evaluation.new_site
    predictability = None if new_site is None else new_site.site_predictability
    found = evaluated.site if predictability is None else predictability.model_dump()
    names = {"site_balanced_accuracy": "balanced_accuracy", "site_low": "low", "site_high": "high"}
    return {name: found.get(key) for name, key in (names | {"site_chance": "chance"}).items()}


def _target(evaluated: Evaluated, models: pd.DataFrame, metric: str) -> dict[str, Any]:
    evaluation, new_site = evaluated.evaluation, evaluated.evaluation.new_site or NewSite()
    rows = models[(models["model"] == evaluated.name) & (models["metric"] == metric)]
    whole = Estimate() if rows.empty else Estimate.model_construct(**rows.iloc[0][["value", "low", "high"]])
    known, unseen = whole, unseen_columns(evaluated, metric)
    if evaluation.splits == "leave-site-out":  # the comparison itself is of unseen sites
        known = new_site.home.get("embedding", {}).get(metric, Estimate())
        unseen |= _ends("unseen", whole)
    constant = new_site.unseen.get("constant", {}).get(metric, Estimate())
    outside = evaluation.outlyingness
    return {
        **_ends("known", known),
        **unseen,
        "constant": constant.value,
        "n": None if outside is None else outside.n,
        "n_outside": None if outside is None else outside.n_outside,
    }


def unseen_columns(evaluated: Evaluated, metric: str) -> dict[str, float | None]:
    """Return the metric at unseen sites, and its ratio to that at known ones, with their ends; None where absent."""
    new_site = evaluated.evaluation.new_site or NewSite()
    unseen, ratio = (part.get("embedding", {}).get(metric, Estimate()) for part in (new_site.unseen, new_site.ratio))
    return _ends("unseen", unseen) | _ends("ratio", ratio)


def _ends(name: str, estimate: Estimate) -> dict[str, float | None]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
