"""What is to be evaluated, as a table on the terminal: scans per site and class, or per part and class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pandas as pd

    from neurocontrast.evaluation import External, Study

__all__ = ["show_plan"]

_MOST_SITES = 30


def show_plan(study: Study, external: External | None, *, console: Console) -> None:
    """Print who is evaluated, in which folds, and how many scans each site has of each class."""
    from neurocontrast.evaluation.tables import cohort_table, part_table

    if study.fixed:
        _show(console, part_table(study.target, study.splits[0]), _fixed_headline(study), more="classes (classes.tsv)")
    else:
        _show(console, cohort_table(study.table, study.target), _headline(study))
    if external is not None:
        rows = external.split.test
        tested = external.study.table.iloc[rows].reset_index(drop=True)
        n = tested["subject_id"].nunique()
        headline = f"External test set: {len(rows)} scans of {n} subjects"
        _show(console, cohort_table(tested, external.study.target.subset(rows)), headline)


def _headline(study: Study) -> str:
    n_folds, n_repeats = (1 + max(getattr(split, name) for split in study.splits) for name in ("fold", "repeat"))
    how = "sites held out" if study.splits[0].held_out_site is not None else "folds"
    repeated = f", {n_repeats} times" if n_repeats > 1 else ""
    n = study.table["subject_id"].nunique()
    return (
        f"{study.target.name}: {len(study.table)} scans of {n} subjects, {n_folds} {how}{repeated}, {study.probe} probe"
    )


def _fixed_headline(study: Study) -> str:
    split = study.splits[0]
    n_validation = 0 if split.validation is None else len(split.validation)
    chosen = f"{n_validation} of them to choose its strength" if n_validation else "no validation rows"
    return (
        f"{study.target.name}: {study.probe} probe fitted on {len(split.train)} rows ({chosen}), tested on "
        f"{len(split.test)}, as column '{study.settings.split_column}' says"
    )


def _show(console: Console, counts: pd.DataFrame, headline: str, *, more: str = "sites (cohort.tsv)") -> None:
    console.print(Text(headline, style="bold"), soft_wrap=True)
    shown = Table()
    for number, name in enumerate(counts.columns):
        shown.add_column(str(name), justify="right" if number else "left")
    for row in counts.head(_MOST_SITES).itertuples(index=False):
        shown.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
    if len(counts) > _MOST_SITES:
        shown.add_row(f"… {len(counts) - _MOST_SITES} more {more}")
    console.print(shown)
