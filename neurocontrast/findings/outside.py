"""Scans unlike those that the model learned from."""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import StrictFloat, StrictInt
from scipy.stats import binom

from neurocontrast.evaluation import record
from neurocontrast.evaluation.distribution import (
    COVARIANCE,
    Reference,
    count_outside,
    fit_distribution,
    fit_shape,
    outside_message,
)
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.record import Notice, Part
from neurocontrast.evaluation.splits import Split
from neurocontrast.findings.errors import name_scans
from neurocontrast.findings.finding import Finding, Found, Inputs
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.page.blocks import Block, Column, Facts, Section, Table, make_table, note
from neurocontrast.page.wording import count_text, number_text
from neurocontrast.seeds import derive_seed


class SiteOutside(record.Section):
    """Scans of a site, those of them outside, and the median percentile of their distances."""

    site: str | None
    n: StrictInt | None = None
    n_outside: StrictInt | None = None
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
    covariance: str | None = None


Floats = npt.NDArray[np.float64]

ENOUGH = 0.75
"""Training folds with a smaller share of the scans learn usual distances of their own, which are larger."""
_EXPLANATION = (
    "Do not trust the number for these scans: the model gives one wherever they lie, but it learned from nothing like "
    "them. They count in the figures below. See “Scans unlike those it learned from”."
)


def measure_outlyingness(inputs: Inputs) -> Found:
    """Measure each scan from its training folds; with ``splits=leave-site-out`` these are the other sites."""
    study, reference = inputs.study, inputs.reference
    if reference is None:
        return Found({"outlyingness": None})
    main = [split for split in study.splits if split.repeat == 0]
    scores, why_not = np.full((len(study.table), 2), np.nan), set[str]()
    with inputs.progress.task("Looking for scans that lie outside", len(main), "fold") as task:
        for split in main:
            found = reference if isinstance(reference, str) else _score(study, split, reference)
            if isinstance(found, str):
                why_not.add(found)
            else:
                scores[split.test] = found
            task.advance()
    rows = np.sort(np.concatenate([split.test for split in main]))
    return _found(study, _table(study, rows, scores, "training folds"), "training folds", why_not)


def _score(study: Study, split: Split, reference: Reference) -> Floats | str:
    """Return distance and percentile of the test scans of a split (n, 2), or why they have none."""
    drawn = np.isin(split.train, reference.rows)
    x_train, x_test = study.design()(split.train, split.test)
    rows = split.train[drawn]
    places, people = study.sites[rows], study.subjects[rows]
    if len(rows) < ENOUGH * len(reference.rows):
        found = fit_distribution(
            x_train[drawn], places, people, seed=derive_seed("outlyingness", study.settings.seed, split.fold)
        )
        return found if isinstance(found, str) else np.column_stack(found[0].percentiles(x_test))
    shape = fit_shape(x_train[drawn], places, people, n_axes=len(reference.distribution.variances))
    if isinstance(shape, str):
        return shape
    # Usual are the distances of the same training scans, each measured without its own subject.
    usual = np.tile(reference.usual(rows), (len(shape.sites), 1))
    return np.column_stack(replace(shape, usual=usual).percentiles(x_test))


def measure_external(study: Study, split: Split, reference: Reference | str | None) -> Found:
    """Measure the external scans, the test rows of a split, from those that the probe was fitted on."""
    if reference is None:
        return Found({"outlyingness": None})
    scores, why_not = np.full((len(study.table), 2), np.nan), set[str]()
    if isinstance(reference, str):
        why_not.add(reference)
    else:
        x_test = study.design()(split.train, split.test)[1]
        scores[split.test] = np.column_stack(reference.distribution.percentiles(x_test))
    found = _found(study, _table(study, split.test, scores, "probe"), "probe", why_not)
    notices = [Notice(f"external_{each.code}", f"test: {each.message}", each.explanation) for each in found.notices]
    return Found(found.summary, {"external_outlyingness": found.tables["outlyingness"]}, notices)


def _table(study: Study, rows: npt.NDArray[np.intp], scores: Floats, reference: str) -> pd.DataFrame:
    table = study.table.loc[rows, ["participant_id", "subject_id", "session", "site"]].reset_index(drop=True)
    table = table.assign(reference=reference, mahalanobis=scores[rows, 0], mahalanobis_percentile=scores[rows, 1])
    percentiles, mark = table["mahalanobis_percentile"], study.settings.outside_percentile
    table["outside"] = [None if np.isnan(value) else bool(value > mark) for value in percentiles]
    return table


def _found(study: Study, table: pd.DataFrame, reference: str, why_not: set[str]) -> Found:
    percentiles, threshold = table["mahalanobis_percentile"], study.settings.outside_percentile
    counts = count_outside(table, percentiles, reference=reference, threshold=threshold)
    n_without, message = int(percentiles.isna().sum()), outside_message(counts)
    why = f"Without a score: {count_text(n_without, 'scan')} ({'; '.join(sorted(why_not))})." if why_not else None
    notices = [] if message is None else [Notice("outside_distribution", message, _EXPLANATION)]
    return Found({"outlyingness": counts | {"note": why, "covariance": COVARIANCE}}, {"outlyingness": table}, notices)


