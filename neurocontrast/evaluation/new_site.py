"""What a probe does at a site it has never seen, beside what it does for the same people when the site is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.crossval import OutOfFold, constant_predictions, cross_validate
from neurocontrast.evaluation.designs import CovariateDesign, choose_covariates
from neurocontrast.evaluation.fitting import features_design
from neurocontrast.evaluation.intervals import Resamples
from neurocontrast.evaluation.leaving_sites import SitesLeftOut, plan_sites_left_out
from neurocontrast.evaluation.metrics import (
    DESCRIPTIVE,
    LOWER_IS_BETTER,
    ON_REQUEST,
    POOLED_ONLY,
    explain_undefined,
    finite_or_none,
)
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.probes import Design
from neurocontrast.evaluation.schema import Notice
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.uncertainty import bootstrap_metrics, pooled_metrics
from neurocontrast.progress import Progress
from neurocontrast.seeds import derive_seed

__all__ = ["NewSites", "measure_new_sites"]

Models = dict[str, OutOfFold]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

NOTABLE_RATIO = 1.3
"""An error that grows more than this at unseen sites, its interval above 1, is warned about."""


@dataclass(frozen=True)
class NewSites:
    """``new_site`` of evaluation.json or why there is none, the table of sites, warnings, and the folds."""

    summary: dict[str, Any] | None
    note: str | None
    table: pd.DataFrame | None = None
    notices: list[Notice] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)


def measure_new_sites(study: Study, models: Models, site_reading: pd.Series | None, progress: Progress) -> NewSites:
    """Leave every site out once, with the probe of the study, and compare each scan with its main prediction.

    Parameters
    ----------
    study : Study
        As `plan_study` returned it.
    models : dict of str to OutOfFold
        Main out-of-fold predictions of ``embedding`` and ``baseline``, in folds that know the sites.
    site_reading : Series, optional
        How well the site is told from the features: a row of ``confounds.tsv``.
    progress : Progress
        Told how far the work is.
    """
    if not study.settings.new_site:
        return NewSites(None, "not asked for (new_site=false)")
    plan = plan_sites_left_out(study)
    if plan.why_not is not None:
        return NewSites(None, plan.why_not)
    home, unseen = _predict(study, plan, models, progress)
    home["constant"] = constant_predictions(study.target, study.splits)
    unseen["constant"] = constant_predictions(study.target, plan.splits)
    figures = _Figures(study, plan, home, unseen)
    summary = {
        "design": plan.design,
        "metric": study.target.metric_names[0],
        "models": [name for name in unseen if name != "constant"],
        **figures.pooled(),
        "n": {"scans": len(plan.rows), "subjects": len(set(study.subjects[plan.rows]))},
        "bootstrap_unit": study.units.name,
        "n_sites": len(plan.sites),
        "left_out": list(plan.sites),
        "skipped": plan.skipped,
        "site_predictability": _predictability(site_reading),
        "recentred": "recentred" in unseen,
    }
    return NewSites(summary, None, figures.table(), _look_at(summary, plan.skipped), plan.splits)


def _predict(study: Study, plan: SitesLeftOut, models: Models, progress: Progress) -> tuple[Models, Models]:
    """Return predictions of every model at home and unseen: ``embedding`` as it is, ``recentred`` where asked for."""
    names = choose_covariates(study.table, study.settings.covariates, target=study.target.name, sites_held_out=True)[0]
    designs: dict[str, Design] = {"embedding": features_design(study, recentre=False)}
    home = {"embedding": models["embedding"]}
    recentred = study.settings.recentre != "none"
    if recentred:
        designs["recentred"], home["recentred"] = features_design(study), models["embedding"]
    designs["baseline"], home["baseline"] = CovariateDesign(study.table, names), models["baseline"]
    n_folds = len(designs) * len(plan.splits) + recentred * len(study.splits)
    with progress.task("Leaving sites out", n_folds, "fold") as task:
        fit = partial(
            cross_validate,
            target=study.target,
            subjects=study.subjects,
            settings=study.settings,
            sites=study.sites,
            advance=task.advance,
        )
        if recentred:
            home["embedding"] = fit(
                features_design(study, recentre=False), splits=study.splits, estimator=study.estimator
            )
        unseen = {
            name: fit(design, splits=plan.splits, estimator=study.estimator_of(name))
            for name, design in designs.items()
        }
    return home, unseen


@dataclass(frozen=True)
class _Figures:
    """Metrics of the same people, at home and unseen, from the same resamples of them."""

    study: Study
    plan: SitesLeftOut
    home: Models
    unseen: Models

    @property
    def _all(self) -> Models:
        return {f"home {name}": model for name, model in self.home.items()} | {
            f"unseen {name}": model for name, model in self.unseen.items()
        }

    def pooled(self) -> dict[str, Any]:
        """Return ``home``, ``unseen``, and how these compare with one another and with the constant."""
        kind, rows = self.study.target.kind, self.plan.rows
        names = [*self.study.target.metric_names, *ON_REQUEST[kind]]
        units = self.study.units.labels
        values, drawn = self._compute(self._all, rows, names, units, key=("new-site-intervals",))
        parts: dict[str, Any] = {key: {} for key in ("home", "unseen", "ratio", "difference", "unseen_minus_constant")}
        for model in self.unseen:
            for where in ("home", "unseen"):
                key = f"{where} {model}"
                parts[where][model] = {
                    name: {**self._figure(values[key][name], drawn.get(key, {}).get(name)), "n": len(rows)}
                    for name in names
                }
            if model == "constant":
                continue
            keys, constant = (f"unseen {model}", f"home {model}"), (f"unseen {model}", "unseen constant")
            errors = [name for name in names if name in LOWER_IS_BETTER]
            parts["ratio"][model] = {name: self._against(values, drawn, keys, name, np.divide) for name in errors}
            for part, pair in (("difference", keys), ("unseen_minus_constant", constant)):
                parts[part][model] = {name: self._against(values, drawn, pair, name, np.subtract) for name in names}
        return parts

    def table(self) -> pd.DataFrame:
        """Return one row a site that was left out and model: figures when it is unseen, and when it is known."""
        kind = self.study.target.kind
        names = [name for name in self.study.target.metric_names if name not in POOLED_ONLY and name not in DESCRIPTIVE]
        names += ON_REQUEST[kind]
        found = []
        for split in self.plan.splits:
            for site in self.plan.sites:
                rows = split.test[self.plan.site_of[split.test] == site]
                if len(rows):
                    found += self._rows(site, rows, len(split.train), names)
        return pd.DataFrame(found)

    def _rows(self, site: str, rows: Rows, n_train: int, names: list[str]) -> list[dict[str, Any]]:
        study = self.study
        n, least = len(set(study.subjects[rows])), study.settings.min_site_n
        few = f"fewer than {least} subjects ({n}): no interval" if n < least else None
        reason = explain_undefined(study.target.kind, study.target.values[rows], study.target.classes)
        key = ("new-site-intervals", site)
        values, drawn = self._compute(self._all, rows, names, study.subjects, key=key, intervals=few is None)
        found = []
        for model in self.unseen:
            row: dict[str, Any] = {"site": site, "model": model, "n": len(rows), "n_train": n_train}
            for prefix, where in (("", "unseen"), ("home_", "home")):
                for name in names:
                    figure = self._figure(values[f"{where} {model}"][name], drawn.get(f"{where} {model}", {}).get(name))
                    low, high = figure["low"], figure["high"]
                    row |= {prefix + name: figure["value"], f"{prefix}{name}_low": low, f"{prefix}{name}_high": high}
            row["note"] = "; ".join(text for text in (reason, few) if text) or None
            found.append(row)
        return found

    def _compute(
        self,
        models: Models,
        rows: Rows,
        names: list[str],
        units: npt.NDArray[np.object_],
        *,
        key: tuple[str, ...],
        intervals: bool = True,
    ) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, Resamples]]]:
        """Return values of every model, and resamples that all of them share; without these if not asked for."""
        target, settings = self.study.target, self.study.settings
        values = {}
        for name, model in models.items():
            found = pooled_metrics(target, model, rows=rows, names=names)
            values[name] = {metric: float(each[0]) for metric, each in found.items()}
        if not settings.n_bootstraps or not intervals:
            return values, {}
        seed = derive_seed(key[0], settings.seed, *key[1:])
        n = settings.n_bootstraps
        return values, bootstrap_metrics(target, models, units, n_bootstraps=n, seed=seed, rows=rows, names=names)

    def _figure(self, value: float, drawn: Resamples | None) -> dict[str, float | None]:
        known = finite_or_none(value)
        level = self.study.settings.confidence_level
        low, high = (None if known is None or drawn is None else drawn.interval(level=level)) or (None, None)
        return {"value": known, "low": low, "high": high}

    def _against(
        self,
        values: dict[str, dict[str, float]],
        drawn: dict[str, dict[str, Resamples]],
        keys: tuple[str, str],
        name: str,
        function: np.ufunc,
    ) -> dict[str, float | None]:
        """Compare two models: the same people in every resample."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(function(values[keys[0]][name], values[keys[1]][name]))
            both = drawn[keys[0]][name].combine(drawn[keys[1]][name], function) if drawn else None
        return self._figure(value, both)


