"""What a weight of the objective buys: how well the site can be told, against how well the target can."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from neurocontrast.evaluation.comparison import Evaluated
from neurocontrast.evaluation.schema import Estimate, NewSite

__all__ = ["Sweep", "find_sweep", "tradeoff_table", "unseen_columns"]

_SAME = ("encoder", "preprocessing", "epochs", "n_training_scans")
"""What the record of two runs must share beside the objective to be points of one curve."""


class Sweep(NamedTuple):
    """A dotted key of the objective (``weights.fair``), and its value in each model; nothing else differs."""

    name: str
    weights: dict[str, float]


def find_sweep(evaluations: Sequence[Evaluated]) -> Sweep | None:
    """Return the weight of which the evaluations hold most values, all else of their objectives equal.

    A loss by itself counts as the weighted sum in which it has the weight 1 and the only other part 0.
    """
    objectives = {each.name: each.evaluation.objective or {} for each in evaluations}
    runs = {each.name: {key: (each.evaluation.run or {}).get(key) for key in _SAME} for each in evaluations}
    sums = [objective for objective in objectives.values() if "objectives" in objective]
    leaves = {name: _leaves(_as_sum(objective, sums)) for name, objective in objectives.items()}
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name, values in leaves.items():
        for path, weight in values.items():
            if isinstance(weight, float) and (path.startswith("weights.") or path.endswith("_weight")):
                rest = {key: value for key, value in values.items() if key != path}
                same = path, json.dumps([rest, runs[name]], sort_keys=True)
                found.setdefault(same, {})[name] = weight
    sweeps = [Sweep(path, weights) for (path, _), weights in found.items() if len(set(weights.values())) > 1]
    return max(sweeps, key=lambda sweep: (len(set(sweep.weights.values())), len(sweep.weights)), default=None)


def _as_sum(objective: Mapping[str, Any], sums: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return an objective with every weight written out; a loss by itself as the sum that it is a part of."""
    if "objectives" in objective:
        return {**objective, "weights": dict.fromkeys(objective["objectives"], 1.0) | (objective.get("weights") or {})}
    for other in sums:
        parts, weights = other["objectives"], other.get("weights") or {}
        for name, part in parts.items():
            if len(parts) == 2 and part == objective and weights.get(name, 1.0) == 1.0:
                return {**other, "weights": {each: float(each == name) for each in parts}}
    return objective


def _leaves(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, Mapping):
            found |= _leaves(value, f"{prefix}{key}.")
        else:
            number = isinstance(value, int) and not isinstance(value, bool)
            found[f"{prefix}{key}"] = float(value) if number else value
    return found


def tradeoff_table(evaluations: Sequence[Evaluated], models: pd.DataFrame, *, metric: str) -> pd.DataFrame:
    """Return one row a model: its weight, how well the site can be told, and the target at known and unseen sites.

    `models` has the columns ``model, metric, value, low, high`` of the comparison, and `metric` is of the target. No
    row where no evaluation says anything of sites.
    """
    sweep = find_sweep(evaluations) or Sweep("", {})
    rows = []
    for each in evaluations:
        weight = sweep.weights.get(each.name)
        row = {"model": each.name, "weight_name": None if weight is None else sweep.name, "weight": weight}
        rows.append(row | _site(each) | {"metric": metric} | _target(each, models, metric))
    table = pd.DataFrame(rows)
    measured = table[["site_balanced_accuracy", "unseen", "n_outside"]].notna().any(axis=None)
    return table if measured else table.iloc[:0]


def _site(evaluated: Evaluated) -> dict[str, float | None]:
    new_site = evaluated.evaluation.new_site
    told = None if new_site is None else new_site.site_predictability
    found = evaluated.site if told is None else told.model_dump()
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
    by_site = [] if outside is None else outside.unseen_by_site
    return {
        **_ends("known", known),
        **unseen,
        "constant": constant.value,
        "n": None if outside is None else outside.n,
        "n_outside": None if outside is None else outside.n_outside,
        "n_unseen": sum(each.n or 0 for each in by_site) if by_site else None,
        "n_unseen_outside": sum(each.n_outside or 0 for each in by_site) if by_site else None,
    }


def unseen_columns(evaluated: Evaluated, metric: str) -> dict[str, float | None]:
    """Return the metric at unseen sites, and its ratio to that at known ones, with their ends; None where absent."""
    new_site = evaluated.evaluation.new_site or NewSite()
    unseen, ratio = (part.get("embedding", {}).get(metric, Estimate()) for part in (new_site.unseen, new_site.ratio))
    return _ends("unseen", unseen) | _ends("ratio", ratio)


def _ends(name: str, estimate: Estimate) -> dict[str, float | None]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
