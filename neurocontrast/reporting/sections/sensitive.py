"""What the features still hold of a variable that they should not depend on."""

from __future__ import annotations

import pandas as pd

from neurocontrast.evaluation.schema import Sensitive
from neurocontrast.reporting.page import Paragraph, Section, SectionBuilder
from neurocontrast.reporting.prose import write
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.tables import Column, make_table
from neurocontrast.reporting.wording import DASH, interval_text

__all__ = ["SENSITIVE"]

_SENTENCES = """
{% set level = "{:.0%}".format(files.level) %}
{% if block.mse["value"] is none or block.mse["value"] is undefined or block.constant_mse is none %}
How far the sensitive variable can be read from the features could not be measured.
{% else %}
Predicted linearly from the features, {{ columns|listed if columns|length <= 4 else columns|length ~ " columns" }}
{{ "are" if columns|length > 1 else "is" }} missed by a mean squared error of {{ block.mse["value"]|number(digits=4) }}
({{ level }} interval {{ (block.mse.low, block.mse.high)|interval(digits=4) }}); predicting the same value for every
{{ words.item }} gives {{ block.constant_mse|number(digits=4) }}.
{% if share <= 0 or (block.r2.low is not none and block.r2.low <= 0) %}
Nothing of it could be read linearly: the share of variance explained{{ between }} reaches zero.
{% else %}
The features hold {{ "{:.0%}".format(share) }} of its variance{{ between }} in a form that a linear model can read; the
higher the error, the fairer the representation.
{% endif %}
{% endif %}
"""
_METHODS = """
## Sensitive variable.
{% if s.sensitive.columns %}
{% set columns = s.sensitive.columns|list %}
To see what else the features hold, {{ columns|listed }} {{ "were" if columns|length > 1 else "was" }} predicted from
them by {{ "linear" if s.sensitive.probe == "linear" else "ridge" }} regression
{{ "on the same training images, tested on the same test images" if files.fixed else "in the same folds" }}
{{ cite(CCLK) }}. We report the mean squared error beside that of the mean of the training images: the closer the two,
the fairer.
{% endif %}
"""


def _build(files: EvaluationFiles) -> Section | None:
    """Build the error of the sensitive variable beside that of a constant; None where none was named."""
    block = files.summary.sensitive
    if block is None:
        return None
    rows = _tabulate(block)
    columns = (
        Column("Column", "column", "heading"),
        Column("MSE", "mse", digits=4, interval=True),
        Column("MSE of a constant", "constant_mse", digits=4),
        Column("R²", "r2", interval=True),
    )
    lead = (
        "Where the class should not depend on it, as a digit does not on its background, a fair representation holds "
        "little of it: its error is then as high as that of a constant."
    )
    table = make_table("The sensitive variable, predicted from the frozen features.", rows, columns)
    said = Paragraph(_say(files, block), role="quote")
    return Section("sensitive", "Sensitive variable", [said, table], lead=lead)


def _tabulate(block: Sensitive) -> pd.DataFrame:
    """Return the error of each sensitive column, of a constant, and R², with their ends; then their means."""
    rows = [{"column": str(name), **vars(found), "mse_low": found.low, "mse_high": found.high}
            for name, found in block.columns.items()]  # fmt: skip
    if len(rows) != 1:
        mse, r2 = block.mse, block.r2
        mean = {"mse": mse.value, "r2": r2.value, "constant_mse": block.constant_mse}
        ends = {"mse_low": mse.low, "mse_high": mse.high, "r2_low": r2.low, "r2_high": r2.high}
        rows.append({"column": "mean of the columns", **mean, **ends})
    names = ["mse", "mse_low", "mse_high", "constant_mse", "r2", "r2_low", "r2_high"]
    return pd.DataFrame(rows).reindex(columns=["column", *names]).astype(dict.fromkeys(names, "float64"))


def _say(files: EvaluationFiles, block: Sensitive) -> str:
    """Say how much of the sensitive variable the features still hold."""
    value, constant, share = block.mse.value, block.constant_mse, block.r2.value
    if share is None:
        share = 1 - value / constant if value is not None and constant else 0
    text = interval_text([end * 100 for end in (block.r2.low, block.r2.high) if end is not None], digits=0)
    between = "" if text == DASH else f" ({files.level:.0%} interval {text}%)"
    return write(_SENTENCES, files, block=block, columns=list(block.columns), share=share, between=between)


SENSITIVE = SectionBuilder("sensitive", "Sensitive variable", order=108, build=_build, methods=_METHODS)
