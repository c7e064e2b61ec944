"""Which scans make each batch of an epoch: shuffled, of one group, or balanced over sites and metadata."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from neurocontrast.data.batches import even_batches
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.seeds import derive_generator
from neurocontrast.training.settings import TrainingSettings

Strata = list[list[list[int]]]
"""Rows by stratum and, within a stratum, by site."""

MOST_REPEATS = 4
"""Times that balanced sampling draws a scan in an epoch, at most."""
_SITES_TO_MEET = 3


@dataclass(frozen=True)
class Sampler:
    """Draws an epoch's batches from (seed, epoch) alone.

    Every epoch has the same number of batches, of the same sizes, and a draw for each training
    scan. Shuffled, or in batches of one group, each scan is drawn once. Balanced, a stratum has as
    equal a part of the draws as `MOST_REPEATS` of each of its scans allow, and within a stratum a
    site has; both are dealt out evenly to the batches. No batch has a scan twice.
    """

    rows: Sequence[int]
    batch_size: int
    seed: int
    strata: Strata | None = None
    groups: Sequence[Sequence[int]] = ()

    def batches(self, epoch: int) -> list[list[int]]:
        """Return the rows of each batch of an epoch."""
        if self.groups:
            generator = derive_generator("grouped order", self.seed, epoch)
            shuffled = [
                [group[place] for place in generator.permutation(len(group))]
                for group in self.groups
            ]
            found = [batch for group in shuffled for batch in even_batches(group, self.batch_size)]
            return [found[place] for place in generator.permutation(len(found))]
        if self.strata is None:
            order = derive_generator("order", self.seed, epoch).permutation(len(self.rows))
            return even_batches([self.rows[place] for place in order], self.batch_size)
        return deal(
            self.strata, self._n_batches(), derive_generator("balanced order", self.seed, epoch)
        )

    def occasion(self, epoch: int, batch: int) -> int:
        """Return the key, besides the scan, of the views of a batch: the epoch, or where scans repeat the step."""
        return epoch if self.strata is None else epoch * self._n_batches() + batch

    def _n_batches(self) -> int:
        return len(even_batches(self.rows, self.batch_size))


def build_sampler(
    rows: Sequence[int],
    traits: Mapping[str, np.ndarray],
    *,
    settings: TrainingSettings,
    seed: int,
    names: Sequence[str],
) -> Sampler:
    """Return the sampler of the training rows that the settings ask for.

    `traits` has what batches are balanced by, for all rows: floats (NaN where missing) or text
    (None where missing).
    """
    how = settings.sampling
    if how == "shuffle":
        return Sampler(rows, settings.batch_size, seed)
    columns = [
        *(() if how == "site-balanced" else settings.columns_of_strata),
        *(["site"] * (how != "one-group")),
    ]
    table = pd.DataFrame({name: traits[name][list(rows)] for name in columns})
    _check_known(table, how, [names[row] for row in rows])
    if how == "one-group":
        return Sampler(rows, settings.batch_size, seed, groups=_groups_of(rows, table))
    if table["site"].nunique() == 1:
        raise ConfigError(
            f"training.sampling: {how} needs at least two sites among the training scans, and all are of "
            f"'{table['site'][0]}'. Set it to shuffle."
        )
    strata = strata_of(table, n_bins=bins_for(table, batch_size=settings.batch_size))
    of_rows = [[[rows[place] for place in cell] for cell in stratum] for stratum in strata]
    return Sampler(rows, settings.batch_size, seed, of_rows)


def _groups_of(rows: Sequence[int], table: pd.DataFrame) -> list[list[int]]:
    """Return the training rows of each combination of categories; refuse a row that is alone in its combination."""
    numbers = list(table.select_dtypes("float").columns)
    if numbers:
        raise ConfigError(
            f"training.sampling_columns: one-group needs columns of categories, and {one_of(numbers)} holds numbers."
        )
    groups = {
        key: [rows[place] for place in part.index]
        for key, part in table.groupby(list(table.columns))
    }
    alone = [", ".join(map(str, key)) for key, group in groups.items() if len(group) < 2]
    if alone:
        raise DataError(
            f"training.sampling: one-group needs two training scans of every combination of "
            f"{' and '.join(table.columns)}. There is one of {one_of(alone)}. Leave these out with data.where, or join "
            "groups."
        )
    return list(groups.values())


def _check_known(table: pd.DataFrame, how: str, names: Sequence[str]) -> None:
    """Refuse scans that belong to no stratum or site, all at once."""
    unknown = {column: np.array(names)[table[column].isna()] for column in table}
    problems = [
        f"'{column}' is missing for {one_of(missing)}"
        for column, missing in unknown.items()
        if len(missing)
    ]
    if problems:
        raise DataError(
            f"training.sampling: {how} needs {' and '.join(table.columns)} of every training scan. "
            f"{'; '.join(problems)}. Fill this in, leave these scans out with data.where, or set training.sampling to "
            "shuffle."
        )


def strata_of(table: pd.DataFrame, *, n_bins: int) -> Strata:
    """Return positions by stratum and site; a stratum is one category, or one bin of equal numbers, of every column."""
    levels = np.arange(1, n_bins) / n_bins
    codes = {
        name: np.searchsorted(np.quantile(values, levels), values, side="right")
        if values.dtype.kind == "f"
        else values
        for name, values in table.items()
    }
    # A column of one value, where sites are all that is balanced.
    strata = pd.DataFrame({**codes, "": 0}).groupby(["", *table.columns.drop("site")])
    return [[list(cell.index) for _, cell in stratum.groupby("site")] for _, stratum in strata]


def bins_for(table: pd.DataFrame, *, batch_size: int) -> int:
    """Return how many bins, 2 to 10, leave each stratum a scan of every site (of three at most) in a batch."""
    columns = table.drop(columns="site")
    n_numbers = len(columns.select_dtypes("float").columns)
    n_classes = (
        len(columns.select_dtypes(exclude="float").drop_duplicates())
        if n_numbers < columns.shape[1]
        else 1
    )
    n_strata = batch_size / min(table["site"].nunique(), _SITES_TO_MEET)
    return min(max(int((n_strata / n_classes) ** (1 / max(n_numbers, 1)) + 1e-9), 2), 10)


def deal(
    strata: Strata,
    n_batches: int,
    generator: np.random.Generator,
    *,
    most_repeats: int = MOST_REPEATS,
) -> list[list[int]]:
    """Draw batches in which strata, and sites within them, are as even as `most_repeats` of each scan allow.

    Each cell (a site of a stratum) gets a number of draws; the draws, cell after cell, are dealt
    like cards, so that the numbers that two batches get of a cell, of a stratum and in all differ
    by at most one. A cell's draws go round its scans in one random order, so that within a batch
    none comes twice.
    """
    repeats = min(most_repeats, n_batches)
    cells = [
        [stratum[place] for place in generator.permutation(len(stratum))] for stratum in strata
    ]
    cells = [cells[place] for place in generator.permutation(len(cells))]
    limits = [[repeats * len(rows) for rows in stratum] for stratum in cells]
    n_draws = sum(len(rows) for stratum in cells for rows in stratum)
    of_strata = equal_shares(list(map(sum, limits)), n_draws)
    batches: list[list[int]] = [[] for _ in range(n_batches)]
    first = 0
    for stratum, limit, n_of_stratum in zip(cells, limits, of_strata, strict=True):
        for rows, n_of_cell in zip(stratum, equal_shares(limit, n_of_stratum), strict=True):
            order = generator.permutation(rows)
            dealt = np.bincount(
                np.arange(first, first + n_of_cell) % n_batches, minlength=n_batches
            )
            ends = np.cumsum(dealt)
            drawn = np.resize(order, n_of_cell).tolist()
            for place in np.flatnonzero(dealt).tolist():  # most batches get none of a small cell
                batches[place] += drawn[ends[place] - dealt[place] : ends[place]]
            first += n_of_cell
    shuffled = [[batch[place] for place in generator.permutation(len(batch))] for batch in batches]
    return [shuffled[place] for place in generator.permutation(n_batches)]


def equal_shares(limits: Sequence[int], total: int) -> list[int]:
    """Divide a total into shares that are as equal as their limits allow; what is left over goes to the first."""
    shares = [0] * len(limits)
    while left := total - sum(shares):
        growing = [place for place, limit in enumerate(limits) if shares[place] < limit]
        each = left // len(growing)
        for place in growing if each else growing[:left]:
            shares[place] = min(limits[place], shares[place] + max(each, 1))
    return shares
