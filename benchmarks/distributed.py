"""What several processes cost and send: wall time, CPU time and bytes of a step, in one process and in several.

Steps are those of a run (views, y-Aware InfoNCE on age, Adam, DenseNet121), in processes that
torchrun starts, with one thread each. Bytes are what a process writes to its sockets, as Linux
counts them for the process; a gradient has four bytes a weight. With `--before`, an earlier
checkout is measured in turn with this one. `start` is a whole run of `neurocontrast.pretrain` with
one step, from the call to its return, so mostly what starting the processes takes::

    python benchmarks/distributed.py                                   # one and two processes: five
    minutes, two cores python benchmarks/distributed.py --before ../earlier --processes 1 2 --rounds
    5
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
WAYS = {"whole batches": None, "gradient caching": 2}


def written():
    """Return the bytes that this process has written so far, to sockets too."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


def steps(point):
    """Take steps in this process, one of several; the first prints the figures of all."""
    import torch
    import torch.distributed as dist

    from neurocontrast.encoders import EncoderSettings, build_model
    from neurocontrast.kernels import Gaussian
    from neurocontrast.losses import YAwareInfoNCE
    from neurocontrast.training import TrainingData, TrainingSettings
    from neurocontrast.training.position import Position
    from neurocontrast.training.state import ContrastiveState
    from neurocontrast.training.steps import contrastive_step, open_batches

    n = point["batch"]
    settings = TrainingSettings(
        batch_size=n,
        micro_batch_size=point["micro"],
        devices=point["processes"],
        accelerator=point["device"],
    )
    rows = list(range(n))
    data = TrainingData(
        images=[{"image": torch.randn(1, *[point["side"]] * 3), "index": row} for row in rows],
        names=[str(row) for row in rows],
        metadata={"age": torch.linspace(20, 80, n)},
        training_rows=rows,
    )
    objective, model = YAwareInfoNCE(Gaussian("age", sigma=5.0)), build_model(EncoderSettings())
    state = ContrastiveState(model, objective, default_views(), data, settings=settings, seed=0)
    figures, before = [], None
    for batch in open_batches(state, [rows] * (point["steps"] + 2)):
        contrastive_step(state, batch, Position())
        now = time.perf_counter(), time.process_time(), written()
        if before is not None:
            figures.append([after - earlier for after, earlier in zip(now, before, strict=True)])
        before = now
    wall, cpu, sent = (
        statistics.median(column) for column in zip(*figures[1:], strict=True)
    )  # the first warms up
    every = torch.tensor([wall, cpu, sent], dtype=torch.float64)
    if point["processes"] > 1:
        dist.all_reduce(every, group=state.processes.group)
    if state.processes.is_first:
        n_weights = sum(weight.numel() for weight in state.model.parameters())
        n_processes = point["processes"]
        wall, sent = every[0].item() / n_processes, every[2].item() / n_processes
        print(
            json.dumps(
                {"wall": wall, "cpu": every[1].item(), "sent": sent, "gradient": 4 * n_weights}
            )
        )


def default_views():
    """Return the views of a configuration that says nothing of them, with the names of this checkout."""
    try:
        from neurocontrast.transforms import TwoViews, brain_views
    except ImportError:  # an earlier checkout
        augment = importlib.import_module("neurocontrast.augment")
        return augment.TwoViews(augment.AugmentSettings(), seed=0)
    return TwoViews(brain_views(), seed=0)


def start(point):
    """Time a run of one step from the call to its return."""
    import neurocontrast

    with tempfile.TemporaryDirectory() as name:
        table = neurocontrast.simulate(
            Path(name) / "cohort", n_subjects=8, n_sites=2, spacing_mm=8.0
        )
        config = {
            "data": {
                "participants": str(table),
                "spacing_mm": 10,
                "shape": [16, 20, 16],
                "val_fraction": 0,
            },
            "encoder": {"name": "lenet", "projection": [8, 4]},
            "training": {
                "epochs": 1,
                "batch_size": 8,
                "devices": point["processes"],
                "accelerator": point["device"],
            },
        }
        config["data"] |= {"cache_dir": str(Path(name) / "cache"), "n_workers": 1}
        before = time.perf_counter()
        (Path(name) / "recipe.json").write_text(json.dumps(config))  # which is YAML too
        command = [
            "-m",
            "neurocontrast",
            "pretrain",
            "--config",
            f"{name}/recipe.json",
            "--out",
            f"{name}/run",
        ]
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        print(json.dumps({"wall": time.perf_counter() - before}))


def measured(checkout, what, **point):
    """Measure a point with a checkout's code, in fresh processes."""
    launcher = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(point["processes"]),
    ]
    if what == "start" or point["processes"] == 1:
        launcher = []
    command = [
        sys.executable,
        *launcher,
        str(Path(__file__).resolve()),
        "--point",
        json.dumps({"what": what, **point}),
    ]
    own = {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    # In the checkout: processes that it starts by -m import from where they stand.
    environment = {**os.environ, **own}
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="an earlier checkout, measured too")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--batch", type=int, default=8, help="pairs a batch, of all processes together"
    )
    parser.add_argument("--side", type=int, default=32, help="voxels on each axis")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each point is measured, in turn"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        point = json.loads(arguments.point)
        {"steps": steps, "start": start}[point.pop("what")](point)
        return
    checkouts = {
        **({"before": arguments.before.resolve()} if arguments.before else {}),
        "now": HERE,
    }
    common = {name: getattr(arguments, name) for name in ("batch", "side", "steps", "device")}
    print(f"DenseNet121, {common}, median of {arguments.rounds} rounds\n")
    print("| | processes | code | wall, s | CPU of all, s | sent by each, MiB | times a gradient |")
    print("|---|---|---|---|---|---|---|")
    for name, micro in [*WAYS.items(), ("start and end", None)]:
        what = "start" if name == "start and end" else "steps"
        for n_processes in arguments.processes:
            point = {**common, "micro": micro, "processes": n_processes}
            rounds = [
                {code: measured(path, what, **point) for code, path in checkouts.items()}
                for _ in range(arguments.rounds)
            ]
            for code in checkouts:
                found = {
                    key: statistics.median(each[code][key] for each in rounds)
                    for key in rounds[0][code]
                }
                cells = [f"{found['wall']:.2f}", "", "", ""]
                if what == "steps":
                    sent = (
                        f"{found['sent'] / 2**20:.1f}",
                        f"{found['sent'] / found['gradient']:.2f}",
                    )
                    cells = [cells[0], f"{found['cpu']:.2f}", *sent]
                print(f"| {name} | {n_processes} | {code} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
