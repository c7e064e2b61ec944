"""One training step of a recipe at its own size: seconds and peak memory, each recipe in a process of its own.

Volumes are random, in the cache's precision; networks, views, loss, batch and optimiser are the recipe's::

    python -m benchmarks.training.first_step configs/brain/*_reference.yaml --micro-batch-size
    1 python -m benchmarks.training.first_step yaware_reference --micro-batch-size 16 --device cuda
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks.training.published import random_scans
from neurocontrast.config import build_objective, load_config
from neurocontrast.encoders import build_model
from neurocontrast.parallel.devices import keeping_freed_memory
from neurocontrast.training.data import fit_objective
from neurocontrast.training.position import Position
from neurocontrast.training.state import ContrastiveState, deterministic
from neurocontrast.training.steps import contrastive_step, open_batches
from neurocontrast.transforms import TwoViews, brain_views


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipes", nargs="+", type=Path)
    parser.add_argument(
        "--micro-batch-size",
        type=int,
        help="cache gradients; the whole batch at once where not given",
    )
    parser.add_argument("--batch-size", type=int, help="pairs, where not the recipe's")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    if len(options.recipes) == 1:
        print(step_of(options.recipes[0], options), flush=True)
        return
    print(
        "| recipe | voxels | pairs, together | wall | CPU | peak memory | loss |\n|---|---|---|---|---|---|---|",
        flush=True,
    )
    others = [word for word in sys.argv[1:] if Path(word) not in options.recipes]
    for recipe in options.recipes:
        subprocess.run(
            [sys.executable, "-m", "benchmarks.training.first_step", str(recipe), *others],
            check=True,
        )


def step_of(recipe: Path, options: argparse.Namespace) -> str:
    config = load_config(recipe)
    n = options.batch_size or config.training.batch_size
    changes = {
        "batch_size": n,
        "micro_batch_size": options.micro_batch_size,
        "accelerator": options.device,
    }
    settings = config.training.model_copy(update=changes)
    objective, rows = build_objective(config.objective), list(range(n))
    columns = {"continuous": torch.linspace(18, 80, n), "categorical": torch.arange(n) % 2}
    metadata = {name: columns[kind] for name, kind in objective.columns.items()}
    data = random_scans(n, config.data.shape, metadata)
    views = TwoViews(brain_views(config.augment), seed=config.seed)
    model = build_model(
        config.encoder, n_outputs=None if objective.contrasts else 2, seed=config.seed
    )
    fit_objective(
        objective,
        data.metadata,
        names=data.names,
        training_rows=data.training_rows,
        validation_rows=data.validation_rows,
    )
    sampler = data.sampler(settings, config.seed)
    state = ContrastiveState(model, objective, views, data, settings=settings, sampler=sampler)
    state.model.train()
    wall, cpu = time.perf_counter(), time.process_time()
    with (
        deterministic(),
        keeping_freed_memory(),
        contextlib.closing(open_batches(state, [rows])) as batches,
    ):
        figures = contrastive_step(state, next(batches), Position())
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if options.device == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**30
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    shape = "×".join(map(str, config.data.shape))
    together = options.micro_batch_size or n
    return (
        f"| `{recipe.stem}` | {shape} | {n}, {together} | {wall:.0f} s | {cpu:.0f} s | {peak:.1f} GiB "
        f"| {figures['loss']:.3f} |"
    )


if __name__ == "__main__":
    main()
