"""Reading of the tables of an evaluation: text first, then numbers, every wrong cell named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from neurocontrast.exceptions import DataError, one_of

__all__ = ["read_table"]

_TEXT_COLUMNS = {"participant_id", "subject_id", "session", "site", "sex", "held_out_site", "note", "path", "y_true"}
_TEXT_COLUMNS |= {"target", "y_pred", "group_by", "group", "model", "column", "within", "metric", "step", "reason"}
_TEXT_COLUMNS |= {"class", "reference", "weight_name", "confused_with", "split", "neighbour"}
_NUMERIC_COLUMNS = {"repeat", "fold", "age", "y_score", "baseline_score", "voxels_score", "n", "n_train", "n_test"}
_NUMERIC_COLUMNS |= {"pc1", "pc2", "umap1", "umap2", "mean_predicted", "observed", "value", "low", "high", "chance"}
_NUMERIC_COLUMNS |= {"observed_low", "observed_high", "hsic", "p", "n_scans", "n_subjects"}
_NUMERIC_COLUMNS |= {"mahalanobis", "mahalanobis_percentile", "knn_distance", "knn_percentile"}
_NUMERIC_COLUMNS |= {"unseen_percentile", "cosine", "n_pairs"}
_FLAGS = {"outside", "unseen_outside"}
_ALL_NUMBERS = {"cohort.tsv", "new_sites.tsv", "tradeoff.tsv", "classes.tsv", "sensitive.tsv"}
"""Tables whose columns are numbers, but for those of text."""


def read_table(path: Path, required: Sequence[str], *, continuous: bool) -> pd.DataFrame | None:
    """Read a table as text, then convert what must be a number; None where absent or empty."""
    if not path.is_file():
        return None
    try:
        table = pd.read_csv(
            path, sep="\t", dtype=str, keep_default_na=False, na_values=["", "n/a"], encoding="utf-8", engine="c"
        )
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
    numbers = set(table.columns) if path.name in _ALL_NUMBERS else (_NUMERIC_COLUMNS | truth) & set(table.columns)
    return pd.DataFrame(
        {
            name: _convert(table[name], path, must=name in numbers, text=name in _TEXT_COLUMNS - truth)
            for name in table.columns
        }
    )


def _convert(column: pd.Series, path: Path, *, must: bool, text: bool) -> pd.Series:
    if text:
        return column
    if column.name in _FLAGS:
        return _flags(column, path)
    numbers = pd.to_numeric(column, errors="coerce")
    wrong = column.notna() & numbers.isna() & ~column.str.lower().isin(["nan"])
    if not wrong.any():
        return numbers.astype("float64")
    if must:
        found = ", ".join(f"row {row + 2}: {column[row]!r}" for row in wrong[wrong].index[:5])
        raise DataError(f"{path}, column '{column.name}': must be numbers, found {found}.")
    return column


def _flags(column: pd.Series, path: Path) -> pd.Series:
    """Return true as such, false and what is not known as false; a cell that is none of these is named."""
    lower = column.fillna("").str.lower()
    wrong = ~lower.isin(["true", "false", ""])
    if wrong.any():
        found = ", ".join(f"row {row + 2}: {column[row]!r}" for row in wrong[wrong].index[:5])
        raise DataError(f"{path}, column '{column.name}': must be true or false, found {found}.")
    return lower == "true"
