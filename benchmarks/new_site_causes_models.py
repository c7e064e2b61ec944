"""Linear models on products of images, tested at home and at a site they never saw, for `new_site_causes.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

__all__ = [
    "PROBES",
    "Fold",
    "People",
    "bias_by_zone",
    "components",
    "folds_of",
    "score",
    "shares",
    "site_accuracy",
]

N_COMPONENTS = 60
N_FOLDS = 4
ALPHAS = np.logspace(-1, 6, 15)
N_BOOTSTRAPS = 200
AGE_BINS = np.array([0, 25, 30, 35, 40, 45, 50, 120])
"""Years; people at home are weighted so that their ages are spread over these as the new site's are."""


@dataclass(frozen=True)
class People:
    """Who is scanned, and which sites a design knows; `home` are the known people that are judged."""

    age: np.ndarray
    male: np.ndarray
    site: np.ndarray
    known: np.ndarray
    home: np.ndarray
    new: np.ndarray


@dataclass(frozen=True)
class Fold:
    """The rows that a model is fitted on, and those known ones that it is not."""

    seed: int
    train: np.ndarray
    left: np.ndarray


def folds_of(people: People, seeds: int) -> list[Fold]:
    rows = np.flatnonzero(people.known)
    found = []
    for seed in range(seeds):
        splits = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(
            rows, people.site[rows]
        )
        found += [Fold(seed, rows[train], rows[left]) for train, left in splits]
    return found


def components(
    products: np.ndarray, train: np.ndarray, n: int = N_COMPONENTS
) -> tuple[np.ndarray, np.ndarray]:
    """Return everyone's principal components by the training rows, and what of the centred rows makes them."""
    of_train = products[:, train]
    centred = of_train - of_train.mean(axis=1, keepdims=True)
    centred = centred - centred[train].mean(axis=0)
    values, vectors = np.linalg.eigh(centred[train])
    n = min(n, int(np.sum(values > 1e-8 * values[-1])))
    makes = vectors[:, ::-1][:, :n] / np.sqrt(values[::-1][:n])
    return centred @ makes, makes


def score(
    products: np.ndarray, people: People, folds: list[Fold], probe: str = "ridge"
) -> tuple[dict[str, float], np.ndarray]:
    """Return home and new-site scores with intervals by resampling people, and the mean error of each new person."""
    fits = [_fit(products, people, fold, PROBES[probe]) for fold in folds]
    home, new = np.flatnonzero(people.home), np.flatnonzero(people.new)
    n_seeds = len({fold.seed for fold in folds})
    of_home, of_home_sex = np.full((2, n_seeds, len(people.age)), np.nan)
    for fold, (years, sexes) in zip(folds, fits, strict=True):
        of_home[fold.seed, fold.left], of_home_sex[fold.seed, fold.left] = (
            years[fold.left],
            sexes[fold.left],
        )
    of_new, of_new_sex = (np.stack([fit[which][new] for fit in fits]) for which in (0, 1))
    weights = age_weights(people.age[home], people.age[new])
    home_error, new_error = of_home[:, home] - people.age[home], of_new - people.age[new]
    draw = np.random.default_rng(0)
    found: dict[str, float] = {"n_home": len(home), "n_new": len(new)}
    median = np.median([np.median(people.age[fold.train]) for fold in folds])
    found["median_mae"] = float(np.abs(median - people.age[new]).mean())
    for name, statistic, n in (
        ("home_mae", lambda i: np.abs(home_error[:, i]).mean(), len(home)),
        (
            "home_like_mae",
            lambda i: _weighted(np.abs(home_error[:, i]).mean(axis=0), weights[i]),
            len(home),
        ),
        (
            "home_like_bias",
            lambda i: _weighted(home_error[:, i].mean(axis=0), weights[i]),
            len(home),
        ),
        ("home_spearman", lambda i: _spearman(of_home[:, home[i]], people.age[home[i]]), len(home)),
        ("home_sex_auc", lambda i: _auc(of_home_sex[:, home[i]], people.male[home[i]]), len(home)),
        ("new_mae", lambda i: np.abs(new_error[:, i]).mean(), len(new)),
        ("new_bias", lambda i: new_error[:, i].mean(), len(new)),
        ("new_mae_centred", lambda i: _centred_mae(new_error[:, i]), len(new)),
        ("new_spearman", lambda i: _spearman(of_new[:, i], people.age[new[i]]), len(new)),
        ("new_sex_auc", lambda i: _auc(of_new_sex[:, i], people.male[new[i]]), len(new)),
    ):
        values = [statistic(draw.integers(0, n, n)) for _ in range(N_BOOTSTRAPS)]
        low, high = np.nanpercentile(values, [2.5, 97.5])
        found |= {
            name: float(statistic(np.arange(n))),
            f"{name}_low": float(low),
            f"{name}_high": float(high),
        }
    by_seed = np.abs(new_error).mean(axis=1).reshape(n_seeds, -1).mean(axis=1)
    found |= {"new_mae_seed_min": float(by_seed.min()), "new_mae_seed_max": float(by_seed.max())}
    return found, new_error.mean(axis=0)


