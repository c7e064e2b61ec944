"""Two views of one volume: this package, the published protocol's operations in SciPy, and MONAI's stock transforms.

All three are timed in one run, in turn, so that the ratios hold on a busy machine too; operations
that the protocol applies half of the time are timed applied, and a view's expected cost is half
their sum. The last table compares what comes out: the same statistics of many views of one volume,
by a two-sample Kolmogorov-Smirnov test.

    python -m benchmarks.views                        # 121×145×121, one thread; two minutes
    python -m benchmarks.views --only outputs --before FOLDER   # distributions beside an earlier
                                                      # checkout's: every operation, and recipes
    python -m benchmarks.views --only overhead [--before FOLDER]   # CPU time of a view: 12×12×12
    python -m benchmarks.views --device cuda          # ours alone on a GPU, batches of 64
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy import ndimage, stats
from torch import Tensor

from benchmarks.views.earlier import views_of
from neurocontrast.config import as_config
from neurocontrast.data.simulation import SimulationSettings, draw_person, render_scan
from neurocontrast.parallel.devices import keeping_freed_memory
from neurocontrast.transforms import AugmentSettings, TwoViews, brain_views
from neurocontrast.transforms.augment import Operation, TissueShift
from neurocontrast.transforms.rand_intensity import blur

OPERATIONS = ("flip", "blur", "noise", "cutout", "crop")
Timed = Callable[[int], object]


# --- the published operations, written from their definition
# -------------------------------------------------------
def reference_view(x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """One view of a (D, H, W) array by the published protocol, in NumPy and SciPy."""
    for operation in OPERATIONS:
        if generator.random() < 0.5:
            x = REFERENCE[operation](x, generator)
    return x


def _reference_box(
    shape: tuple[int, ...], fraction: float, generator: np.random.Generator
) -> tuple[slice, ...]:
    size = [int(np.ceil(fraction * side)) for side in shape]
    starts = [
        generator.integers(0, side - length + 1) for side, length in zip(shape, size, strict=True)
    ]
    return tuple(slice(start, start + length) for start, length in zip(starts, size, strict=True))


def _reference_flip(x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return np.flip(x, axis=generator.integers(3)).copy()


def _reference_blur(x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return ndimage.gaussian_filter(x, generator.uniform(0.1, 1.0))


def _reference_noise(x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    # The released code draws the two parts of complex noise and adds the first.
    return x + generator.normal(0.0, generator.uniform(0.1, 1.0), (2, *x.shape))[0]


def _reference_cutout(x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    x = x.copy()
    x[_reference_box(x.shape, 0.25, generator)] = 0.0
    return x


def _reference_crop(x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    # What scikit-image's resize does: linear interpolation between voxel centres in double
    # precision.
    box = x[_reference_box(x.shape, 0.75, generator)].astype(np.float64)
    factors = [side / length for side, length in zip(x.shape, box.shape, strict=True)]
    return ndimage.zoom(box, factors, order=1, mode="mirror", grid_mode=True)


REFERENCE = {
    "flip": _reference_flip,
    "blur": _reference_blur,
    "noise": _reference_noise,
    "cutout": _reference_cutout,
    "crop": _reference_crop,
}


# --- the three, one operation at a time, always applied
# ------------------------------------------------------------
def reference_operations(x: np.ndarray) -> dict[str, Timed]:
    return {
        name: (lambda i, do=do: do(x, np.random.default_rng(i))) for name, do in REFERENCE.items()
    }


def monai_transforms(shape: tuple[int, ...]) -> dict[str, Callable[[Tensor], Tensor]]:
    from monai import transforms as mt

    quarter, three_quarters = ([int(np.ceil(f * side)) for side in shape] for f in (0.25, 0.75))
    sigma = (0.1, 1.0)
    return {
        "flip": mt.RandAxisFlip(prob=1.0),
        "blur": mt.RandGaussianSmooth(sigma_x=sigma, sigma_y=sigma, sigma_z=sigma, prob=1.0),
        "noise": mt.RandGaussianNoise(prob=1.0, mean=0.0, std=1.0),
        "cutout": mt.RandCoarseDropout(holes=1, spatial_size=quarter, fill_value=0.0, prob=1.0),
        "crop": mt.Compose(
            [
                mt.RandSpatialCrop(roi_size=three_quarters, random_size=False),
                mt.Resize(shape, mode="trilinear"),
            ]
        ),
    }


def monai_operations(x: Tensor) -> dict[str, Timed]:
    # MONAI draws from a state of its own, so a round's number says nothing to it.
    return {
        name: (lambda _i, do=do: do(x)) for name, do in monai_transforms(tuple(x.shape[1:])).items()
    }


def our_operations(x: Tensor) -> dict[str, Timed]:
    reference = AugmentSettings.reference()

    def alone(name: str) -> Timed:
        settings = getattr(reference, name).model_copy(update={"probability": 1.0})
        views = TwoViews(
            brain_views(AugmentSettings.off().model_copy(update={name: settings})), seed=0
        )
        return lambda i: views.view(x[None], [str(i)], epoch=0, view=0)

    return {name: alone(name) for name in OPERATIONS}


def time_in_turn(candidates: dict[str, Timed], n_rounds: int) -> dict[str, float]:
    """Mean milliseconds of each; one call of each per round, the same draws' numbers in every round."""
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for call in candidates.values():
        call(0)
    for i in range(n_rounds):
        for name, call in candidates.items():
            start = time.perf_counter()
            call(i)
            taken[name].append(1e3 * (time.perf_counter() - start))
    # Without the slowest tenth, which are other processes' doing.
    return {
        name: float(np.mean(np.sort(ms)[: max(1, int(0.9 * n_rounds))]))
        for name, ms in taken.items()
    }


