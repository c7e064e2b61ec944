"""What `new_site.py` measures of frozen features: age, sex and site, where the probe knows the site and where not."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeCV
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

__all__ = ["age_scores", "score_fold"]


def score_fold(features: np.ndarray, table: pd.DataFrame) -> dict[str, float]:
    """Probe age and sex from the pretraining scans; tell sites apart among people that pretraining never saw.

    Parameters
    ----------
    features : ndarray (n, p)
        One row a scan of `table`, which has the columns use (pretrain, home, new), age, sex and
        site.
    """
    use = table["use"].to_numpy(dtype=object)
    age = pd.to_numeric(table["age"], errors="coerce").to_numpy(dtype=float)
    sex = (table["sex"].to_numpy(dtype=object) == "M").astype(int)
    train = use == "pretrain"
    years = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 6, 15))).fit(
        features[train], age[train]
    )
    sexes = make_pipeline(
        StandardScaler(), LogisticRegressionCV(Cs=np.logspace(-5, 1, 7), cv=5, max_iter=2000)
    )
    sexes.fit(features[train], sex[train])
    found: dict[str, float] = {"n_pretrain": int(train.sum())}
    new_ages = age[(use == "new") & np.isfinite(age)]
    for part in ("home", "new"):
        rows = (use == part) & np.isfinite(age)
        found |= age_scores(part, age[rows], years.predict(features[rows]))
        found[f"{part}_median_mae"] = float(np.abs(age[rows] - np.median(age[train])).mean())
        found[f"{part}_sex_auc"] = _auc(
            sex[use == part], sexes.decision_function(features[use == part])
        )
    like = (use == "home") & (age >= new_ages.min()) & (age <= new_ages.max())
    found["home_like_mae"] = float(np.abs(years.predict(features[like]) - age[like]).mean())
    return found | _site_scores(
        features[~train], table["site"].to_numpy(dtype=object)[~train].astype(str)
    )


def age_scores(part: str, age: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return number, error, bias and rank correlation of predicted ages, named by the part of the scans."""
    error = predicted - age
    return {
        f"{part}_n": len(age),
        f"{part}_age_mae": float(np.abs(error).mean()),
        f"{part}_age_bias": float(error.mean()),
        f"{part}_age_spearman": float(spearmanr(age, predicted).statistic),
    }


def _auc(truth: np.ndarray, score: np.ndarray) -> float:
    return float(roc_auc_score(truth, score)) if len(set(truth)) == 2 else float("nan")


def _site_scores(features: np.ndarray, site: np.ndarray) -> dict[str, float]:
    names, counts = np.unique(site, return_counts=True)
    kept = np.isin(site, names[counts >= 5])
    site, features = site[kept], features[kept]
    probe = make_pipeline(
        StandardScaler(), LogisticRegression(C=0.01, class_weight="balanced", max_iter=2000)
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    guessed = cross_val_predict(probe, features, site, cv=folds)
    return {
        "site_accuracy": float(balanced_accuracy_score(site, guessed)),
        "n_sites": len(set(site)),
    }