Prober = Callable[[np.ndarray, People, Fold], np.ndarray]


def _fit(
    products: np.ndarray, people: People, fold: Fold, prober: Prober
) -> tuple[np.ndarray, np.ndarray]:
    features, _ = components(products, fold.train)
    sexes = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=2000))
    sexes.fit(features[fold.train], people.male[fold.train])
    return prober(features, people, fold), sexes.decision_function(features)


def _of(*models: BaseEstimator, n: int = N_COMPONENTS) -> Prober:
    def probe(features: np.ndarray, people: People, fold: Fold) -> np.ndarray:
        model = make_pipeline(StandardScaler(), *models).fit(
            features[fold.train, :n], people.age[fold.train]
        )
        return np.asarray(model.predict(features[:, :n]))

    return probe


def _clipped_ages(features: np.ndarray, people: People, fold: Fold) -> np.ndarray:
    seen = people.age[fold.train]
    return np.clip(_of(RidgeCV(ALPHAS))(features, people, fold), seen.min(), seen.max())


def _clipped_features(features: np.ndarray, people: People, fold: Fold) -> np.ndarray:
    low, high = np.percentile(features[fold.train], [2.5, 97.5], axis=0)
    return _of(RidgeCV(ALPHAS))(np.clip(features, low, high), people, fold)


def _by_left_out_site(features: np.ndarray, people: People, fold: Fold) -> np.ndarray:
    """Choose the penalty that does best, by mean over sites, at each known site left out in turn."""
    sites = np.unique(people.site[fold.train])
    if len(sites) < 2:
        return np.full(len(people.age), np.nan)
    errors = np.zeros(len(ALPHAS))
    for site in sites:
        left = fold.train[people.site[fold.train] == site]
        others = Fold(fold.seed, fold.train[people.site[fold.train] != site], left)
        for k, alpha in enumerate(ALPHAS):
            errors[k] += np.abs(
                _of(Ridge(alpha))(features, people, others)[left] - people.age[left]
            ).mean()
    return _of(Ridge(ALPHAS[errors.argmin()]))(features, people, fold)


def _weighted_ages(features: np.ndarray, people: People, fold: Fold) -> np.ndarray:
    """Fit with the training people weighted to the ages of the new site, which must be known for it."""
    weights = age_weights(people.age[fold.train], people.age[people.new])
    model = make_pipeline(StandardScaler(), RidgeCV(ALPHAS))
    model.fit(
        features[fold.train], people.age[fold.train], ridgecv__sample_weight=weights * len(weights)
    )
    return np.asarray(model.predict(features))


def _centred_sites(features: np.ndarray, people: People, fold: Fold) -> np.ndarray:
    """Give every site the mean of the known people; no ages of the new site are needed, all its scans are."""
    moved = features.copy()
    for site in np.unique(people.site):
        rows = people.site == site
        reference = rows & np.isin(np.arange(len(rows)), fold.train)
        moved[rows] -= features[reference if reference.any() else rows].mean(axis=0)
    return _of(RidgeCV(ALPHAS))(moved, people, fold)


class _RadialRidge(BaseEstimator):
    """Kernel ridge around the training mean, the kernel as wide as the features are many."""

    def fit(self, features: np.ndarray, y: np.ndarray) -> _RadialRidge:
        self.mean_ = y.mean()
        gamma = 0.5 / features.shape[1]
        self.model_ = KernelRidge(alpha=0.1, kernel="rbf", gamma=gamma).fit(
            features, y - self.mean_
        )
        return self

    def predict(self, features: np.ndarray) -> np.ndarray:
        return self.mean_ + self.model_.predict(features)