# --- tables
# ---------------------------------------------------------------------------------------------------------
def compare_speed(x: np.ndarray, n_rounds: int) -> None:
    tensor = torch.from_numpy(x)[None]
    each = {
        "ours": our_operations(tensor),
        "reference": reference_operations(x),
        "MONAI": monai_operations(tensor),
    }
    print(
        "\n| ms, applied | ours | reference (SciPy) | MONAI stock | reference / ours | MONAI / ours |"
    )
    print("|---|---|---|---|---|---|")
    expected = dict.fromkeys(each, 0.0)
    for name in OPERATIONS:
        ms = time_in_turn(
            {who: operations_of[name] for who, operations_of in each.items()}, n_rounds
        )
        expected = {who: expected[who] + 0.5 * ms[who] for who in each}
        _row(name, ms)
    _row("**a view, expected** (each p = .5)", expected)

    print("\nTwo views, end to end, as drawn, the same operations for all:\n")
    print(
        "| ms | ours | reference (SciPy) | MONAI stock | reference / ours | MONAI / ours |\n|---|---|---|---|---|---|"
    )
    _row("by itself", compare_pairs(x, 2 * n_rounds, contextlib.nullcontext))
    _row("freed memory kept, as in training", compare_pairs(x, 2 * n_rounds, keeping_freed_memory))
    print()
    default = TwoViews(brain_views(), seed=0)
    ms = time_in_turn({"default": lambda i: default(tensor[None], [str(i)], epoch=0)}, n_rounds)[
        "default"
    ]
    print(f"Two views with this package's default settings: {ms:.1f} ms")


