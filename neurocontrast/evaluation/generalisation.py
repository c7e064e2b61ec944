"""Refusals and warnings of what is asked for the sake of new sites: recentring, inner folds that leave sites out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from neurocontrast.evaluation.probes import MIN_INNER_SITES, site_inner_folds
from neurocontrast.evaluation.recentring import FEW_SUBJECTS, choose_kept
from neurocontrast.evaluation.schema import Notice
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.table import IDENTIFIERS
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion

__all__ = ["check_generalisation", "look_at_inner_splits", "look_at_recentring"]

_RECENTRED = (
    "The figures hold for batches of scans of a site, not for a scan that comes alone, and a site whose people differ "
    "from the others is made to look like them."
)


def check_generalisation(table: pd.DataFrame, settings: EvaluationSettings, *, target: str) -> None:
    """Refuse recentring, and inner folds by site, where there are no sites to work with.

    Raises
    ------
    ConfigError, DataError
        For target=site, a missing site, a column to preserve that is absent, and two ways to take the site out.
    """
    if settings.inner_splits == "leave-site-out" and target == "site":
        raise ConfigError("inner_splits: a site that is left out cannot be predicted. Use inner_splits=stratified.")
    if settings.recentre == "none":
        return
    if target == "site":
        raise ConfigError("recentre: 'site' takes out what target=site would be predicted from. Use recentre=none.")
    if settings.harmonise != "none" or "site" in settings.residualise:
        other = "harmonise=combat" if settings.harmonise != "none" else "residualise=[site]"
        raise ConfigError(f"recentre: {other} takes the shifts of sites out already. Use one of the two.")
    for name in settings.recentre_preserve:
        if name in IDENTIFIERS or name == "site" or (name not in table and name not in ("age", "sex")):
            choices = [str(column) for column in table.columns if column not in (*IDENTIFIERS, "site")]
            raise ConfigError(
                f"recentre_preserve: '{name}' is no column in which recentred sites could differ."
                f"{suggestion(name, choices)} Choose of {one_of(choices[:30])}."
            )
    missing = int(table["site"].isna().sum())
    if missing:
        raise DataError(
            f"recentre: {missing} of {len(table)} scans have no site, and each needs one to be recentred by. Fill in "
            "their site, drop them with where, or use recentre=none."
        )


def look_at_recentring(table: pd.DataFrame, target: Target, settings: EvaluationSettings) -> list[Notice]:
    """Say that recentring is transductive, and what of the target it takes out with the site: with numbers."""
    if settings.recentre == "none":
        return []
    kept = choose_kept(table, settings, target=target.name)
    told = (
        "recentre=site: each site's features are moved to a common centre, a site that a probe has not seen by its own "
        "unlabelled scans (transductive: a prediction depends on the other scans of its site). "
        + (f"Differences in {one_of(kept)} are kept. " if kept else "")
        + f"A true difference of sites in {target.name} is taken out too, and no unlabelled scan can tell it from a "
        f"scanner's: predictions at a new site lie around the training mean. {_site_means(table, target)}"
    )
    found = [Notice("recentred", told, _RECENTRED)]
    counts = table.groupby("site")["subject_id"].nunique()
    few = [f"{site} {n}" for site, n in counts.items() if n < FEW_SUBJECTS]
    if few:
        text = (
            f"recentre=site: fewer than {FEW_SUBJECTS} subjects at {', '.join(few[:8])}: their mean is mostly theirs."
        )
        found.append(Notice("recentred_small_site", text, _RECENTRED))
    return found


def look_at_inner_splits(
    table: pd.DataFrame, target: Target, splits: Sequence[Split], settings: EvaluationSettings
) -> list[Notice]:
    """Say in how many training folds the penalty cannot be chosen on sites that are left out."""
    if settings.inner_splits == "stratified":
        return []
    subjects, sites = table["subject_id"].to_numpy(dtype=object), table["site"].to_numpy(dtype=object)
    short = sum(not site_inner_folds(target, split.train, subjects, sites) for split in splits)
    if not short:
        return []
    return [
        Notice(
            "inner_splits_dealt",
            f"inner_splits=leave-site-out: {short} of {len(splits)} training folds have fewer than {MIN_INNER_SITES} "
            "sites that can be left out with every class to fit on; their inner folds are dealt by subject instead.",
            "There the penalty was chosen for people of known sites, as it is by default.",
        )
    ]


def _site_means(table: pd.DataFrame, target: Target) -> str:
    sites = table["site"].to_numpy(dtype=object)
    names = sorted(set(sites))
    if target.kind == "continuous":
        values = target.values.astype(float)
        means = {name: float(values[sites == name].mean()) for name in names}
        ends = sorted(means, key=lambda name: means[name])[:: max(1, len(means) - 1)]
        shown = ", ".join(f"{means[name]:.1f} at {name}" for name in (ends if len(names) > 4 else names))
        spread = float(np.std(list(means.values())))
        return f"Mean {target.name} here: {shown} (standard deviation of the sites' means {spread:.1f})."
    code = 1 if target.kind == "binary" else int(np.bincount(target.values).argmax())
    shares = {name: float((target.values[sites == name] == code).mean()) for name in names}
    ends = sorted(shares, key=lambda name: shares[name])[:: max(1, len(shares) - 1)]
    shown = ", ".join(f"{shares[name]:.0%} at {name}" for name in (ends if len(names) > 4 else names))
    return f"Share of {target.classes[code]} here: {shown}."
