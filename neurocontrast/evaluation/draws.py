"""Whom a probe of a learning curve is fitted on: nested, stratified draws of training subjects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split, subject_values
from neurocontrast.evaluation.table import NO_SITE
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from neurocontrast.seeds import derive_generator, derive_seed

__all__ = ["check_train_sizes", "draw_of_split", "draw_order"]

LEAST_OF_A_CLASS = 2
"""Training subjects of every class that each size must hold: one to fit, one for the inner folds."""


def check_train_sizes(
    table: pd.DataFrame, target: Target, splits: Sequence[Split], settings: EvaluationSettings
) -> None:
    """Refuse sizes of a learning curve that a training fold cannot give.

    Raises
    ------
    ConfigError
        If a fold has fewer training subjects, or a draw would hold fewer than two subjects of a class,
        naming the sizes that can be had.
    """
    sizes = settings.train_sizes
    if not sizes:
        return
    available = min(table["subject_id"].iloc[split.train].nunique() for split in splits)
    draws = [(split, draw) for split in splits for draw in range(settings.n_draws)]
    least = max(_least_size(table, target, split, draw, settings.seed) for split, draw in draws)
    wrong = [size for size in sizes if not least <= size <= available]
    if wrong:
        why = []
        if max(wrong) > available:
            why.append(f"the smallest training fold has {available} subjects")
        if min(wrong) < least:
            what = "two subjects" if target.kind == "continuous" else "two subjects of every class"
            why.append(f"{what} are in every draw from {least} subjects on")
        raise ConfigError(
            f"train_sizes: {', '.join(map(str, wrong))} cannot be had: {'; '.join(why)}. "
            f"Give sizes from {least} to {available} (--train-sizes)."
        )


def draw_of_split(table: pd.DataFrame, target: Target, split: Split, draw: int, seed: int) -> npt.NDArray[np.str_]:
    """Return the training subjects of a split in the order in which a draw takes them."""
    rows = split.train
    key = derive_seed("learning-curve", seed, split.repeat, split.fold, draw)
    subjects = table["subject_id"].to_numpy(dtype=object)[rows]
    return draw_order(target.subset(rows), list(table["site"].iloc[rows]), subjects, seed=key)


def _least_size(table: pd.DataFrame, target: Target, split: Split, draw: int, seed: int) -> int:
    """Return from how many subjects on a draw holds two of every class that its training fold has."""
    if target.kind == "continuous":
        return LEAST_OF_A_CLASS
    order = draw_of_split(table, target, split, draw, seed)
    owners = table["subject_id"].to_numpy(dtype=object)[split.train].astype(str)
    class_of = subject_values(target.values[split.train], owners)
    drawn = class_of[np.searchsorted(np.unique(owners), order)]
    seconds = [np.flatnonzero(drawn == code)[:LEAST_OF_A_CLASS][-1] for code in np.unique(drawn)]
    return int(max(seconds)) + 1


def draw_order(
    target: Target, sites: Sequence[str | None], subjects: npt.NDArray[np.object_], *, seed: int
) -> npt.NDArray[np.str_]:
    """Return subjects in an order of which every beginning is stratified by class and, within class, by site.

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
