"""Predictions of the tested scans, for each repeat or averaged over repeats."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.reporting.result_tables import ResultTables


def tested_rows(files: ResultTables) -> pd.DataFrame:
    """Return the rows of ``predictions.tsv`` of tested scans: one for each scan and repeat.

    A scan counts as tested if at least one model predicted a score, such as a probability.
    """
    scores = [name for name in files.predictions.columns if _is_score(name)]
    return files.predictions.dropna(subset=scores, how="all").reset_index(drop=True)


def _is_score(column: object) -> bool:
    return str(column).endswith("_score") or str(column).startswith("score_")


def class_scores(files: ResultTables, rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return the predicted probability of each class (columns) for each row of predictions."""
    if files.kind == "binary":
        positive = rows["y_score"].to_numpy(dtype=float)
        return np.column_stack(
            [positive if name == files.positive else 1 - positive for name in files.classes]
        )
    return rows.reindex(columns=[f"score_{name}" for name in files.classes]).to_numpy(dtype=float)


def pool_repeats(files: ResultTables) -> pd.DataFrame:
    """Return a table of tested scans with mean scores and most frequent class over repeats.

    Of other columns, such as the site, the first value is taken. Without identifiers of
    participants, the rows of all repeats are returned.
    """
    table = tested_rows(files)
    if "participant_id" not in table or table["repeat"].nunique() < 2:
        return table
    keys = [name for name in ("participant_id", "session") if name in table]
    how: dict[Hashable, Any] = {}
    for name in table.columns.drop(keys):
        how[name] = "mean" if _is_score(name) else "first"
    if "y_pred" in how:
        how["y_pred"] = _most_frequent
    return table.groupby(keys, sort=False, dropna=False).agg(how).reset_index()


def _most_frequent(classes: pd.Series) -> object:
    return classes.mode().iat[0]
