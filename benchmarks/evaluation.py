"""How long an evaluation takes: permutations beside scikit-learn's own test, and the whole beside an earlier state.

    python -m benchmarks.evaluation [--n-scans 662] [--n-features 1024] [--n-permutations 50]
    [--jobs 2] python -m benchmarks.evaluation --before FOLDER [--n-scans 600] python
    benchmarks/evaluation.py --plain [--n-scans 600 --n-features 4608]

Simulated features of 8 sites with a weak signal. In full: five folds, ten times, C chosen among ten
values on five inner folds (subjects together), by scikit-learn; 2,000 bootstraps; permutations of
the whole nested procedure. The plain script (`GridSearchCV` in `permutation_test_score`, a loop of
bootstraps) is run on a share of that, which is printed, and multiplied. One thread each. Then the
peak memory of 10,000 scans in a process of its own.

With `--before`, the folder of a checkout of an earlier commit, the whole evaluation of a diagnosis,
an age and a site is run by both, in turn, and CPU seconds are compared; nothing else.

With `--plain`, one default evaluation of a diagnosis (embedding, baseline, unseen sites, confounds,
outlyingness, intervals) is set next to one nested cross-validation of scikit-learn
(`cross_val_predict` of a `GridSearchCV` in the same folds), in one run, and the ratio of CPU
seconds is printed.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    log_loss,
    roc_auc_score,
)
from sklearn.model_selection import GridSearchCV, cross_val_predict, permutation_test_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from neurocontrast.evaluation.fit.fits import fit, predict_out_of_fold
from neurocontrast.evaluation.measure import measure
from neurocontrast.evaluation.measure.model_figures import metric_summary
from neurocontrast.evaluation.measure.results import permutation_summary
from neurocontrast.evaluation.measure.tables import fold_table
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.plan.planning import plan_evaluation
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import inner_folds
from neurocontrast.progress import SILENT
from neurocontrast.reporting.findings import FINDINGS

WHOLE = """
import sys, time
from threadpoolctl import threadpool_limits
sys.path.append(sys.argv[1])
from evaluation import simulate
from neurocontrast.evaluation import EvaluationSettings, plan_evaluation
from neurocontrast.evaluation.fit.fits import fit
from neurocontrast.evaluation.measure import measure
from neurocontrast.reporting.findings import FINDINGS
table, features = simulate(int(sys.argv[2]), int(sys.argv[3]))
study = plan_evaluation(table, features, settings=EvaluationSettings(target=sys.argv[4]))
with threadpool_limits(limits=1):
    start = time.process_time()
    measure(study, fit(study), FINDINGS)
    print(time.process_time() - start)
"""
"""Run in a process of its own, with the package of one checkout or the other on PYTHONPATH."""


def simulate(n_scans: int, n_features: int) -> tuple[pd.DataFrame, np.ndarray]:
    generator = np.random.default_rng(0)
    codes, sites = generator.integers(2, size=n_scans), generator.integers(8, size=n_scans)
    ages = generator.uniform(20, 80, size=n_scans)
    latent = generator.normal(size=(n_scans, 60)) * np.linspace(2, 0.2, 60)
    latent[:, :3] += 0.5 * codes[:, None]
    latent[:, 3:6] += (ages[:, None] - 50) / 40
    features = latent @ generator.normal(size=(60, n_features)) + generator.normal(
        size=(n_scans, n_features)
    )
    features += generator.normal(size=(8, n_features))[sites]
    names = [f"sub-{row:05d}" for row in range(n_scans)]
    table = pd.DataFrame(
        {"participant_id": names, "subject_id": names, "session": "", "path": "", "age": ages}
    )
    table["sex"] = generator.choice(["F", "M"], size=n_scans)
    table["site"] = [f"site-{site}" for site in sites]
    table["diagnosis"] = np.array(["control", "patient"])[codes]
    return table, features.astype(np.float32)


def make_study(arguments: argparse.Namespace, target: str = "diagnosis", **options: object) -> Plan:
    table, features = simulate(arguments.n_scans, arguments.n_features)
    return plan_evaluation(table, features, settings=EvaluationSettings(target=target, **options))


def timed(work: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def run_ours(arguments: argparse.Namespace, n_jobs: int) -> dict[str, float]:
    plan = make_study(
        arguments,
        n_repeats=arguments.n_repeats,
        n_permutations=arguments.n_permutations,
        n_jobs=n_jobs,
    )
    nested, models = timed(lambda: predict_out_of_fold(plan))
    folds = fold_table(plan, models)
    bootstrap, _ = timed(lambda: metric_summary(plan, folds, models))
    permutation, found = timed(lambda: permutation_summary(plan, models["embedding"], SILENT))
    print(f"(p of the AUC with {n_jobs} process(es): {found.p_values['auc']:.6f})", file=sys.stderr)
    return {"nested": nested, "bootstrap": bootstrap, "permutation": permutation}


def plain_scores(plan: Plan, split: Split) -> np.ndarray:
    """Return probabilities of the test rows, by a grid search over the inner folds."""
    place = {row: position for position, row in enumerate(split.train)}
    inner = inner_folds(
        plan.target, split.train, plan.subjects, n_folds=plan.settings.n_inner_folds, seed=0
    )
    pairs = [tuple(np.array([place[row] for row in rows]) for rows in pair) for pair in inner]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=100_000))
    search = GridSearchCV(
        model, {"logisticregression__C": list(plan.settings.C)}, cv=pairs, scoring="neg_log_loss"
    ).fit(plan.features[split.train].astype(float), plan.target.values[split.train])
    return search.predict_proba(plan.features[split.test].astype(float))[:, 1]


def plain_permutations(plan: Plan, n_permutations: int) -> float:
    """Return seconds of one round of the nested procedure within scikit-learn's own permutation test."""
    pairs = [(split.train, split.test) for split in plan.splits if split.repeat == 0]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=100_000))
    search = GridSearchCV(
        model, {"logisticregression__C": list(plan.settings.C)}, cv=5, scoring="neg_log_loss"
    )
    sites, features = plan.table["site"].to_numpy(dtype=str), plan.features.astype(float)
    seconds, _ = timed(
        lambda: permutation_test_score(
            search, features, plan.target.values, groups=sites, cv=pairs, n_permutations=n_permutations,
            scoring="roc_auc", random_state=0,
        )
    )  # fmt: skip
    return seconds / (1 + n_permutations)


