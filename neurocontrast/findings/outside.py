"""Scans unlike those that the model learned from."""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

import numpy as np
from pydantic import StrictFloat, StrictInt

from neurocontrast.documents.section import Part, ResultSection
from neurocontrast.evaluation.distribution import DistributionError, Reference, count_outside
from neurocontrast.evaluation.rows import Floats, Rows
from neurocontrast.evaluation.study import Study
from neurocontrast.findings.finding import Finding, Found, Inputs
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.prose import section, write_paragraphs
from neurocontrast.page.blocks import Block, Column, Facts, Section, make_table, note
from neurocontrast.page.wording import count_text


class SiteOutside(ResultSection):
    """Scans of a site, those of them outside, and the median percentile of their distances."""

    site: str | None
    n: StrictInt = 0
    n_outside: StrictInt = 0
    median_percentile: StrictFloat | None = None


class Outlyingness(Part):
    """Scans outside, of all and by site."""

    key = "outlyingness"

    reference: str | None = None
    threshold_percentile: StrictFloat | None = None
    n_outside: StrictInt | None = None
    n: StrictInt | None = None
    by_site: list[SiteOutside] = []
    note: str | None = None


def measure_outlyingness(inputs: Inputs) -> Found:
    """Measure each tested scan from other subjects' scans; where sites are held out, from those of other sites."""
    study = inputs.study
    reference = inputs.reference
    main = [split for split in study.splits if split.repeat == 0]
    rows = np.sort(np.concatenate([split.test for split in main]))
    if main[0].held_out_site is None or not isinstance(reference, Reference):
        return measure_rows(study, rows, reference, "other subjects")
    scores = np.full((len(study.table), 2), np.nan)
    why_not = set[str]()
    with inputs.progress.task("Looking for scans that lie outside", len(main), "fold") as task:
        for split in main:
            try:
                scores[split.test] = reference.score_held_out(study, split)
            except DistributionError as error:
                why_not.add(str(error))
            task.advance()
    return _count(study, rows, scores[rows], "other sites", why_not)


def measure_rows(study: Study, rows: Rows, reference: Reference | str | None, name: str) -> Found:
    """Measure rows of a study from the scans that the probe was fitted on, as far as these are of other subjects."""
    if reference is None:
        return Found({"outlyingness": None})
    if isinstance(reference, str):
        return _count(study, rows, np.full((len(rows), 2), np.nan), name, {reference})
    return _count(study, rows, reference.score(study, rows), name, set())


def _count(study: Study, rows: Rows, scores: Floats, reference: str, why_not: set[str]) -> Found:
    """Return counts, the table of scans, and a warning where more are outside than chance gives."""
    table = study.table.loc[rows, ["participant_id", "subject_id", "session", "site"]].reset_index(
        drop=True
    )
    table = table.assign(
        reference=reference, mahalanobis=scores[:, 0], mahalanobis_percentile=scores[:, 1]
    )
    percentiles = table["mahalanobis_percentile"]
    threshold = study.settings.outside_percentile
    table["outside"] = [
        None if np.isnan(value) else bool(value > threshold) for value in percentiles
    ]
    counts, notices = count_outside(table, percentiles, reference=reference, threshold=threshold)
    n_without = count_text(int(percentiles.isna().sum()), "scan")
    why = f"Without a score: {n_without} ({'; '.join(sorted(why_not))})." if why_not else None
    return Found({"outlyingness": counts | {"note": why}}, {"outlyingness": table}, notices)


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
