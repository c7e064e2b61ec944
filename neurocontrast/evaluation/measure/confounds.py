"""Measure how well site, age and sex can be told from the embedding."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import levels_of
from neurocontrast.documents.findings import Confounds, OpenBHB
from neurocontrast.documents.notice import Notice
from neurocontrast.documents.result import Counts
from neurocontrast.evaluation.fit.out_of_fold import OutOfFold, cross_validate
from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.measure.uncertainty import Resamples, bootstrap_metrics
from neurocontrast.evaluation.plan.association import cramers_v
from neurocontrast.evaluation.plan.models import ProbeModel
from neurocontrast.evaluation.plan.notices import SITE_ASSOCIATION
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.probes.adjustment import choose_covariates, kept_columns
from neurocontrast.evaluation.probes.designs import Design
from neurocontrast.evaluation.probes.fitting import FitContext
from neurocontrast.evaluation.probes.members import map_design
from neurocontrast.evaluation.rows import draw_subjects, is_number
from neurocontrast.evaluation.splits import Split, group_sites, leave_site_out, stratified
from neurocontrast.evaluation.target import MAX_CLASSES as MAX_LEVELS
from neurocontrast.evaluation.target import Kind, Target
from neurocontrast.seeds import derive_seed

Rows = npt.NDArray[np.intp]


N_FOLDS = 5
"""Levels with fewer subjects are left out: they could not be in every fold."""


MIN_SUBJECTS = 20
"""Fewest subjects for the prediction of a number."""


MAX_CLASSES = 5
"""With more classes, covariates are predicted in all scans only."""


MAX_SCANS = 1500
"""Of larger cohorts this many scans are drawn: enough to say how much, not to the third digit."""


MAX_SITE_FOLDS = 10


SITE_EXPONENT = 0.3
"""Of the balanced accuracy in the OpenBHB score, as in the challenge."""


STRONG_SHARE = 0.5
"""The site is called predictable where balanced accuracy is this far from chance to perfect."""


_SETTINGS: dict[str, Any] = {
    "C": (1e-4, 1e-2, 1.0),
    "alpha": (1e0, 1e2, 1e4),
    "n_inner_folds": 3,
    "n_folds": N_FOLDS,
    "probe": "auto",
    "threshold": "prevalence",
    "inner_splits": "stratified",
    "n_jobs": 1,
}


_COLUMNS = ("column", "within", "metric", "value", "low", "high", "chance", "n", "n_levels", "note")


@dataclass(frozen=True)
class Reading:
    """A column's values in rows of a plan, predicted out of fold.

    `splits` are positions within `rows`.
    """

    target: Target
    rows: Rows
    model: OutOfFold
    splits: list[Split]


def measure_confounds(inputs: Inputs) -> Measurement:
    """Predict covariates from the features of the probe.

    With ``confounds=false`` only the adjustment of the features is described.
    """
    plan = inputs.plan
    settings = inputs.plan.settings
    target = inputs.plan.target
    record = Confounds(
        harmonise=settings.harmonise,
        harmonise_preserve=list(kept_columns(plan.table, settings, target=target.name)),
        residualise=list(settings.residualise),
        openbhb=None,
        openbhb_reason="not asked for (confounds=false)",
    )
    if not settings.confounds:
        return Measurement({Confounds.key: record})
    among = (
        plan.splits[0].test if plan.fixed else np.arange(len(plan.table))
    )  # pretraining has seen the others
    drawn, note = draw_subjects(plan.subjects[among], seed=settings.seed, n_scans=MAX_SCANS)
    rows = among[drawn]
    asked = ("site", "age", "sex", *settings.covariates)
    columns = choose_covariates(plan.table, asked, target=target.name, sites_held_out=False)[0]
    classes = target.classes if len(target.classes) <= MAX_CLASSES else ()
    parts = {"all": rows} | {
        name: rows[target.values[rows] == code] for code, name in enumerate(classes)
    }
    found = []
    site = None
    with inputs.progress.task(
        "Looking for confounds", len(columns) * len(parts) + 1, "probe"
    ) as task:
        for column, within in product(columns, parts):
            reading = read_column(plan, column, parts[within])
            site = reading if (column, within) == ("site", "all") else site
            found += [
                {"column": column, "within": within} | row
                for row in _describe(plan, column, reading, note)
            ]
            task.advance()
        score: OpenBHB | str = (
            "the effect of unseen sites cannot be taken out (harmonise, residualise)"
        )
        if settings.harmonise == "none" and "site" not in settings.residualise:
            score = _openbhb_score(plan, rows, site)
        task.advance()
    table = pd.DataFrame(found, columns=list(_COLUMNS))
    table = table.astype({"low": float, "high": float, "n": "Int64", "n_levels": "Int64"})
    openbhb: dict[str, OpenBHB | str | None] = {"openbhb": score, "openbhb_reason": None}
    if isinstance(score, str):
        openbhb = {"openbhb": None, "openbhb_reason": score}
    record = record.model_copy(update=openbhb)
    return Measurement({Confounds.key: record}, {"confounds": table}, _look_at(plan, table))


def read_column(plan: Plan, column: str, rows: Rows) -> Reading | str:
    """Predict a column in stratified folds of the scans with a value, or return why not."""
    values = plan.table[column].iloc[rows]
    subjects = plan.subjects[rows]
    texts = np.array(levels_of(column, values), dtype=object)
    present = np.array([text is not None for text in texts], dtype=bool)
    if _is_number(plan, column):
        present &= np.isfinite(values.to_numpy(dtype=float))
        if len(set(subjects[present])) < MIN_SUBJECTS:
            return f"fewer than {MIN_SUBJECTS} subjects"
        if len(set(texts[present])) < 2:
            return "does not vary"
        target = Target(column, "continuous", values.to_numpy(dtype=float)[present])
    else:
        present &= _frequent(texts, subjects)
        # Not read_target, which refuses what nobody should ask for: sites that all subjects went
        # to, sessions.
        levels, codes = np.unique(texts[present].astype(str), return_inverse=True)
        if len(levels) < 2:
            return f"fewer than two values with {N_FOLDS} subjects each"
        if len(levels) > MAX_LEVELS:
            return f"{len(levels)} values, more than {MAX_LEVELS}"
        classes = tuple(map(str, levels))
        kind: Kind = "binary" if len(levels) == 2 else "multiclass"
        target = Target(
            column, kind, codes.astype(np.int64), classes, classes[-1] if kind == "binary" else None
        )
    kept = rows[present]
    seed = derive_seed("confound-folds", plan.settings.seed)
    splits = stratified(
        target, plan.sites[kept], plan.subjects[kept], n_folds=N_FOLDS, n_repeats=1, seed=seed
    )
    return _fit(plan, target, kept, splits)


def _is_number(plan: Plan, column: str) -> bool:
    """Return whether a column is predicted as a number; one with two values is not."""
    return is_number(plan.table[column]) and plan.table[column].nunique() != 2


def _frequent(labels: npt.ArrayLike, subjects: npt.NDArray[np.object_]) -> npt.NDArray[np.bool_]:
    """Return which scans have a value of enough subjects to be in every fold."""
    owners = pd.Series(subjects).groupby(np.asarray(labels, dtype=object))
    return (owners.transform("nunique") >= N_FOLDS).to_numpy()


def _fit(plan: Plan, target: Target, rows: Rows, splits: list[Split]) -> Reading:
    """Predict a target in folds of its rows, on the features that the probe of the plan gets."""
    design = plan.design(predicted=target.name)
    settings = plan.settings.model_copy(
        update=_SETTINGS | {"seed": derive_seed("confounds", plan.settings.seed)}
    )

    def on_rows(of_encoder: Design) -> Design:
        return lambda train, test: of_encoder(rows[train], rows[test])

    model = ProbeModel(target.name, map_design(design, on_rows))
    context = FitContext(plan.subjects[rows], settings, settings.seed)
    return Reading(target, rows, cross_validate(model, target, splits, context), splits)


def _resample(plan: Plan, reading: Reading, metric: str, *, by_subject: bool = False) -> Resamples:
    """Return a metric on resamples; where the site is predicted, subjects are resampled."""
    units = plan.subjects if by_subject or reading.target.name == "site" else plan.units.labels
    seed = derive_seed("confound-intervals", plan.settings.seed)
    n = plan.settings.n_bootstraps
    models = {"embedding": reading.model}
    drawn = bootstrap_metrics(
        reading.target, models, units[reading.rows], n_bootstraps=n, seed=seed, names=[metric]
    )
    return drawn["embedding"][metric]


def _describe(
    plan: Plan, column: str, reading: Reading | str, note: str | None
) -> list[dict[str, Any]]:
    if isinstance(reading, str):
        metric = "mae" if _is_number(plan, column) else "balanced_accuracy"
        return [{"metric": metric, "n": 0, "note": reading}]
    target = reading.target
    level = plan.settings.confidence_level
    shared = {"n": len(reading.rows), "n_levels": len(target.classes) or None, "note": note}
    chances = {"balanced_accuracy": 1 / max(len(target.classes), 1)}
    if target.kind == "continuous":
        chances = {"mae": _median_error(reading), "r2": 0.0}
    rows = []
    for metric, chance in chances.items():
        figure = _resample(plan, reading, metric).figure(level=level)
        ends = {"value": figure.value, "low": figure.low, "high": figure.high}
        rows.append({"metric": metric, **ends, "chance": chance, **shared})
    return rows


def _median_error(reading: Reading) -> float:
    """Return the mean absolute error of guessing the median of the training rows in every fold."""
    values = reading.target.values.astype(float)
    errors = [
        np.abs(values[split.test] - np.median(values[split.train])) for split in reading.splits
    ]
    return float(np.concatenate(errors).mean())


def _openbhb_score(plan: Plan, rows: Rows, site: Reading | str | None) -> OpenBHB | str:
    """Return the OpenBHB score with its parts and intervals, or why there is none. Lower is better.

    Mean absolute error of age, by ridge regression tested on sites that it was not trained on,
    times the balanced accuracy of the site, by logistic regression in stratified folds, to the
    power 0.3 (Dufumier et al., 2022).
    """
    table = plan.table.iloc[rows]
    kept = rows[(table["site"].notna() & table["age"].notna()).to_numpy()]
    kept = kept[_frequent(plan.table["site"].iloc[kept], plan.subjects[kept])]
    sites = plan.table["site"].iloc[kept].to_numpy(dtype=object)
    if len(set(sites)) < 2:
        return "fewer than two sites with five subjects of known age"
    ages = plan.table["age"].iloc[kept].to_numpy(dtype=float)
    if np.ptp(ages) == 0:
        return "age does not vary"
    if not isinstance(site, Reading) or not np.array_equal(site.rows, kept):
        site = read_column(plan, "site", kept)
    if isinstance(site, str):
        return f"site: {site}"
    splits = site_folds(sites, plan.subjects[kept])
    if any(len(split.train) < 2 for split in splits):
        return "the same people at all sites: none of them is unseen"
    age = _fit(plan, Target("age", "continuous", ages), kept, splits)
    # The same scans and seed, and subjects in both, so the two are resampled together.
    errors = _resample(plan, age, "mae", by_subject=True)
    accuracies = _resample(plan, site, "balanced_accuracy")
    score = errors.combine(accuracies, lambda mae, accuracy: mae * accuracy**SITE_EXPONENT)
    interval = score.interval(level=plan.settings.confidence_level)
    levels = len(site.target.classes)
    guessed = _median_error(age)
    n_subjects = len(set(plan.subjects[age.rows]))
    return OpenBHB(
        score=score.value,
        interval=interval,
        lower_is_better=True,
        chance=guessed * (1 / levels) ** SITE_EXPONENT,
        age_mae=errors.value,
        age_mae_chance=guessed,
        site_balanced_accuracy=accuracies.value,
        site_chance=1 / levels,
        exponent=SITE_EXPONENT,
        n=Counts(scans=len(age.rows), subjects=n_subjects, sites=levels),
        n_site_folds=len(splits),
    )


def site_folds(sites: npt.NDArray[np.object_], subjects: npt.NDArray[np.object_]) -> list[Split]:
    """Return folds that hold out every site, or each of ten groups, with all subjects of a site."""
    fold_of = {
        site: fold
        for fold, group in enumerate(group_sites(sites, MAX_SITE_FOLDS))
        for site in group
    }
    return leave_site_out([str(fold_of[site]) for site in sites], subjects, names=list(subjects))


def site_reading(readings: pd.DataFrame | None) -> pd.Series | None:
    """Return the row of ``confounds.tsv`` about the site among all scans; None without one."""
    if readings is None:
        return None
    whole = readings[
        (readings["column"] == "site") & (readings["within"] == "all") & readings["value"].notna()
    ]
    return None if whole.empty else whole.iloc[0]


def _look_at(plan: Plan, readings: pd.DataFrame) -> list[Notice]:
    """Warn where the site can be told from the features."""
    site = site_reading(readings)
    if site is None or site["value"] < site["chance"] + STRONG_SHARE * (1 - site["chance"]):
        return []
    known = (
        plan.table["site"].notna().to_numpy() & ~plan.table["subject_id"].duplicated().to_numpy()
    )
    strength = 0.0
    if plan.target.kind != "continuous":
        strength = cramers_v(
            plan.target.values[known], plan.table["site"][known].to_numpy(dtype=object)
        )
    found = {"value": site["value"], "chance": site["chance"], "n_sites": int(site["n_levels"])}
    if strength > SITE_ASSOCIATION:
        confounded = {"target": plan.target.name, "strength": strength}
        return [Notice.of("site_predictable_and_confounded", **confounded, **found)]
    return [Notice.of("site_predictable", **found)]
