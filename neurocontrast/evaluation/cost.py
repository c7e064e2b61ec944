"""Time and memory of an evaluation, estimated on this machine by a trial of one fold before anything long runs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from neurocontrast.evaluation.estimators import EstimatorError
from neurocontrast.evaluation.fitting import OutOfFold, fit_probe
from neurocontrast.evaluation.metrics import RANKED
from neurocontrast.evaluation.panels.confounds import draw_subjects
from neurocontrast.evaluation.panels.new_site import plan_sites_left_out
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.splits.inner import MAX_INNER_SITES
from neurocontrast.evaluation.uncertainty import MAX_RANKED, count_resamples, pooled_metrics
from neurocontrast.exceptions import ConfigError
from neurocontrast.progress import SILENT, Progress
from neurocontrast.resources import as_duration, as_size, describe_memory

__all__ = ["Cost", "check_cost", "estimate_cost"]

MIN_VALUES = 1e8
"""With fewer scans × features over all fits, an evaluation takes a minute or two, and no trial is made."""
MIN_TRIAL, TRIAL_SHARE = 2000, 8
"""The trial is of so many training scans, or of one in eight where these are more."""
MAX_TIMED, N_TIMED = 20_000, 8
"""Scans and resamples of the trial of intervals."""
LINEAR = ("logistic", "ridge", "svm")
"""Probes whose time grows as the number of scans; of others the trial is made at two sizes."""


@dataclass(frozen=True)
class Cost:
    """Estimated seconds of each part of an evaluation, seconds of one fold, and peak bytes of all processes."""

    seconds: dict[str, float] = field(default_factory=dict)
    fold_seconds: float = 0.0
    n_bytes: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of all parts."""
        return sum(self.seconds.values())


