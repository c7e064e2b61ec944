"""What a weight of the objective buys: how well the site can be told, against how well the target can."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from neurocontrast.evaluation.comparison import Evaluated

__all__ = ["Sweep", "find_sweep", "tradeoff_table", "unseen_columns"]

_SAME = ("encoder", "preprocessing", "epochs", "n_training_scans")
"""What the record of two runs must share beside the objective to be points of one curve."""
_ENDS = ("low", "high")
_MEASURED = ["site_balanced_accuracy", "unseen", "n_outside"]


@dataclass(frozen=True)
class Sweep:
    """Models whose objectives differ in one weight, and in nothing else.

    Attributes
    ----------
    name : str
        The dotted key of the weight: ``weights.fair``, ``uniformity_weight``.
    weights : dict
        Its value, by model.
    """

    name: str
    weights: dict[str, float]


def find_sweep(evaluations: Sequence[Evaluated]) -> Sweep | None:
    """Return the weight of which the evaluations hold most values, all else of their objectives equal.

    A loss by itself counts as the weighted sum in which it has the weight 1 and the only other part 0.

    Returns
    -------
    Sweep or None
        None where no two evaluations differ in one weight only.
    """
    objectives = {each.name: each.summary.get("objective") for each in evaluations}
    sums = [objective for objective in objectives.values() if objective is not None and _is_sum(objective)]
    leaves = {name: dict(_leaves(_as_sum(objective, sums))) for name, objective in objectives.items()}
    runs = {each.name: each.summary.get("run") or {} for each in evaluations}
    found: list[Sweep] = []
    for path in dict.fromkeys(path for each in leaves.values() for path in each if _is_weight(path)):
        groups: dict[str, dict[str, float]] = {}
        for name, values in leaves.items():
            if path not in values:
                continue
            rest = {key: value for key, value in values.items() if key != path}
            same = {key: runs[name].get(key) for key in _SAME}
            groups.setdefault(json.dumps([rest, same], sort_keys=True), {})[name] = values[path]
        found += [Sweep(path, weights) for weights in groups.values() if len(set(weights.values())) > 1]
    return max(found, key=lambda sweep: (len(set(sweep.weights.values())), len(sweep.weights)), default=None)


def _is_sum(objective: Any) -> bool:
    return isinstance(objective, Mapping) and isinstance(objective.get("objectives"), Mapping)


def _as_sum(objective: Any, sums: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return an objective with every weight written out; a loss by itself as the sum that it is a part of."""
    if not isinstance(objective, Mapping):
        return {}
    if _is_sum(objective):
        weights = objective.get("weights") or {}
        return {**objective, "weights": {name: weights.get(name, 1.0) for name in objective["objectives"]}}
    for other in sums:
        parts, weights = other["objectives"], other.get("weights") or {}
        for name, part in parts.items():
            if len(parts) == 2 and part == objective and weights.get(name, 1.0) == 1.0:
                return {**other, "weights": {each: float(each == name) for each in parts}}
    return objective


def _leaves(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            yield f"{prefix}{key}", float(value) if number else value


def _is_weight(path: str) -> bool:
    return path.startswith("weights.") or path.split(".")[-1].endswith("_weight")


def tradeoff_table(evaluations: Sequence[Evaluated], models: pd.DataFrame, *, metric: str) -> pd.DataFrame:
    """Return one row a model: its weight, how well the site can be told, and the target at known and unseen sites.

    Parameters
    ----------
    evaluations : sequence of Evaluated
        What is compared.
    models : DataFrame
        ``model, metric, value, low, high`` of the comparison.
    metric : str
        Of the target.

    Returns
    -------
    DataFrame
        ``model, weight_name, weight, site_balanced_accuracy, site_low, site_high, site_chance, metric``, then
        ``known``, ``unseen`` and ``ratio`` with their ends, ``constant``, scans with a score ``n`` and those outside
        ``n_outside``, both also while their site is left out (``n_unseen`` …). No row where no
        evaluation says anything of sites.
    """
    sweep = find_sweep(evaluations)
    rows = []
    for each in evaluations:
        weight = None if sweep is None else sweep.weights.get(each.name)
        row = {"model": each.name, "weight_name": None if weight is None or sweep is None else sweep.name}
        rows.append(row | {"weight": weight} | _site(each) | {"metric": metric} | _target(each, models, metric))
    table = pd.DataFrame(rows)
    return table if table[_MEASURED].notna().any(axis=None) else table.iloc[:0]


def _site(evaluation: Evaluated) -> dict[str, Any]:
    found = (evaluation.summary.get("new_site") or {}).get("site_predictability") or evaluation.site or {}
    names = {"site_balanced_accuracy": "balanced_accuracy", "site_low": "low", "site_high": "high"}
    return {name: found.get(key) for name, key in (names | {"site_chance": "chance"}).items()}


def _target(evaluation: Evaluated, models: pd.DataFrame, metric: str) -> dict[str, Any]:
    summary = evaluation.summary
    rows = models[(models["model"] == evaluation.name) & (models["metric"] == metric)]
    whole = {} if rows.empty else rows.iloc[0].to_dict()
    unseen = unseen_columns(evaluation, metric)
    if summary.get("splits") == "leave-site-out":  # the comparison itself is of unseen sites
        home = ((summary.get("new_site") or {}).get("home") or {}).get("embedding") or {}
        known, own = home.get(metric) or {}, {"unseen": whole.get("value")}
        unseen |= own | {f"unseen_{end}": whole.get(end) for end in _ENDS}
    else:
        known = whole
    constant = (((summary.get("new_site") or {}).get("unseen") or {}).get("constant") or {}).get(metric) or {}
    outside = summary.get("outlyingness") or {}
    return {
        "known": known.get("value"),
        **{f"known_{end}": known.get(end) for end in _ENDS},
        **unseen,
        "constant": constant.get("value"),
        "n": outside.get("n"),
        "n_outside": outside.get("n_outside"),
        **_outside_unseen(outside.get("unseen_by_site") or []),
    }


def _outside_unseen(by_site: Sequence[Mapping[str, Any]]) -> dict[str, int | None]:
    """Return how many scans had a score while their site was left out, and how many of them lay outside."""
    columns = {"n_unseen": "n", "n_unseen_outside": "n_outside"}
    return {name: sum(each.get(key) or 0 for each in by_site) if by_site else None for name, key in columns.items()}


def unseen_columns(evaluation: Evaluated, metric: str) -> dict[str, Any]:
    """Return the metric at unseen sites, and its ratio to that at known ones, with their ends; None where absent."""
    block = evaluation.summary.get("new_site") or {}
    columns: dict[str, Any] = {}
    for part in ("unseen", "ratio"):
        figures = ((block.get(part) or {}).get("embedding") or {}).get(metric) or {}
        columns |= {part: figures.get("value"), **{f"{part}_{end}": figures.get(end) for end in _ENDS}}
    return columns
