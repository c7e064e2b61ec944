"""Measure a probe at unseen sites, and for the same scans a probe that was trained on their sites.

A site is unseen if no scan of the site is among the training scans, and known if scans of other
people at the site are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.documents.figures import Estimate
from neurocontrast.documents.findings import NewSite, SitePredictability, SkippedSite
from neurocontrast.documents.notice import Notice
from neurocontrast.documents.result import Counts
from neurocontrast.evaluation.fit.out_of_fold import Predictions, cross_validate
from neurocontrast.evaluation.measure.confounds import site_reading
from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.measure.subgroups import resample, tabulate_figures, why_no_interval
from neurocontrast.evaluation.measure.uncertainty import Resamples
from neurocontrast.evaluation.metrics import (
    DESCRIPTIVE,
    LOWER_IS_BETTER,
    ON_REQUEST,
    POOLED_ONLY,
    explain_undefined,
    finite_or_none,
)
from neurocontrast.evaluation.plan.models import ConstantModel, Model
from neurocontrast.evaluation.plan.models.covariates import with_covariates
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.probes.adjustment import choose_covariates
from neurocontrast.evaluation.rows import NO_SITE, Floats
from neurocontrast.evaluation.splits import Split, group_sites
from neurocontrast.exceptions import one_of
from neurocontrast.progress import Progress

Rows = npt.NDArray[np.intp]

NOTABLE_RATIO = 1.3
"""Ratio of the error at unseen sites to that at known sites from which a warning is given, if the
interval of the ratio is above 1."""
MIN_SITE_SUBJECTS = 5
"""Fewest subjects of a site that is left out; the error at a smaller site would say nothing."""
MAX_GROUPS = 20
"""Most folds that leave sites out; more sites are left out in groups of about equal size."""


@dataclass(frozen=True)
class SitesLeftOut:
    """Folds that each leave out one site or a group of sites, and the sites never left out.

    `sites` are the names of all sites that are left out, over all folds; `skipped` has each other
    site, with the reason. `why_not` says why no site can be left out; None if there are folds.
    """

    splits: list[Split] = field(default_factory=list)
    sites: tuple[str, ...] = ()
    skipped: list[SkippedSite] = field(default_factory=list)
    why_not: str | None = None


def plan_sites_left_out(plan: Plan) -> SitesLeftOut:
    """Plan folds that leave out each site of which the main folds both train on and test scans.

    Main folds are the plan's own splits, by which all other metrics are computed.
    """
    why_not = _why_not(plan)
    if why_not is not None:
        return SitesLeftOut(why_not=why_not)
    sites = plan.sites
    owners = plan.subjects.astype(str)
    home = _tested_at_home(plan)
    if not home.any():
        return SitesLeftOut(
            why_not="the main folds hold sites out already, so their figures are those of unseen "
            "sites"
        )
    names = sorted(set(sites) - {NO_SITE})
    why = {site: _why_skipped(plan, np.flatnonzero(home & (sites == site))) for site in names}
    groups = [[site] for site in names if why[site] is None]
    if len(groups) > MAX_GROUPS:
        groups = group_sites(sites[np.isin(sites, np.concatenate(groups))], MAX_GROUPS)
    splits: list[Split] = []
    for group in groups:
        # Trained on are scans of other, known sites, of subjects who were never at a site of the
        # group.
        has_site = sites != NO_SITE
        members = np.isin(sites, group)
        train = has_site & ~members & ~np.isin(owners, owners[members])
        split = Split(
            0, len(splits), np.flatnonzero(train), np.flatnonzero(members & home), ", ".join(group)
        )
        reason = _why_untrainable(plan, split)
        why |= dict.fromkeys(group, reason)
        splits += [] if reason else [split]
    skipped = []
    for site, reason in why.items():
        if reason is not None:
            skipped.append(SkippedSite(site=site, why=reason))
    chosen = tuple(site for site in names if why[site] is None)
    return SitesLeftOut(
        splits, chosen, skipped, None if splits else f"no site can be left out ({_listed(skipped)})"
    )


def _why_not(plan: Plan) -> str | None:
    """Return why no site of a plan's table can be left out, as text; None where sites can."""
    named = set(plan.sites) - {NO_SITE}
    if not plan.settings.new_site:
        return "not asked for (new_site=false)"
    if plan.fixed:
        return "a column says what is tested (split_column), and no site is left out"
    if plan.target.name == "site":
        return "the site is the target, and a site that is left out cannot be predicted"
    if len(named) < 2:
        return "no scan has a site" if not named else f"one site only ('{next(iter(named))}')"
    if plan.settings.harmonise == "combat" or "site" in plan.settings.residualise:
        return (
            "harmonise=combat and residualise=[site] learn a site from its training scans; an "
            "unseen one has none"
        )
    return None


