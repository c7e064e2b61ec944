"""Which subjects of the clinical cohort are evaluated at each size: nested, stratified draws, one a seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from neurocontrast.cells import is_missing
from neurocontrast.data.listing import read_text_table
from neurocontrast.exceptions import DataError, one_of, suggestion
from neurocontrast.files import write_table

__all__ = ["column_of", "draw_subjects", "read_participants", "write_draws"]


def column_of(size: int, seed: int) -> str:
    """Return the column that says whether a scan is evaluated at a size and seed."""
    return f"among_{size}_of_seed_{seed}"


def read_participants(path: str | Path, *, target: str) -> pd.DataFrame:
    """Return a table of scans as text, refusing one without the column to predict or the columns of scans."""
    table = read_text_table(path).reset_index(drop=True)
    for name in ("participant_id", target):
        if name not in table:
            raise DataError(
                f"{Path(path).name} has no column '{name}'.{suggestion(name, table.columns)} It has: "
                f"{one_of(table.columns)}."
            )
    return table


def draw_subjects(
    table: pd.DataFrame, *, target: str, sizes: Sequence[int], seed: int
) -> dict[int, set[str]]:
    """Return the subjects of each size; smaller draws are parts of larger ones, with the same shares of classes.

    Raises
    ------
    DataError
        Where the table has fewer subjects whose target is known than the largest size.
    """
    owner = "subject_id" if "subject_id" in table else "participant_id"
    subjects = table[~table[target].map(is_missing)].drop_duplicates(owner)
    if sizes and max(sizes) > len(subjects):
        raise DataError(
            f"subjects: {max(sizes)} are asked for, and {len(subjects)} of the clinical table have a value of "
            f"'{target}'. Set smaller sizes: --config subjects=[…]"
        )
    shuffled = subjects.sample(frac=1.0, random_state=seed)
    of_class = shuffled.groupby(target, sort=True)[owner]
    place = (of_class.cumcount() + 0.5) / of_class.transform("size")
    order = shuffled.loc[place.sort_values(kind="stable").index, owner]
    return {size: set(order.iloc[:size]) for size in sizes}


def write_draws(
    path: str | Path, *, target: str, sizes: Sequence[int], seeds: Sequence[int], out: str | Path
) -> None:
    """Write a table of scans with a column of yes and no for each size and seed, named by `column_of`."""
    table = read_participants(path, target=target)
    owners = table["subject_id" if "subject_id" in table else "participant_id"]
    for seed in seeds:
        for size, chosen in draw_subjects(table, target=target, sizes=sizes, seed=seed).items():
            table[column_of(size, seed)] = owners.isin(chosen).map({True: "yes", False: "no"})
    write_table(Path(out), table)
