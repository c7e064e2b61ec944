"""Draw the scans of each batch: shuffled, from one group, or balanced over sites and metadata."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.batches import even_batches
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.seeds import derive_generator
from neurocontrast.training.settings import TrainingSettings

_Value = TypeVar("_Value")

Strata = list[list[list[int]]]
"""Row numbers by stratum (such as one sex and age range) and, within a stratum, by site."""

MOST_REPEATS = 4
"""Largest number of times that balanced sampling draws one scan in an epoch."""
_SITES_TO_MEET = 3
"""Number of sites of which a batch should contain a scan in every stratum, if there are as many."""


@dataclass(frozen=True)
class Sampler:
    """Draw the batches of an epoch, reproducibly from the seed and the number of the epoch.

    Every epoch has the same number of batches, of the same sizes, and as many draws as there are
    training scans. By default each scan is drawn once in an epoch. If `strata` are given, draws are
    balanced: a stratum has the scans of people with similar metadata, such as one sex and age
    range, by site. All strata get as equal numbers of draws as `MOST_REPEATS` draws of each scan
    allow, and so do the sites of a stratum; the draws of strata and sites are spread evenly over
    the batches. No batch contains a scan twice.
    """

    rows: Sequence[int]
    """Row numbers of the training scans."""
    batch_size: int
    """Largest number of scans in a batch."""
    seed: int
    strata: Strata | None = None
    """Rows of training scans by stratum and site, to draw equally often; None for no balance."""
    groups: Sequence[Sequence[int]] = ()
    """Row numbers of the scans of each group, if each batch has scans of one group alone; empty if
    batches are mixed.
    """

    def batches(self, epoch: int) -> list[list[int]]:
        """Draw all batches of an epoch: a list of row numbers of training scans for each batch."""
        if self.groups:
            return self._batches_of_groups(derive_generator("grouped order", self.seed, epoch))
        if self.strata is None:
            generator = derive_generator("order", self.seed, epoch)
            return even_batches(_permuted(self.rows, generator), self.batch_size)
        return deal(
            self.strata, self._n_batches(), derive_generator("balanced order", self.seed, epoch)
        )

    def _batches_of_groups(self, generator: np.random.Generator) -> list[list[int]]:
        """Draw all batches of an epoch so that each batch has scans of one of the `groups` alone.

        A group has the training scans of one combination of categories, such as site and sex. Each
        batch is a list of row numbers of scans; the batches are returned in random order.
        """
        batches = []
        for group in self.groups:
            batches += even_batches(_permuted(group, generator), self.batch_size)
        return _permuted(batches, generator)

    def occasion(self, epoch: int, batch: int) -> int:
        """Return the number that, with a scan's name, determines the scan's random views.

        The number is the epoch, or the training step if a scan can be drawn several times in an
        epoch.
        """
        if self.strata is None:
            return epoch
        return epoch * self._n_batches() + batch

    def _n_batches(self) -> int:
        return len(even_batches(self.rows, self.batch_size))


def _permuted(values: Sequence[_Value], generator: np.random.Generator) -> list[_Value]:
    """Return the elements of `values` as a new list in random order."""
    return [values[number] for number in generator.permutation(len(values))]


def build_sampler(
    rows: Sequence[int],
    traits: Mapping[str, np.ndarray],
    *,
    settings: TrainingSettings,
    seed: int,
    names: Sequence[str],
) -> Sampler:
    """Return the sampler of training rows that the settings ask for.

    Parameters
    ----------
    rows : sequence of int
        Row numbers of the training scans.
    traits : mapping
        Values of all rows by column: floats (NaN if missing) or text (None if missing).
    settings : TrainingSettings
        Kind of sampling, columns and batch size.
    seed : int
        Seed of the order of scans.
    names : sequence of str
        Name of each row, for messages.

    Raises
    ------
    ConfigError
        If balance is asked for with a single site, or groups are asked for by a column of numbers.
    DataError
        If values are missing, or a group has one scan.
    """
    how = settings.sampling
    if how == "shuffle":
        return Sampler(rows, settings.batch_size, seed)
    values = {}
    for column in _columns_of(settings):
        values[column] = traits[column][list(rows)]
    table = pd.DataFrame(values)
    _check_known(table, how, list(map(names.__getitem__, rows)))
    if how == "one-group":
        return Sampler(rows, settings.batch_size, seed, groups=_groups_of(rows, table))
    if table["site"].nunique() == 1:
        raise ConfigError(
            f"training.sampling: {how} needs at least two sites among the training scans, and all "
            f"are of '{table['site'][0]}'. Set it to shuffle."
        )
    strata = []
    for stratum in strata_of(table, n_bins=bins_for(table, batch_size=settings.batch_size)):
        sites = []
        for positions in stratum:
            sites.append(list(map(rows.__getitem__, positions)))
        strata.append(sites)
    return Sampler(rows, settings.batch_size, seed, strata)


def _columns_of(settings: TrainingSettings) -> list[str]:
    """Return the names of the metadata columns by which the settings balance or group scans."""
    if settings.sampling == "site-balanced":
        return ["site"]
    columns = list(settings.columns_of_strata)
    if settings.sampling != "one-group":
        columns.append("site")
    return columns


def _groups_of(rows: Sequence[int], table: pd.DataFrame) -> list[list[int]]:
    """Divide training `rows` into lists of rows with equal categories in all columns of `table`.

    Row k of the table belongs to ``rows[k]``. Columns of numbers, and a combination of categories
    that only one row has, raise an error.
    """
    numbers = list(table.select_dtypes("float").columns)
    if numbers:
        raise ConfigError(
            "training.sampling_columns: one-group needs columns of categories, and "
            f"{one_of(numbers)} holds numbers."
        )
    groups = []
    alone = []
    for key, members in table.groupby(list(table.columns)):
        groups.append(list(map(rows.__getitem__, members.index)))
        if len(members) < 2:
            alone.append(", ".join(map(str, key)))
    if alone:
        raise DataError(
            "training.sampling: one-group needs two training scans of every combination of "
            f"{' and '.join(table.columns)}. There is one of {one_of(alone)}. Leave these out with "
            "data.where, or join groups."
        )
    return groups


def _check_known(table: pd.DataFrame, how: str, names: Sequence[str]) -> None:
    """Raise a DataError if a cell of `table`, the metadata by which batches are drawn, is missing.

    The table has a row for each training scan, whose names are `names`. The error names all columns
    and scans with missing cells. `how` is the kind of sampling, for the message.
    """
    problems = []
    for column in table:
        missing = np.array(names)[table[column].isna()]
        if len(missing):
            problems.append(f"'{column}' is missing for {one_of(missing)}")
    if problems:
        raise DataError(
            f"training.sampling: {how} needs {' and '.join(table.columns)} of every training scan. "
            f"{'; '.join(problems)}. Fill this in, leave these scans out with data.where, or set "
            "training.sampling to shuffle."
        )


def strata_of(table: pd.DataFrame, *, n_bins: int) -> Strata:
    """Divide the rows of a table into strata, and the rows of each stratum by site.

    Parameters
    ----------
    table : DataFrame
        Table with the column ``site``, and columns of numbers or categories.
    n_bins : int
        Number of quantile bins into which columns of numbers are divided.

    Returns
    -------
    list
        Row positions by stratum and site. The rows of a stratum have the same category or bin in
        every column; without columns besides ``site``, all rows are one stratum.
    """
    levels = np.arange(1, n_bins) / n_bins
    codes = table.assign(**{"": 0})
    for name, values in table.items():
        if values.dtype.kind == "f":
            codes[name] = np.searchsorted(np.quantile(values, levels), values, side="right")
    strata = []
    for _, stratum in codes.groupby(["", *table.columns.drop("site")]):
        sites = []
        for _, rows in stratum.groupby("site"):
            sites.append(list(rows.index))
        strata.append(sites)
    return strata


def bins_for(table: pd.DataFrame, *, batch_size: int) -> int:
    """Return the number of quantile bins, 2 to 10, into which to divide columns of numbers.

    The number is the same for all columns of numbers in `table`. A stratum has the scans of one
    combination of bins and categories in all columns but ``site``. The number is chosen so that a
    batch of `batch_size` scans can hold a scan of every stratum from every site, or from three
    sites if the table has more.
    """
    columns = table.drop(columns="site")
    n_numbers = len(columns.select_dtypes("float").columns)
    n_classes = 1
    if n_numbers < columns.shape[1]:
        n_classes = len(columns.select_dtypes(exclude="float").drop_duplicates())
    n_strata = batch_size / min(table["site"].nunique(), _SITES_TO_MEET)
    return min(max(int((n_strata / n_classes) ** (1 / max(n_numbers, 1)) + 1e-9), 2), 10)


def deal(
    strata: Strata,
    n_batches: int,
    generator: np.random.Generator,
    *,
    most_repeats: int = MOST_REPEATS,
) -> list[list[int]]:
    """Draw batches in which strata, and sites within strata, are as equally frequent as possible.

    Each cell (a site within a stratum) gets a number of draws, which are dealt to the batches like
    cards: the numbers of draws of a cell, of a stratum and of all scans differ by at most one
    between two batches. The draws of a cell repeat the cell's scans in one random order, so that no
    batch contains a scan twice. The result has a list of row numbers for each batch.

    Parameters
    ----------
    strata : list of list of list of int
        For each stratum (scans with similar metadata), and in it for each site, row numbers.
    n_batches : int
        Number of batches.
    generator : numpy.random.Generator
        Random number generator for the order of scans and batches.
    most_repeats : int
        Largest number of draws of one scan.
    """
    repeats = min(most_repeats, n_batches)
    shuffled = []
    for stratum in strata:
        shuffled.append(_permuted(stratum, generator))
    cells = _permuted(shuffled, generator)
    limits = []
    n_draws = 0
    for stratum in cells:
        limits.append([repeats * len(rows) for rows in stratum])
        n_draws += sum(map(len, stratum))
    of_strata = equal_shares(list(map(sum, limits)), n_draws)
    batches: list[list[int]] = [[] for _ in range(n_batches)]
    first = 0
    for stratum, limit, n_of_stratum in zip(cells, limits, of_strata, strict=True):
        for rows, n_of_cell in zip(stratum, equal_shares(limit, n_of_stratum), strict=True):
            _deal_cell(generator.permutation(rows), n_of_cell, batches, first=first)
            first += n_of_cell
    mixed = []
    for batch in batches:
        mixed.append(_permuted(batch, generator))
    return _permuted(mixed, generator)


def _deal_cell(
    order: npt.NDArray[np.int64], n_draws: int, batches: list[list[int]], *, first: int
) -> None:
    """Add `n_draws` draws of one site within a stratum to the lists `batches`, evenly, in place.

    `order` are the row numbers of the site's scans, drawn from the first again after the last.
    `first` is the number of draws that were added before for other sites and strata: as with cards
    that are dealt in turn, the batches after the last of these are the first to get a draw more.
    """
    n_batches = len(batches)
    dealt = np.bincount(np.arange(first, first + n_draws) % n_batches, minlength=n_batches)
    ends = np.cumsum(dealt)
    draws = np.resize(order, n_draws).tolist()
    for number in np.flatnonzero(dealt).tolist():  # a small cell reaches few batches
        batches[number] += draws[ends[number] - dealt[number] : ends[number]]


def equal_shares(limits: Sequence[int], total: int) -> list[int]:
    """Divide `total` into whole numbers, one for each upper limit, as equal as `limits` allow.

    A remainder goes to the first numbers.
    """
    shares = [0] * len(limits)
    while left := total - sum(shares):
        growing = [number for number, limit in enumerate(limits) if shares[number] < limit]
        step = left // len(growing)
        if not step:
            step = 1
            growing = growing[:left]
        for number in growing:
            shares[number] = min(limits[number], shares[number] + step)
    return shares
