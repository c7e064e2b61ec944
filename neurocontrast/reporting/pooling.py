"""Out-of-fold predictions of all folds together."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles

__all__ = ["is_score", "pool_repeats", "tested_rows"]


def is_score(column: object) -> bool:
    """Whether a column of predictions.tsv holds predicted values."""
    return str(column) in ("y_score", "baseline_score", "voxels_score") or str(column).startswith("score_")


def tested_rows(files: EvaluationFiles) -> pd.DataFrame:
    """Return the predictions of the scans that were tested: one row a scan and repeat."""
    scores = [name for name in files.predictions.columns if is_score(name)]
    return files.predictions[files.predictions[scores].notna().any(axis=1)].reset_index(drop=True)


def pool_repeats(files: EvaluationFiles) -> pd.DataFrame:
    """Return one row a scan, its scores averaged over the repeats of the cross-validation.

    Without repeats, or where the table names no scans, these are the predictions as they are.
    """
    table = tested_rows(files)
    keys = [name for name in ("participant_id", "session") if name in table.columns]
    if "participant_id" not in keys or table["repeat"].nunique() < 2:
        return table
    how = {name: ("mean" if is_score(name) else "first") for name in table.columns if name not in keys}
    return table.groupby(keys, sort=False, dropna=False).agg(how).reset_index()
