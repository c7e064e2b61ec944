"""Measure how well site, age and sex can be told from the embedding."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from operator import attrgetter
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
from neurocontrast.evaluation.measure.uncertainty import Resamples, Resampling, bootstrap_metrics
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
"""Number of folds by which a confound is predicted. A site, or other value,
with fewer subjects than folds is left out, since the value could not be in every fold."""


MIN_SUBJECTS = 20
"""Fewest subjects with which a continuous confound, such as age, is predicted."""


MAX_CLASSES = 5
"""Largest number of classes of the target at which confounds are predicted within each class
too."""


MAX_SCANS = 1500
"""Most scans among which confounds are predicted; with more scans, subjects are drawn at random."""


MAX_SITE_FOLDS = 10


SITE_EXPONENT = 0.3
"""Exponent of the site's balanced accuracy in the score of the OpenBHB challenge."""


STRONG_SHARE = 0.5
"""Warn if balanced accuracy for the site is at least chance + `STRONG_SHARE` × (1 − chance)."""


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


@dataclass(frozen=True)
class ConfoundFigure:
    """Row of ``confounds.tsv``: how well a column is predicted in a group of scans, or why not."""

    column: str
    within: str
    """``all``, or the class of the target that the scans are of."""
    metric: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    """Value of the metric for a guess that reads no scan."""
    n: int = 0
    """Number of scans whose value of the column was predicted; 0 where nothing was predicted."""
    n_levels: int | None = None
    """Number of different values of a categorical column; None for a column of numbers."""
    note: str | None = None


@dataclass(frozen=True)
class Reading:
    """Cross-validated prediction of a column, such as the site, from the features.

    `target` holds the column's true values, and `model` the out-of-fold predictions. `rows` are
    positions of the scans in the plan's table of scans; `splits` hold positions within `rows`.
    """

    target: Target
    rows: Rows
    model: OutOfFold
    splits: list[Split]


def measure_confounds(inputs: Inputs) -> Measurement:
    """Predict site, age, sex and covariates from the features that the embedding's probe gets.

    Returned are the section `Confounds` of ``evaluation.json``, the table ``confounds.tsv``, and a
    warning if the site can be told. With ``confounds=false`` there is only the section, which then
    says no more than how the features were adjusted.
    """
    plan = inputs.plan
    record = _describe_adjustment(plan)
    if not plan.settings.confounds:
        return Measurement({Confounds.key: record})
    rows, note = _draw_scans(plan)
    groups = _group_by_class(plan, rows)
    asked = ("site", "age", "sex", *plan.settings.covariates)
    columns = choose_covariates(plan.table, asked, target=plan.target.name, sites_held_out=False)[0]
    n_tasks = len(columns) * len(groups) + 1
    figures = list[ConfoundFigure]()
    site = None
    with inputs.progress.task("Looking for confounds", n_tasks, "probe") as task:
        for column, group in product(columns, groups):
            reading = read_column(plan, column, groups[group])
            if column == "site" and group == "all":
                site = reading
            figures += _list_figures(plan, column, group, reading, note)
            task.advance()
        score = _openbhb_score(plan, rows, site)
        task.advance()
    if isinstance(score, str):
        record = record.model_copy(update={"openbhb_reason": score})
    else:
        record = record.model_copy(update={"openbhb": score, "openbhb_reason": None})
    table = _tabulate(figures)
    return Measurement({Confounds.key: record}, {"confounds": table}, _look_at(plan, table))


def _describe_adjustment(plan: Plan) -> Confounds:
    """Return the section `Confounds` of ``evaluation.json`` before any confound is measured.

    The section says how the features are harmonised and residualised. It has no OpenBHB score, and
    names ``confounds=false`` as the reason. `measure_confounds` then writes the score, or another
    reason, if it predicts site, age and sex.
    """
    settings = plan.settings
    return Confounds(
        harmonise=settings.harmonise,
        harmonise_preserve=list(kept_columns(plan.table, settings, target=plan.target.name)),
        residualise=list(settings.residualise),
        openbhb=None,
        openbhb_reason="not asked for (confounds=false)",
    )