def _tested_at_home(plan: Plan) -> npt.NDArray[np.bool_]:
    """Tell which scans the plan's splits test only while training on other scans of the same site.

    The result has a truth value for each scan of the plan's table; a scan without a site has False.
    """
    sites = plan.sites
    tested, unknown = np.zeros((2, len(sites)), dtype=bool)
    for split in plan.splits:
        seen = list(set(sites[split.train]) - {NO_SITE})
        tested[split.test] = True
        unknown[split.test] |= ~np.isin(sites[split.test], seen)
    return tested & ~unknown


def _why_skipped(plan: Plan, rows: Rows) -> str | None:
    """Return why a site is not left out, few subjects or one class; None for a site to leave out.

    `rows` are the site's scans that the plan's splits test while training on other scans of it.
    """
    n = len(set(plan.subjects[rows]))
    if n < MIN_SITE_SUBJECTS:
        return f"fewer than {MIN_SITE_SUBJECTS} subjects ({n}) tested while the site is known"
    if plan.target.kind == "continuous":
        return None
    present = np.unique(plan.target.values[rows])
    return f"single class ({plan.target.classes[int(present[0])]})" if len(present) < 2 else None


def _why_untrainable(plan: Plan, split: Split) -> str | None:
    """Return as text why the training scans of a `split` are too few or too alike; None if not.

    The training scans are of all sites but the sites that the split leaves out. They are too alike
    if a continuous target does not vary among them. They are too few if a class has fewer than two
    subjects among them: one of two classes, or, with more classes, a class of the tested scans.
    """
    target = plan.target
    n = len(split.train)
    if target.kind == "continuous":
        varies = n >= 2 and np.ptp(target.values[split.train].astype(float)) > 0
        return (
            None if varies else f"'{target.name}' does not vary in the {n} scans of the other sites"
        )
    owners = plan.subjects[split.train].astype(str)
    values = target.values[split.train]
    needed = (
        range(2) if target.kind == "binary" else np.unique(target.values[split.test]).astype(int)
    )
    lacking = [target.classes[code] for code in needed if len(set(owners[values == code])) < 2]
    return f"fewer than two subjects of {one_of(lacking)} at the other sites" if lacking else None


def _listed(skipped: Sequence[SkippedSite]) -> str:
    """Return a text on the first eight skipped sites, each with the reason, for a message."""
    listed = "; ".join(f"{site.site}: {site.why}" for site in skipped[:8])
    if len(skipped) > 8:
        listed += f"; and {len(skipped) - 8} more"
    return listed


def measure_new_sites(inputs: Inputs) -> Measurement:
    """Measure models at sites that they were not fitted on, and the change from known sites.

    Models are fitted anew in folds that leave out one site, or a group of sites, and predict the
    scans of the sites left out. For the same scans, metrics of the new predictions are compared
    with metrics of the predictions in the plan's own splits, where the models were fitted on other
    scans of the scan's site. Returned are the section `NewSite` of ``evaluation.json``, the table
    ``new_sites.tsv`` and warnings. If no site can be left out, the section is None, and
    ``new_site_note`` in ``evaluation.json`` has the reason.
    """
    plan = inputs.plan
    left_out = plan_sites_left_out(plan)
    if left_out.why_not is not None:
        return Measurement({NewSite.key: None, "new_site_note": left_out.why_not})
    home, unseen = _predict(plan, left_out, inputs.predictions, inputs.progress)
    rows = np.sort(np.concatenate([split.test for split in left_out.splits]))
    design = "leave-one-site-out"
    if len(left_out.splits) < len(left_out.sites):
        design = f"leave-sites-out in {len(left_out.splits)} groups"
    record = NewSite(
        design=design,
        metric=plan.target.metric_names[0],
        models=[name for name in unseen if name != "constant"],
        **_pooled(plan, home, unseen, rows),
        n=Counts(scans=len(rows), subjects=len(set(plan.subjects[rows]))),
        bootstrap_unit=plan.units.name,
        n_sites=len(left_out.sites),
        left_out=list(left_out.sites),
        skipped=left_out.skipped,
        site_predictability=_predictability(site_reading(inputs.earlier.tables.get("confounds"))),
    )
    with inputs.progress.task("Sites left out", len(left_out.sites), "site") as task:
        table = _site_table(plan, left_out, home, unseen, task.advance)
    notices = _warnings(record)
    return Measurement({NewSite.key: record, "new_site_note": None}, {"new_sites": table}, notices)


