"""Views that imitate other sites: how long each operation takes beside MONAI's, what they cost a step, how they look.

    python -m benchmarks.views.sites               # 121×145×121, one thread, and shares of training
    steps; two minutes python -m benchmarks.views.sites --pictures    # docs/images/site_views.png:
    one simulated brain under each operation

Times are CPU time, medians of calls made in turn, so that other work on the machine changes them
little.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import math
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from neurocontrast.data.simulation import SimulationSettings, draw_person, render_scan
from neurocontrast.encoders import EncoderSettings, build_encoder
from neurocontrast.parallel.devices import keeping_freed_memory
from neurocontrast.transforms import AugmentSettings, TwoViews, brain_views
from neurocontrast.transforms.signal import from_signal, to_signal

OPERATIONS = tuple(
    name
    for name, chosen in AugmentSettings.sites()
    if chosen is not None
    and getattr(AugmentSettings(), name) is None  # the cutout is on without them too
)
FIGURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "site_views.png"


def alone(operation: str) -> AugmentSettings:
    """Return settings under which one operation is applied every time, at its default strength, and nothing else."""
    settings = getattr(AugmentSettings.sites(), operation).model_copy(update={"probability": 1.0})
    return AugmentSettings.off().model_copy(update={operation: settings})


def brain(spacing_mm: float) -> Tensor:
    """Return a simulated brain, z-scored over its box, as a batch of one."""
    settings = SimulationSettings(spacing_mm=spacing_mm)
    volume = render_scan(settings, draw_person(settings, 0)).astype(np.float32)
    return torch.from_numpy((volume - volume.mean()) / volume.std())[None, None]


# --- time
# ------------------------------------------------------------------------------------------------------------
def monai_transforms() -> dict[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]]:
    """Return MONAI's transforms that do the same or nearly so to a signal, always applied, at like strengths."""
    from monai import transforms as mt

    angle, spread = (
        math.radians(3.0),
        dict.fromkeys(("sigma1_x", "sigma1_y", "sigma1_z"), (1.0, 1.0)),
    )
    both = {"keys": ("image", "brain"), "mode": ("bilinear", "nearest"), "padding_mode": "zeros"}
    return {
        "affine": mt.RandAffined(
            prob=1.0, rotate_range=[angle] * 3, translate_range=[1.0] * 3, **both
        ),
        "contrast": mt.RandAdjustContrastd("image", prob=1.0, gamma=(0.8, 1.25)),
        "bias_field": mt.RandBiasFieldd("image", prob=1.0, degree=3, coeff_range=(0.0, 0.1)),
        "sharpness": mt.RandGaussianSharpend("image", prob=1.0, **spread, alpha=(0.5, 1.0)),
        "rician": mt.RandRicianNoised("image", prob=1.0, std=0.04, sample_std=True),
    }