def _draw_scans(plan: Plan) -> tuple[Rows, str | None]:
    """Return positions in the plan's table of the scans whose confounds are predicted, and a note.

    Of more than `MAX_SCANS` scans, subjects are drawn at random, and the note says so; the note is
    None if no scan is left out. If a column of the table gives the test set, only rows of the test
    set are returned.
    """
    among: Rows = np.arange(len(plan.table))
    if plan.fixed:
        # Pretraining has seen the others.
        among = plan.splits[0].test
    drawn, note = draw_subjects(plan.subjects[among], seed=plan.settings.seed, n_scans=MAX_SCANS)
    return among[drawn], note


def _group_by_class(plan: Plan, rows: Rows) -> dict[str, Rows]:
    """Return group of scans → rows of the plan's table, for ``all`` and each class of the target.

    With more than `MAX_CLASSES` classes, or a continuous target, there is only ``all``.
    """
    target = plan.target
    groups = {"all": rows}
    if len(target.classes) > MAX_CLASSES:
        return groups
    for code, name in enumerate(target.classes):
        groups[name] = rows[target.values[rows] == code]
    return groups


def _tabulate(figures: Sequence[ConfoundFigure]) -> pd.DataFrame:
    """Return the table ``confounds.tsv``, one row for each `ConfoundFigure`."""
    columns = list(map(attrgetter("name"), fields(ConfoundFigure)))
    table = pd.DataFrame(list(map(asdict, figures)), columns=columns)
    numbers = dict.fromkeys(("value", "low", "high", "chance"), "float64")
    counts = dict.fromkeys(("n", "n_levels"), "Int64")
    return table.astype(numbers | counts)


def read_column(plan: Plan, column: str, rows: Rows) -> Reading | str:
    """Predict a column of the plan's table from the features by cross-validation.

    Returned is a `Reading`: the column's true values and their out-of-fold predictions, for the
    scans of `rows` except scans without a value, or with a value that too few subjects have. If
    nothing can be predicted, the reason is returned as text.
    """
    values = plan.table[column].iloc[rows]
    subjects = plan.subjects[rows]
    texts = np.array(levels_of(column, values), dtype=object)
    present = pd.notna(texts)
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
    """Tell whether a column of the plan's table is predicted as a number, not as classes.

    A column of numbers with exactly two values is predicted as two classes.
    """
    return is_number(plan.table[column]) and plan.table[column].nunique() != 2


def _frequent(labels: npt.ArrayLike, subjects: npt.NDArray[np.object_]) -> npt.NDArray[np.bool_]:
    """Tell of each scan whether at least `N_FOLDS` subjects share the scan's value in `labels`."""
    owners = pd.Series(subjects).groupby(np.asarray(labels, dtype=object))
    return (owners.transform("nunique") >= N_FOLDS).to_numpy()


def _fit(plan: Plan, target: Target, rows: Rows, splits: list[Split]) -> Reading:
    """Return the `Reading` of a column such as age, predicted from features by cross-validation.

    The features are those that the embedding's probe gets. `target` holds the column's values for
    the scans `rows` of the plan's table; `splits` hold positions within `rows`.
    """
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
    """Return a metric of a predicted column on bootstrap resamples of subjects or sites.

    `reading` holds the column's values and predictions. `Plan.units` says whether subjects or sites
    are resampled, except that with `by_subject`, or where the site itself is predicted, subjects
    are always resampled.
    """
    units = plan.subjects if by_subject or reading.target.name == "site" else plan.units.labels
    seed = derive_seed("confound-intervals", plan.settings.seed)
    resampling = Resampling(units[reading.rows], plan.settings.n_bootstraps, seed)
    drawn = bootstrap_metrics(
        reading.target, {"embedding": reading.model}, resampling, names=[metric]
    )
    return drawn["embedding"][metric]