def _predict(
    plan: Plan, left_out: SitesLeftOut, predictions: Predictions, progress: Progress
) -> tuple[Predictions, Predictions]:
    """Return predictions at known sites, and predictions at sites that are left out.

    Each of the two is name of a model → predictions, for the embedding, the covariates
    (``baseline``) and a constant. Predictions at known sites are those in `predictions`, made in
    the plan's splits, where the models were fitted on other scans of the predicted scan's site;
    only the constant's are made here. For predictions at sites that are left out, all three models
    are fitted here in the splits of `left_out`, on no scan of the predicted scan's site.
    """
    names = choose_covariates(
        plan.table, plan.settings.covariates, target=plan.target.name, sites_held_out=True
    )[0]
    embedding, baseline = plan.models[:2]
    fitted: dict[str, Model] = {
        "embedding": embedding,
        "baseline": with_covariates(baseline, plan.table, names),
    }
    home = {name: predictions[name] for name in fitted}
    unseen: Predictions = {}
    with progress.task("Leaving sites out", len(fitted) * len(left_out.splits), "fold") as task:
        for name, model in fitted.items():
            unseen[name] = cross_validate(
                model, plan.target, left_out.splits, plan.context, advance=task.advance
            )
    constant = ConstantModel("constant")
    home["constant"] = cross_validate(constant, plan.target, plan.splits, plan.context)
    unseen["constant"] = cross_validate(constant, plan.target, left_out.splits, plan.context)
    return home, unseen


def _pooled(
    plan: Plan, home: Predictions, unseen: Predictions, rows: Rows
) -> dict[str, dict[str, dict[str, Estimate]]]:
    """Return kind of figure → name of a model → name of a metric → `Estimate`.

    Kinds are ``home`` (known sites), ``unseen``, ``ratio`` (unseen / known, of errors only),
    ``difference`` (unseen − known) and ``unseen_minus_constant``. `home` and `unseen` hold
    predictions of the scans `rows`, by models trained, or not, on other scans of the scan's site.
    """
    names = [*plan.target.metric_names, *ON_REQUEST[plan.target.kind]]
    errors = [name for name in names if name in LOWER_IS_BETTER]
    units = plan.units.labels
    at_home = resample(plan, home, rows, names, units, "new-site-intervals")
    at_new = resample(plan, unseen, rows, names, units, "new-site-intervals")
    figures: dict[str, dict[str, dict[str, Estimate]]] = {"home": {}, "unseen": {}}
    for model in at_home:
        figures["home"][model] = _estimate(plan, at_home[model], n=len(rows))
    for model in at_new:
        figures["unseen"][model] = _estimate(plan, at_new[model], n=len(rows))
    ratio = {}
    difference = {}
    minus_constant = {}
    for model in at_new:
        if model == "constant":
            continue
        ratio[model] = _compare(plan, at_new[model], at_home[model], np.divide, errors)
        difference[model] = _compare(plan, at_new[model], at_home[model], np.subtract, names)
        minus_constant[model] = _compare(
            plan, at_new[model], at_new["constant"], np.subtract, names
        )
    return figures | {
        "ratio": ratio,
        "difference": difference,
        "unseen_minus_constant": minus_constant,
    }


def _estimate(
    plan: Plan, drawn: Mapping[str, Resamples], *, n: int | None = None
) -> dict[str, Estimate]:
    """Return name of a metric → `Estimate`: a model's value and interval, from resamples `drawn`.

    `drawn` holds the metric's value of all scans and on each bootstrap resample. If `n`, the number
    of scans, is not None, it is written into each estimate.
    """
    estimates = {}
    for name, resamples in drawn.items():
        estimates[name] = resamples.figure(level=plan.settings.confidence_level)
        if n is not None:
            estimates[name] = estimates[name].model_copy(update={"n": n})
    return estimates


def _compare(
    plan: Plan,
    unseen: Mapping[str, Resamples],
    reference: Mapping[str, Resamples],
    function: Callable[[Floats, Floats], Floats],
    names: Sequence[str],
) -> dict[str, Estimate]:
    """Return name of a metric → `Estimate` of the ratio or difference of `unseen` and `reference`.

    Each of the two holds, by the metric's name, the value and resamples of one model's metric;
    `function` divides or subtracts them. The estimate is the result's value with an interval.
    """
    drawn = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for name in names:
            drawn[name] = unseen[name].combine(reference[name], function)
    return _estimate(plan, drawn)


