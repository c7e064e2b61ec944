"""Count tested scans far from the scans that the probe learned from, by Mahalanobis distance."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from neurocontrast.documents.findings import Outlyingness
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.fit.distribution import DistributionError, Reference, count_outside
from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.rows import Floats, Rows


@dataclass(frozen=True)
class ScansOutside:
    """Scans outside the probe's training distribution: counts, table of distances, warnings.

    `counts` and `table` are None with ``outlyingness=false``.
    """

    counts: Outlyingness | None = None
    table: pd.DataFrame | None = None
    notices: list[Notice] = field(default_factory=list)

    def as_measurement(self) -> Measurement:
        """Return counts, table and warnings as a `Measurement`.

        A `Measurement` holds sections of ``evaluation.json``, tables and warnings of an evaluation.
        """
        if self.table is None:
            return Measurement({Outlyingness.key: self.counts})
        return Measurement(
            {Outlyingness.key: self.counts}, {"outlyingness": self.table}, self.notices
        )


def measure_outlyingness(inputs: Inputs) -> Measurement:
    """Measure how far each tested scan is from other subjects' scans, and count outlying scans.

    The distance is the Mahalanobis distance to the nearest site's mean of the features of other
    subjects' scans; where sites are held out, of scans of other sites. Returned are the counts as
    the section `Outlyingness` of ``evaluation.json``, the table ``outlyingness.tsv`` and warnings;
    with ``outlyingness=false`` the section is None, and there is no table.
    """
    plan = inputs.plan
    reference = inputs.reference
    main = [split for split in plan.splits if split.repeat == 0]
    rows = np.sort(np.concatenate([split.test for split in main]))
    if main[0].held_out_site is None or not isinstance(reference, Reference):
        return measure_rows(plan, rows, reference, "other subjects").as_measurement()
    scores = np.full((len(plan.table), 2), np.nan)
    why_not = set[str]()
    with inputs.progress.task("Looking for scans that lie outside", len(main), "fold") as task:
        for split in main:
            try:
                scores[split.test] = reference.score_held_out(plan, split)
            except DistributionError as error:
                why_not.add(str(error))
            task.advance()
    return _count(plan, rows, scores[rows], "other sites", why_not).as_measurement()


def measure_rows(
    plan: Plan, rows: Rows, reference: Reference | str | None, name: str
) -> ScansOutside:
    """Measure Mahalanobis distances of the scans `rows` from the probe's training distribution.

    Returned are a table of distances, and counts of scans farther away than the percentile
    ``outside_percentile`` (a setting) of the training scans' own distances. `reference` is the
    distribution of the scans that the probe was fitted on. If `reference` is a text, the reason why
    there is none, distances are NaN; if it is None, as with ``outlyingness=false``, there are
    neither table nor counts. `name` says in the table which scans the distances are from.
    """
    if reference is None:
        return ScansOutside()
    if isinstance(reference, str):
        return _count(plan, rows, np.full((len(rows), 2), np.nan), name, {reference})
    return _count(plan, rows, reference.score(plan, rows), name, set())


def _count(
    plan: Plan, rows: Rows, scores: Floats, reference: str, why_not: set[str]
) -> ScansOutside:
    """Count and tabulate scans outside the training distribution; warn if more are than by chance.

    A scan is outside if its distance is above the percentile ``outside_percentile`` (a setting) of
    the training scans' distances. `scores` (n, 2) hold the distance of each scan of `rows` and the
    distance's percentile, or NaN for the reasons in `why_not`. `reference` says in words which
    scans the distances are from.
    """
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
    record = Outlyingness.model_validate(counts | {"note": why}, context="writing")
    return ScansOutside(record, table, notices)
