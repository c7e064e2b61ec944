"""Scans unlike those that the model learned from."""

from neurocontrast.evaluation.measure.outside import Outlyingness, measure_outlyingness
from neurocontrast.reporting.blocks import Block, Column, Facts, Section, make_table, note
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.prose import section, write_paragraphs


def show_outside(files: EvaluationFolder) -> Section | None:
    """Return the scans outside, by site; None if they were not looked for."""
    blocks = outlyingness_blocks(files)
    return section("outlyingness", blocks) if blocks else None


def outlyingness_blocks(files: EvaluationFolder, *, title: str = "") -> list[Block]:
    """Return counts and the table of sites; empty if scans outside were not looked for."""
    block = files.summary.part(Outlyingness)
    if block is None:
        return []
    blocks: list[Block] = [Facts(write_paragraphs("outside.j2", files, block=block), title)]
    if block.note:
        blocks.append(note(block.note))
    rows = [
        each.model_dump()
        | {
            "share": each.n_outside / each.n if each.n else 0.0,
            "share_detail": f"{each.n_outside:,} of {each.n:,}",
        }
        for each in block.by_site
    ]
    columns = (
        Column("Site", "site", "heading"),
        Column("Scans", "n", "count"),
        Column("Outside", "share", "share", 0),
        Column("Median percentile", "median_percentile", digits=0),
    )
    caption = (
        f"Scans outside, by site. Each scan is in {'external_' if title else ''}outlyingness.tsv."
    )
    return [*blocks, make_table(caption, rows, columns, folded=len(rows) > 25)] if rows else blocks


OUTSIDE = Finding(
    "outlyingness",
    show_outside,
    measure_outlyingness,
    record=Outlyingness,
    methods="methods_outside.j2",
    of=("scans",),
)
