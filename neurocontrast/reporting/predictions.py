"""Out-of-fold predictions: pooled, as decisions, counted, and the worst of them."""

from __future__ import annotations

import hmac

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.reporting.prose import threshold_text
from neurocontrast.reporting.read import EvaluationFiles

OLDEST_SHOWN = 89
"""Ages from this on are shown as "89+": with a site, an older age can name a person."""

_THRESHOLD = 0.5


def _is_score(column: object) -> bool:
    return str(column) in ("y_score", "baseline_score", "voxels_score", "regional_score") or str(column).startswith(
        "score_"
    )


def _scan_keys(table: pd.DataFrame) -> list[str]:
    return [name for name in ("participant_id", "session") if name in table]


def tested_rows(files: EvaluationFiles) -> pd.DataFrame:
    """Return the predictions of the scans that were tested: one row a scan and repeat."""
    scores = [name for name in files.predictions.columns if _is_score(name)]
    return files.predictions.dropna(subset=scores, how="all").reset_index(drop=True)


def pool_repeats(files: EvaluationFiles) -> pd.DataFrame:
    """Return one row a scan, its scores averaged over the repeats of the cross-validation."""
    table = tested_rows(files)
    keys = _scan_keys(table)
    if "participant_id" not in keys or table["repeat"].nunique() < 2:
        return table
    how = {name: ("mean" if _is_score(name) else "first") for name in table.columns if name not in keys}
    return table.groupby(keys, sort=False, dropna=False).agg(how).reset_index()


def decisions(files: EvaluationFiles, tested: pd.DataFrame) -> npt.NDArray[np.object_]:
    """Return the class that each tested scan was given."""
    if "y_pred" in tested:
        return tested["y_pred"].to_numpy(dtype=object)
    if files.kind == "binary":
        return np.where(tested["y_score"] >= _THRESHOLD, files.positive, files.negative).astype(object)
    return np.array(files.classes, dtype=object)[np.nan_to_num(_class_scores(files, tested), nan=-1.0).argmax(axis=1)]


def _class_scores(files: EvaluationFiles, rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return the probability of each class (columns) for each row."""
    if files.kind == "binary":
        positive = rows["y_score"].to_numpy(dtype=float)
        return np.column_stack([positive if name == files.positive else 1 - positive for name in files.classes])
    return rows.reindex(columns=[f"score_{name}" for name in files.classes]).to_numpy(dtype=float)


def _score_of(files: EvaluationFiles, rows: pd.DataFrame, column: str) -> npt.NDArray[np.float64]:
    """Return the probability of the class that a column names, row by row."""
    place = pd.Categorical(rows[column], categories=files.classes).codes
    return _class_scores(files, rows)[np.arange(len(rows)), place]


def name_rule(files: EvaluationFiles) -> str:
    """Say by which rule a scan was given to a class: "at the threshold 0.5"."""
    tested = tested_rows(files)
    if not files.summary.threshold.rule:
        plain = decisions(files, tested.drop(columns="y_pred", errors="ignore"))
        if (decisions(files, tested) != plain).any():
            return "at the threshold set in the evaluation"
    return threshold_text(files)


def count_confusion(files: EvaluationFiles) -> npt.NDArray[np.float64]:
    """Return the number of scans by true class (rows) and predicted class (columns), as means over repeats."""
    tested = tested_rows(files)
    counts = pd.crosstab(tested["y_true"].to_numpy(dtype=object), decisions(files, tested))
    square = counts.reindex(index=files.classes, columns=files.classes, fill_value=0)
    return square.to_numpy(dtype=float) / max(tested["repeat"].nunique(), 1)


def count_text(n: float) -> str:
    """Write a count, with one decimal where it is a mean over repeats."""
    return f"{n:.1f}".removesuffix(".0")


def name_scans(files: EvaluationFiles, rows: pd.DataFrame) -> list[str]:
    """Return identifiers of scans, or pseudonyms that only who has the evaluation's files can trace back."""
    names = rows.get("participant_id", pd.Series(rows.index.astype(str), index=rows.index)).fillna("")
    sessions = rows.get("session", pd.Series("", index=rows.index)).fillna("")
    if files.show_ids:
        return [f"{name} {session}".strip() for name, session in zip(names, sessions, strict=True)]
    key, pairs = files.key.encode(), zip(names, sessions, strict=True)
    return [hmac.new(key, f"{name}\t{session}".encode(), "sha256").hexdigest()[:10] for name, session in pairs]


def worst_errors(files: EvaluationFiles, *, n: int = 10) -> pd.DataFrame:
    """Return the scans that the model got wrong with most confidence, the worst first.

    Of classes: scans given to another class in most repeats, by how little probability the true class got; of a
    continuous target: the largest residuals. Columns: ``scan, age, sex, site, y_true, predicted, score, error``.
    """
    chosen = _errors(files).sort_values("error", ascending=False, kind="stable").head(n).reset_index(drop=True)
    shown = chosen.assign(scan=name_scans(files, chosen))
    if "age" in shown and not files.show_ids:
        ages = [f"{OLDEST_SHOWN}+" if age >= OLDEST_SHOWN else f"{age:.0f}" for age in shown["age"].fillna(-1)]
        shown["age"] = pd.Series(ages, dtype=object).where(shown["age"].notna(), None)
    return shown.reindex(columns=["scan", "age", "sex", "site", "y_true", "predicted", "score", "error"])


def count_errors(files: EvaluationFiles) -> tuple[int, int]:
    """Return how many scans of a categorical target were given to a wrong class in most repeats, and of how many."""
    return len(_errors(files)), len(files.predictions.drop_duplicates(_scan_keys(files.predictions) or None))


def _errors(files: EvaluationFiles) -> pd.DataFrame:
    pooled = pool_repeats(files).dropna(subset=["y_true"])
    if files.kind == "continuous":
        residual = pooled["y_score"].astype(float) - pooled["y_true"].astype(float)
        return pooled.assign(predicted=pooled["y_score"], score=residual, error=residual.abs()).dropna(subset=["error"])
    pooled = pooled.assign(predicted=_commonest_decision(files, pooled), score=_score_of(files, pooled, "y_true"))
    wrong = pooled["predicted"] != pooled["y_true"]
    return pooled.assign(error=1 - pooled["score"])[wrong].dropna(subset=["error"])


def _commonest_decision(files: EvaluationFiles, pooled: pd.DataFrame) -> pd.Series:
    """Return the class each scan was given in most repeats, in the order of `pooled`."""
    tested = tested_rows(files).dropna(subset=["y_true"])
    given = tested.assign(given=decisions(files, tested))
    keys = _scan_keys(tested)
    if "participant_id" not in keys or tested["repeat"].nunique() < 2:
        return pd.Series(given["given"].to_numpy(dtype=object), index=pooled.index)
    counts = given.fillna(dict.fromkeys(keys, "")).groupby([*keys, "given"]).size()
    most = counts.sort_values(ascending=False, kind="stable").reset_index(name="n").drop_duplicates(keys)
    named = pooled[keys].fillna("").merge(most, on=keys, how="left")
    return pd.Series(named["given"].to_numpy(dtype=object), index=pooled.index)
