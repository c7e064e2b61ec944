"""Errors of a probe at sites that it has never seen, beside its errors for the same people at known sites."""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import StrictFloat, StrictInt

from neurocontrast.documents.figures import Estimate
from neurocontrast.documents.notice import Notice
from neurocontrast.documents.result import Counts
from neurocontrast.documents.section import Part, ResultSection
from neurocontrast.evaluation.fit.out_of_fold import Models, cross_validate_model
from neurocontrast.evaluation.measure.confounds import site_reading
from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.measure.subgroups import resample, tabulate_figures, why_no_interval
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
from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.splits import Split, group_sites
from neurocontrast.exceptions import one_of
from neurocontrast.progress import Progress


class SkippedSite(ResultSection):
    """A site that was not left out, and why."""

    site: str
    why: str = ""


class SitePredictability(ResultSection):
    """How well the site is predicted from the embedding."""

    balanced_accuracy: StrictFloat | None = None
    low: StrictFloat | None = None
    high: StrictFloat | None = None
    chance: StrictFloat | None = None
    n_sites: StrictInt | None = None


class NewSite(Part):
    """Figures by model and metric: at known sites (`home`), at unseen ones, and how these compare."""

    key = "new_site"

    design: str | None = None
    metric: str | None = None
    models: list[str] = []
    home: dict[str, dict[str, Estimate]] = {}
    unseen: dict[str, dict[str, Estimate]] = {}
    ratio: dict[str, dict[str, Estimate]] = {}
    difference: dict[str, dict[str, Estimate]] = {}
    unseen_minus_constant: dict[str, dict[str, Estimate]] = {}
    n: Counts = Counts()
    bootstrap_unit: str | None = None
    n_sites: StrictInt | None = None
    left_out: list[str] = []
    skipped: list[SkippedSite] = []
    site_predictability: SitePredictability | None = None


Rows = npt.NDArray[np.intp]

NOTABLE_RATIO = 1.3
"""An error that grows more than this at unseen sites, its interval above 1, is warned about."""
MIN_SITE_SUBJECTS = 5
"""A site with fewer subjects is not left out: its error would say nothing."""
MAX_GROUPS = 20
"""More sites than this are left out in this many groups of about equal size."""


@dataclass(frozen=True)
class SitesLeftOut:
    """Folds that each leave out a site or a group of sites, and the sites that are left out or skipped."""

    splits: list[Split] = field(default_factory=list)
    sites: tuple[str, ...] = ()
    skipped: list[dict[str, str]] = field(default_factory=list)
    why_not: str | None = None


