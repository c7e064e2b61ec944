"""Tables of up to 100,000 scans at 40 sites: seconds and memory of everything that goes over the whole table.

A few small simulated scans, and their entries of the cache, are there under as many names as the
table has rows (hard links). Every point is a process of its own, forked once all is imported:
processor seconds of the call (of the clock in brackets, which a busy machine makes longer), and the
process's peak memory, with imports. `pretrain` and `embed` are the real stages, stopped at their
second batch; `embed` is then continued twice, to the middle and to the end::

    python -m benchmarks.scale --folder scratch                                # table, and
    docs/images/scale.svg python -m benchmarks.scale --folder scratch --sizes 1000 --only
    read_cohort
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import neurocontrast
from neurocontrast.commands.check import check
from neurocontrast.commands.embed import embed
from neurocontrast.commands.pretrain import pretrain
from neurocontrast.config import as_config
from neurocontrast.data import read_cohort
from neurocontrast.data.sources import source_of
from neurocontrast.embedding import read_embeddings, write_embeddings
from neurocontrast.progress import SILENT

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "scale.svg"
N_ORIGINALS, N_SITES, N_FEATURES, BATCH = 8, 40, 1024, 64
SIZES = (1_000, 10_000, 100_000)
SAMPLINGS = ("shuffle", "site-balanced", "metadata-balanced", "one-group")


class Reached(BaseException):
    """The batch that is waited for has begun."""


def settings(folder: Path, n: int, **training: Any) -> dict[str, Any]:
    data = {
        "participants": str(folder / f"participants{n}.tsv"),
        "cache_dir": str(folder / "cache"),
        "n_workers": 1,
    }
    return {
        "data": {**data, "spacing_mm": 14, "shape": [16, 16, 16]},
        "encoder": {"name": "lenet"},
        "training": {"epochs": 1, "batch_size": BATCH, "accelerator": "cpu", **training},
    }


def make(folder: Path, n: int = SIZES[-1]) -> None:
    """Write scans, tables, entries of the cache, a run, and a command `embed` that was killed in the middle."""
    shutil.rmtree(folder, ignore_errors=True)
    few = neurocontrast.simulate(
        folder / "originals", n_subjects=N_ORIGINALS, n_sites=2, spacing_mm=8.0
    )
    originals = [few.parent / path for path in pd.read_csv(few, sep="\t")["path"]]
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"participant_id": [f"sub-{number:06d}" for number in range(n)]})
    table["age"] = draw.uniform(18, 90, n).round(1)
    table["sex"] = draw.choice(["F", "M"], n)
    table["site"] = [f"site{number:02d}" for number in draw.integers(N_SITES, size=n)]
    table["diagnosis"] = draw.choice(["control", "patient"], n)
    table["path"] = [
        f"scans/{number // 1000:03d}/{name}.nii.gz"
        for number, name in enumerate(table["participant_id"])
    ]
    for number, path in enumerate(table["path"]):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        os.link(originals[number % N_ORIGINALS], folder / path)
    time.sleep(0.2)
    for size in {*SIZES, 64}:
        table[:size].to_csv(folder / f"participants{size}.tsv", sep="\t", index=False)
    cache = source_of(as_config(settings(folder, n)).data).prepared(None).cache
    scans = [str(folder / path) for path in table["path"]]
    cache.prepare(scans[:N_ORIGINALS], n_workers=1)
    for number, scan in enumerate(scans[N_ORIGINALS:]):
        entry = cache._entry_path(scan)
        entry.parent.mkdir(exist_ok=True)
        os.link(cache._entry_path(scans[number % N_ORIGINALS]), entry)
    # Its features are as many as those of the networks that are used, which would take hours here.
    of_run = settings(folder, 64, batch_size=16) | {
        "encoder": {"name": "lenet", "projection": [N_FEATURES]}
    }
    pretrain(of_run, out=folder / "run")


def read_table(folder: Path, n: int) -> Callable[[], Any]:
    return lambda: read_cohort(folder / f"participants{n}.tsv")


def check_headers(folder: Path, n: int) -> Callable[[], Any]:
    return lambda: check(folder / f"participants{n}.tsv", deep=False, n_workers=1)


def look_up(folder: Path, n: int) -> Callable[[], Any]:
    cache = source_of(as_config(settings(folder, n)).data).prepared(None).cache
    scans = read_table(folder, n)().scans
    return lambda: cache.missing(scans)


def start_pretraining(folder: Path, n: int, sampling: str) -> Callable[[], Any]:
    columns = {"sampling_columns": ["sex", "diagnosis"]} if sampling == "one-group" else {}
    config, out = settings(folder, n, sampling=sampling, **columns), folder / f"run-{os.getpid()}"
    return lambda: stopped("Pretraining", 2, pretrain, config, out=out)


def embed_some(folder: Path, n: int, n_batches: int) -> Callable[[], Any]:
    config = {
        "data": {"cache_dir": str(folder / "cache"), "n_workers": 1},
        "embedding": {"layer": "head", "batch_size": BATCH, "accelerator": "cpu"},
    }
    paths = {
        "participants": folder / f"participants{n}.tsv",
        "out": folder / f"embeddings{n}.parquet",
    }
    return lambda: stopped("embedding", n_batches, embed, folder / "run", config=config, **paths)


def write_and_read(folder: Path, n: int) -> Callable[[], Any]:
    table = read_table(folder, n)().table
    features = np.random.default_rng(0).standard_normal((n, N_FEATURES), dtype=np.float32)

    def both() -> None:
        nonlocal features
        write_embeddings(folder / "written.parquet", table, features, {})
        del features
        read_embeddings(folder / "written.parquet")

    return both


def stopped(
    task: str, n_batches: int, stage: Callable[..., Any], *args: Any, **options: Any
) -> None:
    """Call a stage, and end it once a task has finished so many batches."""

    class Task:
        n = 0

        def advance(self, n: int = 1, **shown: Any) -> None:
            del n, shown
            self.n += 1
            if self.n == n_batches:
                raise Reached

    class UpTo(type(SILENT)):
        def task(self, description: str, total: int | None, unit: str) -> Any:
            return (
                contextlib.nullcontext(Task())
                if task in description
                else super().task(description, total, unit)
            )

    with contextlib.suppress(Reached):
        stage(*args, progress=UpTo(), **options)


POINTS: dict[str, Callable[[Path, int], Callable[[], Any]]] = {
    "read_cohort": read_table,
    "check, headers": check_headers,
    "cache looked up": look_up,
    **{f"pretrain, {name}": partial(start_pretraining, sampling=name) for name in SAMPLINGS},
    "embed": partial(embed_some, n_batches=2),
    "embed, first half": lambda folder, n: embed_some(folder, n, n // BATCH // 2),
    "embed, resumed": partial(embed_some, n_batches=2),
    "embed, second half": partial(embed_some, n_batches=-1),
    "table written and read": write_and_read,
}
"""By name, in their order: what prepares a point, and returns the call that is measured."""


def measure(name: str, folder: Path, n: int) -> dict[str, Any]:
    """Return seconds and peak memory of a point in this process."""
    call = POINTS[name](folder, n)
    start, before = time.perf_counter(), time.process_time()
    call()
    seconds, processor = time.perf_counter() - start, time.process_time() - before
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "point": name,
        "n": n,
        "seconds": round(seconds, 2),
        "cpu": round(processor, 2),
        "mib": round(mib),
    }


def table(results: list[dict[str, Any]]) -> str:
    found = pd.DataFrame(results)
    sizes = sorted(found["n"].unique())
    lines = ["| | " + " | ".join(f"{n:,}" for n in sizes) + " |", "|---|" + "---|" * len(sizes)]
    for name in [name for name in POINTS if name in set(found["point"])]:
        of_point = found[found["point"] == name].set_index("n")
        cells = [f"{of_point['cpu'][n]:.2g} ({of_point['seconds'][n]:.2g}) s, {of_point['mib'][n]:,.0f} MiB"
                 if n in of_point.index else "–" for n in sizes]  # fmt: skip
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(results: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "scale"
    from matplotlib import pyplot as plt

    from neurocontrast.reporting.style import look_of

    found = pd.DataFrame(results)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    shown = [name for name in POINTS if "half" not in name]
    for place, name in enumerate(shown):
        of_point = found[found["point"] == name].sort_values("n")
        look = {"color": f"C{place % 10}", "marker": look_of(place)["marker"], "label": name}
        axes[0].loglog(of_point["n"], of_point["cpu"], **look)
        axes[1].semilogx(of_point["n"], of_point["mib"], **look)
    n = np.array(SIZES, dtype=float)
    axes[0].loglog(
        n,
        20 * n * np.log(n) / (n[-1] * np.log(n[-1])),
        color="0.5",
        linestyle="--",
        label="n log n",
    )
    axes[0].set(
        xlabel="scans",
        ylabel="processor seconds of the call",
        title="to the second batch, or the end",
    )
    axes[1].set(xlabel="scans", ylabel="peak MiB, with imports", title="memory", ylim=(0, None))
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside right center", fontsize="small"
    )
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder",
        type=Path,
        required=True,
        help="where files are made, once, and results are added",
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--only", nargs="+", choices=POINTS, default=list(POINTS))
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    if not (folder / "run").is_dir():
        make(folder)
    kept = folder / "results.json"
    results = {
        (each["point"], each["n"]): each
        for each in (json.loads(kept.read_text()) if kept.is_file() else [])
    }
    for n, name in [(n, name) for n in arguments.sizes for name in arguments.only]:
        for path in folder.glob(".embeddings*.partial") if name == "embed" else ():
            path.unlink()
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as own_process:
            results[name, n] = own_process.submit(measure, name, folder, n).result()
        print(results[name, n], flush=True)
        kept.write_text(json.dumps(list(results.values())))
        for path in [*folder.glob("run-*"), *folder.glob("embeddings*.parquet")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    print(table(list(results.values())))
    plot(list(results.values()))


if __name__ == "__main__":
    main()
