"""How far each scan lies from those of its training folds."""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import StrictFloat, StrictInt

from neurocontrast.evaluation.distribution import (
    COVARIANCE,
    Reference,
    count_outside,
    fit_distribution,
    fit_shape,
    outside_message,
)
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.record import Notice, Part, Section
from neurocontrast.evaluation.splits import Split
from neurocontrast.findings.finding import Found, Inputs
from neurocontrast.seeds import derive_seed

__all__ = ["Outlyingness", "SiteOutside", "measure_external", "measure_outlyingness"]


class SiteOutside(Section):
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
    why = f"{n_without} scans have no score: {'; '.join(sorted(why_not))}" if why_not else None
    notices = [] if message is None else [Notice("outside_distribution", message, _EXPLANATION)]
    return Found({"outlyingness": counts | {"note": why, "covariance": COVARIANCE}}, {"outlyingness": table}, notices)
