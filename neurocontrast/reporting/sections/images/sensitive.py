"""What the features still hold of a variable that they should not depend on."""

from __future__ import annotations

from dataclasses import replace

from neurocontrast.reporting.blocks import Block, Cell, Pictures, Section, Table
from neurocontrast.reporting.figures.scores import draw_sensitive, tabulate_sensitive
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, interval_text
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.tables import cell

__all__ = ["build_sensitive"]


def build_sensitive(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the error of the sensitive variable beside that of a constant; None where none was named."""
    del options
    block = files.summary.get("sensitive")
    if not block:
        return None
    rows = []
    for row in tabulate_sensitive(block).to_dict("records"):
        interval = interval_text((row["low"], row["high"]), digits=4)
        rows.append(
            (
                Cell(str(row["column"]), heading=True),
                cell(row["mse"], digits=4),
                Cell(interval, reason="not computed" if interval == DASH else ""),
                cell(row["constant_mse"], digits=4),
                _share(row),
            )
        )
    header = ("Column", "MSE", "Interval", "MSE of a constant", "R²")
    table = Table("The sensitive variable, predicted from the frozen features.", header, rows)
    picture = draw_sensitive(block, level=files.level)
    lead = (
        "Where the class should not depend on it, as a digit does not on its background, a fair representation holds "
        "little of it: its error is then as high as that of a constant."
    )
    blocks: list[Block] = [Pictures([picture])] if picture else []
    blocks.append(table)
    return Section("sensitive", "Sensitive variable", blocks, lead=lead)


def _share(row: dict) -> Cell:
    interval = interval_text((row["r2_low"], row["r2_high"]), digits=2)
    found = cell(row["r2"], digits=3, reason="not recorded")
    return found if found.absent or interval == DASH else replace(found, detail=interval)
