"""How well the site can be told from the embedding, from wherever the evaluation says it."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles

__all__ = ["SitePredictability", "site_predictability"]


@dataclass(frozen=True)
class SitePredictability:
    """Balanced accuracy of the site, predicted from the embedding.

    Attributes
    ----------
    value : float
        The balanced accuracy.
    interval : tuple of float or None
        Its interval.
    chance : float or None
        That of a guess.
    n_sites : int or None
        Sites that were told apart.
    """

    value: float
    interval: tuple[float, float] | None
    chance: float | None
    n_sites: int | None


def site_predictability(files: EvaluationFiles) -> SitePredictability | None:
    """Return it from `new_site` of evaluation.json, else from confounds.tsv; None where neither has it."""
    found = (files.summary.get("new_site") or {}).get("site_predictability") or {}
    if found.get("balanced_accuracy") is None:
        found = _from_confounds(files.confounds)
    if found.get("balanced_accuracy") is None:
        return None
    low, high, n = found.get("low"), found.get("high"), found.get("n_sites")
    interval = None if low is None or high is None else (float(low), float(high))
    chance = found.get("chance")
    return SitePredictability(
        float(found["balanced_accuracy"]), interval, None if chance is None else float(chance), int(n) if n else None
    )


def _from_confounds(confounds: pd.DataFrame | None) -> dict:
    if confounds is None:
        return {}
    within = confounds.get("within", pd.Series("all", index=confounds.index)).fillna("all")
    of_site = (confounds["column"] == "site") & (confounds["metric"] == "balanced_accuracy") & (within == "all")
    rows = confounds[of_site & confounds["value"].notna()]
    if rows.empty:
        return {}
    row = rows.iloc[0]
    names = {"balanced_accuracy": "value", "low": "low", "high": "high", "chance": "chance", "n_sites": "n_levels"}
    return {key: row[name] for key, name in names.items() if name in row and pd.notna(row[name])}
