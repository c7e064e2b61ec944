"""Each class of several by itself: how many of it are found, and how many that are called so are it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.evaluation.calibration import wilson_interval
from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.splits import Split, parts_of
from neurocontrast.evaluation.target import Target

__all__ = ["class_table"]


def class_table(target: Target, model: OutOfFold, *, split: Split | None, level: float) -> pd.DataFrame:
    """Return one row a class: counts, recall and precision with Wilson's intervals, and the commonest wrong answer.

    Each scan counts once: of repeated folds the first repeat does.

    Parameters
    ----------
    target : Target
        Several classes.
    model : OutOfFold
        What was predicted.
    split : Split or None
        Of the fixed design, for the numbers of train and validation.
    level : float
        Of the intervals.
    """
    tested = np.flatnonzero(model.folds[0] >= 0)
    n_classes = len(target.classes)
    truth, found = target.values[tested].astype(np.intp), model.decisions[0, tested]
    counts = np.zeros((n_classes, n_classes), dtype=np.int64)
    np.add.at(counts, (truth, found), 1)
    fitted = _fitted(target, split)
    rows = []
    for code, name in enumerate(target.classes):
        n, n_called, n_correct = int(counts[code].sum()), int(counts[:, code].sum()), int(counts[code, code])
        row: dict[str, Any] = {"class": name, "n": n}
        row |= {f"n_{part}": None if numbers is None else int(numbers[code]) for part, numbers in fitted.items()}
        row |= {"n_correct": n_correct, **_share("recall", n_correct, n, level)}
        row |= _share("precision", n_correct, n_called, level)
        wrong = np.where(np.arange(n_classes) == code, 0, counts[code])
        other = int(wrong.argmax())
        row |= {"confused_with": target.classes[other] if wrong[other] else None, "n_confused": int(wrong[other])}
        rows.append(row)
    return pd.DataFrame(rows)


def _fitted(target: Target, split: Split | None) -> dict[str, Any]:
    if split is None:
        return {"train": None, "validation": None}
    parts = parts_of(split)
    n = len(target.classes)
    return {name: np.bincount(target.values[parts[name]], minlength=n) for name in ("train", "validation")}


def _share(name: str, n_correct: int, n: int, level: float) -> dict[str, float | None]:
    low, high = wilson_interval(n_correct / n, n, level=level) if n else (None, None)
    return {name: n_correct / n if n else None, f"{name}_low": low, f"{name}_high": high}