def estimate_cost(study: Study, progress: Progress = SILENT) -> Cost | None:
    """Estimate what an evaluation will take from a timed fit to some of the scans of its first fold.

    None where little is to be done, where a model that was trained elsewhere takes the place of the probe, and where
    an estimator of the user's own cannot be fitted to a part of the scans.
    """
    n_train, settings = len(study.splits[0].train), study.settings
    fits = _count_fits(study)
    if study.elsewhere is not None or sum(fits.values()) * n_train * study.features.shape[1] < MIN_VALUES:
        return None
    n_trial = min(n_train, max(MIN_TRIAL, n_train // TRIAL_SHARE))
    try:
        with progress.task("Estimating time and memory", None, "fit"):
            seconds = _time_fit(study, "embedding", n_trial)
            power = 1.0
            if study.probe not in LINEAR and n_trial < n_train:
                power = float(np.clip(math.log2(seconds / _time_fit(study, "embedding", n_trial // 2)), 1.0, 2.0))
            beside = _time_fit(study, "baseline", n_trial) * n_train / n_trial
    except EstimatorError:
        return None
    fold = seconds * (n_train / n_trial) ** power
    each = {"permutations": fold, "learning curve": fold + beside, "probe of all scans": fold}
    jobs = {"learning curve": 1, "probe of all scans": 1}
    taken = {part: n * each.get(part, fold + beside) / jobs.get(part, settings.n_jobs) for part, n in fits.items()}
    taken["intervals"] = _estimate_intervals(study, left_out=fits["sites left out"] > 0)
    return Cost({part: found for part, found in taken.items() if found}, fold, _count_bytes(study))


def check_cost(study: Study, cost: Cost | None, progress: Progress = SILENT) -> None:
    """Say what an evaluation will take, and refuse one that would take more than ``max_hours``."""
    if cost is None:
        return
    limit, parts = study.settings.max_hours, ", ".join(f"{part} {as_duration(s)}" for part, s in cost.seconds.items())
    if cost.total > 3600 * limit:
        raise ConfigError(_refusal(study, cost, parts))
    progress.message(
        f"About {as_duration(cost.total)} on this machine, by a trial ({parts}), and up to {as_size(cost.n_bytes)} of "
        "memory beside the table."
    )
    free = describe_memory()["available_bytes"]
    if cost.n_bytes > free:
        remedy = f"n_jobs below {study.settings.n_jobs}" if study.settings.n_jobs > 1 else "fewer n_inner_folds"
        progress.warning(
            f"Memory: about {as_size(cost.n_bytes)} are needed and {as_size(free)} are free: the evaluation may be "
            f"ended by the system. Set {remedy}, a smaller large_table, or keep fewer scans with where."
        )


def _refusal(study: Study, cost: Cost, parts: str) -> str:
    settings, hours = study.settings, math.ceil(cost.total / 3600)
    permutations, limit = cost.seconds.get("permutations", 0.0), 3600 * settings.max_hours
    others, jobs = cost.total - permutations, f"{settings.n_jobs} process{'es' if settings.n_jobs > 1 else ''}"
    anyway = f"evaluation.max_hours={hours} to run it all the same"
    if permutations and others < limit:
        n = settings.n_permutations
        n_fit = int((limit - others) / (permutations / n))
        fewer = f"n_permutations={n_fit} (--n-permutations {n_fit})" if n_fit else "n_permutations=0"
        return (
            f"n_permutations: {n:,} permutations would take about {as_duration(permutations)} on this machine (by a "
            f"trial, {as_duration(cost.fold_seconds)} a fold, {jobs}), and max_hours={settings.max_hours:g} has room "
            f"for {n_fit:,}. Set {fewer}, use more processes (--n-jobs), or set {anyway}."
        )
    return (
        f"max_hours: the evaluation would take about {as_duration(cost.total)} on this machine (by a trial, {jobs}: "
        f"{parts}), more than max_hours={settings.max_hours:g}. Leave out what you can do without (new_site=false, "
        f"fewer n_repeats, n_permutations or train_sizes), use more processes (--n-jobs), or set {anyway}."
    )


def _count_fits(study: Study) -> dict[str, float]:
    """Return how many folds each part fits the probe in, a fold of fewer scans as a part of one."""
    settings, n_folds = study.settings, len(study.splits)
    n_left_out = len(plan_sites_left_out(study).splits)
    n_train = len(study.splits[0].train)
    return {
        "folds": n_folds,
        "sites left out": n_left_out * (2 if settings.recentre != "none" else 1),
        "permutations": settings.n_permutations * sum(split.repeat == 0 for split in study.splits),
        "learning curve": sum(settings.train_sizes) / n_train * settings.n_draws * n_folds,
        "probe of all scans": 0 if study.why_not_stored else len(study.fitted_rows) / n_train,
    }


def _time_fit(study: Study, model: str, n_rows: int) -> float:
    """Return the seconds of fitting a model to some subjects of the first fold, by the solvers of the whole fold."""
    split, settings = study.splits[0], study.settings
    if len(split.train) > settings.large_table:
        settings = settings.model_copy(update={"large_table": 0})
    rows = split.train[draw_subjects(study.subjects[split.train], seed=settings.seed, n_scans=n_rows)[0]]
    test = split.test[: max(1, len(split.test) * len(rows) // len(split.train))]
    validation = None if split.validation is None else np.intersect1d(split.validation, rows)
    start = time.perf_counter()
    fit_probe(
        study.designs()[model], study.target, rows, test, subjects=study.subjects, settings=settings,
        seed=settings.seed, sites=study.sites, validation=validation, estimator=study.estimator_of(model),
    )  # fmt: skip
    return time.perf_counter() - start


def _estimate_intervals(study: Study, *, left_out: bool) -> float:
    """Return the seconds of all intervals, from those of a few resamples of some scans with scores by chance."""
    n, n_bootstraps, target = len(study.table), study.settings.n_bootstraps, study.target
    if not n_bootstraps:
        return 0.0
    part, generator = target.subset(np.arange(min(n, MAX_TIMED))), np.random.default_rng(0)
    shape = (1, len(part.values), len(target.classes)) if target.kind == "multiclass" else (1, len(part.values))
    scores = generator.dirichlet(np.ones(shape[2]), size=shape[:2]) if len(shape) > 2 else generator.random(shape)
    zeros = np.zeros(shape[:2], dtype=np.int64)
    model, weights = OutOfFold(scores, zeros, zeros, [], 0), np.ones((N_TIMED, shape[1]))
    ranked = target.kind != "multiclass" or len(target.classes) * n <= MAX_RANKED
    names = [name for name in target.metric_names if ranked or name not in RANKED]
    start = time.perf_counter()
    pooled_metrics(part, model, weights=weights, names=names)
    seconds = (time.perf_counter() - start) / weights.size
    # All scans: two models, and six where sites are left out. Parts of them: by site, sex and age, and site left out.
    whole, parts = (8, 9) if left_out else (2, 3)
    return seconds * n * (whole * count_resamples(n_bootstraps, n) + parts * n_bootstraps)


def _count_bytes(study: Study) -> float:
    """Return peak bytes: features of the inner folds and of the fold, and a double of the latter to standardise.

    The probe of all scans is fitted in one process, and has features of all of them twice.
    """
    (n, p), n_train, settings = study.features.shape, len(study.splits[0].train), study.settings
    large, dealt = n_train > settings.large_table, settings.inner_splits == "stratified"
    n_inner = MAX_INNER_SITES if not dealt else 1 if large else settings.n_inner_folds
    size, n_all = (4 if large else 8), 0 if study.why_not_stored else len(study.fitted_rows)
    of_fold = settings.n_jobs * ((n + n_inner * n_train) * size + n_train * 8)
    return float(p * max(of_fold, n_all * ((2 + n_inner) * size + 8)))
