"""What a bootstrap resamples: subjects, or whole sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from neurocontrast.evaluation.schema import Notice
from neurocontrast.exceptions import ConfigError

__all__ = ["ENOUGH_SITES", "MIN_SITES", "Units", "choose_units"]

ENOUGH_SITES = 20
"""From so many sites on, ``auto`` resamples sites; an interval from fewer is too short as a rule."""
MIN_SITES = 5
"""With fewer sites, resampling them is refused."""


@dataclass(frozen=True)
class Units:
    """The clusters of scans that are drawn together: ``subject`` or ``site``, its label of each scan, how many."""

    name: str
    labels: npt.NDArray[np.object_]
    n: int
    notices: tuple[Notice, ...] = ()


def choose_units(asked: str, sites: Sequence[str | None], subjects: npt.NDArray[np.object_], *, target: str) -> Units:
    """Return the units that were asked for, or, for ``auto``, those that the cohort allows.

    ``auto`` takes sites where there are `ENOUGH_SITES` or more and every scan has one. Sites that share a subject form
    one unit, so that a unit holds all scans of its subjects. Sites that are missing, too few or the target are refused.
    """
    by_subject = Units("subject", subjects, len(set(subjects)))
    if asked == "subject":
        return by_subject
    n_missing = sum(site is None for site in sites)
    labels, n = _linked_sites(sites, subjects)
    if asked == "auto":
        usable = not n_missing and target != "site" and n >= ENOUGH_SITES
        return Units("site", labels, n) if usable else by_subject
    if target == "site":
        raise ConfigError("bootstrap_unit: sites cannot be resampled to predict the site. Use bootstrap_unit=subject.")
    if n_missing:
        raise ConfigError(
            f"bootstrap_unit: {n_missing} of {len(sites)} scans have no site, so 'site' cannot resample them. Fill in "
            "their site, drop them with where, or use bootstrap_unit=subject."
        )
    if n < MIN_SITES:
        raise ConfigError(
            f"bootstrap_unit: 'site' needs at least {MIN_SITES} sites that share no subject, found {n}: an interval "
            "from so few would be far too short. Use bootstrap_unit=subject."
        )
    notice = Notice(
        "few_sites_resampled",
        f"Intervals resample {n} sites; with fewer than {ENOUGH_SITES} they tend to be too short.",
        "Read the intervals as lower bounds of the uncertainty.",
    )
    return Units("site", labels, n, (notice,) if n < ENOUGH_SITES else ())


def _linked_sites(
    sites: Sequence[str | None], subjects: npt.NDArray[np.object_]
) -> tuple[npt.NDArray[np.object_], int]:
    places, owners = pd.factorize(np.array(sites, dtype=object).astype(str))[0], pd.factorize(subjects)[0]
    n = int(places.max()) + 1
    shape = (n + int(owners.max()) + 1,) * 2
    links = sparse.coo_matrix((np.ones(len(places)), (places, n + owners)), shape=shape)
    n_units, component = connected_components(links, directed=False)
    return component[places].astype(object), int(n_units)
