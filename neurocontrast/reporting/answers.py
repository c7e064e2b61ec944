"""What each tested image or scan was given, and how sure the prediction was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.predictions import decisions, tested_rows


def given_answers(files: EvaluationFiles) -> pd.DataFrame:
    """Return each tested item once, with the class it was given; of several repeats, the first.

    Returns
    -------
    DataFrame
        ``y_true``, ``given``, ``confidence`` (probability of the given class), ``of_truth`` (of the true one),
        ``wrong`` and ``path``, which is None where it is not recorded.
    """
    tested = tested_rows(files).dropna(subset=["y_true"])
    first = tested[tested["repeat"] == tested["repeat"].min()].reset_index(drop=True)
    first = first.assign(given=decisions(files, first), path=_paths(files, first))
    first = first[first["y_true"].isin(files.classes) & first["given"].isin(files.classes)].reset_index(drop=True)
    if files.kind == "binary":
        positive = first["y_score"].to_numpy(dtype=float)
        scores = np.column_stack([positive if name == files.positive else 1 - positive for name in files.classes])
    else:
        scores = first.reindex(columns=[f"score_{name}" for name in files.classes]).to_numpy(dtype=float)
    truth, given = (pd.Categorical(first[name], categories=files.classes).codes for name in ("y_true", "given"))
    rows = np.arange(len(first))
    found = first[["y_true", "given", "path"]]
    return found.assign(confidence=scores[rows, given], of_truth=scores[rows, truth], wrong=given != truth)


def _paths(files: EvaluationFiles, first: pd.DataFrame) -> list[str | None]:
    """Return where each image lies: predictions name the store and the row, scans.tsv also its folder."""
    known = [] if files.scans is None else files.scans["path"].dropna().tolist()
    folder = Path(str(known[0])).parent if known else Path()
    paths = first["path"] if "path" in first else pd.Series(None, index=first.index, dtype=object)
    return [None if pd.isna(path) else str(folder / str(path)) for path in paths]