def plain_bootstrap(truth: np.ndarray, scores: np.ndarray, n_bootstraps: int) -> float:
    """Return seconds of one resample of one repeat of one model."""
    generator = np.random.default_rng(0)

    def loop() -> None:
        for _ in range(n_bootstraps):
            rows = generator.integers(len(truth), size=len(truth))
            for metric in (roc_auc_score, average_precision_score, brier_score_loss, log_loss):
                metric(truth[rows], scores[rows])
            balanced_accuracy_score(truth[rows], scores[rows] >= 0.5)

    return timed(loop)[0] / n_bootstraps


def compare_in_full(arguments: argparse.Namespace) -> None:
    ours = {jobs: run_ours(arguments, jobs) for jobs in sorted({1, arguments.jobs})}
    plan = make_study(arguments)
    split, truth = plan.splits[0], plan.target.values
    fold, scores = timed(lambda: plain_scores(plan, split))
    round_ = plain_permutations(plan, arguments.plain_permutations)
    resample = plain_bootstrap(truth[split.test], scores, 50) * len(truth) / len(split.test)
    n_repeats, n_permutations = arguments.n_repeats, arguments.n_permutations
    plain = {
        "nested": fold * 5 * n_repeats,
        "bootstrap": resample * plan.settings.n_bootstraps * n_repeats,
        "permutation": round_ * n_permutations,
    }
    names = {
        "nested": f"5 folds × {n_repeats} repeats, nested",
        "bootstrap": f"{plan.settings.n_bootstraps:,} bootstraps",
        "permutation": f"{n_permutations:,} permutations of 5 folds, nested",
    }
    print(
        f"\n{arguments.n_scans} scans × {arguments.n_features} features, 8 sites. Plain: measured on 1 fold of "
        f"{5 * n_repeats}, {1 + arguments.plain_permutations} of {1 + n_permutations} rounds of the permutation "
        "test, 50 resamples of one fold's predictions, and multiplied. Ours: measured in full, the baseline on "
        "age, sex and site included.\n"
    )
    columns = [f"ours, {jobs} process{'es' if jobs > 1 else ''}" for jobs in ours]
    print(f"| s | plain (1 process) | {' | '.join(columns)} | plain / ours, 1 process |")
    print("|---" * (len(columns) + 3) + "|")
    for key in [*names, None]:
        p, *o = (part[key] if key else sum(part.values()) for part in (plain, *ours.values()))
        print(
            f"| {names.get(key, '**all**')} | {p:,.0f} | {' | '.join(f'{x:.1f}' for x in o)} | {p / o[0]:.0f} |"
        )


