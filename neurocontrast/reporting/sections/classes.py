"""Class by class: recall, precision, and what each is most often taken for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from neurocontrast.reporting.page import Input, Section, SectionBuilder, Table
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.tables import Column, make_table

__all__ = ["CLASSES"]

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
    return Section("classes", "Class by class", [_class_table(files.by_class)])


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


CLASSES = SectionBuilder(
    "classes",
    "Class by class",
    order=85,
    build=_build,
    inputs=(Input("classes.tsv", "recall and precision of each class", "by_class", needed=True),),
    methods=_METHODS,
    kinds=("multiclass",),
)
