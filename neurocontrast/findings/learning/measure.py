"""Learning curves: the same test folds, probes fitted on more and more subjects."""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import StrictFloat, StrictInt

from neurocontrast.evaluation.metrics import DESCRIPTIVE, POOLED_ONLY, compute_metrics, finite_or_none
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.record import Part, Section
from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.splits import Split, subject_values
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from neurocontrast.findings.finding import Found, Inputs
from neurocontrast.seeds import derive_generator, derive_seed

__all__ = ["LearningCurve", "LearningPoint", "check_sizes", "draw_of_split", "draw_order", "measure_learning_curve"]


class LearningPoint(Section):
    """A metric with a number of training subjects."""

    n_train: StrictInt
    mean: StrictFloat | None = None
    sd: StrictFloat | None = None
    n: StrictInt | None = None


class LearningCurve(Part):
    """Points of the embedding (`metrics`) and of the other models, by metric."""

    key = "learning_curve"

    sizes: list[StrictInt] = []
    n_draws: StrictInt | None = None
    unit: str | None = None
    metrics: dict[str, list[LearningPoint]] = {}
    baseline: dict[str, list[LearningPoint]] = {}
    voxels: dict[str, list[LearningPoint]] = {}
    regional: dict[str, list[LearningPoint]] = {}


LEAST_OF_A_CLASS = 2
"""Training subjects of every class that each size must hold: one to fit, one for the inner folds."""


def check_sizes(study: Study) -> None:
    """Refuse sizes that exceed a training fold, or are too small for two subjects of every class."""
    sizes = study.settings.train_sizes
    if not sizes:
        return
    available = min(len(set(study.subjects[split.train])) for split in study.splits)
    draws = [(split, draw) for split in study.splits for draw in range(study.settings.n_draws)]
    least = max(_least_size(study, split, draw) for split, draw in draws)
    wrong = [size for size in sizes if not least <= size <= available]
    if wrong:
        why = []
        if max(wrong) > available:
            why.append(f"the smallest training fold has {available} subjects")
        if min(wrong) < least:
            what = "two subjects" if study.target.kind == "continuous" else "two subjects of every class"
            why.append(f"{what} are in every draw from {least} subjects on")
        raise ConfigError(
            f"train_sizes: {', '.join(map(str, wrong))} cannot be had: {'; '.join(why)}. "
            f"Give sizes from {least} to {available} (--train-sizes)."
        )


def _least_size(study: Study, split: Split, draw: int) -> int:
    """Return the number of subjects from which on a draw holds two of every class of the training fold."""
    if study.target.kind == "continuous":
        return LEAST_OF_A_CLASS
    order = draw_of_split(study.table, study.target, split, draw, study.settings.seed)
    owners = study.subjects[split.train].astype(str)
    drawn = subject_values(study.target.values[split.train], owners)[np.searchsorted(np.unique(owners), order)]
    seconds = [np.flatnonzero(drawn == code)[:LEAST_OF_A_CLASS][-1] for code in np.unique(drawn)]
    return int(max(seconds)) + 1


def measure_learning_curve(inputs: Inputs) -> Found:
    """Fit the probes on draws of training subjects, each with all scans, and test them on the same folds.

    The smaller sizes of a draw are parts of the larger ones. Folds and draws depend on scans, target and seed,
    and are the same for other encoders.
    """
    study, settings = inputs.study, inputs.study.settings
    if not settings.train_sizes:
        return Found({"learning_curve": None})
    rows = []
    n_fits = len(settings.train_sizes) * settings.n_draws * len(study.splits)
    with inputs.progress.task("Learning curve", n_fits, "fit") as task:
        for split in study.splits:
            for draw in range(settings.n_draws):
                order = draw_of_split(study.table, study.target, split, draw, settings.seed)
                for size in settings.train_sizes:
                    train = split.train[np.isin(study.subjects[split.train].astype(str), order[:size])]
                    row = {"n_train": size, "draw": draw, "repeat": split.repeat, "fold": split.fold}
                    seed = derive_seed("learning-probe", settings.seed, split.repeat, split.fold, draw, size)
                    rows.append(row | _fit(study, split, train, seed))
                    task.advance()
    table = pd.DataFrame(rows).sort_values(["n_train", "draw", "repeat", "fold"], ignore_index=True)
    sizes = table.replace([np.inf, -np.inf], np.nan).groupby("n_train")
    parts = {
        "metrics" if model == "embedding" else model: {
            name: _points(sizes[_prefix(model) + name]) for name in _names(study)
        }
        for model in (each.name for each in study.models)
    }
    about = {"sizes": list(settings.train_sizes), "n_draws": settings.n_draws, "unit": "subject"}
    return Found({"learning_curve": about | parts}, {"learning_curve": table})