_TITLE = "Scans unlike those it learned from"
_MARK, _SURPRISING = "▲", 0.01
_REFERENCES = {
    "training folds": "the scans of the training folds",
    "probe": "the scans that the probe was fitted on",
    "pretraining": "the scans of pretraining",
}


def show_outside(files: EvaluationFolder) -> Section | None:
    """Return the scans outside, by site and one by one; None if they were not looked for."""
    lead = (
        "Far from everything that it was fitted on, a model still gives a number, and nothing in the number tells. "
        "This is the check that tells, scan by scan; “neurocontrast predict” makes it of every scan that comes."
    )
    blocks = outlyingness_blocks(files)
    return Section("outlyingness", _TITLE, blocks, lead=lead) if blocks else None


def outlyingness_blocks(files: EvaluationFolder, *, title: str = "") -> list[Block]:
    """Return counts, the table of sites, and the scans furthest outside."""
    block = files.summary.part(Outlyingness)
    if block is None:
        return []
    blocks: list[Block] = [Facts(_facts(block), title=title)]
    blocks += [note(block.note)] if block.note else []
    blocks += [_table_sites(block)] if block.by_site else []
    return [*blocks, _table_furthest(files)]


def _facts(block: Outlyingness) -> list[tuple[str, str]]:
    n, n_outside, beyond = block.n or 0, block.n_outside or 0, block.threshold_percentile
    share = f" ({n_outside / n:.1%})" if n else ""
    facts = [("Outside", f"{n_outside:,} of {n:,} scans{share}")]
    facts.append(("Compared with", _REFERENCES.get(str(block.reference), block.reference or "not recorded")))
    if beyond is not None:
        facts.append(("Called outside beyond", f"percentile {beyond:g} of the Mahalanobis distance"))
        facts.append(("By chance it would be", f"about {number_text(n * (1 - beyond / 100), digits=1)} scans"))
    return facts


def stand_out(block: Outlyingness) -> list[SiteOutside]:
    """Return the sites where more scans are outside than chance explains."""
    found = [site for site in block.by_site if site.n and site.n_outside]
    if block.threshold_percentile is None:
        return found
    share, rare = 1 - block.threshold_percentile / 100, _SURPRISING / max(len(block.by_site), 1)
    return [site for site in found if binom.sf((site.n_outside or 0) - 1, site.n or 0, share) < rare]


def _table_sites(block: Outlyingness) -> Table:
    conspicuous, rows = stand_out(block), []
    for site in block.by_site:
        n, n_outside = site.n or 0, site.n_outside or 0
        share = f"{n_outside / n if n else 0.0:.0%}" + (f" {_MARK}" if site in conspicuous else "")
        about: dict[str, Any] = {"site": site.site, "n": site.n, "median": site.median_percentile}
        rows.append(about | {"outside": share, "outside_detail": f"{n_outside:,} of {n:,}"})
    columns = [Column("Site", "site", "heading"), Column("Scans", "n", "count")]
    columns += [Column("Outside", "outside", "text"), Column("Median percentile", "median", digits=0)]
    note_of_mark = f"{_MARK}: more scans outside than chance explains." if conspicuous else ""
    return make_table("Scans outside, by site.", rows, columns, folded=len(rows) > 25, note=note_of_mark)


def furthest_outside(files: EvaluationFolder, *, n: int = 10) -> pd.DataFrame:
    """Return the scans furthest outside, under pseudonyms unless identifiers may appear; none where none is outside."""
    table = pd.DataFrame({"outside": pd.Series(dtype=bool)}) if files.outlyingness is None else files.outlyingness
    by = [name for name in ("mahalanobis_percentile", "mahalanobis") if name in table]
    rows = table[table["outside"]]
    rows = rows.sort_values(by, ascending=False, kind="stable").head(n) if by else rows.head(n)
    return rows.assign(scan=name_scans(files, rows))


def _table_furthest(files: EvaluationFolder) -> Block:
    rows = furthest_outside(files)
    if rows.empty:
        return note("No scan is outside.")
    columns = (
        Column("Scan", "scan", "heading"),
        Column("Site", "site", "text", reason="not stated"),
        Column("Mahalanobis distance", "mahalanobis", digits=1),
        Column("Percentile", "mahalanobis_percentile", digits=1),
    )
    hidden = "Scans have the pseudonyms of Worst errors; with the evaluation folder, --show-ids names them."
    about = "Scans have their identifiers." if files.show_ids else hidden
    caption = (
        f"Furthest outside: {count_text(len(rows), 'scan')}. A failed registration or segmentation ends up here too."
    )
    return make_table(caption, rows, columns, note=about)


OUTSIDE = Finding(
    "outlyingness", show_outside, measure_outlyingness, record=Outlyingness, methods="methods_outside.j2", of=("scans",)
)