def compare_pairs(
    x: np.ndarray, n_rounds: int, memory: Callable[[], contextlib.AbstractContextManager]
) -> dict[str, float]:
    """Return mean milliseconds of two views, each pair the lesser of two tries; all apply the same operations."""
    tensor = torch.from_numpy(x)[None]
    settings, stock = AugmentSettings.reference(), monai_transforms(x.shape)
    milliseconds: dict[str, list[float]] = {"ours": [], "reference": [], "MONAI": []}
    for i in range(n_rounds):
        chosen = np.random.default_rng(i).random((2, len(OPERATIONS))) < 0.5
        applied = [[name for name, on in zip(OPERATIONS, row, strict=True) if on] for row in chosen]
        views = [_always(settings, names) for names in applied]
        calls = {
            "ours": lambda i=i, views=views: [
                each.view(tensor[None], [str(i)], epoch=0, view=0) for each in views
            ],
            "reference": functools.partial(_in_order, REFERENCE, applied, x, i),
            "MONAI": functools.partial(_in_order, stock, applied, tensor, None),
        }
        seconds = {name: [] for name in calls}
        with memory():
            for _ in range(3):
                for name, call in calls.items():
                    start = time.perf_counter()
                    call()
                    seconds[name].append(time.perf_counter() - start)
        for name, values in seconds.items():
            milliseconds[name].append(1e3 * min(values[1:]))
    return {name: float(np.mean(values)) for name, values in milliseconds.items()}


def _always(settings: AugmentSettings, names: list[str]) -> TwoViews:
    """Return views by some of the operations, each applied every time."""
    chosen = {
        name: getattr(settings, name).model_copy(update={"probability": 1.0}) for name in names
    }
    return TwoViews(brain_views(AugmentSettings.off().model_copy(update=chosen)), seed=0)


def _in_order(
    operations_of: dict[str, Callable], applied: list[list[str]], x: object, seed: int | None
) -> None:
    given = (
        () if seed is None else (np.random.default_rng(seed),)
    )  # MONAI draws from a state of its own
    for names in applied:
        view = x
        for name in names:
            view = operations_of[name](view, *given)


def _row(name: str, ms: dict[str, float]) -> None:
    ours, reference, monai = ms["ours"], ms["reference"], ms["MONAI"]
    print(
        f"| {name} | {ours:.1f} | {reference:.1f} | {monai:.1f} | {reference / ours:.1f} | {monai / ours:.1f} |"
    )


def compare_outputs(x: np.ndarray, n_views: int, before: Path | None) -> None:
    """Print how far apart the distributions of views are, for statistics that each operation moves."""
    volume = torch.from_numpy(x)[None, None]
    reference = AugmentSettings.reference()
    theirs = np.array(
        [_statistics(reference_view(x, np.random.default_rng(i))) for i in range(n_views)]
    )
    _print_distances("reference", _of_views(_two(reference), volume, n_views), theirs)
    if before is not None:
        compare_operations(before, n_views)

    print("\nSame parameters, largest difference from SciPy over the volume:")
    tensor = torch.from_numpy(x)[None]
    for sigma in (0.2, 0.55, 1.0):
        blurred = blur(tensor[None], sigma_voxels=np.array([sigma]))[0, 0].numpy()
        difference = blurred - ndimage.gaussian_filter(x, sigma)
        print(f"- blur, σ = {sigma}: {np.abs(difference).max():.1e}")


def _two(settings: AugmentSettings) -> Callable[..., tuple[Tensor, Tensor]]:
    views = TwoViews(brain_views(settings), seed=0)
    return lambda volumes, samples, epoch: views(
        volumes, [str(sample) for sample in samples], epoch=epoch
    )


