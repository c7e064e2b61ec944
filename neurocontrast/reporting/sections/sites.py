"""The result site by site."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Paragraph, Pictures, Section
from neurocontrast.reporting.figures import draw_forest
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import choose_headline
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.tables import table_sites

__all__ = ["build_sites"]

_SECOND = {"binary": "balanced_accuracy", "multiclass": "auc", "continuous": "r2"}


def build_sites(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the forest plots of the two leading metrics and the table of all."""
    del options
    keys = [choose_headline(files.kind, files.metrics), _SECOND[files.kind]]
    drawn = (draw_forest(files, key) for key in dict.fromkeys(keys) if key)
    pictures = [picture for picture in drawn if picture is not None]
    blocks: list[Block] = [Pictures(pictures)] if pictures else []
    table = table_sites(files)
    if not pictures:
        why = "No metric is defined at any site" if table else "sites.tsv holds no site"
        blocks.append(Paragraph(f"{why}, so there is no forest plot.", role="note"))
    if table:
        blocks.append(table)
    return Section("sites", "Site by site", blocks)
