"""Tabulate an evaluation: cohort, folds, predictions and calibration."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from neurocontrast.evaluation.fit.out_of_fold import OutOfFold
from neurocontrast.evaluation.metrics import POOLED_ONLY, compute_metrics, finite_or_none
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.rows import Floats, Rows, Texts, site_names
from neurocontrast.evaluation.splits.given import split_table
from neurocontrast.evaluation.target import Target

MAX_BINS = 10
SCANS_PER_BIN = 20
"""Number of scans in a bin of the calibration curve. With fewer scans than ten such bins hold,
there are fewer bins, at least two."""


def plan_tables(plan: Plan, predictions: Mapping[str, OutOfFold]) -> dict[str, pd.DataFrame]:
    """Return tables of a plan's scans, folds, predictions and calibration, by the name of the file.

    `predictions` has the out-of-fold predictions of each model, by its name. The table of
    calibration is there only if classes are predicted with probabilities.
    """
    table = plan.table
    target = plan.target
    level = plan.settings.confidence_level
    shown = plan.splits[0].test if plan.fixed else np.arange(len(table))
    tables = {
        "cohort": cohort_table(table, target),
        "flow": plan.flow,
        "splits": split_table(table, plan.splits),
        "scans": _example_scans(table.iloc[shown].reset_index(drop=True), target.subset(shown)),
        "predictions": prediction_table(table, target, predictions, with_paths=plan.fixed),
        "folds": fold_table(plan, predictions),
    }
    if target.kind != "continuous" and target.has_probabilities:
        tables["calibration"] = calibration_table(target, predictions, plan.subjects, level=level)
    return tables


def cohort_table(table: pd.DataFrame, target: Target) -> pd.DataFrame:
    """Tabulate numbers of scans by site and class, or a continuous target's distribution by site.

    `table` has a row for each scan, in the order of the values of `target`.
    """
    sites = pd.Series(site_names(table["site"]), table.index, name="site")
    if target.kind == "continuous":
        values = pd.Series(target.values.astype(float), index=table.index).groupby(sites)
        counted = values.agg(["size", "mean", "std", "min", "max"])
        counted = counted.rename(columns={"size": "n", "std": "sd"})
        counted.insert(1, "n_subjects", table["subject_id"].groupby(sites).nunique())
        return counted.reset_index()
    labels = pd.Categorical(target.labels(), categories=target.classes)
    counts = pd.crosstab(sites, labels).reindex(columns=list(target.classes), fill_value=0)
    counts.columns = pd.Index(list(target.classes))
    return counts.assign(total=counts.sum(axis=1)).reset_index()


def fold_table(plan: Plan, predictions: Mapping[str, OutOfFold]) -> pd.DataFrame:
    """Tabulate the splits: sizes, metrics of every model, and the probe's strength and weight.

    A row is of one split. The strength is that of the penalty. If an encoder keeps principal
    components besides its network's features, the weight is the share of the network's features in
    the total variance of the features; there is no such column for other encoders.
    """
    target = plan.target
    strength = plan.probe.strength_name
    rows = []
    names = [metric for metric in target.metric_names if metric not in POOLED_ONLY]
    for number, split in enumerate(plan.splits):
        truth = target.values[split.test]
        row: dict[str, Any] = {
            "repeat": split.repeat,
            "fold": split.fold,
            "n_train": len(split.train),
            "n_test": len(split.test),
            "n_positive_test": int((truth == 1).sum()) if target.kind == "binary" else None,
        }
        for name, of_model in predictions.items():
            cells = (split.repeat, split.test)
            values = compute_metrics(
                target.kind, truth, of_model.scores[cells], decisions=of_model.decisions[cells]
            )
            row |= {
                model_prefix(name) + metric: finite_or_none(values[metric][0]) for metric in names
            }
        if isinstance(strength, str):
            row[strength] = predictions["embedding"].fits[number].strength
        weight = predictions["embedding"].fits[number].weight
        if weight is not None:
            row[f"weight_{plan.own_blocks[0].name}"] = weight
        rows.append(row | {"held_out_site": split.held_out_site})
    return pd.DataFrame(rows)


def model_prefix(model: str) -> str:
    """Return the prefix of a model's columns in tables, as ``voxels_``; "" for the embedding."""
    return "" if model == "embedding" else f"{model}_"


