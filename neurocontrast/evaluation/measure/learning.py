"""Measure learning curves: metrics over the number of training subjects."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.documents.findings import LearningCurve, LearningPoint
from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.measure.tables import model_prefix
from neurocontrast.evaluation.metrics import (
    DESCRIPTIVE,
    POOLED_ONLY,
    compute_metrics,
    finite_or_none,
)
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.rows import site_names
from neurocontrast.evaluation.splits import Split, subject_values
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from neurocontrast.seeds import derive_generator, derive_seed


def check_sizes(plan: Plan) -> None:
    """Refuse training sizes above the smallest training fold, or below two subjects a class.

    The sizes are ``train_sizes`` of the plan's settings, in subjects. A `ConfigError` names the
    wrong ones.
    """
    available = min(len(set(plan.subjects[split.train])) for split in plan.splits)
    least = 2 * max(1, len(plan.target.classes))
    wrong = [str(size) for size in plan.settings.train_sizes if not least <= size <= available]
    if wrong:
        raise ConfigError(
            f"train_sizes: {', '.join(wrong)} cannot be had: the smallest training fold has "
            f"{available} subjects. Give "
            f"sizes from {least} (two subjects of every class) to {available}."
        )


def measure_learning_curve(inputs: Inputs) -> Measurement:
    """Fit every model to draws of training subjects of each size, and test on the same folds.

    Subjects are drawn with all their scans, and the smaller sizes of a draw are parts of the larger
    ones. Folds and draws depend on scans, target and seed, and are the same for every encoder.
    Returned are the section `LearningCurve` of ``evaluation.json``, and the table
    ``learning_curve.tsv`` with a row for each split, draw and size. Without the setting
    ``train_sizes`` the section is None, and there is no table.
    """
    plan = inputs.plan
    settings = inputs.plan.settings
    if not settings.train_sizes:
        return Measurement({LearningCurve.key: None})
    rows = []
    n_fits = len(settings.train_sizes) * settings.n_draws * len(plan.splits)
    with inputs.progress.task("Learning curve", n_fits, "fit") as task:
        for split in plan.splits:
            for draw in range(settings.n_draws):
                order = draw_of_split(plan.table, plan.target, split, draw, settings.seed)
                for size in settings.train_sizes:
                    train = split.train[
                        np.isin(plan.subjects[split.train].astype(str), order[:size])
                    ]
                    row = {
                        "n_train": size,
                        "draw": draw,
                        "repeat": split.repeat,
                        "fold": split.fold,
                    }
                    seed = derive_seed(
                        "learning-probe", settings.seed, split.repeat, split.fold, draw, size
                    )
                    rows.append(row | _fit(plan, split, train, seed))
                    task.advance()
    table = pd.DataFrame(rows).sort_values(["n_train", "draw", "repeat", "fold"], ignore_index=True)
    sizes = table.replace([np.inf, -np.inf], np.nan).groupby("n_train")
    parts = {
        "metrics" if model == "embedding" else model: {
            name: _points(sizes[model_prefix(model) + name]) for name in _names(plan)
        }
        for model in map(attrgetter("name"), plan.models)
    }
    design = {"sizes": list(settings.train_sizes), "n_draws": settings.n_draws, "unit": "subject"}
    curve = LearningCurve.model_validate(design | parts, context="writing")
    return Measurement({LearningCurve.key: curve}, {"learning_curve": table})


def _fit(plan: Plan, split: Split, train: npt.NDArray[np.intp], seed: int) -> dict[str, float]:
    """Fit every model to the rows `train`, and return its metrics on the test rows of `split`.

    A metric's key is the name of the metric after the model's prefix, such as ``voxels_auc``; the
    embedding has no prefix.
    """
    metrics: dict[str, float] = {}
    for model in plan.models:
        drawn = replace(split, train=train, validation=None)
        decided = model.predict(plan.target, drawn, replace(plan.context, seed=seed))
        truth = plan.target.values[split.test]
        values = compute_metrics(
            plan.target.kind, truth, decided.scores, decisions=decided.decisions
        )
        metrics |= {
            model_prefix(model.name) + name: float(values[name][0]) for name in _names(plan)
        }
    return metrics


def _names(plan: Plan) -> list[str]:
    """Return the names of the target's metrics that get a learning curve.

    Left out are metrics of which neither more nor less is better, such as the calibration slope,
    and metrics that are computed only for all folds together, such as ``auc_within_fold``.
    """
    # A calibration slope of a few scans can be anything, and its mean over folds tells nothing.
    return [
        name
        for name in plan.target.metric_names
        if name not in POOLED_ONLY and name not in DESCRIPTIVE
    ]


def _points(sizes: Any) -> list[dict[str, Any]]:
    """Return the points of one metric's learning curve as dicts, one for each training size.

    The keys are the fields of `LearningPoint`. `sizes` holds the metric's values in all fits,
    grouped by the number of training subjects; a point has the mean, standard deviation and number
    of the group's finite values.
    """
    summary = sizes.agg(["mean", "std", "count"])
    return [
        {"n_train": size, "mean": finite_or_none(mean), "sd": finite_or_none(sd), "n": int(n)}
        for size, mean, sd, n in summary.itertuples()
    ]


def draw_of_split(
    table: pd.DataFrame, target: Target, split: Split, draw: int, seed: int
) -> npt.NDArray[np.str_]:
    """Return a split's training subjects in a random order, for one draw of a learning curve.

    For a training size n, models are fitted to the first n subjects. `draw` is the draw's number.
    """
    rows = split.train
    key = derive_seed("learning-curve", seed, split.repeat, split.fold, draw)
    subjects = table["subject_id"].to_numpy(dtype=object)[rows]
    return draw_order(target.subset(rows), site_names(table["site"])[rows], subjects, seed=key)


def draw_order(
    target: Target, sites: npt.ArrayLike, subjects: npt.NDArray[np.object_], *, seed: int
) -> npt.NDArray[np.str_]:
    """Order subjects at random; the first k, for any k, have the same shares of classes and sites.

    `sites` and `subjects` have an entry for each scan. The number of subjects of a class among the
    first k is within one of the class's share of k. A continuous target is stratified by site only.
    """
    owners = subjects.astype(str)
    places = np.unique(sites, return_inverse=True)[1]
    site_of = subject_values(places, owners)
    class_of = (
        np.zeros(len(site_of))
        if target.kind == "continuous"
        else subject_values(target.values, owners)
    )
    generator = derive_generator("draw", seed)
    chance = generator.random(len(site_of))
    within_site = _interleaved([class_of, site_of], chance, generator)
    return np.unique(owners)[
        np.argsort(_interleaved([class_of], within_site, generator), kind="stable")
    ]


def _interleaved(
    keys: list[npt.NDArray[np.float64]],
    order_by: npt.NDArray[np.float64],
    generator: np.random.Generator,
) -> npt.NDArray[np.float64]:
    """Return a number from 0 to 1 for each subject, by which sorting spreads groups evenly.

    Subjects with equal values in all of `keys`, such as class and site, are one group. Within a
    group, subjects stay in the order of the values `order_by`, one for each subject.
    """
    groups = np.unique(np.column_stack(keys), axis=0, return_inverse=True)[1].ravel()
    sizes = np.bincount(groups)
    ranks = pd.Series(order_by).groupby(groups).rank(method="first").to_numpy() - 1
    return (ranks + generator.random(len(sizes))[groups]) / sizes[groups]


def tabulate_curves(curves: Mapping[str, Mapping[str, Sequence[LearningPoint]]]) -> pd.DataFrame:
    """Tabulate learning curves of several models: a row for each model, metric and size.

    `curves` is name of a model → name of a metric → points. Columns are ``model``, ``metric``,
    ``n_train`` (training subjects), ``mean`` and ``sd`` of the metric over all fits of this size
    (in every draw of subjects and every fold), and ``n``, the number of fits with a finite value.
    """
    rows = [
        {"model": model, "metric": metric, **point.model_dump()}
        for model, metrics in curves.items()
        for metric, points in metrics.items()
        for point in points
    ]
    columns = ["model", "metric", "n_train", "mean", "sd", "n"]
    return pd.DataFrame(rows, columns=columns).astype({"mean": float, "sd": float})
