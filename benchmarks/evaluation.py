"""How long nested cross-validation takes, beside the plain scikit-learn script, and whether both predict the same.

    python benchmarks/evaluation.py [--n-scans 662] [--n-features 1024] [--n-folds 1]

Simulated features of 8 sites with a weak signal. Both choose among ten values of C on the same five inner folds,
subjects together, on one thread. The plain script is timed twice: as it is usually written (scikit-learn's default
tolerance), and with a tolerance at which its predictions can be compared.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from neurocontrast.evaluation.probes import fit_probe, inner_folds
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split, stratified
from neurocontrast.evaluation.target import Target

SETTINGS = EvaluationSettings()


def simulate(n_scans: int, n_features: int) -> tuple[np.ndarray, Target, list[str], np.ndarray]:
    generator = np.random.default_rng(0)
    codes, sites = generator.integers(2, size=n_scans), generator.integers(8, size=n_scans)
    latent = generator.normal(size=(n_scans, 60)) * np.linspace(2, 0.2, 60)
    latent[:, :3] += 0.5 * codes[:, None]
    features = latent @ generator.normal(size=(60, n_features)) + generator.normal(size=(n_scans, n_features))
    features += generator.normal(size=(8, n_features))[sites]
    target = Target("diagnosis", "binary", codes, ("control", "patient"), "patient")
    return features, target, [f"site-{site}" for site in sites], np.arange(n_scans).astype(str).astype(object)


def plain(features: np.ndarray, target: Target, subjects: np.ndarray, split: Split, tolerance: float) -> np.ndarray:
    pairs = inner_folds(target, split.train, subjects, n_folds=SETTINGS.n_inner_folds, seed=0)
    place = {row: position for position, row in enumerate(split.train)}
    folds = [tuple(np.array([place[row] for row in rows]) for rows in pair) for pair in pairs]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=100_000, tol=tolerance))
    search = GridSearchCV(model, {"logisticregression__C": list(SETTINGS.C)}, cv=folds, scoring="neg_log_loss")
    search.fit(features[split.train], target.values[split.train])
    return search.predict_proba(features[split.test])[:, 1]


def ours(features: np.ndarray, target: Target, subjects: np.ndarray, split: Split) -> np.ndarray:
    def design(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return features[train], features[test]

    return fit_probe(design, target, split.train, split.test, subjects=subjects, settings=SETTINGS, seed=0).scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-scans", type=int, default=662)
    parser.add_argument("--n-features", type=int, default=1024)
    parser.add_argument("--n-folds", type=int, default=1, help="outer folds to run, of 5")
    arguments = parser.parse_args()
    features, target, sites, subjects = simulate(arguments.n_scans, arguments.n_features)
    splits = stratified(target, sites, subjects, n_folds=5, n_repeats=1, seed=0)[: arguments.n_folds]
    methods = {
        "neurocontrast": lambda split: ours(features, target, subjects, split),
        "plain, default tolerance": lambda split: plain(features, target, subjects, split, 1e-4),
        "plain, tolerance 1e-9": lambda split: plain(features, target, subjects, split, 1e-9),
    }
    print(f"{arguments.n_scans} scans × {arguments.n_features} features, {len(splits)} of 5 outer folds, one thread")
    print("| | s a fold | times neurocontrast | largest difference of a probability |")
    print("|---|---|---|---|")
    found, taken = {}, {}
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, predict in methods.items():
            start = time.perf_counter()
            found[name] = np.concatenate([predict(split) for split in splits])
            taken[name] = (time.perf_counter() - start) / len(splits)
            difference = np.abs(found[name] - found["neurocontrast"]).max()
            print(f"| {name} | {taken[name]:.2f} | {taken[name] / taken['neurocontrast']:.1f} | {difference:.0e} |")


if __name__ == "__main__":
    main()
