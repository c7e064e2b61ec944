"""Reading of the tables of an evaluation: text first, then numbers, every wrong cell named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from neurocontrast.exceptions import DataError, one_of

__all__ = ["read_table"]

_TEXT = frozenset(
    (
        "participant_id", "subject_id", "session", "site", "sex", "held_out_site", "note", "path", "y_true", "target",
        "y_pred", "group_by", "group", "model", "column", "within", "metric", "step", "reason", "class", "reference",
        "weight_name", "confused_with", "split", "neighbour", "test",
    )
)  # fmt: skip
_FLAGS = ("outside", "unseen_outside")
_NUMBERS = (
    "age", "baseline_score", "voxels_score", "umap1", "umap2", "low", "high", "chance", "observed_low", "observed_high",
    "p", "n_subjects", "mahalanobis", "mahalanobis_percentile", "unseen_percentile", "n_pairs",
)  # fmt: skip
_STRICT = {"cohort.tsv", "new_sites.tsv", "tradeoff.tsv", "classes.tsv", "sensitive.tsv"}
"""Tables of numbers alone, beside the columns of text; other tables may hold further columns of any kind."""


def read_table(path: Path, required: Sequence[str], *, continuous: bool) -> pd.DataFrame | None:
    """Read a table as text, then convert what must be a number; None where absent or empty."""
    if not path.is_file():
        return None
    try:
        table = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False, na_values=["", "n/a"], encoding="utf-8")
    except pd.errors.EmptyDataError:
        return None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not readable as a tab-separated table ({error}).") from error
    missing = [name for name in required if name not in table.columns]
    if missing:
        raise DataError(
            f"{path}: missing columns: {one_of(missing)}; found: {one_of(table.columns)}. "
            "Run 'neurocontrast evaluate' again."
        )
    if table.empty:
        return None
    truth = {"y_true", "target"} if continuous else set()
    numbers = (*required, *_NUMBERS)
    return table.apply(lambda column: column if column.name in _TEXT - truth else _convert(column, path, numbers))


def _convert(column: pd.Series, path: Path, numbers: Sequence[str]) -> pd.Series:
    """Return flags as such, and all else as numbers; in tables that are not strict, what is no number stays text."""
    lower = column.str.lower()
    if column.name in _FLAGS:
        wrong, kind = ~lower.fillna("").isin(["true", "false", ""]), "true or false"
    else:
        values, kind = pd.to_numeric(column, errors="coerce"), "numbers"
        wrong = column.notna() & values.isna() & (lower != "nan")
    if not wrong.any():
        return lower == "true" if column.name in _FLAGS else values.astype("float64")
    if path.name not in _STRICT and column.name not in numbers:
        return column
    found = ", ".join(f"row {row + 2}: {column[row]!r}" for row in wrong[wrong].index[:5])
    raise DataError(f"{path}, column '{column.name}': must be {kind}, found {found}.")
