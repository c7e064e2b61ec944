"""Class by class: recall, precision, and what is taken for what."""

from __future__ import annotations

import numpy as np
import pandas as pd

from neurocontrast.reporting.blocks import Block, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.scores import draw_recalls
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.predictions import count_confusion, count_text
from neurocontrast.reporting.section import Input, SectionBuilder
from neurocontrast.reporting.tables import Column, make_table

__all__ = ["CLASSES", "confused_pairs"]

_OPEN_ROWS = 20
_METHODS = """
## Single classes.
{% if files.by_class is not none %}
Intervals of the recall and precision of single classes are Wilson's {{ cite("Wilson EB. Probable inference, the law "
"of succession, and statistical inference. J Am Stat Assoc 1927;22:209–212.") }}.
{% endif %}
"""


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the recall of each class, as a figure and as a table, and the commonest mistakes."""
    del options
    assert files.by_class is not None, "needed"
    picture = draw_recalls(files)
    blocks: list[Block] = [Pictures([picture])] if picture else []
    return Section("classes", "Class by class", [*blocks, _class_table(files.by_class), _pair_table(files)])


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
    note = "Recall: share of the class that is given it. Precision: share of what is given it that is of it."
    caption = "Each class, the lowest recall first (classes.tsv)."
    return make_table(caption, rows, columns, folded=len(rows) > _OPEN_ROWS, note=note)


def _pair_table(files: EvaluationFiles) -> Table | Paragraph:
    rows = confused_pairs(files)
    if rows.empty:
        return Paragraph(f"No {files.words.item} was given a wrong class.", role="note")
    rows = rows.assign(
        n_text=rows["n"].map(count_text),
        n_text_detail=rows["share"].map("{:.1%} of the class".format),
        n_back=rows["n_back"].map(count_text),
    )
    columns = (
        Column("Of class", "true", "heading"),
        Column("given", "given", "text"),
        Column(files.words.items.capitalize(), "n_text", "text"),
        Column("The other way", "n_back", "text"),
    )
    return make_table("The commonest mistakes.", rows, columns)


def confused_pairs(files: EvaluationFiles, *, limit: int = 12) -> pd.DataFrame:
    """Return the commonest mistakes: ``true``, ``given``, ``n``, ``share`` of the true class, ``n_back``."""
    counts = count_confusion(files)
    wrong = np.argwhere((counts > 0) & ~np.eye(len(counts), dtype=bool))
    rows = [
        (
            files.classes[row],
            files.classes[column],
            n := counts[row, column],
            n / counts[row].sum(),
            counts[column, row],
        )
        for row, column in wrong
    ]
    pairs = pd.DataFrame(rows, columns=["true", "given", "n", "share", "n_back"])
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
