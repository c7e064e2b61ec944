"""What a training step costs beside the bare network, and which ways to run the network are worth it.

Each figure is a ratio within one run, so that it means the same on any machine::

    python benchmarks/training.py                      # 32³ and 64³, a minute or two on two cores
    python benchmarks/training.py --sides 96 --scans 2
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
from torch.nn.functional import cosine_similarity

from neurocontrast.augment import AugmentSettings, TwoViews
from neurocontrast.encoders import EncoderSettings, build_model
from neurocontrast.losses import NTXent
from neurocontrast.training import TrainingData, TrainingSettings, fit

N_BATCHES = 6


def seconds(action, n=3):
    action()
    best = float("inf")
    for _ in range(n):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best


class Noise:
    """Random volumes, held in memory: reading costs nothing."""

    def __init__(self, n, side):
        self.volumes = torch.randn(n, 1, side, side, side, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.volumes)

    def __getitem__(self, index):
        return {"image": self.volumes[index], "index": index}


def step_over_network(side, n_scans, augment):
    """Seconds of an epoch of `fit` over those of the network's forward and backward passes alone."""
    images = Noise(n_scans * N_BATCHES, side)
    model = build_model(EncoderSettings())
    batch = images.volumes[:n_scans].repeat(2, 1, 1, 1, 1)

    def bare():
        model(batch).square().sum().backward()
        model.zero_grad()

    network = seconds(bare)
    rows = list(range(len(images)))
    data = TrainingData(images=images, names=[str(row) for row in rows], metadata={}, training_rows=rows)
    settings = TrainingSettings(epochs=2, batch_size=n_scans, accelerator="cpu", keep_checkpoints=1)
    with tempfile.TemporaryDirectory() as folder:
        result = fit(
            build_model(EncoderSettings()),
            NTXent(),
            TwoViews(augment, seed=0),
            data,
            settings=settings,
            seed=0,
            folder=Path(folder),
        )
    step = n_scans / max(row["volumes_per_second"] for row in result.metrics)
    return step / network


def ways_to_run(side, n_scans):
    """Seconds of other memory formats and precisions over those of the default, and bfloat16's agreement."""
    volumes = torch.randn(2 * n_scans, 1, side, side, side, generator=torch.Generator().manual_seed(0))

    def gradient(model, x, half=False):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            z = model(x)
        NTXent()(*z.float().chunk(2)).backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    model = build_model(EncoderSettings())
    default = seconds(lambda: gradient(model, volumes))
    last = build_model(EncoderSettings()).to(memory_format=torch.channels_last_3d)
    x_last = volumes.contiguous(memory_format=torch.channels_last_3d)
    exact, half = gradient(build_model(EncoderSettings()), volumes), gradient(model, volumes, half=True)
    return {
        "channels_last_3d / default": seconds(lambda: gradient(last, x_last)) / default,
        "bfloat16 / float32": seconds(lambda: gradient(model, volumes, half=True)) / default,
        "cosine of their gradients": cosine_similarity(exact, half, dim=0).item(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--scans", type=int, default=4, help="scans a batch, each seen as two views")
    arguments = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, {arguments.scans} scans a batch")
    for side in arguments.sides:
        for name, augment in (("no augmentation", AugmentSettings.off()), ("default augmentation", AugmentSettings())):
            print(f"{side}³  step / bare network, {name}: {step_over_network(side, arguments.scans, augment):.3f}")
        for name, value in ways_to_run(side, arguments.scans).items():
            print(f"{side}³  {name}: {value:.3f}")


if __name__ == "__main__":
    main()