def plan_sites_left_out(plan: Plan) -> SitesLeftOut:
    """Return folds that leave out each site whose people the main folds test while their site is known."""
    why_not = _why_not(plan)
    if why_not is not None:
        return SitesLeftOut(why_not=why_not)
    sites = plan.sites
    owners = plan.subjects.astype(str)
    home = _tested_at_home(plan)
    if not home.any():
        return SitesLeftOut(
            why_not="the main folds hold sites out already, so their figures are those of unseen sites"
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
        known = sites != NO_SITE
        members = np.isin(sites, group)
        train = known & ~members & ~np.isin(owners, owners[members])
        split = Split(
            0, len(splits), np.flatnonzero(train), np.flatnonzero(members & home), ", ".join(group)
        )
        reason = _why_untrainable(plan, split)
        why |= dict.fromkeys(group, reason)
        splits += [] if reason else [split]
    skipped = [{"site": site, "why": reason} for site, reason in why.items() if reason is not None]
    chosen = tuple(site for site in names if why[site] is None)
    return SitesLeftOut(
        splits, chosen, skipped, None if splits else f"no site can be left out ({_listed(skipped)})"
    )


def _why_not(plan: Plan) -> str | None:
    known = set(plan.sites) - {NO_SITE}
    if not plan.settings.new_site:
        return "not asked for (new_site=false)"
    if plan.fixed:
        return "a column says what is tested (split_column), and no site is left out"
    if plan.target.name == "site":
        return "the site is the target, and a site that is left out cannot be predicted"
    if len(known) < 2:
        return "no scan has a site" if not known else f"one site only ('{next(iter(known))}')"
    if plan.settings.harmonise == "combat" or "site" in plan.settings.residualise:
        return "harmonise=combat and residualise=[site] learn a site from its training scans; an unseen one has none"
    return None


def _tested_at_home(plan: Plan) -> npt.NDArray[np.bool_]:
    """Return which scans have a site and are tested by the main folds, always with their site in training."""
    sites = plan.sites
    tested, unknown = np.zeros((2, len(sites)), dtype=bool)
    for split in plan.splits:
        seen = list(set(sites[split.train]) - {NO_SITE})
        tested[split.test] = True
        unknown[split.test] |= ~np.isin(sites[split.test], seen)
    return tested & ~unknown


def _why_skipped(plan: Plan, rows: Rows) -> str | None:
    n = len(set(plan.subjects[rows]))
    if n < MIN_SITE_SUBJECTS:
        return f"fewer than {MIN_SITE_SUBJECTS} subjects ({n}) tested while the site is known"
    if plan.target.kind == "continuous":
        return None
    present = np.unique(plan.target.values[rows])
    return f"single class ({plan.target.classes[int(present[0])]})" if len(present) < 2 else None


def _why_untrainable(plan: Plan, split: Split) -> str | None:
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


def _listed(skipped: Sequence[Mapping[str, str]]) -> str:
    listed = "; ".join(f"{each['site']}: {each['why']}" for each in skipped[:8])
    return listed + (f"; and {len(skipped) - 8} more" if len(skipped) > 8 else "")


def measure_new_sites(inputs: Inputs) -> Measurement:
    """Leave every site out once, with the probe of the plan, and compare each scan with its main prediction."""
    plan = inputs.plan
    left_out = plan_sites_left_out(plan)
    if left_out.why_not is not None:
        return Measurement({"new_site": None, "new_site_note": left_out.why_not})
    home, unseen = _predict(plan, left_out, inputs.models, inputs.progress)
    rows = np.sort(np.concatenate([split.test for split in left_out.splits]))
    grouped = len(left_out.splits) < len(left_out.sites)
    summary = {
        "design": f"leave-sites-out in {len(left_out.splits)} groups"
        if grouped
        else "leave-one-site-out",
        "metric": plan.target.metric_names[0],
        "models": [name for name in unseen if name != "constant"],
        **_pooled(plan, home, unseen, rows),
        "n": {"scans": len(rows), "subjects": len(set(plan.subjects[rows]))},
        "bootstrap_unit": plan.units.name,
        "n_sites": len(left_out.sites),
        "left_out": list(left_out.sites),
        "skipped": left_out.skipped,
        "site_predictability": _predictability(
            site_reading(inputs.earlier.tables.get("confounds"))
        ),
    }
    found = {"new_site": summary, "new_site_note": None}
    with inputs.progress.task("Sites left out", len(left_out.sites), "site") as task:
        table = _site_table(plan, left_out, home, unseen, task.advance)
    return Measurement(found, {"new_sites": table}, _warnings(summary))


def _predict(
    plan: Plan, left_out: SitesLeftOut, models: Models, progress: Progress
) -> tuple[Models, Models]:
    """Return predictions of each model, the constant last, at known sites, and at sites left out."""
    names = choose_covariates(
        plan.table, plan.settings.covariates, target=plan.target.name, sites_held_out=True
    )[0]
    embedding, baseline = plan.models[:2]
    fitted: dict[str, Model] = {
        "embedding": embedding,
        "baseline": with_covariates(baseline, plan.table, names),
    }
    home = {name: models[name] for name in fitted}
    unseen: Models = {}
    with progress.task("Leaving sites out", len(fitted) * len(left_out.splits), "fold") as task:
        for name, model in fitted.items():
            unseen[name] = cross_validate_model(plan, model, left_out.splits, advance=task.advance)
    constant = ConstantModel("constant")
    home["constant"] = cross_validate_model(plan, constant)
    unseen["constant"] = cross_validate_model(plan, constant, left_out.splits)
    return home, unseen


def _pooled(plan: Plan, home: Models, unseen: Models, rows: Rows) -> dict[str, Any]:
    """Return ``home``, ``unseen``, and how these compare with one another and with the constant."""
    names = [*plan.target.metric_names, *ON_REQUEST[plan.target.kind]]
    level = plan.settings.confidence_level
    errors = [name for name in names if name in LOWER_IS_BETTER]
    known, new = (
        resample(plan, models, rows, names, plan.units.labels, "new-site-intervals")
        for models in (home, unseen)
    )
    found: dict[str, dict[str, Any]] = {
        where: {
            model: {
                name: each.figure(level=level) | {"n": len(rows)} for name, each in figures.items()
            }
            for model, figures in drawn.items()
        }
        for where, drawn in (("home", known), ("unseen", new))
    }
    for model in (each for each in new if each != "constant"):
        for key, other, function, compared in (
            ("ratio", known[model], np.divide, errors),
            ("difference", known[model], np.subtract, names),
            ("unseen_minus_constant", new["constant"], np.subtract, names),
        ):
            with np.errstate(divide="ignore", invalid="ignore"):
                drawn = {name: new[model][name].combine(other[name], function) for name in compared}
            found.setdefault(key, {})[model] = {
                name: each.figure(level=level) for name, each in drawn.items()
            }
    return found


def _site_table(
    plan: Plan, left_out: SitesLeftOut, home: Models, unseen: Models, advance: Callable[[], None]
) -> pd.DataFrame:
    """Return one row a site that was left out and model: figures when it is unseen, and when it is known."""
    target = plan.target
    found = []
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
        known, new = (
            resample(
                plan,
                models,
                rows,
                names,
                plan.subjects,
                "new-site-intervals",
                site,
                bounded=few is None,
            )
            for models in (home, unseen)
        )
        for model, figures in new.items():
            row: dict[str, Any] = {
                "site": site,
                "model": model,
                "n": len(rows),
                "n_train": len(split.train),
            }
            row |= tabulate_figures(plan, figures) | tabulate_figures(
                plan, known[model], prefix="home_"
            )
            if target.kind == "continuous":
                errors = unseen[model].scores[0, rows] - target.values[rows].astype(float)
                row["spread"] = float(errors.std(ddof=1)) if len(rows) > 1 else None
            found.append(row | {"note": "; ".join(filter(None, (reason, few))) or None})
        advance()
    return pd.DataFrame(found)


def _predictability(reading: pd.Series | None) -> dict[str, Any] | None:
    if reading is None:
        return None
    low, high = (finite_or_none(reading[end]) for end in ("low", "high"))
    about = {"chance": float(reading["chance"]), "n_sites": int(reading["n_levels"])}
    return {"balanced_accuracy": float(reading["value"]), "low": low, "high": high} | about


def _warnings(summary: Mapping[str, Any]) -> list[Notice]:
    """Warn where the probe is clearly worse at unseen sites, or no better than a constant."""
    found = []
    name = "mae" if "mae" in summary["ratio"]["embedding"] else "log_loss"
    if name in summary["ratio"]["embedding"]:  # decision values have no loss to compare
        shown, usual = {
            "mae": ("mean absolute error", "median"),
            "log_loss": ("log-loss", "prevalence"),
        }[name]
        ratio, gain = (
            summary[key]["embedding"][name] for key in ("ratio", "unseen_minus_constant")
        )
        home, unseen = (summary[where]["embedding"][name]["value"] for where in ("home", "unseen"))
        about = {"error": shown, "usual": usual, "unseen": unseen, "home": home}
        if ratio["low"] is not None and ratio["value"] >= NOTABLE_RATIO and ratio["low"] > 1:
            grown = {"ratio": ratio["value"], "low": ratio["low"], "high": ratio["high"]}
            found.append(Notice.of("new_site_worse", **about, **grown))
        if (
            gain["value"] is not None
            and (gain["value"] if gain["high"] is None else gain["high"]) >= 0
        ):
            constant = summary["unseen"]["constant"][name]["value"]
            found.append(Notice.of("new_site_no_better_than_constant", **about, constant=constant))
    if summary["skipped"]:
        found.append(
            Notice.of(
                "new_site_skipped", n=len(summary["skipped"]), sites=_listed(summary["skipped"])
            )
        )
    return found
