"""What exact large batches cost: memory, time and rounding, against the same step with the whole batch at once.

Every run is two epochs of one batch each (training, its measurements, BatchNorm's statistics,
checkpoints) in a process of its own; memory is its peak above what it held with everything imported
and built. Gradients are those of one step with y-Aware InfoNCE on age and group normalisation,
against the same step in float64; with BatchNorm, the cosine between the gradient in micro-batches
and the whole batch's, which are different functions::

    python benchmarks/large_batch.py                                   # CPU, 32³: three to five
    minutes on two cores python benchmarks/large_batch.py --device cuda --side 128 --micro 4
    --batches 8 16 32 64 --precision bf16-mixed
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from neurocontrast.encoders import EncoderSettings, build_model
from neurocontrast.kernels import Gaussian
from neurocontrast.losses import YAwareInfoNCE
from neurocontrast.training import TrainingData, TrainingSettings, fit
from neurocontrast.training.position import Position
from neurocontrast.training.state import ContrastiveState
from neurocontrast.training.steps import contrastive_step, open_batches
from neurocontrast.transforms import TwoViews, brain_views


class Made:
    """Smooth volumes with a little noise, made when they are asked for: none but those in use are in memory."""

    def __init__(self, n, side):
        self.n, self.shape = n, [side] * 3

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        coarse = torch.randn(1, 1, 4, 4, 4, generator=generator)
        smooth = torch.nn.functional.interpolate(
            coarse, size=self.shape, mode="trilinear", align_corners=True
        )[0]
        return {
            "image": smooth + 0.1 * torch.randn(smooth.shape, generator=generator),
            "index": index,
        }


def parts_of_run(n, point):
    rows = list(range(n))
    data = TrainingData(
        images=Made(n, point["side"]),
        names=[str(row) for row in rows],
        metadata={"age": torch.linspace(20, 80, n)},
        training_rows=rows,
    )
    settings = TrainingSettings(
        epochs=2,
        batch_size=n,
        micro_batch_size=point["micro"],
        accelerator=point["device"],
        precision=point["precision"],
        keep_checkpoints=1,
    )
    model = build_model(EncoderSettings(norm=point["norm"]))
    return (
        model,
        YAwareInfoNCE(Gaussian("age", sigma=5.0)),
        TwoViews(brain_views(), seed=0),
        data,
        settings,
    )


def peak_mib(device):
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(point):
    """Peak memory and seconds of a run of two steps."""
    *parts, settings = parts_of_run(point["batch"], point)
    before = 0.0 if point["device"] == "cuda" else peak_mib("cpu")
    clock = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        result = fit(*parts, settings=settings, seed=0, folder=Path(folder))
    return {
        "mib": peak_mib(point["device"]) - before,
        "seconds": point["batch"] / result.metrics[-1]["samples_per_second"],
        "cpu": time.process_time() - clock,
    }


def gradient(point, micro):
    *parts, settings = parts_of_run(point["batch"], {**point, "micro": micro})
    state = ContrastiveState(*parts, settings=settings, seed=0)
    for batch in open_batches(state, [list(range(point["batch"]))]):
        contrastive_step(state, batch, Position())
    return flat(state.model)


def exact_gradient(point):
    model, objective, views, data, _ = parts_of_run(point["batch"], {**point, "micro": None})
    volumes = torch.stack([data.images[row]["image"] for row in range(point["batch"])]).to(
        point["device"]
    )
    both = torch.cat(views(volumes, data.names[: point["batch"]], epoch=0)).double()
    z1, z2 = model.to(both)(both).chunk(2)
    objective(z1, z2, {"age": data.metadata["age"].to(both)}).backward()
    return flat(model)


def flat(model):
    return torch.cat([weight.grad.flatten().double().cpu() for weight in model.parameters()])


def rounding(point):
    """‖g − g′‖ / ‖g‖ of both ways against float64, and with BatchNorm the cosine between the two."""
    exact = exact_gradient({**point, "norm": "group"})
    errors = [
        ((gradient({**point, "norm": "group"}, micro) - exact).norm() / exact.norm()).item()
        for micro in (None, point["micro"])
    ]
    whole, parts = (gradient({**point, "norm": "batch"}, micro) for micro in (None, point["micro"]))
    cosine = torch.nn.functional.cosine_similarity(whole, parts, dim=0).item()
    return {"whole": errors[0], "parts": errors[1], "cosine": cosine}


def measured(what, **point):
    """Measure a point in a fresh process; None where it runs out of memory."""
    command = [sys.executable, __file__, "--point", json.dumps({"what": what, **point})]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = done.stderr.strip().splitlines()[-1:] or ["killed"]
        if "memory" not in told[0].lower() and done.returncode != -9:
            raise SystemExit(done.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def cell(figures, name, form):
    return "does not fit" if figures is None else format(figures[name], form)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[8, 16, 32, 64], help="pairs a batch"
    )
    parser.add_argument("--micro", type=int, default=4, help="pairs a micro-batch")
    parser.add_argument("--side", type=int, default=32, help="voxels on each axis")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", default="32-true")
    parser.add_argument(
        "--errors-up-to", type=int, default=16, help="largest batch whose gradients are compared"
    )
    parser.add_argument("--point", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        point = json.loads(arguments.point)
        print(json.dumps((run if point.pop("what") == "run" else rounding)(point)))
        return
    common = {"side": arguments.side, "device": arguments.device, "precision": arguments.precision}
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, DenseNet121, {common}")
    print(
        f"| pairs | at once, MiB | micro-batches of {arguments.micro}, MiB | time ratio | error at once | "
        "error in micro-batches | cosine with BatchNorm |"
    )
    print("|---|---|---|---|---|---|---|")
    for batch in arguments.batches:
        whole = measured("run", batch=batch, micro=None, norm="batch", **common)
        parts = measured("run", batch=batch, micro=arguments.micro, norm="batch", **common)
        clock = "cpu" if arguments.device == "cpu" else "seconds"
        ratio = f"{parts[clock] / whole[clock]:.2f}" if whole and parts else ""
        shown = ["", "", ""]
        if batch <= arguments.errors_up_to:
            errors = measured("rounding", batch=batch, micro=arguments.micro, **common)
            shown = [
                cell(errors, name, form)
                for name, form in (("whole", ".0e"), ("parts", ".0e"), ("cosine", ".2f"))
            ]
        print(
            f"| {batch} | {cell(whole, 'mib', '.0f')} | {cell(parts, 'mib', '.0f')} | {ratio} | {' | '.join(shown)} |"
        )


if __name__ == "__main__":
    main()
