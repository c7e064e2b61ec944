"""What the features still hold of a variable that they should not depend on."""

from __future__ import annotations

from typing import Any

from neurocontrast.reporting.blocks import Block, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.scores import draw_sensitive, tabulate_sensitive
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, interval_text
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.prose import write
from neurocontrast.reporting.section import SectionBuilder
from neurocontrast.reporting.tables import Column, make_table

__all__ = ["SENSITIVE", "say_sensitive"]

_SENTENCES = """
{% set level = "{:.0%}".format(files.level) %}
{% if block.mse["value"] is none or block.mse["value"] is undefined or block.constant_mse is none %}
How far the sensitive variable can be read from the features could not be measured.
{% else %}
Predicted linearly from the features, {{ columns|listed if columns|length <= 4 else columns|length ~ " columns" }}
{{ "are" if columns|length > 1 else "is" }} missed by a mean squared error of {{ block.mse["value"]|number(digits=4) }}
({{ level }} interval {{ (block.mse.low, block.mse.high)|interval(digits=4) }}); predicting the same value for every
{{ words.item }} gives {{ block.constant_mse|number(digits=4) }}.
{% if share <= 0 or (low is not none and low <= 0) %}
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


def _build(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the error of the sensitive variable beside that of a constant; None where none was named."""
    del options
    block = files.summary.sensitive
    if block is None:
        return None
    rows = tabulate_sensitive(block).rename(columns={"low": "mse_low", "high": "mse_high"})
    columns = (
        Column("Column", "column", "heading"),
        Column("MSE", "mse", digits=4),
        Column("Interval", "mse", "interval", digits=4, reason="not computed"),
        Column("MSE of a constant", "constant_mse", digits=4),
        Column("R²", "r2", interval=True),
    )
    picture = draw_sensitive(block, level=files.level)
    lead = (
        "Where the class should not depend on it, as a digit does not on its background, a fair representation holds "
        "little of it: its error is then as high as that of a constant."
    )
    blocks: list[Block] = [Paragraph(say_sensitive(files), role="quote"), *([Pictures([picture])] if picture else [])]
    blocks.append(make_table("The sensitive variable, predicted from the frozen features.", rows, columns))
    return Section("sensitive", "Sensitive variable", blocks, lead=lead)


def say_sensitive(files: EvaluationFiles) -> str:
    """Say how much of the sensitive variable the features still hold."""
    block = files.summary.sensitive
    assert block is not None, "the section is built where there is one"
    value, constant, low, high = block.mse.value, block.constant_mse, block.r2.low, block.r2.high
    share = block.r2.value
    if share is None:
        share = 1 - value / constant if value is not None and constant else 0
    text = interval_text([end * 100 for end in (low, high) if end is not None], digits=0)
    between = "" if text == DASH else f" ({files.level:.0%} interval {text}%)"
    names: dict[str, Any] = {"block": block, "columns": list(block.columns), "share": share, "low": low}
    return write(_SENTENCES, files, between=between, **names)


SENSITIVE = SectionBuilder("sensitive", "Sensitive variable", order=108, build=_build, methods=_METHODS)
