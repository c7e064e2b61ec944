"""Validation sets that hold whole subjects."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
        What to split.
    fraction : float
        Part of the subjects to hold out, from 0 to below 1. Unless it is 0 at least one
        subject is held out, and at least one is always kept for training.
    seed : int
        Which split.

    Returns
    -------
    train_rows, val_rows : ndarray of int64
        Row positions, ascending.

    Raises
    ------
    ConfigError
        For a fraction outside [0, 1).
    DataError
        When one subject is to be split.
    """
    if not 0 <= fraction < 1:
        raise ConfigError(f"val_fraction must be at least 0 and below 1, found {fraction}.")
    rows = np.arange(len(cohort), dtype=np.int64)
    if fraction == 0:
        return rows, rows[:0]
    subjects = cohort.table["subject_id"].to_numpy(dtype=object)
    sites = cohort.table["site"].fillna("") if "site" in cohort.table else [""] * len(cohort)
    site_of = dict(zip(reversed(subjects), reversed(list(sites)), strict=True))
    if len(site_of) < 2:
        raise DataError(f"{cohort.source.name}: a validation split needs two subjects, found {len(site_of)}.")
    held_out = _choose(site_of, fraction, seed)
    is_val = np.array([subject in held_out for subject in subjects], dtype=bool)
    return rows[~is_val], rows[is_val]


def _choose(site_of: dict[str, str], fraction: float, seed: int) -> set[str]:
    generator = derive_generator("split-by-subject", seed)
    by_site: dict[str, list[str]] = {}
    for subject in sorted(site_of):
        by_site.setdefault(str(site_of[subject]), []).append(subject)
    sites = sorted(by_site)
    n_total = min(max(round(fraction * len(site_of)), 1), len(site_of) - 1)
    wanted = np.array([n_total * len(by_site[site]) / len(site_of) for site in sites])
    counts = np.floor(wanted).astype(int)
    # Equal remainders are common with equal sites; a random key keeps the first names from always winning.
    order = np.lexsort((generator.random(len(sites)), -(wanted - counts)))
    counts[order[: n_total - counts.sum()]] += 1
    held_out: set[str] = set()
    for site, count in zip(sites, counts, strict=True):
        shuffled = generator.permutation(len(by_site[site]))
        held_out.update(by_site[site][position] for position in shuffled[:count])
    return held_out
