"""Validation sets that hold whole subjects."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.cohort import Cohort
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.seeds import derive_generator

__all__ = ["split_by_subject"]

Rows = npt.NDArray[np.int64]


def split_by_subject(cohort: Cohort, fraction: float, seed: int) -> tuple[Rows, Rows]:
    """Split a cohort so that all scans of a subject stand on one side.

    About `fraction` of the subjects of each site are held out; where sites are too small for
    that, the largest remainders decide. The choice depends on the subjects and the seed, not
    on the order of the table.

    Parameters
    ----------
    cohort : Cohort
        Scans to split.
    fraction : float
        Part of the subjects to hold out, from 0 to below 1. Unless it is 0 at least one
        subject is held out, and at least one is always kept for training.
    seed : int
        Seed of the choice.

    Returns
    -------
    train_rows, val_rows : ndarray of int64
        Row positions, ascending.
    """
    if not 0 <= fraction < 1:
        raise ConfigError(f"val_fraction must be at least 0 and below 1, found {fraction}.")
    rows = np.arange(len(cohort), dtype=np.int64)
    if fraction == 0:
        return rows, rows[:0]
    subjects = cohort.table["subject_id"].astype(object)
    sites = cohort.table["site"].fillna("") if "site" in cohort.table else pd.Series("", index=subjects.index)
    site_of = sites.groupby(subjects).first().astype(str)
    if len(site_of) < 2:
        raise DataError(f"{cohort.source.name}: a validation split needs two subjects, found {len(site_of)}.")
    is_val = subjects.isin(_choose(site_of, fraction, seed)).to_numpy()
    return rows[~is_val], rows[is_val]


def _choose(site_of: pd.Series, fraction: float, seed: int) -> list[str]:
    """Return the subjects to hold out, of the site of each."""
    generator = derive_generator("split-by-subject", seed)
    by_site = {site: sorted(part.index) for site, part in site_of.groupby(site_of)}
    n_total = min(max(round(fraction * len(site_of)), 1), len(site_of) - 1)
    wanted = np.array([n_total * len(by_site[site]) / len(site_of) for site in sorted(by_site)])
    counts = np.floor(wanted).astype(int)
    # Equal remainders are common with equal sites; a random key keeps the first names from always winning.
    order = np.lexsort((generator.random(len(by_site)), -(wanted - counts)))
    counts[order[: n_total - counts.sum()]] += 1
    held_out: list[str] = []
    for site, count in zip(sorted(by_site), counts, strict=True):
        held_out += [by_site[site][position] for position in generator.permutation(len(by_site[site]))[:count]]
    return held_out
