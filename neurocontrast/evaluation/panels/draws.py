"""Draws of subjects, for panels that need not see all scans and for learning curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.splits import Split, subject_values
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_generator, derive_seed

__all__ = ["draw_of_split", "draw_order", "draw_subjects"]

Rows = npt.NDArray[np.intp]

MAX_SCANS = 1500
"""Of larger cohorts, so many scans are drawn (whole subjects): enough to say how much, not to the third digit."""


def draw_subjects(subjects: npt.NDArray[np.object_], *, seed: int, n_scans: int = MAX_SCANS) -> tuple[Rows, str | None]:
    """Return all rows, or those of subjects drawn until there are `n_scans`, and a note that says so."""
    if len(subjects) <= n_scans:
        return np.arange(len(subjects)), None
    owners, codes = np.unique(subjects.astype(str), return_inverse=True)
    order = derive_generator("confound-scans", seed).permutation(len(owners))
    sizes = np.bincount(codes)[order].cumsum()
    rows = np.flatnonzero(np.argsort(order)[codes] < max(1, int((sizes <= n_scans).sum())))
    return rows, f"{len(rows)} of {len(subjects)} scans, drawn by subject"


def draw_of_split(table: pd.DataFrame, target: Target, split: Split, draw: int, seed: int) -> npt.NDArray[np.str_]:
    """Return the training subjects of a split in the order in which a draw of a learning curve takes them."""
    rows = split.train
    key = derive_seed("learning-curve", seed, split.repeat, split.fold, draw)
    subjects = table["subject_id"].to_numpy(dtype=object)[rows]
    return draw_order(target.subset(rows), list(table["site"].iloc[rows]), subjects, seed=key)


def draw_order(
    target: Target, sites: Sequence[str | None], subjects: npt.NDArray[np.object_], *, seed: int
) -> npt.NDArray[np.str_]:
    """Return subjects in an order whose every beginning is stratified by class and, within class, by site.

    Subjects are put in order by chance within each class and site; sites are then interleaved by their
    sizes within each class, and classes likewise. So the number of subjects of a class in the first k
    is within one of its share of k. A continuous target is interleaved by site only.
    """
    owners = subjects.astype(str)
    places = np.unique([NO_SITE if site is None else str(site) for site in sites], return_inverse=True)[1]
    site_of = subject_values(places, owners)
    class_of = np.zeros(len(site_of)) if target.kind == "continuous" else subject_values(target.values, owners)
    generator = derive_generator("draw", seed)
    chance = generator.random(len(site_of))
    within_site = _interleaved([class_of, site_of], chance, generator)
    return np.unique(owners)[np.argsort(_interleaved([class_of], within_site, generator), kind="stable")]


def _interleaved(
    keys: list[npt.NDArray[np.float64]], order_by: npt.NDArray[np.float64], generator: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Return a place between 0 and 1 for each subject: those of a group evenly spaced, in the order given."""
    places = np.empty(len(order_by))
    groups = np.unique(np.column_stack(keys), axis=0, return_inverse=True)[1].ravel()
    for group in range(int(groups.max()) + 1):
        members = np.flatnonzero(groups == group)
        ordered = members[np.argsort(order_by[members], kind="stable")]
        places[ordered] = (np.arange(len(ordered)) + generator.random()) / len(ordered)
    return places
