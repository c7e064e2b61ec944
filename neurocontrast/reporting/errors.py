"""The worst errors: most confident mistakes, largest residuals; under pseudonyms unless asked otherwise."""

from __future__ import annotations

import hmac

import numpy as np
import pandas as pd

from neurocontrast.reporting.figures.confusion import decisions
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.pooling import pool_repeats, tested_rows

__all__ = ["OLDEST_SHOWN", "count_errors", "pseudonym", "worst_errors"]

OLDEST_SHOWN = 89
"""Ages from this on are shown as "89+": with a site, an older age can name a person."""


def pseudonym(name: object, *, key: str) -> str:
    """Return a short name for an identifier that only who has the evaluation's files can trace back.

    Examples
    --------
    >>> pseudonym("sub-01", key="a") == pseudonym("sub-01", key="a") != pseudonym("sub-01", key="b")
    True
    """
    return hmac.new(key.encode(), str(name).encode(), "sha256").hexdigest()[:10]


def worst_errors(files: EvaluationFiles, *, n: int = 10, show_ids: bool = False) -> pd.DataFrame:
    """Return the scans that the model got wrong with most confidence, the worst first.

    Of classes: scans that were given to another class in most repeats, by how little probability
    the true class got. Of a continuous target: the largest absolute residuals.

    Returns
    -------
    DataFrame
        ``scan`` (identifier or pseudonym), ``age``, ``sex``, ``site``, ``y_true``, ``predicted``,
        ``score`` and ``error``.
    """
    table = _scored(files)
    chosen = table.sort_values("error", ascending=False, kind="stable").head(n).reset_index(drop=True)
    names = chosen["participant_id"] if "participant_id" in chosen else pd.Series(chosen.index.astype(str))
    key = files.key
    session = chosen.get("session", pd.Series("", index=chosen.index)).fillna("")
    scans = [
        f"{name} {visit}".strip() if show_ids else pseudonym(f"{name}\t{visit}", key=key)
        for name, visit in zip(names, session, strict=True)
    ]
    shown = chosen.assign(scan=scans)
    if "age" in shown and not show_ids:
        shown["age"] = np.array([_rough_age(age) for age in shown["age"]], dtype=object)
    columns = ["scan", "age", "sex", "site", "y_true", "predicted", "score", "error"]
    return shown.reindex(columns=columns)


def count_errors(files: EvaluationFiles) -> tuple[int, int]:
    """Return how many scans of a categorical target were given to a wrong class in most repeats, and of how many."""
    return len(_scored(files)), files.predictions.drop_duplicates(_keys(files.predictions)).shape[0]


def _keys(table: pd.DataFrame) -> list[str]:
    return [name for name in ("participant_id", "session") if name in table] or list(table.columns)


def _scored(files: EvaluationFiles) -> pd.DataFrame:
    pooled = pool_repeats(files).dropna(subset=["y_true"])
    if files.kind == "continuous":
        residual = pooled["y_score"].astype(float) - pooled["y_true"].astype(float)
        return pooled.assign(predicted=pooled["y_score"], score=residual, error=residual.abs()).dropna(subset=["error"])
    pooled = pooled.assign(predicted=_majority(files, pooled))
    if files.kind == "binary":
        is_positive = (pooled["y_true"] == files.positive).to_numpy()
        score = pooled["y_score"].astype(float)
        of_truth = score.where(is_positive, 1 - score)
    else:
        columns = [f"score_{name}" for name in files.classes]
        scores = pooled.reindex(columns=columns).to_numpy(dtype=float)
        place = pd.Categorical(pooled["y_true"], categories=files.classes).codes
        of_truth = pd.Series(scores[range(len(pooled)), place], index=pooled.index)
    wrong = (pooled["predicted"] != pooled["y_true"]).to_numpy()
    return pooled.assign(score=of_truth, error=1 - of_truth)[wrong].dropna(subset=["error"])


def _majority(files: EvaluationFiles, pooled: pd.DataFrame) -> pd.Series:
    """Return the class each scan was given in most repeats, in the order of `pooled`."""
    tested = tested_rows(files).dropna(subset=["y_true"])
    given = tested.assign(given=decisions(files, tested))
    if "participant_id" not in tested or tested["repeat"].nunique() < 2:
        return pd.Series(given["given"].to_numpy(dtype=object), index=pooled.index)
    keys = _keys(tested)
    counts = given.fillna(dict.fromkeys(keys, "")).groupby([*keys, "given"]).size().rename("n").reset_index()
    most = counts.sort_values("n", ascending=False, kind="stable").drop_duplicates(keys)
    named = pooled[keys].fillna("").merge(most, on=keys, how="left")
    return pd.Series(named["given"].to_numpy(dtype=object), index=pooled.index)


def _rough_age(age: object) -> object:
    if age is None or pd.isna(age):  # type: ignore[call-overload]
        return None
    years = float(age)  # type: ignore[arg-type]
    return f"{OLDEST_SHOWN}+" if years >= OLDEST_SHOWN else f"{years:.0f}"
