"""How long the evaluation of a large table takes, and how much memory, beside scikit-learn.

    python -m benchmarks.evaluation_scale [--sizes 1000 10000 100000] [--targets diagnosis age site]
    [--exact 10000]

Simulated features of 1,024 numbers, 40 sites and a weak signal, written as embeddings;
`neurocontrast evaluate` at its defaults on one thread, each in a process of its own: CPU seconds by
step, and the peak memory of the process after each. Beside it, in a process of its own too, plain
scikit-learn (`GridSearchCV` over the same grid in a pipeline with a `StandardScaler`) on one inner
fold of one fold, multiplied by five inner folds and by the number of folds, those that leave sites
out included. `--exact N` runs tables of up to N scans with ``large_table`` beyond them, too.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import neurocontrast
from neurocontrast.documents.embeddings import read_embeddings, write_embeddings
from neurocontrast.evaluation import EvaluationSettings

N_SITES = 40


def simulate(n_scans: int, n_features: int) -> tuple[pd.DataFrame, np.ndarray]:
    generator = np.random.default_rng(0)
    codes, sites = generator.integers(2, size=n_scans), generator.integers(N_SITES, size=n_scans)
    ages = generator.uniform(20, 80, size=n_scans)
    latent = (generator.normal(size=(n_scans, 60)) * np.linspace(2, 0.2, 60)).astype(np.float32)
    latent[:, :3] += 0.5 * codes[:, None]
    latent[:, 3:6] += (ages[:, None] - 50) / 40
    features = latent @ generator.normal(size=(60, n_features)).astype(np.float32)
    features += generator.standard_normal(size=features.shape, dtype=np.float32)
    features += generator.normal(size=(N_SITES, n_features)).astype(np.float32)[sites]
    names = [f"sub-{row:06d}" for row in range(n_scans)]
    table = pd.DataFrame(
        {"participant_id": names, "subject_id": names, "session": "", "path": "", "age": ages}
    )
    table["sex"] = generator.choice(["F", "M"], size=n_scans)
    table["site"] = [f"site-{site:02d}" for site in sites]
    table["diagnosis"] = np.array(["control", "patient"])[codes]
    return table, features


class Steps:
    """A progress that notes CPU seconds and peak memory at the end of each task; what lies between is `other`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peak: dict[str, float] = {}
        self._name, self._start = "", time.process_time()

    def task(self, description: str, total: int | None, unit: str) -> Steps:
        """Begin a task."""
        del total, unit
        self.end("other")
        self._name = description
        return self

    def end(self, name: str) -> None:
        """Note seconds and memory since the last end under a name."""
        now = time.process_time()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._start
        self.peak[name] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"    {name}: {now - self._start:.1f} s, peak {self.peak[name]:.2f} GiB",
            file=sys.stderr,
            flush=True,
        )
        self._start = now

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(self._name)

    def advance(self, n: int = 1, **shown: float | str) -> None:
        """Show nothing."""
        del n, shown

    def message(self, text: str) -> None:
        """Show nothing."""
        del text

    warning = message


def run_ours(source: Path, target: str, large_table: int | None) -> dict[str, object]:
    chosen = {} if large_table is None else {"large_table": large_table}
    steps, start = Steps(), time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch, threadpool_limits(limits=1):
        folder = Path(scratch, "eval")
        neurocontrast.evaluate(source, out=folder, target=target, progress=steps, **chosen)
        steps.end("other")
        neurocontrast.report(folder)
        steps.end("report")
    return {"seconds": steps.seconds, "peak": steps.peak, "wall": time.perf_counter() - start}


def run_plain(source: Path, target: str) -> dict[str, object]:
    """Search the grid on one inner fold of the first fold of a table, and return CPU seconds and peak memory."""
    read, settings = read_embeddings(source), EvaluationSettings()
    y = read.table[target].to_numpy()
    n_test = len(y) // settings.n_folds
    model, grid, scoring = (
        LogisticRegression(max_iter=1000),
        {"logisticregression__C": settings.C},
        "neg_log_loss",
    )
    if target == "age":
        model, grid, scoring = Ridge(), {"ridge__alpha": settings.alpha}, "neg_mean_squared_error"
    inner = ShuffleSplit(1, test_size=1 / settings.n_inner_folds, random_state=0)
    search = GridSearchCV(make_pipeline(StandardScaler(), model), grid, cv=inner, scoring=scoring)
    start = time.process_time()
    with threadpool_limits(limits=1):
        search.fit(read.features[n_test:].astype(float), y[n_test:])
        search.predict(read.features[:n_test].astype(float))
    seconds, peak = (
        time.process_time() - start,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    )
    return {
        "fold": settings.n_inner_folds * (seconds - search.refit_time_) + search.refit_time_,
        "peak": peak,
    }


def in_a_process(*arguments: object) -> dict:
    command = [sys.executable, "-W", "ignore", __file__, *map(str, arguments)]
    return json.loads(
        subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[
            -1
        ]
    )


def print_steps(found: dict) -> None:
    for name, seconds in found["seconds"].items():
        print(f"    {name}: {seconds:.1f} s, peak so far {found['peak'][name]:.2f} GiB", flush=True)


def measure(arguments: argparse.Namespace, sources: Callable[[int], Path]) -> None:
    for n_scans in arguments.sizes:
        source = sources(n_scans)
        for target in arguments.targets:
            n_folds = (
                5 if target == "site" else 25
            )  # with those that leave sites out, in twenty groups
            ours = in_a_process("--one", source, "--targets", target)
            total, peak = sum(ours["seconds"].values()), max(ours["peak"].values())
            print(f"{n_scans:,} scans, {target}: {total:.0f} s of CPU, {peak:.2f} GiB", flush=True)
            print_steps(ours)
            if n_scans <= arguments.exact:
                exact = in_a_process("--one", source, "--targets", target, "--large-table", 10**9)
                print(
                    f"  with large_table=10^9: {sum(exact['seconds'].values()):.0f} s", flush=True
                )
                print_steps(exact)
            if n_scans <= arguments.plain:
                plain = in_a_process("--plain-one", source, "--targets", target)
                fold, peak = plain["fold"], plain["peak"]
                print(
                    f"  scikit-learn: {fold:.0f} s a fold, × {n_folds} = {fold * n_folds:.0f} s, {peak:.2f} GiB"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--targets", nargs="+", default=["diagnosis", "age", "site"])
    parser.add_argument("--n-features", type=int, default=1024)
    parser.add_argument(
        "--exact", type=int, default=0, help="largest table that is run as small ones are, too"
    )
    parser.add_argument(
        "--plain", type=int, default=100_000, help="largest table that scikit-learn is run on"
    )
    parser.add_argument(
        "--one", type=Path, help="evaluate one table in this process, and print JSON"
    )
    parser.add_argument(
        "--plain-one",
        type=Path,
        help="run scikit-learn on one fold in this process, and print JSON",
    )
    parser.add_argument("--large-table", type=int)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(run_ours(arguments.one, arguments.targets[0], arguments.large_table)))
        return
    if arguments.plain_one is not None:
        print(json.dumps(run_plain(arguments.plain_one, arguments.targets[0])))
        return
    with tempfile.TemporaryDirectory() as scratch:

        def make(n_scans: int) -> Path:
            path = Path(scratch, f"{n_scans}.parquet")
            write_embeddings(path, *simulate(n_scans, arguments.n_features), {"format": 1})
            return path

        measure(arguments, make)


if __name__ == "__main__":
    main()