def _list_figures(
    plan: Plan, column: str, group: str, reading: Reading | str, note: str | None
) -> list[ConfoundFigure]:
    """Return rows of ``confounds.tsv``: how well a column is predicted in a group of scans.

    There is one row for each metric, with interval and chance; if `reading` is a text, the reason
    why the column is not predicted, a single row holds the reason. `note` says how scans were
    drawn.
    """
    if isinstance(reading, str):
        metric = "mae" if _is_number(plan, column) else "balanced_accuracy"
        return [ConfoundFigure(column, group, metric, note=reading)]
    target = reading.target
    chances = {"balanced_accuracy": 1 / max(len(target.classes), 1)}
    if target.kind == "continuous":
        chances = {"mae": _median_error(reading), "r2": 0.0}
    figures = []
    for metric, chance in chances.items():
        estimate = _resample(plan, reading, metric).figure(level=plan.settings.confidence_level)
        figure = ConfoundFigure(
            column,
            group,
            metric,
            value=estimate.value,
            low=estimate.low,
            high=estimate.high,
            chance=chance,
            n=len(reading.rows),
            n_levels=len(target.classes) or None,
            note=note,
        )
        figures.append(figure)
    return figures


def _median_error(reading: Reading) -> float:
    """Return the mean absolute error of a guess that reads no scan: the training rows' median.

    `reading` holds the values of a column of numbers, such as age, and the splits by which the
    column was predicted. In each split the median of the column over the training rows is the
    guess for every test row; the mean is over the test rows of all splits.
    """
    values = reading.target.values.astype(float)
    errors = [
        np.abs(values[split.test] - np.median(values[split.train])) for split in reading.splits
    ]
    return float(np.concatenate(errors).mean())


def _openbhb_score(plan: Plan, rows: Rows, site: Reading | str | None) -> OpenBHB | str:
    """Return the OpenBHB score with its parts and intervals, or the reason for none.

    Mean absolute error of age, by ridge regression tested on sites that it was not trained on,
    times the balanced accuracy of the site, by logistic regression in stratified folds, to the
    power 0.3 (Dufumier et al., 2022). Lower is better.
    """
    settings = plan.settings
    if settings.harmonise != "none" or "site" in settings.residualise:
        return "the effect of unseen sites cannot be taken out (harmonise, residualise)"
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
    """Return splits that each hold out one site, or above ten sites one of ten groups of sites.

    `sites` and `subjects` have an entry for each scan, and splits hold positions in them. Subjects
    with a scan at a site that is held out are not trained on.
    """
    fold_of = {
        site: fold
        for fold, group in enumerate(group_sites(sites, MAX_SITE_FOLDS))
        for site in group
    }
    return leave_site_out([str(fold_of[site]) for site in sites], subjects, names=list(subjects))


def site_reading(readings: pd.DataFrame | None) -> pd.Series | None:
    """Return the row of ``confounds.tsv`` that tells how well the site is predicted in all scans.

    `readings` is the table, or None if an evaluation measured no confounds. None is returned then,
    and where the site was not predicted.
    """
    if readings is None:
        return None
    whole = readings[
        (readings["column"] == "site") & (readings["within"] == "all") & readings["value"].notna()
    ]
    return None if whole.empty else whole.iloc[0]


def _look_at(plan: Plan, readings: pd.DataFrame) -> list[Notice]:
    """Return one warning if the site can be told from the features; an empty list if not.

    The table ``confounds.tsv``, `readings`, has the balanced accuracy of predicting the site of all
    scans. A warning is given if the accuracy is at least chance + `STRONG_SHARE` × (1 − chance). If
    the classes of the target are also associated with the site (Cramér's V above
    `SITE_ASSOCIATION`), the same warning says so. The list is empty as well if the site was not
    predicted.
    """
    site = site_reading(readings)
    if site is None or site["value"] < site["chance"] + STRONG_SHARE * (1 - site["chance"]):
        return []
    is_first = ~plan.table["subject_id"].duplicated().to_numpy()
    people = plan.table["site"].notna().to_numpy() & is_first
    strength = 0.0
    if plan.target.kind != "continuous":
        strength = cramers_v(
            plan.target.values[people], plan.table["site"][people].to_numpy(dtype=object)
        )
    figures = {"value": site["value"], "chance": site["chance"], "n_sites": int(site["n_levels"])}
    if strength > SITE_ASSOCIATION:
        confounded = {"target": plan.target.name, "strength": strength}
        return [Notice.of("site_predictable_and_confounded", **confounded, **figures)]
    return [Notice.of("site_predictable", **figures)]