def _site_table(
    plan: Plan,
    left_out: SitesLeftOut,
    home: Predictions,
    unseen: Predictions,
    advance: Callable[[], None],
) -> pd.DataFrame:
    """Tabulate each model's metrics at each site: while left out, and while trained on.

    A row is of one site and model. `home` holds predictions by models that were trained on the
    site, whose metrics are in columns ``home_…``; `unseen` holds predictions by models that were
    not.
    """
    target = plan.target
    rows_of_sites = []
    names = [
        name for name in target.metric_names if name not in POOLED_ONLY and name not in DESCRIPTIVE
    ]
    names += ON_REQUEST[target.kind]
    for split, site in product(left_out.splits, left_out.sites):
        rows = split.test[plan.sites[split.test] == site]
        if not len(rows):
            continue
        few = why_no_interval(plan, rows, plan.subjects)
        reason = explain_undefined(target.kind, target.values[rows], target.classes)
        at_home, at_new = (
            resample(
                plan,
                predictions,
                rows,
                names,
                plan.subjects,
                "new-site-intervals",
                site,
                bounded=few is None,
            )
            for predictions in (home, unseen)
        )
        for model, figures in at_new.items():
            row: dict[str, Any] = {
                "site": site,
                "model": model,
                "n": len(rows),
                "n_train": len(split.train),
            }
            row |= tabulate_figures(plan, figures) | tabulate_figures(
                plan, at_home[model], prefix="home_"
            )
            if target.kind == "continuous":
                errors = unseen[model].scores[0, rows] - target.values[rows].astype(float)
                row["spread"] = float(errors.std(ddof=1)) if len(rows) > 1 else None
            rows_of_sites.append(row | {"note": "; ".join(filter(None, (reason, few))) or None})
        advance()
    return pd.DataFrame(rows_of_sites)


def _predictability(reading: pd.Series | None) -> SitePredictability | None:
    """Return how well the site is predicted, for ``evaluation.json``; None where not measured.

    `reading` is one row of ``confounds.tsv``: how well the site is predicted over all scans. The
    table's other rows are on other columns, and on the scans of one class.
    """
    if reading is None:
        return None
    return SitePredictability(
        balanced_accuracy=float(reading["value"]),
        low=finite_or_none(reading["low"]),
        high=finite_or_none(reading["high"]),
        chance=float(reading["chance"]),
        n_sites=int(reading["n_levels"]),
    )


def _warnings(record: NewSite) -> list[Notice]:
    """Return warnings on unseen sites: larger errors, no gain over a constant, skipped sites."""
    notices = []
    if "mae" in record.ratio["embedding"]:
        notices = _compare_errors(record, "mae", "mean absolute error", "median")
    elif "log_loss" in record.ratio["embedding"]:  # decision values have no loss to compare
        notices = _compare_errors(record, "log_loss", "log-loss", "prevalence")
    if record.skipped:
        sites = _listed(record.skipped)
        notices.append(Notice.of("new_site_skipped", n=len(record.skipped), sites=sites))
    return notices


def _compare_errors(record: NewSite, metric: str, error: str, usual: str) -> list[Notice]:
    """Return warnings if the embedding's error at unseen sites is large; an empty list if not.

    One warning says that the error is larger than at known sites, another that it is not clearly
    smaller than that of a constant prediction: the interval of the difference reaches 0. `metric`
    is the error's key in `record`. In the warning, `error` names the metric, and `usual` the
    constant, such as "median".
    """
    notices = []
    ratio = record.ratio["embedding"][metric]
    gain = record.unseen_minus_constant["embedding"][metric]
    errors = {
        "error": error,
        "usual": usual,
        "unseen": record.unseen["embedding"][metric].value,
        "home": record.home["embedding"][metric].value,
    }
    is_notable = ratio.value is not None and ratio.value >= NOTABLE_RATIO
    if is_notable and ratio.low is not None and ratio.low > 1:
        grown = {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
        notices.append(Notice.of("new_site_worse", **errors, **grown))
    largest = gain.high
    if largest is None:
        largest = gain.value
    if gain.value is not None and largest is not None and largest >= 0:
        constant = record.unseen["constant"][metric].value
        errors["constant"] = constant
        notices.append(Notice.of("new_site_no_better_than_constant", **errors))
    return notices