def _fit(study: Study, split: Split, train: npt.NDArray[np.intp], seed: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for model in study.models:
        drawn = replace(split, train=train, validation=None)
        decided = model.predict(
            study.target, drawn, subjects=study.subjects, settings=study.settings, seed=seed, sites=study.sites
        )
        truth = study.target.values[split.test]
        values = compute_metrics(study.target.kind, truth, decided.scores, decisions=decided.decisions)
        found |= {_prefix(model.name) + name: float(values[name][0]) for name in _names(study)}
    return found


def _prefix(model: str) -> str:
    return "" if model == "embedding" else f"{model}_"


def _names(study: Study) -> list[str]:
    # A calibration slope of a few scans can be anything, and its mean over folds tells nothing.
    return [name for name in study.target.metric_names if name not in POOLED_ONLY and name not in DESCRIPTIVE]


def _points(sizes: Any) -> list[dict[str, Any]]:
    """Return mean, standard deviation and number of the finite values of each size."""
    found = []
    for size, values in sizes:
        known = values.dropna().to_numpy()
        mean, sd = (known.mean() if len(known) else np.nan, known.std(ddof=1) if len(known) > 1 else np.nan)
        found.append({"n_train": size, "mean": finite_or_none(mean), "sd": finite_or_none(sd), "n": len(known)})
    return found


def draw_of_split(table: pd.DataFrame, target: Target, split: Split, draw: int, seed: int) -> npt.NDArray[np.str_]:
    """Return the training subjects of a split in the order in which a draw of a learning curve takes them."""
    rows = split.train
    key = derive_seed("learning-curve", seed, split.repeat, split.fold, draw)
    subjects = table["subject_id"].to_numpy(dtype=object)[rows]
    return draw_order(target.subset(rows), list(table["site"].iloc[rows]), subjects, seed=key)


def draw_order(
    target: Target, sites: Sequence[str | None], subjects: npt.NDArray[np.object_], *, seed: int
) -> npt.NDArray[np.str_]:
    """Return subjects in an order whose every beginning is stratified by class and, within class, by site.

    The number of subjects of a class among the first k is within one of its share of k. A continuous target is
    stratified by site only.
    """
    owners = subjects.astype(str)
    places = np.unique([NO_SITE if site is None else str(site) for site in sites], return_inverse=True)[1]
    site_of = subject_values(places, owners)
    class_of = np.zeros(len(site_of)) if target.kind == "continuous" else subject_values(target.values, owners)
    generator = derive_generator("draw", seed)
    chance = generator.random(len(site_of))
    within_site = _interleaved([class_of, site_of], chance, generator)
    return np.unique(owners)[np.argsort(_interleaved([class_of], within_site, generator), kind="stable")]


def _interleaved(
    keys: list[npt.NDArray[np.float64]], order_by: npt.NDArray[np.float64], generator: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Return a place between 0 and 1 for each subject: those of a group evenly spaced, in the order given."""
    places = np.empty(len(order_by))
    groups = np.unique(np.column_stack(keys), axis=0, return_inverse=True)[1].ravel()
    for group in range(int(groups.max()) + 1):
        members = np.flatnonzero(groups == group)
        ordered = members[np.argsort(order_by[members], kind="stable")]
        places[ordered] = (np.arange(len(ordered)) + generator.random()) / len(ordered)
    return places
