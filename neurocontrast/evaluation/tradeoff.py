"""Models of a comparison by two scores: how well the site can be predicted, and how well the target."""

from __future__ import annotations

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
    """Return the one weight in which the objectives of the trained models differ; None where they differ otherwise."""
    trained = {each.name: each.evaluation for each in evaluations if each.evaluation.objective}
    leaves = {
        name: _leaves({"objective": evaluation.objective, **{key: (evaluation.run or {}).get(key) for key in _SAME}})
        for name, evaluation in trained.items()
    }
    first = next(iter(leaves.values()), {})
    differing = [
        key
        for key in dict.fromkeys(key for values in leaves.values() for key in values)
        if any(values.get(key) != first.get(key) for values in leaves.values())
    ]
    path = differing[0].removeprefix("objective.") if len(differing) == 1 else ""
    if not (path.startswith("weights.") or path.endswith("_weight")):
        return None
    # A part of a sum whose weight is not written has the weight 1.
    return Sweep(path, {name: float(values.get(differing[0], 1.0)) for name, values in leaves.items()})


def _leaves(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in content.items():
        found |= _leaves(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
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
