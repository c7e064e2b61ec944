"""Measure all models of a plan on some of the tested scans, such as one site's or an age band's."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.fit.out_of_fold import Predictions
from neurocontrast.evaluation.measure.uncertainty import (
    Resamples,
    Resampling,
    bootstrap_metrics,
    count_resamples,
)
from neurocontrast.evaluation.metrics import POOLED_ONLY, explain_undefined, explain_value
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.plan.units import MIN_SITES
from neurocontrast.evaluation.rows import Rows
from neurocontrast.seeds import derive_seed

Names = npt.NDArray[np.object_]


def describe_part(
    plan: Plan, predictions: Predictions, members: Rows, *keys: str, units: Names | None = None
) -> dict[str, Any]:
    """Return a table's row on the tested scans `members`, as a dictionary of its cells.

    Cells are the number of scans, for classes that of each class, the metrics of all models in
    `predictions`, and a note that says why a metric or an interval is missing. Only the embedding's
    metrics have intervals, by resampling `units`, by default the subjects. The seed of the
    resamples is derived from `keys`.
    """
    target = plan.target
    row = dict[str, Any](n=len(members))
    if target.kind != "continuous":
        counts = np.bincount(target.values[members], minlength=len(target.classes))
        row |= {f"n_{name}": int(count) for name, count in zip(target.classes, counts, strict=True)}
    names = [name for name in target.metric_names if name not in POOLED_ONLY]
    units = plan.subjects if units is None else units
    too_few = why_no_interval(plan, members, units)
    for model, of_model in predictions.items():
        bounded = model == "embedding" and too_few is None
        drawn = resample(plan, {model: of_model}, members, names, units, *keys, bounded=bounded)[
            model
        ]
        figures = tabulate_figures(plan, drawn)
        if model == "embedding":
            row |= figures
            continue
        for name in names:
            row[f"{model}_{name}"] = figures[name]
    reason = explain_undefined(target.kind, target.values[members], target.classes)
    if reason is None and row.get("calibration_slope", 0.0) is None:
        reason = f"calibration slope: {explain_value('calibration_slope', None)}"
    row["note"] = "; ".join(filter(None, (reason, too_few))) or None
    return row


def resample(
    plan: Plan,
    predictions: Predictions,
    members: Rows,
    names: Sequence[str],
    units: Names,
    *keys: str,
    bounded: bool = True,
) -> dict[str, dict[str, Resamples]]:
    """Return every model's metrics on the tested scans `members`, with a bootstrap if `bounded`.

    The result is name of a model → name of a metric → `Resamples`, which holds the metric's value
    and, only if `bounded`, the value on each resample. Resamples draw `units`, the subject or site
    of each scan. The seed is derived from `keys`: two calls with the same scans, `units` and `keys`
    draw the same resamples, so that metrics of one call can be subtracted from metrics of the
    other.
    """
    n = count_resamples(plan.settings.n_bootstraps, len(members)) if bounded else 0
    seed = derive_seed(keys[0], plan.settings.seed, *keys[1:])
    resampling = Resampling(units, n, seed)
    return bootstrap_metrics(plan.target, predictions, resampling, rows=members, names=names)


def tabulate_figures(
    plan: Plan, drawn: Mapping[str, Resamples], *, prefix: str = ""
) -> dict[str, float | None]:
    """Return a model's metrics as cells of a table's row: ``auc``, ``auc_low`` and ``auc_high``.

    `drawn` holds the resamples of each metric; every column's name begins with `prefix`.
    """
    columns: dict[str, float | None] = {}
    for name, resamples in drawn.items():
        figure = resamples.figure(level=plan.settings.confidence_level)
        columns |= figure.as_columns(prefix + name)
    return columns


def why_no_interval(plan: Plan, members: Rows, units: Names) -> str | None:
    """Return why metrics of the scans `members` have no interval: few subjects or few sites.

    None if there are enough. `units` has the subject or site of each scan, whichever is resampled;
    sites are counted only if sites are resampled.
    """
    n = len(set(plan.subjects[members]))
    least = plan.settings.min_site_n
    if n < least:
        return f"fewer than {least} subjects ({n}): no interval"
    n = len(set(units[members]))
    of_sites = plan.units.name == "site" and units is plan.units.labels
    return (
        f"fewer than {MIN_SITES} sites ({n}): no interval" if of_sites and n < MIN_SITES else None
    )
