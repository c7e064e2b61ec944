"""Score frozen features of real brains: age and sex by linear probes, with intervals over people, place by place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

import neurocontrast
from neurocontrast.embedding import read_embeddings
from neurocontrast.evaluation import BlockScaler

HOME = "london"
N_SHOTS, N_DRAWS = 10, 20
N_BOOTSTRAPS = 2000

Interval = tuple[float, float, float]
"""A figure, and the ends of its 95 % interval."""


def features_of(
    config: dict[str, Any], learned: Path, everybody: Path, folder: Path, cache: Path
) -> np.ndarray:
    """Fit an encoder on a table, unless that is done; return the features of all scans of another."""
    data = {**config["data"], "participants": str(learned), "cache_dir": str(cache)}
    made = folder.with_suffix(".parquet")
    if not made.is_file():
        if not (folder / "encoder.json").is_file():
            neurocontrast.pretrain({**config, "data": data}, out=folder, resume=folder.is_dir())
        config = {"data": {"cache_dir": str(cache), "n_workers": 1}}
        neurocontrast.embed(folder, participants=everybody, out=made, config=config)
    return read_embeddings(made).features.astype(float)


def predictions(
    features: np.ndarray,
    table: pd.DataFrame,
    probed: np.ndarray,
    *,
    sizes: Sequence[int] = (),
    weights: Sequence[float] = (),
    gaussian_process: bool = False,
) -> np.ndarray:
    """Return age and log odds of "male" of all scans, (n, 2), by probes fitted on the probed rows.

    Age by ridge regression, or by a Gaussian process, which far from the people that it knows
    returns to their mean; sex by logistic regression. `sizes` are those of blocks of features that
    are joined: each block gets the same total variance, or the share that `weights` name. The
    rotation to principal components changes no prediction, and makes thousands of features cheap.
    """
    age, male = table["age"].to_numpy(dtype=float), (table["sex"] == "M").to_numpy(dtype=int)
    aged, width = probed & ~np.isnan(age), np.sqrt(features.shape[1])
    kernel = ConstantKernel() * RBF(width, (0.1 * width, 100 * width)) + WhiteKernel(0.3)
    regression = (
        GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=0)
        if gaussian_process
        else RidgeCV(np.logspace(-3, 7, 41))
    )
    scaler = BlockScaler(sizes, weights=weights)
    regress = make_pipeline(scaler, PCA(), regression).fit(features[aged], age[aged])
    logistic = LogisticRegressionCV(
        Cs=np.logspace(-7, 3, 21), cv=5, scoring="neg_log_loss", max_iter=2000, l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )  # fmt: skip
    classify = make_pipeline(scaler, PCA(), logistic).fit(features[probed], male[probed])
    return np.stack([regress.predict(features), classify.decision_function(features)], axis=1)


def score(
    predicted: np.ndarray, table: pd.DataFrame, places: dict[str, np.ndarray]
) -> list[dict[str, Any]]:
    """Return the errors at each place."""
    age, male, rows = table["age"].to_numpy(dtype=float), (table["sex"] == "M").to_numpy(), []
    for place, at in places.items():
        aged, random = at & ~np.isnan(age), np.random.default_rng(0)
        error, shots = predicted[aged, 0] - age[aged], []
        for _ in range(N_DRAWS):
            order = random.permutation(len(error))
            shots.append(np.abs(error[order[N_SHOTS:]] - error[order[:N_SHOTS]].mean()).mean())
        found = {"MAE": np.abs(error).mean(), "bias": error.mean(), "spread": error.std(ddof=1)}
        found |= {
            "spearman": spearmanr(predicted[aged, 0], age[aged]).statistic,
            "MAE, 10 shots": np.nanmean(shots),
        }
        rows.append(
            {
                "place": place,
                "n": int(at.sum()),
                **found,
                "sex AUC": roc_auc_score(male[at], predicted[at, 1]),
            }
        )
    return rows


def resampled(n_people: int, seed: int = 0) -> np.ndarray:
    """Return how often each person is drawn in each bootstrap sample, (N_BOOTSTRAPS, n_people); the first: once each.

    The same people are drawn whatever is measured on them, so that differences are paired.
    """
    drawn = np.random.default_rng([seed, n_people]).multinomial(
        n_people, np.full(n_people, 1 / n_people), N_BOOTSTRAPS
    )
    return np.vstack([np.ones(n_people, dtype=int), drawn])


def mae_of(tested: pd.DataFrame) -> np.ndarray:
    """Return the mean absolute error of age in each bootstrap sample, the first as it is, (1 + N_BOOTSTRAPS,).

    `tested` has columns person, seed, error and more, one row a person and seed: a person's errors
    are averaged over seeds.
    """
    each = tested["error"].abs().groupby(tested["person"]).mean().dropna()
    counts = resampled(len(each))
    return counts @ each.to_numpy() / counts.sum(axis=1)


def auc_of(tested: pd.DataFrame) -> np.ndarray:
    """Return the AUC of sex in each bootstrap sample, the first as it is: the part of pairs, over all seeds.

    NaN: a bootstrap sample of one sex.
    """
    odds = tested.pivot(index="person", columns="seed", values="odds")
    male = tested.groupby("person")["male"].first().loc[odds.index].to_numpy()
    men, women = odds.to_numpy()[male][:, None], odds.to_numpy()[~male][None]
    right = np.nansum(
        np.where(np.isnan(men + women), np.nan, (men > women) + 0.5 * (men == women)), axis=2
    )
    pairs = (~np.isnan(men + women)).sum(axis=2)
    counts = resampled(len(odds), seed=1)
    drawn = counts[:, male], counts[:, ~male]
    of_right, of_all = (
        np.einsum("bi,ij,bj->b", drawn[0], each, drawn[1], optimize=True) for each in (right, pairs)
    )
    return of_right / np.where(of_all > 0, of_all, np.nan)


def interval(samples: np.ndarray) -> Interval:
    """Return the first of some samples, and the 2.5th and 97.5th percentile of the others."""
    low, high = np.nanpercentile(samples[1:], [2.5, 97.5])
    return float(samples[0]), float(low), float(high)


def difference(
    first: pd.DataFrame,
    second: pd.DataFrame,
    places: list[str],
    measure: Callable[[pd.DataFrame], np.ndarray],
) -> Interval:
    """Return by how much a measure of the first system is above that of the second, mean over places, paired."""
    samples = [
        measure(first[first["place"] == at]) - measure(second[second["place"] == at])
        for at in places
    ]
    return interval(np.mean(samples, axis=0))
