"""Section of the worst errors: the most confident mistakes, or the largest residuals."""

import numpy as np
import pandas as pd

from neurocontrast.reporting.blocks import Column, Section, make_table, note
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.predictions import class_scores, pool_repeats
from neurocontrast.reporting.privacy import OLDEST_SHOWN, name_scans, rough_ages
from neurocontrast.reporting.texts import section

_N_WORST = 10


def list_errors(files: EvaluationFolder) -> pd.DataFrame:
    """Return the wrongly predicted scans, the worst error first.

    Columns: ``scan``, ``age``, ``sex``, ``site``, ``y_true``, ``given`` (the prediction), ``score``
    and ``error``. With classes, a scan is listed if most repeats predicted another class than the
    true one; ``score`` is the probability of the true class, and ``error`` is 1 minus ``score``.
    For a continuous target every scan is listed; ``score`` is predicted minus true, and ``error``
    the absolute value of ``score``.
    """
    rows = pool_repeats(files).dropna(subset=["y_true"]).reset_index(drop=True)
    if files.kind == "continuous":
        residual = rows["y_score"].astype(float) - rows["y_true"].astype(float)
        rows = rows.assign(given=rows["y_score"], score=residual, error=residual.abs())
    else:
        codes = pd.Categorical(rows["y_true"], categories=files.classes).codes
        score = class_scores(files, rows)[np.arange(len(rows)), codes]
        rows = rows.assign(given=rows["y_pred"], score=score, error=1 - score)[
            rows["y_pred"] != rows["y_true"]
        ]
    rows = rows.dropna(subset=["error"]).sort_values(
        "error", ascending=False, kind="stable", ignore_index=True
    )
    rows["scan"] = name_scans(files, rows)
    if "age" in rows and not files.show_ids:
        rows["age"] = rough_ages(rows["age"])
    return rows.reindex(columns=["scan", "age", "sex", "site", "y_true", "given", "score", "error"])


def show_worst(files: EvaluationFolder) -> Section:
    """Return the section with a table of the most confident mistakes, or the largest residuals."""
    errors = list_errors(files)
    continuous = files.kind == "continuous"
    if errors.empty:
        return Section("worst", "Worst errors", [note("No scan was given to a wrong class.")])
    number, score = ("number", "Predicted − true") if continuous else ("text", "P(true class)")
    shown = errors.head(_N_WORST)
    digits = 1
    if continuous and files.target == "age" and not files.show_ids:
        young = shown["y_true"] < OLDEST_SHOWN
        digits = 0
        shown = shown.assign(y_true=rough_ages(shown["y_true"]), score=shown["score"].where(young))
    columns = (
        Column("Scan", "scan", "heading"),
        Column("Age", "age", "number" if files.show_ids else "text", 1),
        Column("Sex", "sex", "text"),
        Column("Site", "site", "text"),
        Column("True", "y_true", number if digits else "text", 1),
        Column("Predicted", "given", number, digits),
        Column(
            score,
            "score",
            digits=digits if continuous else 2,
            signed=continuous,
            reason="would tell a high age",
        ),
    )
    remark = (
        "Scans have pseudonyms and ages are rounded; with the evaluation folder, --show-ids names "
        "them."
    )
    if files.show_ids:
        remark = "Scans have their identifiers."
    tested = "test" if files.fixed else "out-of-fold"
    caption = f"The {len(shown)} largest residuals of {tested} predictions."
    if not continuous:
        how = " in most repeats" if files.predictions["repeat"].nunique() > 1 else ""
        caption = (
            f"The {len(shown)} most confident of the {len(errors):,} mistakes{how}: the true class "
            "was given so little probability."
        )
    return section("worst", [make_table(caption, shown, columns, note=remark)])


WORST = Finding("worst", show_worst, of=("scans",))
