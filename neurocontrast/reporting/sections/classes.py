"""Class by class: recall, precision, and what is taken for what."""

from __future__ import annotations

import numpy as np
import pandas as pd

from neurocontrast.reporting.page import Input, Section, SectionBuilder, Table, note
from neurocontrast.reporting.predictions import count_confusion, count_text
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.tables import Column, make_table

__all__ = ["CLASSES", "confused_pairs"]

_OPEN_ROWS = 24
_METHODS = """
## Single classes.
{% if files.by_class is not none %}
Intervals of the recall and precision of single classes are Wilson's {{ cite("Wilson EB. Probable inference, the law "
"of succession, and statistical inference. J Am Stat Assoc 1927;22:209–212.") }}.
{% endif %}
"""


def _build(files: EvaluationFiles) -> Section:
    assert files.by_class is not None, "needed"
    pairs = confused_pairs(files)
    wrong = note(f"No {files.words.item} was given a wrong class.") if pairs.empty else _pair_table(files, pairs)
    blocks = [_class_table(files.by_class), wrong]
    return Section("classes", "Class by class", blocks)


def _class_table(by_class: pd.DataFrame) -> Table:
    rows = by_class.sort_values("recall", kind="stable", na_position="last")
    for name in ("recall", "precision"):
        low, high = (rows.get(f"{name}_{end}", pd.Series(np.nan, rows.index)) for end in ("low", "high"))
        rows[f"{name}_detail"] = [f"{a:.1%} to {b:.1%}" if a == a else "" for a, b in zip(low, high, strict=True)]
    if "confused_with" in rows:
        n = rows["n_confused"].map("{:,.0f}".format)
        rows["confused_with"] = (rows["confused_with"] + " (" + n + ")").where(rows["n_confused"].notna())
    names = {"n_train": "Training", "n_validation": "Validation"}
    trained = [name for name in names if name in rows and rows[name].notna().any()]
    columns = (
        Column("Class", "class", "heading"),
        *(Column(names[name], name, "count") for name in trained),
        Column("Tested", "n", "count"),
        Column("Recall", "recall", "share", 1, reason="none of it was tested"),
        Column("Precision", "precision", "share", 1, reason="nothing was given this class"),
        Column("Most often taken for", "confused_with", "text", reason="all of it was given it"),
    )
    about = "Recall: share of the class that is given it. Precision: share of what is given it that is of it."
    caption = "Each class, the lowest recall first (classes.tsv)."
    return make_table(caption, rows, columns, folded=len(rows) > _OPEN_ROWS, note=about)


def _pair_table(files: EvaluationFiles, pairs: pd.DataFrame) -> Table:
    detail = pairs["share"].map("{:.1%} of the class".format)
    rows = pairs.assign(n=pairs["n"].map(count_text), n_detail=detail, n_back=pairs["n_back"].map(count_text))
    columns = (
        Column("Of class", "true", "heading"),
        Column("given", "given", "text"),
        Column(files.words.items.capitalize(), "n", "text"),
        Column("The other way", "n_back", "text"),
    )
    return make_table("The commonest mistakes.", rows, columns)


def confused_pairs(files: EvaluationFiles, *, limit: int = 12) -> pd.DataFrame:
    """Return the commonest mistakes: ``true``, ``given``, ``n``, ``share`` of the true class, ``n_back``."""
    counts, names = count_confusion(files), np.array(files.classes, dtype=object)
    row, column = np.nonzero((counts > 0) & ~np.eye(len(counts), dtype=bool))
    n = counts[row, column]
    pairs = pd.DataFrame({"true": names[row], "given": names[column], "n": n, "share": n / counts.sum(axis=1)[row]})
    pairs["n_back"] = counts[column, row]
    return pairs.sort_values("n", ascending=False, kind="stable").head(limit).reset_index(drop=True)


CLASSES = SectionBuilder(
    "classes",
    "Class by class",
    order=85,
    build=_build,
    inputs=(Input("classes.tsv", "recall and precision of each class", "by_class", needed=True),),
    methods=_METHODS,
    kinds=("multiclass",),
)
