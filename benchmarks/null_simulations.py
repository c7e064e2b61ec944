"""Do tests reject, and do intervals cover, as often as they say? Simulated cohorts whose truth is known.

    python -m benchmarks.null_simulations [--n-cohorts 2000]

Tests: the share of cohorts without any effect in which p ≤ 0.05; 0.05 is right, more is wrong, less
is cautious. Intervals: the share of cohorts in which a 95 % interval holds the true value. Every
cohort has a seed of its own. The tests of this package run the same functions on fewer cohorts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from scipy import stats
from sklearn.metrics import roc_auc_score

from neurocontrast.evaluation.fit.out_of_fold import OutOfFold, cross_validate
from neurocontrast.evaluation.measure.significance import corrected_resampled_t, permutation_test
from neurocontrast.evaluation.measure.tables import calibration_table
from neurocontrast.evaluation.measure.uncertainty import Resampling, bootstrap_metrics
from neurocontrast.evaluation.plan.models import ProbeModel
from neurocontrast.evaluation.probes.designs import FeatureDesign, one_thread
from neurocontrast.evaluation.probes.fitting import FitContext
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import leave_site_out, stratified
from neurocontrast.evaluation.target import Target

LEVEL = 0.05
FAST = EvaluationSettings(
    n_permutations=19, n_inner_folds=2, C=(1e-3, 1e-1), alpha=(1.0, 100.0), n_folds=4
)
CLASSES = ("control", "patient")


def share(outcomes: Iterator[bool]) -> float:
    return float(np.mean(list(outcomes)))


# Permutation test: sites differ in their share of patients and in their features; within a site,
# labels are random.


def confounded_cohort(seed: int, *, kind: str, n: int = 80) -> tuple[Target, list[str], np.ndarray]:
    generator = np.random.default_rng(seed)
    sites = generator.integers(4, size=n)
    features = generator.normal(size=(n, 4)) + 1.5 * generator.normal(size=(4, 4))[sites]
    names = [f"site-{site}" for site in sites]
    if kind == "continuous":
        return (
            Target("age", "continuous", 20.0 * sites + generator.normal(0, 10, n)),
            names,
            features,
        )
    codes = (generator.random(n) < np.array([0.2, 0.4, 0.6, 0.8])[sites]).astype(int)
    return Target("diagnosis", "binary", codes, CLASSES, "patient"), names, features


def permutation_p(
    seed: int,
    *,
    kind: str = "binary",
    scheme: str = "within site and fold",
    n_permutations: int = FAST.n_permutations,
) -> float:
    """Return p of one null cohort: of the AUC, or of the mean absolute error."""
    target, sites, features = confounded_cohort(seed, kind=kind)
    subjects = np.arange(len(sites)).astype(str).astype(object)
    settings = FAST.model_copy(update={"seed": seed, "n_permutations": n_permutations})
    deal = partial(
        stratified, sites=sites, subjects=subjects, n_folds=settings.n_folds, n_repeats=1
    )
    splits = deal(target, seed=seed)
    if scheme == "leave site out":
        splits = leave_site_out(sites, subjects, names=list(subjects))
    model = ProbeModel("embedding", FeatureDesign(features))
    with one_thread():
        within = [None] * len(sites) if scheme == "over all sites" else sites
        context = FitContext(subjects, settings, seed, np.array(within, dtype=object))
        predictions = cross_validate(model, target, splits, context)
        found = permutation_test(
            model,
            target,
            splits,
            predictions,
            context,
            redeal=(lambda labels, number: deal(labels, seed=1000 + number))
            if scheme == "folds dealt anew"
            else None,
        )
    return found.p_values["auc_within_fold" if kind == "binary" else "mae"] or 1.0


# Two models.


def fold_differences(seed: int, *, n: int = 60, n_repeats: int = 10) -> np.ndarray:
    """Return differences in accuracy of two useless classifiers, over repeated five folds."""
    generator = np.random.default_rng(seed)
    x, y = generator.normal(size=(n, 2)), np.arange(n) % 2
    differences = []
    for _ in range(n_repeats):
        folds = generator.permutation(n) % 5
        for fold in range(5):
            train, test = folds != fold, folds == fold
            cuts = [x[train & (y == code)].mean(axis=0) for code in (0, 1)]
            right = ((np.abs(x[test] - cuts[1]) < np.abs(x[test] - cuts[0])) == y[test, None]).mean(
                axis=0
            )
            differences.append(right[0] - right[1])
    return np.array(differences)


def corrected_p(seed: int) -> float:
    return corrected_resampled_t(fold_differences(seed), n_train=48, n_test=12)


def plain_p(seed: int) -> float:
    return float(stats.ttest_1samp(fold_differences(seed), 0).pvalue)


# Intervals of given predictions: the population's value is known.


def scored_people(
    seed: int, *, n: int, area: float = 0.8, n_sessions: int = 1
) -> tuple[Target, OutOfFold, np.ndarray]:
    """Return people whose logits are calibrated and have a known AUC; sessions of a subject are alike."""
    generator = np.random.default_rng(seed)
    distance = np.sqrt(2) * stats.norm.ppf(area)
    codes = (generator.random(n) < 0.5).astype(int)
    if min(codes.sum(), n - codes.sum()) < 2:
        return scored_people(seed + 10**6, n=n, area=area, n_sessions=n_sessions)
    own, alike = generator.normal(size=n), 0.0 if n_sessions == 1 else 0.9
    parts = [
        np.sqrt(alike) * own + np.sqrt(1 - alike) * generator.normal(size=n)
        for _ in range(n_sessions)
    ]
    logits = np.concatenate([distance * (distance * (codes - 0.5) + part) for part in parts])
    scores = 1 / (1 + np.exp(-logits))
    target = Target("diagnosis", "binary", np.tile(codes, n_sessions), CLASSES, "patient")
    subjects = np.tile(np.arange(n), n_sessions).astype(str).astype(object)
    return target, as_predictions(scores, (scores >= 0.5).astype(np.int64)), subjects


def as_predictions(scores: np.ndarray, decisions: np.ndarray) -> OutOfFold:
    return OutOfFold(scores[None], decisions[None], np.zeros((1, len(scores)), dtype=np.intp))


def true_values(area: float) -> dict[str, float]:
    target, model, _ = scored_people(0, n=400_000, area=area)
    scores, truth = model.scores[0], target.values
    return {
        "auc": area,
        "balanced_accuracy": float(stats.norm.cdf(stats.norm.ppf(area) / np.sqrt(2))),
        "brier": float(((scores - truth) ** 2).mean()),
        "calibration_slope": 1.0,
    }


def bootstrap_covers(
    seed: int,
    *,
    metric: str,
    n: int,
    truth: float,
    area: float = 0.8,
    n_sessions: int = 1,
    cluster: bool = True,
) -> bool:
    target, model, subjects = scored_people(seed, n=n, area=area, n_sessions=n_sessions)
    units = subjects if cluster else np.arange(len(subjects)).astype(str).astype(object)
    drawn = bootstrap_metrics(target, {"m": model}, Resampling(units, 500, seed), names=(metric,))[
        "m"
    ][metric]
    low, high = drawn.interval(level=1 - LEVEL) or (np.nan, np.nan)
    return bool(low <= truth <= high)


def number_covers(seed: int, *, metric: str, n: int, truth: float) -> bool:
    """Say the same of a number that is predicted with an error of 8, 15 being its spread."""
    generator = np.random.default_rng(seed)
    values = generator.normal(50, 15, n)
    target, model = Target("age", "continuous", values), values + generator.normal(0, 8, n)
    predictions = as_predictions(model, np.zeros(n, dtype=np.int64))
    subjects = np.arange(n).astype(str).astype(object)
    drawn = bootstrap_metrics(
        target, {"m": predictions}, Resampling(subjects, 500, seed), names=(metric,)
    )
    low, high = drawn["m"][metric].interval(level=1 - LEVEL) or (np.nan, np.nan)
    return bool(low <= truth <= high)


def bins_cover(seed: int, *, n: int = 200) -> float:
    """Return the share of calibration bins whose interval holds the true mean probability of its people."""
    target, model, subjects = scored_people(seed, n=n)
    table = calibration_table(target, {"m": model}, subjects, level=1 - LEVEL)
    # The scores are the true probabilities, so the mean prediction is what the observed share
    # estimates.
    truth = table["mean_predicted"]
    return float(((table["observed_low"] <= truth) & (truth <= table["observed_high"])).mean())


# The interval of an evaluation, probes included: does it hold what such probes reach on average, on
# new people?


def nested_result(seed: int, *, n: int = 80) -> tuple[tuple[float, float], float]:
    """Return the interval of the pooled AUC within folds, and the AUC of the same probes on new people."""
    generator = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    shift = np.array([0.8, 0.5, 0.3, 0, 0, 0, 0, 0])
    features = generator.normal(size=(n, 8)) + shift * codes[:, None]
    more = np.arange(2000) % 2
    new = generator.normal(size=(2000, 8)) + shift * more[:, None]
    target = Target("diagnosis", "binary", np.concatenate([codes, more]), CLASSES, "patient")
    subjects = np.arange(n + 2000).astype(str).astype(object)
    own = replace(target, values=codes)
    splits = stratified(own, ["a"] * n, subjects[:n], n_folds=5, n_repeats=1, seed=seed)
    wide = [
        replace(split, test=np.concatenate([split.test, np.arange(n, n + 2000)]))
        for split in splits
    ]
    model, areas = ProbeModel("embedding", FeatureDesign(np.concatenate([features, new]))), []
    scores = np.zeros(n)
    for split in wide:
        context = FitContext(subjects, FAST, FAST.seed)
        found = cross_validate(model, target, [replace(split, fold=0)], context)
        areas.append(roc_auc_score(more, found.scores[0, n:]))
        inside = split.test[split.test < n]
        scores[inside] = found.scores[0, inside]
    folds = np.zeros((1, n), dtype=np.intp)
    for split in splits:
        folds[0, split.test] = split.fold
    pooled = OutOfFold(scores[None], np.zeros((1, n), dtype=np.int64), folds)
    drawn = bootstrap_metrics(
        own, {"m": pooled}, Resampling(subjects[:n], 500, seed), names=("auc_within_fold",)
    )
    return drawn["m"]["auc_within_fold"].interval(level=0.95) or (np.nan, np.nan), float(
        np.mean(areas)
    )


def nested_coverage(n_cohorts: int) -> tuple[float, float]:
    """Return how often the interval holds the AUC of its own probes, and that of such probes on average."""
    with one_thread():
        found = [nested_result(seed) for seed in range(n_cohorts)]
    average = np.mean([area for _, area in found])
    own = np.mean([low <= area <= high for (low, high), area in found])
    return float(own), float(np.mean([low <= average <= high for (low, high), _ in found]))


def rows(n: int) -> Iterator[tuple[str, str, Callable[[], float]]]:
    def rejected(p: Callable[[int], float], part: int = 1) -> Callable[[], float]:
        return lambda: share(p(seed) <= LEVEL + 1e-12 for seed in range(n // part))

    def covered(covers: Callable[[int], float], part: int = 1) -> Callable[[], float]:
        return lambda: float(np.mean([covers(seed) for seed in range(n // part)]))

    for scheme in ("within site and fold", "folds dealt anew", "leave site out", "over all sites"):
        # One by one is slow, and the last is wrong by so much that few cohorts show it.
        part = 1 if scheme in ("within site and fold", "leave site out") else 4
        name = "permutation test, classes differing between sites: "
        yield "size", name + scheme, rejected(partial(permutation_p, scheme=scheme), part)
    yield (
        "size",
        "permutation test, age differing between sites",
        rejected(partial(permutation_p, kind="continuous")),
    )
    yield "size", "corrected resampled t-test, 10 × 5 folds, n = 60", rejected(corrected_p)
    yield "size", "plain t-test of the same folds, for comparison", rejected(plain_p)
    for area in (0.8, 0.95):
        truths = true_values(area)
        for n_scans in (40, 80, 200):
            name = f"AUC {area}, n = {n_scans}"
            covers = partial(bootstrap_covers, metric="auc", n=n_scans, truth=area, area=area)
            yield "coverage", f"bootstrap, {name}", covered(covers)
    truths = true_values(0.8)
    for metric in ("balanced_accuracy", "brier", "calibration_slope"):
        for n_scans in (40, 200):
            covers = partial(bootstrap_covers, metric=metric, n=n_scans, truth=truths[metric])
            yield "coverage", f"bootstrap, {metric}, n = {n_scans}", covered(covers)
    for metric, truth in (("mae", 8 * np.sqrt(2 / np.pi)), ("r2", 1 - 8**2 / 15**2)):
        for n_scans in (40, 200):
            covers = partial(number_covers, metric=metric, n=n_scans, truth=truth)
            yield "coverage", f"bootstrap, {metric}, n = {n_scans}", covered(covers)
    for cluster in (True, False):
        covers = partial(
            bootstrap_covers, metric="auc", n=60, truth=0.8, n_sessions=3, cluster=cluster
        )
        name = "subjects" if cluster else "scans as if they were subjects, for comparison"
        yield "coverage", f"bootstrap of {name}: AUC, 60 subjects × 3 sessions", covered(covers)
    yield "coverage", "calibration bins (Wilson), n = 200", covered(bins_cover)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-cohorts", type=int, default=2000)
    n = parser.parse_args().n_cohorts
    print(f"{n:,} cohorts a row (a quarter of that where permutations have folds of their own). A share of 0.05 of "
          f"{n:,} has a standard error of {np.sqrt(0.05 * 0.95 / n):.3f}.\n")  # fmt: skip
    print("| | | share of cohorts | s |")
    print("|---|---|---|---|")
    for what, name, simulate in rows(n):
        start = time.perf_counter()
        found = simulate()
        print(f"| {what} | {name} | {found:.3f} | {time.perf_counter() - start:.0f} |", flush=True)
    start = time.perf_counter()
    own, average = nested_coverage(n // 2)
    print(
        f"| coverage | pooled AUC of 5 folds, n = 80: of the probes that were fitted | {own:.3f} | |"
    )
    print(
        f"| coverage | … of such probes on average | {average:.3f} | {time.perf_counter() - start:.0f} |"
    )


if __name__ == "__main__":
    main()