def _of_views(
    make: Callable[..., tuple[Tensor, Tensor]], volume: Tensor, n_views: int
) -> np.ndarray:
    pairs = [make(volume, [i], epoch=0) for i in range(n_views // 2)]
    return np.array([_statistics(view[0, 0].numpy()) for pair in pairs for view in pair])


def _print_distances(other: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    print(
        f"\n| statistic of {len(ours)} views | ours: 10 %, median, 90 % | {other} | KS distance | p |"
    )
    print("|---|---|---|---|---|")
    names = (
        "mean",
        "sd",
        "voxel-to-voxel sd",
        "exact zeros",
        "left–right balance",
        "share over 1 from median",
    )
    for column, name in enumerate(names):
        a, b = ours[:, column], theirs[:, column]
        test = stats.ks_2samp(a, b)
        shown = ["{:.3f}, {:.3f}, {:.3f}".format(*np.quantile(v, (0.1, 0.5, 0.9))) for v in (a, b)]
        print(f"| {name} | {shown[0]} | {shown[1]} | {test.statistic:.3f} | {test.pvalue:.2f} |")


RECIPES = ("conditional_reference", "small", "conditional", "tissue")
FIGURES = (
    *("mean", "sd", "voxel-to-voxel sd", "99th percentile", "share of zeros"),
    *("left − right", "front − back", "top − bottom", "median of the bright half"),
)


def every_operation() -> dict[str, AugmentSettings]:
    """Return the settings of each operation alone, always applied."""
    operations = dict(AugmentSettings.reference()) | {"tissue_shift": TissueShift()}
    operations |= {name: value for name, value in AugmentSettings.sites() if value is not None}
    alone = {}
    for name, operation in operations.items():
        if isinstance(operation, Operation):
            always = operation.model_copy(update={"probability": 1.0})
            alone[name] = AugmentSettings.off().model_copy(update={name: always})
    return alone


def compare_operations(before: Path, n_views: int) -> None:
    """Print how far the distributions of views are from an earlier checkout's, by operation and by recipe."""
    volume = torch.from_numpy(brain((23, 28, 23)))[None]
    volume = (volume - volume.min()) / volume.max()
    grey = volume.clamp(max=0.5)
    maps = torch.cat([grey, volume - grey])
    settings = every_operation()
    settings |= {f"recipe {name}": as_config(name).augment for name in RECIPES}
    print(
        f"\n| {n_views} views | largest KS distance of {len(FIGURES)} statistics | statistic "
        f"| p, times {len(FIGURES)} |"
    )
    print("|---|---|---|---|")
    for name, chosen in settings.items():
        given = maps if "tissue" in name else volume
        tables = [
            _many_figures(make, given, n_views) for make in (_two(chosen), views_of(before, chosen))
        ]
        tests = [stats.ks_2samp(*columns) for columns in zip(*(t.T for t in tables), strict=True)]
        worst = int(np.argmax([test.statistic for test in tests]))
        p_value = min(1.0, len(FIGURES) * min(test.pvalue for test in tests))
        distance = tests[worst].statistic
        print(f"| {name} | {distance:.3f} | {FIGURES[worst]} | {p_value:.2f} |", flush=True)


def _many_figures(
    make: Callable[..., tuple[Tensor, Tensor]], volume: Tensor, n_views: int
) -> np.ndarray:
    """Return the figures of many views of a volume, of the first channel of each."""
    tables = []
    for start in range(0, n_views // 2, 50):
        samples = list(range(start, start + 50))
        pair = make(volume.expand(len(samples), -1, -1, -1, -1), samples, epoch=0)
        tables += [_figures(view[:, 0].numpy()) for view in pair]
    return np.concatenate(tables)


def _figures(views: np.ndarray) -> np.ndarray:
    """Return the figures of views (b, D, H, W), one column each."""
    middle = [side // 2 for side in views.shape[1:]]
    flat = views.reshape(len(views), -1)
    columns = [
        flat.mean(1),
        flat.std(1),
        np.diff(views, axis=2).reshape(len(views), -1).std(1),
        np.quantile(flat, 0.99, axis=1),
        (flat == flat[:, :1]).mean(1),
    ]
    for axis, half in enumerate(middle):
        turned = np.moveaxis(views, 1 + axis, 1)
        columns.append(turned[:, :half].mean((1, 2, 3)) - turned[:, -half:].mean((1, 2, 3)))
    columns.append(np.quantile(flat, 0.75, axis=1))
    return np.stack(columns, axis=1)


def compare_overhead(before: Path | None, n_rounds: int) -> None:
    """Print the CPU time of a view of a small volume, where it is Python's and PyTorch's calls, and of a larger one."""
    settings = {name: as_config(name).augment for name in RECIPES} | every_operation()
    cases = [((12, 12, 12), 64), ((32, 36, 32), 16)]
    titles = [f"{'×'.join(map(str, shape))}, {n} scans" for shape, n in cases]
    heads = [
        f"{title}{when}"
        for title in titles
        for when in ("", ", before")[: 1 + (before is not None)]
    ]
    print("\n| CPU ms a view | " + " | ".join(heads) + " |\n|" + "---|" * (1 + len(heads)))
    for name, chosen in settings.items():
        makers = [_two(chosen)] + ([] if before is None else [views_of(before, chosen)])
        cells = []
        for shape, n_scans in cases:
            volume = torch.nn.functional.interpolate(
                torch.from_numpy(brain((46, 55, 46)))[None, None], size=shape
            ).half()
            volume = volume.expand(n_scans, 3 if name == "tissue" else 1, -1, -1, -1)
            cells += [f"{_cpu_ms(make, volume, n_rounds):.2f}" for make in makers]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def _cpu_ms(make: Callable[..., tuple[Tensor, Tensor]], volumes: Tensor, n_rounds: int) -> float:
    """Return the median CPU milliseconds of a view."""
    samples = list(range(len(volumes)))
    seconds = []
    with keeping_freed_memory():
        make(volumes, samples, epoch=0)
        for epoch in range(n_rounds):
            start = time.process_time()
            make(volumes, samples, epoch=epoch)
            seconds.append((time.process_time() - start) / (2 * len(volumes)))
    return 1e3 * float(np.median(seconds))


def _statistics(view: np.ndarray) -> tuple[float, ...]:
    middle = view.shape[0] // 2
    return (
        float(view.mean()),
        float(view.std()),
        float(np.diff(view, axis=1).std()),
        float((view == 0.0).mean()),
        float(view[:middle].mean() - view[-middle:].mean()),
        float((np.abs(view - np.median(view)) > 1.0).mean()),
    )


def time_on_gpu(shape: tuple[int, int, int], batch: int, n_rounds: int) -> None:
    volumes = torch.randn(batch, 1, *shape, device="cuda", dtype=torch.float16)
    for name, settings in (
        ("reference", AugmentSettings.reference()),
        ("default", AugmentSettings()),
    ):
        views = TwoViews(brain_views(settings), seed=0)
        for epoch in range(n_rounds + 1):
            if epoch == 1:
                torch.cuda.synchronize()
                start = time.perf_counter()
            views(volumes, [str(scan) for scan in range(batch)], epoch=epoch)
        torch.cuda.synchronize()
        seconds = (time.perf_counter() - start) / n_rounds
        print(
            f"{name}: {1e3 * seconds:.0f} ms for two views of {batch} volumes ({batch / seconds:.0f} volumes/s)"
        )


def brain(shape: tuple[int, int, int]) -> np.ndarray:
    """One simulated brain, z-scored, at about the shape."""
    settings = SimulationSettings(spacing_mm=180.0 / (shape[0] - 1))
    volume = render_scan(settings, draw_person(settings, 0)).astype(np.float32)
    return (volume - volume.mean()) / volume.std()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--n-rounds", type=int, default=20)
    parser.add_argument(
        "--n-views", type=int, default=2000, help="views whose distribution is compared"
    )
    parser.add_argument(
        "--before", type=Path, help="an earlier checkout whose views' distribution is compared too"
    )
    parser.add_argument(
        "--only", choices=("speed", "outputs", "overhead"), help="one of the three parts"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{datetime.date.today()}, torch {torch.__version__}, {platform.machine()}, one thread")
    if arguments.device == "cuda":
        print(torch.cuda.get_device_name())
        time_on_gpu((121, 145, 121), 64, arguments.n_rounds)
        return
    chosen = (arguments.only,) if arguments.only else ("speed", "outputs", "overhead")
    if "speed" in chosen:
        x = brain((121, 145, 121))
        print(f"volume {x.shape}, float32")
        compare_speed(x, arguments.n_rounds)
    if "outputs" in chosen:
        compare_outputs(brain((46, 55, 46)), arguments.n_views, arguments.before)
    if "overhead" in chosen:
        compare_overhead(arguments.before, arguments.n_rounds)


if __name__ == "__main__":
    main()
