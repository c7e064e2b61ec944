"""Class by class: recall, precision, and what is taken for what."""

from __future__ import annotations

import numpy as np
import pandas as pd

from neurocontrast.reporting.blocks import Block, Cell, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.scores import draw_recalls
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.predictions import count_confusion, count_text
from neurocontrast.reporting.section import Input, SectionBuilder
from neurocontrast.reporting.tables import count_cell

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
    ordered = by_class.sort_values("recall", kind="stable", na_position="last")
    names = {"n_train": "Training", "n_validation": "Validation"}
    trained = [name for name in names if name in ordered and ordered[name].notna().any()]
    rows = [
        (
            Cell(str(row["class"]), heading=True),
            *(count_cell(row[name]) for name in trained),
            count_cell(row["n"]),
            _share(row, "recall", "none of it was tested"),
            _share(row, "precision", "nothing was given this class"),
            _commonest(row),
        )
        for row in ordered.to_dict("records")
    ]
    header = ("Class", *(names[name] for name in trained), "Tested", "Recall", "Precision", "Most often taken for")
    return Table(
        "Each class, the lowest recall first (classes.tsv).",
        header,
        rows,
        text_columns=(0, len(header) - 1),
        folded=len(rows) > _OPEN_ROWS,
        note="Recall: share of the class that is given it. Precision: share of what is given it that is of it.",
    )


def _share(row: dict, name: str, reason: str) -> Cell:
    if pd.isna(row.get(name)):
        return Cell(DASH, reason=reason)
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return Cell(f"{row[name]:.1%}", detail="" if pd.isna(low) or pd.isna(high) else f"{low:.1%} to {high:.1%}")


def _commonest(row: dict) -> Cell:
    name, n = row.get("confused_with"), row.get("n_confused")
    return Cell(DASH, reason="all of it was given it") if pd.isna(name) or pd.isna(n) else Cell(f"{name} ({n:,.0f})")


def _pair_table(files: EvaluationFiles) -> Table | Paragraph:
    rows = [
        (
            Cell(str(row["true"]), heading=True),
            Cell(str(row["given"])),
            Cell(count_text(row["n"]), detail=f"{row['share']:.1%} of the class"),
            Cell(count_text(row["n_back"])),
        )
        for row in confused_pairs(files).to_dict("records")
    ]
    if not rows:
        return Paragraph(f"No {files.words.item} was given a wrong class.", role="note")
    header = ("Of class", "given", files.words.items.capitalize(), "The other way")
    return Table("The commonest mistakes.", header, rows, text_columns=(0, 1))


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