def measure_memory(arguments: argparse.Namespace) -> None:
    plan = make_study(arguments, n_permutations=arguments.n_permutations, n_jobs=arguments.jobs)
    seconds, models = timed(lambda: predict_out_of_fold(plan))
    folds = fold_table(plan, models)
    metric_summary(plan, folds, models)
    taken, _ = timed(lambda: permutation_summary(plan, models["embedding"], SILENT))
    own, child = (
        resource.getrusage(who).ru_maxrss / 2**20
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(json.dumps({"nested": seconds, "permutations": taken, "own": own, "child": child}))


def report_memory(arguments: argparse.Namespace) -> None:
    print(
        f"\n{arguments.large:,} scans × {arguments.n_features} features: 5 folds, 2,000 bootstraps, 16 permutations\n"
    )
    print(
        "| processes | peak memory, GiB (each further process) | nested, s | 16 permutations, s |"
    )
    print("|---|---|---|---|")
    for jobs in sorted({1, arguments.jobs}):
        command = [
            sys.executable, __file__, "--memory", "--n-scans", str(arguments.large), "--n-features",
            str(arguments.n_features), "--n-permutations", "16", "--jobs", str(jobs),
        ]  # fmt: skip
        found = json.loads(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout
        )
        more = f" ({found['child']:.2f})" if jobs > 1 else ""
        print(
            f"| {jobs} | {found['own']:.2f}{more} | {found['nested']:.0f} | {found['permutations']:.0f} |"
        )


def compare_whole(arguments: argparse.Namespace) -> None:
    here = Path(__file__).resolve().parent
    print(
        f"\n{arguments.n_scans} scans × {arguments.n_features} features, 8 sites: a whole evaluation, defaults\n"
    )
    print("| target | CPU s, before | CPU s, now | now / before |")
    print("|---|---|---|---|")
    for target in ("diagnosis", "age", "site"):
        taken = []
        for root in (arguments.before, here.parent):
            with tempfile.TemporaryDirectory() as scratch:
                # The functions of this file that run on both sides are in a file that imports
                # nothing of the package.
                Path(scratch, "evaluation.py").write_text(
                    "import numpy as np\nimport pandas as pd\n\n\n" + inspect.getsource(simulate)
                )
                numbers = [str(arguments.n_scans), str(arguments.n_features)]
                command = [sys.executable, "-W", "ignore", "-c", WHOLE, scratch, *numbers, target]
                found = subprocess.run(
                    command, capture_output=True, text=True, check=True, cwd=scratch,
                    env=os.environ | {"PYTHONPATH": str(Path(root).resolve())},
                )  # fmt: skip
            taken.append(float(found.stdout.split()[-1]))
        print(
            f"| {target} | {taken[0]:.1f} | {taken[1]:.1f} | {taken[1] / taken[0]:.1f} |",
            flush=True,
        )


def compare_plain(arguments: argparse.Namespace) -> None:
    plan = make_study(arguments)
    start = time.process_time()
    auc = measure(plan, fit(plan), FINDINGS).evaluation.metrics["auc"].pooled
    ours = time.process_time() - start
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    search = GridSearchCV(
        model, {"logisticregression__C": list(plan.settings.C)}, cv=5, scoring="neg_log_loss"
    )
    pairs, truth = [(split.train, split.test) for split in plan.splits], plan.target.values
    start = time.process_time()
    scores = cross_val_predict(
        search, plan.features.astype(float), truth, cv=pairs, method="predict_proba"
    )[:, 1]
    plain = time.process_time() - start
    print(f"{arguments.n_scans} scans × {arguments.n_features} features, 8 sites: AUC {auc:.3f} and "
          f"{roc_auc_score(truth, scores):.3f}; a default evaluation takes {ours / plain:.1f} times the CPU time of "
          f"plain nested cross-validation ({ours:.0f} and {plain:.0f} s)")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-scans", type=int, default=662)
    parser.add_argument("--n-features", type=int, default=1024)
    parser.add_argument("--n-repeats", type=int, default=10)
    parser.add_argument("--n-permutations", type=int, default=50)
    parser.add_argument(
        "--plain-permutations", type=int, default=1, help="permutations that the plain script runs"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--large", type=int, default=10_000, help="scans of the memory measurement; 0 for none"
    )
    parser.add_argument(
        "--memory", action="store_true", help="measure memory in this process, and print JSON"
    )
    parser.add_argument(
        "--plain", action="store_true", help="set a default evaluation next to plain scikit-learn"
    )
    parser.add_argument("--before", type=Path, help="checkout of an earlier commit to compare with")
    arguments = parser.parse_args()
    if arguments.before is not None:
        compare_whole(arguments)
        return
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if arguments.memory:
            measure_memory(arguments)
            return
        if arguments.plain:
            compare_plain(arguments)
            return
        compare_in_full(arguments)
        if arguments.large:
            report_memory(arguments)


if __name__ == "__main__":
    main()