def _predictability(reading: pd.Series | None) -> dict[str, Any] | None:
    if reading is None:
        return None
    return {
        "balanced_accuracy": float(reading["value"]),
        "low": finite_or_none(reading["low"]),
        "high": finite_or_none(reading["high"]),
        "chance": float(reading["chance"]),
        "n_sites": int(reading["n_levels"]),
    }


def _look_at(summary: Mapping[str, Any], skipped: Sequence[Mapping[str, str]]) -> list[Notice]:
    """Warn where the probe is clearly worse at sites it has not seen, or no better than saying what is usual."""
    found = []
    best = "recentred" if summary["recentred"] else "embedding"
    name = "mae" if "mae" in summary["ratio"][best] else "log_loss"
    if name not in summary["ratio"][best]:
        return _skipped(skipped)  # decision values have no loss to compare
    shown = {"mae": "mean absolute error", "log_loss": "log-loss"}[name]
    ratio, gain = summary["ratio"][best][name], summary["unseen_minus_constant"][best][name]
    home, unseen, constant = (
        summary[where][model][name]["value"]
        for where, model in (("home", best), ("unseen", best), ("unseen", "constant"))
    )
    if ratio["low"] is not None and ratio["value"] >= NOTABLE_RATIO and ratio["low"] > 1:
        told = (
            f"At sites that the probe has not seen its {shown} is {unseen:.3g}, where it is {home:.3g} for the same "
            f"people when their site is known: {ratio['value']:.2f} times as much ({ratio['low']:.2f} to "
            f"{ratio['high']:.2f}). The other figures are of known sites: do not expect them at another hospital."
        )
        explanation = (
            "The result below is of sites that were trained on. At another scanner expect the error of unseen sites, "
            "or a larger one. See “At a site it has not seen”."
        )
        found.append(Notice("new_site_worse", told, explanation))
    if gain["value"] is not None and (gain["value"] >= 0 if gain["high"] is None else gain["high"] >= 0):
        usual = "median" if name == "mae" else "prevalence"
        told = (
            f"At sites that the probe has not seen its {shown} ({unseen:.3g}) is not shown to be below that of the "
            f"other sites' {usual} ({constant:.3g}), which needs no scan."
        )
        explanation = (
            "At a scanner that was not trained on, do not trust the number: as far as these data tell, a guess without "
            "the scan serves as well. See “At a site it has not seen”."
        )
        found.append(Notice("new_site_no_better_than_constant", told, explanation))
    return found + _skipped(skipped)


def _skipped(skipped: Sequence[Mapping[str, str]]) -> list[Notice]:
    if not skipped:
        return []
    listed = "; ".join(f"{each['site']}: {each['why']}" for each in skipped[:8])
    more = f"; and {len(skipped) - 8} more" if len(skipped) > 8 else ""
    explanation = "What the model does there, were the site new to it, is not known."
    return [Notice("new_site_skipped", f"{len(skipped)} sites were not left out ({listed}{more}).", explanation)]