def prediction_table(
    table: pd.DataFrame,
    target: Target,
    predictions: Mapping[str, OutOfFold],
    *,
    with_paths: bool = False,
) -> pd.DataFrame:
    """Tabulate the predictions: a row for each tested scan and repeat, a column for each model.

    `table` holds the scans in the order of the values of `target`. A model's column has its scores,
    for several classes the score of the true class. Only the embedding's model also has a column of
    decided classes and, for several classes, a column for the scores of each class. `with_paths`
    adds the names of the scans' files.
    """
    embedding = predictions["embedding"]
    labels = np.array(target.classes, dtype=object)
    repeats = []
    scans = table[["participant_id", "subject_id", "session", "site", "age", "sex"]]
    if with_paths:
        scans = scans.assign(path=table["path"].map(os.path.basename, na_action="ignore"))
    for repeat, folds in enumerate(embedding.folds):
        rows = np.flatnonzero(folds >= 0)
        tested = scans.loc[rows].assign(
            repeat=repeat, fold=folds[rows], y_true=target.labels()[rows]
        )
        for name, of_model in predictions.items():
            scores = of_model.scores[repeat, rows]
            if target.kind == "multiclass":
                scores = scores[np.arange(len(rows)), target.values[rows]]
            tested["y_score" if name == "embedding" else f"{name}_score"] = scores
        if target.kind != "continuous":
            tested["y_pred"] = labels[embedding.decisions[repeat, rows]]
        if target.kind == "multiclass":
            names = [f"score_{name}" for name in target.classes]
            tested = tested.join(
                pd.DataFrame(embedding.scores[repeat, rows], columns=names, index=tested.index)
            )
        repeats.append(tested)
    return pd.concat(repeats, ignore_index=True)


def _example_scans(table: pd.DataFrame, target: Target, *, n_scans: int = 6) -> pd.DataFrame:
    """Return rows of a few scans, spread over sites and classes, for the images of a report."""
    sites = site_names(table["site"])
    groups = target.values.tolist()
    if target.kind == "continuous":
        thirds = np.quantile(target.values.astype(float), [1 / 3, 2 / 3])
        groups = np.searchsorted(thirds, target.values.astype(float)).tolist()
    turn = pd.Series(0, index=table.index).groupby([sites, groups]).cumcount().to_numpy()
    chosen = np.argsort(turn, kind="stable")[:n_scans]
    return table.loc[sorted(chosen), ["participant_id", "session", "site", "path"]]


def calibration_table(
    target: Target, predictions: Mapping[str, OutOfFold], subjects: Texts, *, level: float
) -> pd.DataFrame:
    """Tabulate mean prediction and observed share of each model in bins of probability.

    A row is of one model, class and bin, of a binary target only the positive class. A bin holds
    tested scans with neighbouring probabilities; column ``n`` has the number of scans. The ends of
    the interval of the observed share, ``observed_low`` and ``observed_high``, are of
    `wilson_interval`, with the number of subjects in the bin as the number of independent draws:
    several scans of a subject are not independent. `subjects` has the subject of each scan, and
    `level` is that of the interval.
    """
    rows = []
    for model, of_model in predictions.items():
        tested = of_model.tested
        for name, code, scores in _class_scores(target, of_model):
            hits = target.values[tested] == code
            for number, members in enumerate(_equal_count_bins(scores[tested])):
                observed = float(hits[members].mean())
                low, high = wilson_interval(
                    observed, len(set(subjects[tested[members]])), level=level
                )
                row: dict[str, Any] = {"model": model, "bin": number, "n": len(members)}
                row |= {"class": name} if target.kind == "multiclass" else {}
                mean = float(scores[tested][members].mean())
                row |= {
                    "mean_predicted": mean,
                    "observed": observed,
                    "observed_low": low,
                    "observed_high": high,
                }
                rows.append(row)
    return pd.DataFrame(rows)


def _class_scores(target: Target, predictions: OutOfFold) -> Iterator[tuple[str, int, Floats]]:
    """Yield name, code and scores of each class; of a binary target only the positive class.

    A scan's score is the mean over the repeats in which the scan was tested.
    """
    is_tested = predictions.folds >= 0
    for code, name in list(enumerate(target.classes))[1 if target.kind == "binary" else 0 :]:
        scores = predictions.scores if target.kind == "binary" else predictions.scores[..., code]
        yield (
            name,
            code,
            np.where(is_tested, scores, 0.0).sum(axis=0) / np.maximum(is_tested.sum(axis=0), 1),
        )


def _equal_count_bins(scores: Floats) -> list[Rows]:
    """Return calibration bins of about equal size, each as positions in `scores` of its scans."""
    n_bins = int(np.clip(len(scores) // SCANS_PER_BIN, 2, MAX_BINS))
    edges = np.unique(np.quantile(scores, np.arange(1, n_bins) / n_bins, method="inverted_cdf"))
    codes = np.searchsorted(edges, scores, side="left")
    return [np.flatnonzero(codes == code) for code in np.unique(codes)]


def wilson_interval(share: float, n: int, *, level: float) -> tuple[float, float]:
    """Return the ends of the score interval (Wilson, 1927) of a share of `n` independent draws.

    `level` is the interval's level, such as 0.95.

    Examples
    --------
    >>> [round(end, 3) for end in wilson_interval(0.0, 10, level=0.95)]
    [0.0, 0.278]
    """
    z = float(norm.ppf((1 + level) / 2))
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, float(middle - reach)), min(1.0, float(middle + reach))
