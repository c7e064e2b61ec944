"""What the predictions of images say class by class, and how sure they were."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.predictions import count_confusion, decisions, tested_rows

__all__ = ["N_BINS", "Reliability", "confused_pairs", "given_answers", "measure_reliability"]

N_BINS = 15
"""Bins of equal width for the calibration error, as in Guo et al. (2017)."""


def given_answers(files: EvaluationFiles) -> pd.DataFrame:
    """Return the tested images once each, with what each was given.

    Returns
    -------
    DataFrame
        ``y_true``, ``given``, ``confidence`` (probability of the given class), ``of_truth`` (of the true one),
        ``wrong`` and, where recorded, ``path`` and ``participant_id``. Of several repeats, the first.
    """
    tested = tested_rows(files).dropna(subset=["y_true"])
    first = tested[tested["repeat"] == tested["repeat"].min()].reset_index(drop=True)
    given = pd.Series(decisions(files, first), index=first.index)
    scores = _class_scores(files, first)
    place = {name: column for column, name in enumerate(files.classes)}
    known = (first["y_true"].isin(files.classes) & given.isin(files.classes)).to_numpy(dtype=bool)
    first, given, scores = first[known].reset_index(drop=True), given[known].reset_index(drop=True), scores[known]
    truth = first["y_true"].map(place)
    rows = np.arange(len(first))
    answers = pd.DataFrame(
        {
            "y_true": first["y_true"],
            "given": given,
            "confidence": scores[rows, given.map(place).to_numpy(dtype=int)],
            "of_truth": scores[rows, truth.to_numpy(dtype=int)],
            "wrong": (given != first["y_true"]).to_numpy(dtype=bool),
        }
    )
    return _with_paths(answers, files, first)


def _class_scores(files: EvaluationFiles, rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    if files.kind == "binary":
        positive = rows["y_score"].to_numpy(dtype=float)
        columns = [positive if name == files.positive else 1 - positive for name in files.classes]
        return np.column_stack(columns)
    return rows.reindex(columns=[f"score_{name}" for name in files.classes]).to_numpy(dtype=float)


def _with_paths(answers: pd.DataFrame, files: EvaluationFiles, first: pd.DataFrame) -> pd.DataFrame:
    """Add where each image lies: from the predictions, else from the few of scans.tsv."""
    if "participant_id" in first:
        answers = answers.assign(participant_id=first["participant_id"])
    if "path" in first:
        folder = _folder_of_stores(files)
        return answers.assign(path=[path if pd.isna(path) else str(folder / str(path)) for path in first["path"]])
    if files.scans is None or "participant_id" not in answers or "participant_id" not in files.scans:
        return answers.assign(path=None)
    known = files.scans.drop_duplicates("participant_id").set_index("participant_id")["path"]
    return answers.assign(path=answers["participant_id"].map(known))


def _folder_of_stores(files: EvaluationFiles) -> Path:
    """Return where the images lie, which scans.tsv alone tells: predictions name no folder."""
    known = [] if files.scans is None or "path" not in files.scans else files.scans["path"].dropna().tolist()
    return Path(str(known[0])).parent if known else Path()


def confused_pairs(files: EvaluationFiles, *, limit: int = 12) -> pd.DataFrame:
    """Return the commonest mistakes: ``true``, ``given``, ``n``, ``share`` of the true class, ``n_back``."""
    counts = count_confusion(files)
    totals = counts.sum(axis=1)
    rows = [
        {
            "true": files.classes[row],
            "given": files.classes[column],
            "n": counts[row, column],
            "share": counts[row, column] / totals[row],
            "n_back": counts[column, row],
        }
        for row, column in np.argwhere(counts > 0)
        if row != column
    ]
    columns = ["true", "given", "n", "share", "n_back"]
    pairs = pd.DataFrame(rows, columns=columns).sort_values("n", ascending=False, kind="stable")
    return pairs.head(limit).reset_index(drop=True)


@dataclass(frozen=True)
class Reliability:
    """How sure the predictions were, against how often they were right.

    Attributes
    ----------
    bins : DataFrame
        ``low``, ``high``, ``n``, ``confidence`` and ``accuracy`` of each bin that holds an image.
    error : float
        Expected calibration error: mean |accuracy − confidence| over the bins, weighted by their images.
    confidence, accuracy : float
        Their means over all images.
    """

    bins: pd.DataFrame
    error: float
    confidence: float
    accuracy: float


def measure_reliability(answers: pd.DataFrame, *, n_bins: int = N_BINS) -> Reliability | None:
    """Return confidence against accuracy in bins of equal width; None where no probabilities are recorded.

    References
    ----------
    Guo C, Pleiss G, Sun Y, Weinberger KQ. On calibration of modern neural networks. ICML 2017, eq. 3.
    """
    known = answers[answers["confidence"].notna()]
    if known.empty:
        return None
    confidence, right = known["confidence"].to_numpy(dtype=float), ~known["wrong"].to_numpy(dtype=bool)
    # Bins are closed on the right, so that a probability of 1 falls into the last.
    number = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    rows = [
        {
            "low": index / n_bins,
            "high": (index + 1) / n_bins,
            "n": int(here.sum()),
            "confidence": float(confidence[here].mean()),
            "accuracy": float(right[here].mean()),
        }
        for index in range(n_bins)
        if (here := number == index).any()
    ]
    bins = pd.DataFrame(rows)
    error = float((bins["n"] * (bins["accuracy"] - bins["confidence"]).abs()).sum() / bins["n"].sum())
    return Reliability(bins, error, float(confidence.mean()), float(right.mean()))