PROBES: dict[str, Prober] = {
    "ridge": _of(RidgeCV(ALPHAS)),
    **{f"ridge, penalty {alpha:g}": _of(Ridge(alpha)) for alpha in (1.0, 10.0, 100.0, 1000.0)},
    "ridge, penalty by left-out site": _by_left_out_site,
    **{f"ridge on {n} components": _of(RidgeCV(ALPHAS), n=n) for n in (5, 10, 20)},
    "ridge, ages clipped to those seen": _clipped_ages,
    "ridge, features clipped to those seen": _clipped_features,
    "kernel ridge (radial)": _of(_RadialRidge()),
    "10 nearest neighbours": _of(KNeighborsRegressor(10)),
    "ridge, weighted to the new site's ages": _weighted_ages,
    "ridge, features centred by site": _centred_sites,
}


def bias_by_zone(
    rows: np.ndarray,
    products: np.ndarray,
    people: People,
    folds: list[Fold],
    zones: Mapping[str, np.ndarray],
) -> dict[str, float]:
    """Split the new site's excess of mean predicted age, over people of its ages at home, among parts of the image.

    A prediction is a sum over voxels, so the parts add up exactly.
    """
    excess = np.zeros(rows.shape[1])
    new = rows[people.new].mean(axis=0)
    for fold in folds:
        features, makes = components(products, fold.train)
        scaler = StandardScaler().fit(features[fold.train])
        ridge = RidgeCV(ALPHAS).fit(scaler.transform(features[fold.train]), people.age[fold.train])
        # The columns of `makes` sum to 0, so that the training rows need not be centred.
        weights = rows[fold.train].T @ (makes @ (ridge.coef_ / scaler.scale_)).astype(np.float32)
        left = fold.left[people.home[fold.left]]
        alike = age_weights(people.age[left], people.age[people.new]).astype(np.float32)
        excess += weights * (new - alike @ rows[left]) / len(folds)
    return {name: float(excess[zone.ravel()].sum()) for name, zone in zones.items()} | {
        "sum": float(excess.sum())
    }


def age_weights(ages: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return weights that sum to 1 and give `ages` the distribution of `wanted` over `AGE_BINS`."""
    bins, of_wanted = np.digitize(ages, AGE_BINS), np.digitize(wanted, AGE_BINS)
    outside = (ages < wanted.min() - 1) | (ages > wanted.max() + 1)
    weights = np.zeros(len(ages))
    for each in np.unique(of_wanted):
        rows = (bins == each) & ~outside
        if rows.any():
            weights[rows] = np.mean(of_wanted == each) / np.sum(rows)
    return weights / weights.sum()


def _weighted(values: np.ndarray, weights: np.ndarray) -> float:
    return float(np.average(values, weights=weights)) if weights.sum() > 0 else float("nan")


def _centred_mae(errors: np.ndarray) -> float:
    return float(np.abs(errors - np.median(errors, axis=1, keepdims=True)).mean())


def _spearman(predicted: np.ndarray, age: np.ndarray) -> float:
    ranks, wanted = rankdata(predicted, axis=1), rankdata(age)
    ranks, wanted = ranks - ranks.mean(axis=1, keepdims=True), wanted - wanted.mean()
    return float(np.mean(ranks @ wanted / np.linalg.norm(ranks, axis=1) / np.linalg.norm(wanted)))


def _auc(scores: np.ndarray, male: np.ndarray) -> float:
    n = int(male.sum())
    if n in (0, len(male)):
        return float("nan")
    ranks = rankdata(scores, axis=1)[:, male == 1].sum(axis=1)
    return float(np.mean((ranks - n * (n + 1) / 2) / (n * (len(male) - n))))


def site_accuracy(products: np.ndarray, people: People) -> float:
    """Return how well sites are told apart, cross-validated, by the principal components of all scans."""
    features, _ = components(products, np.arange(len(people.site)))
    probe = make_pipeline(
        StandardScaler(), LogisticRegression(C=0.01, class_weight="balanced", max_iter=2000)
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    guessed = cross_val_predict(probe, features, people.site, cv=folds)
    return float(balanced_accuracy_score(people.site, guessed))


def shares(
    values: Mapping[frozenset[str], float], repairs: tuple[str, ...]
) -> dict[str, tuple[float, float, float]]:
    """Return what each repair takes away of a value: the mean over all orders of repairing, the least, the most.

    The means are Shapley values: they sum to the difference between nothing and everything
    repaired.
    """
    gains: dict[str, list[float]] = {repair: [] for repair in repairs}
    for order in permutations(repairs):
        done: frozenset[str] = frozenset()
        for repair in order:
            gains[repair].append(values[done] - values[done | {repair}])
            done |= {repair}
    return {
        repair: (math.fsum(each) / len(each), min(each), max(each))
        for repair, each in gains.items()
    }
