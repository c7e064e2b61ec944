"""Section of outlying scans: scans outside the distribution of the model's training scans."""

from neurocontrast.documents.findings import Outlyingness
from neurocontrast.evaluation.measure.outside import measure_outlyingness
from neurocontrast.reporting.blocks import Block, Column, Facts, Section, make_table, note
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.result_tables import ResultTables
from neurocontrast.reporting.texts import section
from neurocontrast.reporting.wording import number_text

_REFERENCES = {
    "other subjects": "the scans of all other subjects",
    "other sites": "the scans of all other sites",
    "training folds": "the scans of the training folds",
    "probe": "the scans that the probe was fitted on",
}


def show_outside(files: EvaluationFolder) -> Section | None:
    """Return the section on tested scans unlike the training scans; None if not measured.

    The section gives the number of such scans by site. A scan is unlike the training scans if its
    Mahalanobis distance from them is beyond a percentile of the usual distances.
    """
    blocks = outlyingness_blocks(files)
    return section("outlyingness", blocks) if blocks else None


def list_outside(outlyingness: Outlyingness) -> list[tuple[str, str]]:
    """List how many scans are outlying, compared with which scans, and the number due to chance.

    Returned are pairs of a label and a text.
    """
    n = outlyingness.n or 0
    n_outside = outlyingness.n_outside or 0
    counts = f"{n_outside:,} of {n:,} scans"
    if n:
        counts += f" ({n_outside / n:.1%})"
    reference = outlyingness.reference or "not recorded"
    facts = [("Outside", counts), ("Compared with", _REFERENCES.get(reference, reference))]
    threshold = outlyingness.threshold_percentile
    if threshold is not None:
        by_chance = number_text(n * (1 - threshold / 100), digits=1)
        percentile = f"percentile {threshold:g} of the Mahalanobis distance"
        facts.append(("Called outside beyond", percentile))
        facts.append(("By chance it would be", f"about {by_chance} scans"))
    return facts


def outlyingness_blocks(files: ResultTables, *, title: str = "") -> list[Block]:
    """Return blocks on outlying scans: counts under the heading `title`, and a table by site.

    The list is empty if the evaluation did not measure outlyingness.
    """
    block = files.summary.part(Outlyingness)
    if block is None:
        return []
    blocks: list[Block] = [Facts(list_outside(block), title)]
    if block.note:
        blocks.append(note(block.note))
    rows = []
    for site in block.by_site:
        row = site.model_dump()
        row["share"] = site.n_outside / site.n if site.n else 0.0
        row["share_detail"] = f"{site.n_outside:,} of {site.n:,}"
        rows.append(row)
    columns = (
        Column("Site", "site", "heading"),
        Column("Scans", "n", "count"),
        Column("Outside", "share", "share", 0),
        Column("Median percentile", "median_percentile", digits=0),
    )
    caption = f"Scans outside, by site. Each scan is in {files.prefix}outlyingness.tsv."
    return [*blocks, make_table(caption, rows, columns, folded=len(rows) > 25)] if rows else blocks


OUTSIDE = Finding(
    "outlyingness",
    show_outside,
    measure_outlyingness,
    record=Outlyingness,
    methods="methods_outside.j2",
    of=("scans",),
)
