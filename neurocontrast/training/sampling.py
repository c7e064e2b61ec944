"""Which scans make each batch of an epoch: shuffled, or balanced over sites and metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from neurocontrast.data.batches import even_batches
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import Kernel
from neurocontrast.seeds import derive_generator
from neurocontrast.training.settings import TrainingSettings

__all__ = [
    "Sampler",
    "bins_for",
    "build_sampler",
    "count_cross_site_positives",
    "cross_site_sentence",
    "deal",
    "equal_shares",
    "strata_of",
]

Strata = list[list[list[int]]]
"""Rows by stratum and, within it, by site."""

_MOST_NAMED = 20
_SITES_TO_MEET = 3
_ALIKE = 0.5
"""Two scans are alike from this weight of a kernel on, as a part of the largest it can have."""
_EPOCHS_COUNTED = 3
_MOST_SITES_NAMED = 5


@dataclass(frozen=True)
class Sampler:
    """Draws an epoch's batches from (seed, epoch) alone.

    Every epoch has as many batches, of the same sizes, and as many draws as there are training scans. Shuffled, each
    scan is drawn once. Balanced, a stratum has as equal a part of the draws as `most_repeats` of each of its scans
    allow, and within a stratum a site has; both are dealt out evenly to the batches. No batch has a scan twice.
    """

    rows: Sequence[int]
    batch_size: int
    seed: int
    strata: Strata | None = None
    most_repeats: int = 1

    def batches(self, epoch: int) -> list[list[int]]:
        """Return the rows of each batch of an epoch."""
        if self.strata is None:
            order = derive_generator("order", self.seed, epoch).permutation(len(self.rows))
            return even_batches([self.rows[place] for place in order], self.batch_size)
        generator = derive_generator("balanced order", self.seed, epoch)
        return deal(self.strata, self.n_batches, most_repeats=self.most_repeats, generator=generator)

    @property
    def n_batches(self) -> int:
        """Batches an epoch."""
        return len(even_batches(self.rows, self.batch_size))

    def occasion(self, epoch: int, batch: int) -> int:
        """Return the key, besides the scan, of the views of a batch: the epoch, or where scans repeat the step."""
        return epoch if self.strata is None else epoch * self.n_batches + batch


def build_sampler(
    rows: Sequence[int],
    traits: Mapping[str, np.ndarray],
    *,
    settings: TrainingSettings,
    seed: int,
    names: Sequence[str],
) -> Sampler:
    """Return the sampler of the training rows that the settings ask for.

    `traits` has what batches are balanced by, for all rows: floats (NaN where missing) or text (None where missing).
    """
    if settings.sampling == "shuffle":
        return Sampler(rows, settings.batch_size, seed)
    columns = () if settings.sampling == "site-balanced" else settings.columns_of_strata
    _check_known(rows, traits, (*columns, "site"), settings, names)
    sites = _codes(traits["site"][list(rows)])
    if sites.max() == 0:
        raise ConfigError(
            f"training.sampling: {settings.sampling} needs at least two sites among the training scans, and all are of "
            f"'{traits['site'][rows[0]]}'. Set it to shuffle."
        )
    of_training = {name: traits[name][list(rows)] for name in columns}
    n_bins = settings.sampling_bins or bins_for(of_training, sites, batch_size=settings.batch_size)
    strata = strata_of(of_training, sites, n_bins=n_bins)
    of_rows = [[[rows[place] for place in cell] for cell in stratum] for stratum in strata]
    return Sampler(rows, settings.batch_size, seed, of_rows, settings.most_repeats)


def strata_of(columns: Mapping[str, np.ndarray], sites: np.ndarray, *, n_bins: int) -> Strata:
    """Return positions by stratum and site: a stratum has one category, and one bin of equal numbers, of every column.

    Examples
    --------
    >>> ages, sexes = np.array([20.0, 70.0, 22.0, 71.0]), np.array(["F", "F", "F", "F"], dtype=object)
    >>> strata_of({"age": ages, "sex": sexes}, np.array([0, 0, 1, 1]), n_bins=2)
    [[[0], [2]], [[1], [3]]]
    """
    codes = [_bins(values, n_bins) if values.dtype.kind == "f" else _codes(values) for values in columns.values()]
    keys = np.column_stack([*codes, sites])
    strata: dict[tuple[int, ...], dict[int, list[int]]] = {}
    for place, (*stratum, site) in enumerate(keys.tolist()):
        strata.setdefault(tuple(stratum), {}).setdefault(site, []).append(place)
    return [[cells[site] for site in sorted(cells)] for _, cells in sorted(strata.items())]


def bins_for(columns: Mapping[str, np.ndarray], sites: np.ndarray, *, batch_size: int) -> int:
    """Return how many bins leave each stratum a scan of every site (of three, where there are more) in a batch.

    At least 2 and at most 10.

    Examples
    --------
    >>> ages, sexes = np.arange(60.0), np.array(["F", "M"] * 30, dtype=object)
    >>> bins_for({"age": ages, "sex": sexes}, np.arange(60) % 3, batch_size=32)
    5
    """
    classes = [_codes(values) for values in columns.values() if values.dtype.kind != "f"]
    n_classes = len(np.unique(np.column_stack(classes), axis=0)) if classes else 1
    n_numbers = len(columns) - len(classes)
    n_strata = batch_size / min(len(np.unique(sites)), _SITES_TO_MEET)
    return min(max(int((n_strata / n_classes) ** (1 / max(n_numbers, 1)) + 1e-9), 2), 10)


def deal(strata: Strata, n_batches: int, *, most_repeats: int, generator: np.random.Generator) -> list[list[int]]:
    """Draw batches in which strata, and sites within them, are as even as repeating scans so often allows.

    Each cell (a site of a stratum) gets a number of draws; the draws, cell after cell, are dealt like cards, so that
    the numbers that two batches get of a cell, of a stratum and in all differ by at most one. A cell's draws go round
    its scans in one random order, so that within a batch none comes twice.
    """
    repeats = min(most_repeats, n_batches)
    cells = [[stratum[place] for place in generator.permutation(len(stratum))] for stratum in strata]
    cells = [cells[place] for place in generator.permutation(len(cells))]
    limits = [[repeats * len(rows) for rows in stratum] for stratum in cells]
    n_draws = sum(len(rows) for stratum in cells for rows in stratum)
    of_strata = equal_shares([sum(each) for each in limits], n_draws)
    batches: list[list[int]] = [[] for _ in range(n_batches)]
    first = 0
    for stratum, limit, n_of_stratum in zip(cells, limits, of_strata, strict=True):
        for rows, n_of_cell in zip(stratum, equal_shares(limit, n_of_stratum), strict=True):
            order = generator.permutation(rows)
            dealt = np.bincount(np.arange(first, first + n_of_cell) % n_batches, minlength=n_batches)
            ends = np.cumsum(dealt)
            for batch, end, n_here in zip(batches, ends, dealt, strict=True):
                batch.extend(int(order[draw % len(rows)]) for draw in range(end - n_here, end))
            first += n_of_cell
    shuffled = [[batch[place] for place in generator.permutation(len(batch))] for batch in batches]
    return [shuffled[place] for place in generator.permutation(n_batches)]


def equal_shares(limits: Sequence[int], total: int) -> list[int]:
    """Divide a total into shares that are as equal as their limits allow; what is left over goes to the first.

    Examples
    --------
    >>> equal_shares([5, 100, 100], 46)
    [5, 21, 20]
    """
    shares = [0] * len(limits)
    while left := total - sum(shares):
        growing = [place for place, limit in enumerate(limits) if shares[place] < limit]
        each = left // len(growing)
        for place in growing if each else growing[:left]:
            shares[place] = min(limits[place], shares[place] + max(each, 1))
    return shares


def _check_known(
    rows: Sequence[int],
    traits: Mapping[str, np.ndarray],
    columns: Sequence[str],
    settings: TrainingSettings,
    names: Sequence[str],
) -> None:
    """Refuse scans that belong to no stratum or site, all at once."""
    problems = []
    for column in columns:
        missing = pd.isna(traits[column])
        unknown = [names[row] for row in rows if missing[row]]
        if unknown:
            more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
            problems.append(
                f"'{column}' is missing for {len(unknown)} training scan{'s' if len(unknown) > 1 else ''}: "
                f"{', '.join(unknown[:_MOST_NAMED])}{more}"
            )
    if problems:
        raise DataError(
            f"training.sampling: {settings.sampling} needs {' and '.join(columns)} of every training scan. "
            f"{'; '.join(problems)}. Fill this in, leave these scans out with data.where, or set training.sampling to "
            "shuffle."
        )


def _codes(values: np.ndarray) -> np.ndarray:
    return np.unique(values.astype(str), return_inverse=True)[1]


def _bins(values: np.ndarray, n_bins: int) -> np.ndarray:
    return np.searchsorted(np.quantile(values, np.arange(1, n_bins) / n_bins), values, side="right")


def count_cross_site_positives(
    sampler: Sampler, kernels: Sequence[Kernel], metadata: Mapping[str, torch.Tensor], sites: np.ndarray
) -> dict[str, Any] | None:
    """Count scans that have a similar scan of another site in their batch, in the first three epochs.

    None without a kernel that attracts, or a second site.

    `kernels` are fitted, and `metadata` has their columns, one row a scan. A scan of unknown site (None) counts as of
    no other site. The result has the ``share`` of anchors, overall and by site, and how often a site's scans are drawn.
    """
    n_scans = Counter(sites[list(sampler.rows)])
    n_scans.pop(None, 0)
    if not kernels or len(n_scans) < 2:
        return None
    drawn: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for epoch in range(_EPOCHS_COUNTED):
        for batch in sampler.batches(epoch):
            here, columns = sites[batch], {name: column[batch] for name, column in metadata.items()}
            known = here != None  # noqa: E711 - element by element
            apart = (here[:, None] != here) & known[:, None] & known
            weights = [kernel(columns) > _ALIKE * kernel.supremum_over(columns) for kernel in kernels]
            drawn.update(here[known])
            found.update(here[(apart & torch.stack(weights).any(0).numpy()).any(axis=1)])
    by_site = [
        {
            "site": site,
            "n_scans": n_scans[site],
            "draws_per_epoch": drawn[site] / _EPOCHS_COUNTED,
            "share": found[site] / max(drawn[site], 1),
        }
        for site in sorted(n_scans)
    ]
    n_anchors = sum(drawn.values())
    share = sum(found.values()) / n_anchors
    counted = {"weight_above": _ALIKE, "n_epochs": _EPOCHS_COUNTED, "n_anchors": n_anchors}
    return {**counted, "share": share, "sites": by_site}


def cross_site_sentence(found: Mapping[str, Any]) -> str:
    """Return what `count_cross_site_positives` found in a line or two."""
    shown = sorted(found["sites"], key=lambda each: float(each["share"]))
    left_out = f"; {len(shown) - _MOST_SITES_NAMED} more sites lie above" if len(shown) > _MOST_SITES_NAMED else ""
    named = "; ".join(
        f"{each['site']} {each['share']:.0%}, each of its {each['n_scans']} scans drawn "
        f"{each['draws_per_epoch'] / each['n_scans']:.2g} times an epoch"
        for each in shown[:_MOST_SITES_NAMED]
    )
    return (
        f"{found['share']:.0%} of the scans of a batch have a scan of another site in it that is alike (a weight above "
        f"{found['weight_above']:g} of the objective's kernel): {named}{left_out}."
    )
