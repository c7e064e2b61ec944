"""Tables that show a cohort: who is where, what was predicted, and a map of the features."""

from __future__ import annotations

import os
import warnings

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.splits import Split, parts_of
from neurocontrast.evaluation.table import NO_SITE
from neurocontrast.evaluation.target import Target
from neurocontrast.optional import is_installed, require
from neurocontrast.seeds import derive_generator, derive_seed

__all__ = ["cohort_table", "draw_map", "example_scans", "map_table", "part_table", "prediction_table"]

MIN_UMAP_SCANS = 15
MAX_MAP_IMAGES = 2000
"""Of more tested images so many are drawn for the map: more points than this hide one another."""


def cohort_table(table: pd.DataFrame, target: Target) -> pd.DataFrame:
    """Return scans per site × class, or the distribution of a continuous target per site."""
    sites = table["site"].fillna(NO_SITE).rename("site")
    if target.kind == "continuous":
        values = pd.Series(target.values.astype(float), index=table.index).groupby(sites)
        counted = values.agg(["size", "mean", "std", "min", "max"])
        return counted.rename(columns={"size": "n", "std": "sd"}).reset_index()
    labels = pd.Categorical(target.labels(), categories=target.classes)
    counts = pd.crosstab(sites, labels).reindex(columns=list(target.classes), fill_value=0)
    counts.columns = pd.Index(list(target.classes))
    return counts.assign(total=counts.sum(axis=1)).reset_index()


def part_table(target: Target, split: Split) -> pd.DataFrame:
    """Return rows per class and part of the fixed design, or the numbers of a continuous target in each part."""
    parts = parts_of(split)
    if target.kind == "continuous":
        values = {name: pd.Series(target.values[rows].astype(float)) for name, rows in parts.items() if len(rows)}
        return pd.DataFrame(
            [{"part": name, "n": len(each), "mean": each.mean(), "sd": each.std()} for name, each in values.items()]
        )
    n = len(target.classes)
    counts = {name: np.bincount(target.values[rows], minlength=n) for name, rows in parts.items()}
    return pd.DataFrame({target.name: list(target.classes), **counts})


def prediction_table(
    table: pd.DataFrame, target: Target, models: dict[str, OutOfFold], *, with_paths: bool = False
) -> pd.DataFrame:
    """Return one row a tested scan and repeat: who, where, the truth, and what was predicted.

    On request also its file, without the folder: the table travels, and folders can name people.
    """
    embedding, beside = models["embedding"], {name: model for name, model in models.items() if name != "embedding"}
    labels = np.array(target.classes, dtype=object)
    parts = []
    for repeat, folds in enumerate(embedding.folds):
        rows = np.flatnonzero(folds >= 0)
        shown = ["participant_id", "subject_id", "session", "site", "age", "sex"]
        part = table.loc[rows, [*shown, "path"] if with_paths else shown].copy()
        if with_paths:
            part["path"] = part["path"].map(os.path.basename, na_action="ignore")
        part["repeat"], part["fold"] = repeat, folds[rows]
        part["y_true"] = target.labels()[rows]
        if target.kind == "multiclass":
            part["y_score"] = _score_of_truth(embedding, target, repeat, rows)
            for name, model in beside.items():
                part[f"{name}_score"] = _score_of_truth(model, target, repeat, rows)
        else:
            part["y_score"] = embedding.scores[repeat, rows]
            for name, model in beside.items():
                part[f"{name}_score"] = model.scores[repeat, rows]
        if target.kind != "continuous":
            part["y_pred"] = labels[embedding.decisions[repeat, rows]]
        if target.kind == "multiclass":
            names = [f"score_{name}" for name in target.classes]
            scores = pd.DataFrame(embedding.scores[repeat, rows], columns=names, index=part.index)
            part = pd.concat([part, scores], axis=1)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def map_table(
    table: pd.DataFrame, target: Target, features: npt.NDArray[np.floating], *, seed: int, umap: bool = True
) -> pd.DataFrame:
    """Return two principal components of the standardised features, and UMAP where it is installed.

    The map is for looking: it is fitted on all scans and no figure is computed from it.
    """
    standard = StandardScaler().fit_transform(features.astype(float))
    n_components = min(2, *standard.shape)
    points = np.zeros((len(standard), 2))
    points[:, :n_components] = PCA(n_components, svd_solver="full").fit_transform(standard)
    shown = table[["participant_id", "session", "site", "age", "sex"]].copy()
    shown["target"] = target.labels()
    shown["pc1"], shown["pc2"] = points.T
    if umap and len(table) >= MIN_UMAP_SCANS and is_installed("umap"):
        shown["umap1"], shown["umap2"] = _umap(standard, seed).T
    return shown


def draw_map(rows: npt.NDArray[np.intp], *, seed: int) -> npt.NDArray[np.intp]:
    """Return the rows that the map of natural images shows, in order: all, or `MAX_MAP_IMAGES` of them."""
    if len(rows) <= MAX_MAP_IMAGES:
        return rows
    return np.sort(derive_generator("map", seed).permutation(rows)[:MAX_MAP_IMAGES])


def example_scans(table: pd.DataFrame, target: Target, *, n_scans: int = 6) -> pd.DataFrame:
    """Return a few scans, spread over sites and classes, for a reader to look at."""
    sites = table["site"].fillna(NO_SITE).to_numpy()
    if target.kind == "continuous":
        thirds = np.quantile(target.values.astype(float), [1 / 3, 2 / 3])
        groups = list(np.searchsorted(thirds, target.values.astype(float)))
    else:
        groups = list(target.values)
    chosen: list[int] = []
    left = list(range(len(table)))
    while left and len(chosen) < n_scans:
        used = [sites[row] for row in chosen], [groups[row] for row in chosen]
        costs = [used[0].count(sites[row]) + used[1].count(groups[row]) for row in left]
        chosen.append(left.pop(int(np.argmin(costs))))
    return table.loc[sorted(chosen), ["participant_id", "session", "site", "path"]]


def _score_of_truth(
    model: OutOfFold, target: Target, repeat: int, rows: npt.NDArray[np.intp]
) -> npt.NDArray[np.float64]:
    return model.scores[repeat, rows, target.values[rows]]


def _umap(standard: npt.NDArray[np.float64], seed: int) -> npt.NDArray[np.float64]:
    module = require("umap", extra="umap", purpose="the UMAP map")
    state = derive_seed("umap", seed) % 2**32
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a seed makes it run on one core is what is wanted
        return module.UMAP(n_components=2, random_state=state, n_jobs=1).fit_transform(standard)