def median_ms(calls: dict[str, Callable[[int], object]], n_rounds: int) -> dict[str, float]:
    """Return median milliseconds of CPU time of each; one call of each per round."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(n_rounds + 1):
        for name, call in calls.items():
            start = time.process_time()
            call(i)
            taken[name].append(1e3 * (time.process_time() - start))
    return {name: float(np.median(values[1:])) for name, values in taken.items()}


def make(views: TwoViews, volumes: Tensor, i: int) -> Tensor:
    return views.view(volumes, [str(i)], epoch=0, view=0)


def ours(settings: AugmentSettings, seed: int = 0) -> TwoViews:
    return TwoViews(brain_views(settings), seed=seed)


def compare_speed(n_rounds: int) -> None:
    volume = brain(1.5)
    theirs = monai_transforms()
    signals = to_signal(volume)
    print(f"\n{tuple(volume.shape[2:])}, float32; to signal and back is part of ours\n")
    print("| ms, applied | ours | MONAI stock | MONAI / ours |\n|---|---|---|---|")
    with keeping_freed_memory():
        there = {
            "there": lambda _: to_signal(volume),
            "and back": lambda _: from_signal(to_signal(volume)),
        }
        for name in OPERATIONS:
            calls = {"ours": functools.partial(make, ours(alone(name)), volume)}
            if name in theirs:
                calls["MONAI"] = lambda _, do=theirs[name]: do(
                    {"image": signals.x_BCDHW[0], "brain": signals.brain_BCDHW[0]}
                )
            ms = median_ms(calls, n_rounds)
            row = (
                f"{ms['MONAI']:.0f} | {ms['MONAI'] / ms['ours']:.1f}" if name in theirs else "– | "
            )
            print(f"| {name} | {ms['ours']:.0f} | {row} |", flush=True)
        for label, settings in (
            ("`sites()`", AugmentSettings.sites()),
            ("default", AugmentSettings()),
        ):
            ms = median_ms({"ours": functools.partial(make, ours(settings), volume)}, 4 * n_rounds)
            print(f"| a view by {label} | {ms['ours']:.0f} | – | |")
        print(
            f"| of each: to signal and back | {median_ms(there, n_rounds)['and back']:.0f} | – | |"
        )


def compare_with_step(
    shape: tuple[int, int, int], encoder_name: str, n_scans: int, n_rounds: int
) -> None:
    """Print how long two views take over both views' forward and backward pass."""
    encoder = build_encoder(EncoderSettings(name=encoder_name))
    volumes = (
        torch.nn.functional.interpolate(brain(4.0), size=list(shape))
        .expand(n_scans, -1, -1, -1, -1)
        .contiguous()
    )
    signal = (volumes - volumes.mean()) / volumes.std()

    def step(_: int) -> None:
        encoder(torch.cat([signal, signal])).sum().backward()
        encoder.zero_grad()

    def two_views(views: TwoViews, i: int) -> None:
        views(signal, [str(scan) for scan in range(n_scans)], epoch=i)

    settings = {"default": AugmentSettings(), "sites()": AugmentSettings.sites()}
    calls = {name: functools.partial(two_views, ours(each)) for name, each in settings.items()}
    with keeping_freed_memory():
        ms = median_ms({"passes": step, **calls}, n_rounds)
    each = {name: value / n_scans for name, value in ms.items()}
    print(
        f"| {encoder_name}, {'×'.join(map(str, shape))} | {each['passes']:.1f} | {each['default']:.2f} "
        f"| {each['sites()']:.2f} | {each['sites()'] / (each['passes'] + each['sites()']):.1%} |",
        flush=True,
    )


# --- pictures
# --------------------------------------------------------------------------------------------------------
def draw_pictures(path: Path, spacing_mm: float, n_draws: int = 3) -> None:
    """Draw an axial slice of one brain, and of `n_draws` views of it by each operation and by all together."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    volume = brain(spacing_mm)
    columns = {"as it is": AugmentSettings.off()} | {name: alone(name) for name in OPERATIONS}
    columns["sites()"] = AugmentSettings.sites().model_copy(update={"cutout": None})
    figure, axes = pyplot.subplots(
        n_draws, len(columns), figsize=(1.25 * len(columns), 1.55 * n_draws)
    )
    for column, (name, settings) in enumerate(columns.items()):
        for row in range(n_draws):
            view = ours(settings, seed=1).view(volume, [str(row)], epoch=0, view=0)[0, 0].numpy()
            picture = axes[row, column]
            picture.imshow(
                view[:, :, view.shape[2] // 2].T, cmap="gray", origin="lower", vmin=-1.0, vmax=3.0
            )
            picture.axis("off")
        axes[0, column].set_title(name, fontsize=9)
    figure.subplots_adjust(0.0, 0.0, 1.0, 0.94, 0.02, 0.02)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pictures", nargs="?", type=Path, const=FIGURE, help="draw into this file instead"
    )
    parser.add_argument("--spacing-mm", type=float, default=2.0, help="of the pictures")
    parser.add_argument("--n-rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.pictures:
        draw_pictures(arguments.pictures, arguments.spacing_mm)
        return
    print(f"{datetime.date.today()}, torch {torch.__version__}, {platform.machine()}, one thread")
    print(
        "\n| ms a scan | forward and backward, both views | default views | `sites()` views | their share |"
    )
    print("|---|---|---|---|---|")
    for name in ("densenet121", "densenet_small"):
        compare_with_step((32, 40, 32), name, 8, arguments.n_rounds)
    compare_with_step((64, 64, 64), "densenet121", 2, arguments.n_rounds)
    compare_speed(arguments.n_rounds)


if __name__ == "__main__":
    main()
