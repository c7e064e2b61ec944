"""Count scans unlike the scans that the model learned from."""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

import numpy as np
from pydantic import StrictFloat, StrictInt

from neurocontrast.documents.section import Part, ResultSection
from neurocontrast.evaluation.fit.distribution import DistributionError, Reference, count_outside
from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.rows import Floats, Rows


class SiteOutside(ResultSection):
    """Scans of a site: all, outside ones, and the median percentile of the distances."""

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


def measure_outlyingness(inputs: Inputs) -> Measurement:
    """Measure each tested scan's distance from other subjects' scans.

    Where sites are held out, the distance is from scans of other sites.
    """
    plan = inputs.plan
    reference = inputs.reference
    main = [split for split in plan.splits if split.repeat == 0]
    rows = np.sort(np.concatenate([split.test for split in main]))
    if main[0].held_out_site is None or not isinstance(reference, Reference):
        return measure_rows(plan, rows, reference, "other subjects")
    scores = np.full((len(plan.table), 2), np.nan)
    why_not = set[str]()
    with inputs.progress.task("Looking for scans that lie outside", len(main), "fold") as task:
        for split in main:
            try:
                scores[split.test] = reference.score_held_out(plan, split)
            except DistributionError as error:
                why_not.add(str(error))
            task.advance()
    return _count(plan, rows, scores[rows], "other sites", why_not)


def measure_rows(
    plan: Plan, rows: Rows, reference: Reference | str | None, name: str
) -> Measurement:
    """Measure the distance of rows from the other subjects that the probe was fitted on."""
    if reference is None:
        return Measurement({"outlyingness": None})
    if isinstance(reference, str):
        return _count(plan, rows, np.full((len(rows), 2), np.nan), name, {reference})
    return _count(plan, rows, reference.score(plan, rows), name, set())


def _count(
    plan: Plan, rows: Rows, scores: Floats, reference: str, why_not: set[str]
) -> Measurement:
    """Return counts, the table of scans, and a warning where more are outside than chance gives."""
    table = plan.table.loc[rows, ["participant_id", "subject_id", "session", "site"]].reset_index(
        drop=True
    )
    table = table.assign(
        reference=reference, mahalanobis=scores[:, 0], mahalanobis_percentile=scores[:, 1]
    )
    percentiles = table["mahalanobis_percentile"]
    threshold = plan.settings.outside_percentile
    table["outside"] = [
        None if np.isnan(value) else bool(value > threshold) for value in percentiles
    ]
    counts, notices = count_outside(table, percentiles, reference=reference, threshold=threshold)
    n_without = int(percentiles.isna().sum())
    why = None
    if why_not:
        scans = "1 scan" if n_without == 1 else f"{n_without:,} scans"
        why = f"Without a score: {scans} ({'; '.join(sorted(why_not))})."
    return Measurement({"outlyingness": counts | {"note": why}}, {"outlyingness": table}, notices)
