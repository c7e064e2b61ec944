"""The result in parts of the cohort: site by site, by sex, by age band."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.scores import draw_forest
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import choose_headline
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import Input, SectionBuilder
from neurocontrast.reporting.strata import Strata, group_strata, site_strata
from neurocontrast.reporting.tables import table_strata

__all__ = ["GROUPS", "SITES", "strata_blocks"]

_SECOND = {"binary": "balanced_accuracy", "multiclass": "auc", "continuous": "r2"}


def _build_sites(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the forest plots of the two leading metrics and the table of all."""
    del options
    return Section("sites", "Site by site", strata_blocks(files, site_strata(files)))


def _build_groups(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the forest plots and tables of each sex and age band."""
    del options
    strata = group_strata(files)
    key = choose_headline(files.kind, files.metrics)
    drawn = [draw_forest(files, each, key) for each in strata] if key else []
    pictures = [picture for picture in drawn if picture is not None]
    blocks: list[Block] = [Pictures(pictures)] if pictures else []
    blocks += [table for table in (table_strata(files, each) for each in strata) if table]
    lead = "A model that works for everybody works in every row. Differences between rows are not tested."
    return Section("groups", "By sex and age", blocks, lead=lead)


def strata_blocks(files: EvaluationFiles, strata: Strata) -> list[Block]:
    """Return the forest plots of the two leading metrics, and the table."""
    keys = [choose_headline(files.kind, files.metrics), _SECOND[files.kind]]
    drawn = (draw_forest(files, strata, key) for key in dict.fromkeys(keys) if key)
    pictures = [picture for picture in drawn if picture is not None]
    blocks: list[Block] = [Pictures(pictures)] if pictures else []
    table = table_strata(files, strata)
    if not pictures:
        why = f"No metric is defined {strata.where}" if table else f"{strata.file} holds no site"
        blocks.append(Paragraph(f"{why}, so there is no forest plot.", role="note"))
    return [*blocks, table] if table else blocks


SITES = SectionBuilder("sites", "Site by site", order=50, build=_build_sites, covers="sites", of=("scans",))
GROUPS = SectionBuilder(
    "groups",
    "By sex and age",
    order=60,
    build=_build_groups,
    inputs=(Input("groups.tsv", "the result by sex and age band", "groups", needed=True),),
    covers="sex and age",
    of=("scans",),
)
