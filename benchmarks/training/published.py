"""The published batch, 64 pairs at 121×145×121 through DenseNet121, on one device: ours and nidl's y-Aware.

    python -m benchmarks.training --device cuda                                       # bf16
    python -m benchmarks.training --device cuda --micro-batch-size 16                 # gradients
    cached python -m benchmarks.training --device cpu --shape 32 --batch-size 4 --steps 2    # the
    same code, small

What a step achieves is told as a part of what the device was measured to do in the same run: of a
large matrix product (operations counted by PyTorch), and of a large copy (every operator reads its
arguments and writes its results once; a fused operator counts as one).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from neurocontrast.encoders import EncoderSettings, build_encoder, build_model
from neurocontrast.kernels import Gaussian
from neurocontrast.losses import YAwareInfoNCE
from neurocontrast.parallel.devices import keeping_freed_memory
from neurocontrast.training import TrainingData, TrainingSettings
from neurocontrast.training.position import Position
from neurocontrast.training.state import ContrastiveState, deterministic
from neurocontrast.training.steps import contrastive_step, open_batches
from neurocontrast.transforms import AugmentSettings, TwoViews, brain_views


class InMemory:
    """Random volumes in the cache's precision, held in memory: reading them costs a copy."""

    def __init__(self, n: int, shape: tuple[int, int, int]) -> None:
        self.image_shape, self.image_dtype = (1, *shape), np.dtype(np.float16)
        self.n = n
        generator = np.random.default_rng(0)
        self.volumes = generator.standard_normal(
            (min(n, 64), *self.image_shape), np.float32
        ).astype(np.float16)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            "image": torch.from_numpy(self.volumes[index % len(self.volumes)]).float(),
            "index": index,
        }

    def read_into(self, out: np.ndarray, index: int) -> None:
        """Copy a volume, as `CohortDataset` reads one."""
        out[...] = self.volumes[index % len(self.volumes)]


def random_scans(
    n: int, shape: tuple[int, int, int], metadata: Mapping[str, torch.Tensor]
) -> TrainingData:
    """Return random volumes to train on, all of them."""
    rows = list(range(n))
    return TrainingData(
        images=InMemory(n, shape),
        names=list(map(str, rows)),
        metadata=metadata,
        training_rows=rows,
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the published batch")
    group.add_argument("--device", choices=("cpu", "cuda"))
    group.add_argument(
        "--shape",
        type=int,
        nargs="+",
        default=[121, 145, 121],
        help="three sides, or one for a cube",
    )
    group.add_argument("--batch-size", type=int, default=64)
    group.add_argument(
        "--micro-batch-size",
        type=int,
        help="cache gradients; the whole batch at once where not given",
    )
    group.add_argument(
        "--steps", type=int, default=4, help="steps that are timed, after one that is not"
    )


def show(options: argparse.Namespace) -> None:
    device = torch.device(options.device)
    shape = tuple(options.shape * 3 if len(options.shape) == 1 else options.shape)
    name = (
        torch.cuda.get_device_name()
        if device.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads"
    )
    precision = "bf16-mixed" if device.type == "cuda" else "32-true"
    print(
        f"{name}; DenseNet121, {'×'.join(map(str, shape))}, {precision}, {options.batch_size} pairs a batch\n"
    )
    n_operations, n_bytes = cost_of_a_volume(device, shape)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    peak_operations, peak_bytes = matmul_ceiling(device, dtype), copy_ceiling(device)
    print(
        f"ceilings measured: {dtype} products {peak_operations / 1e12:.2f} TFLOP/s, "
        f"copies {peak_bytes / 1e9:.0f} GB/s\n"
    )
    print(
        "| | volumes/s | step | of the product ceiling | of the bandwidth | views, of the step | peak memory |"
    )
    print("|---|---|---|---|---|---|---|")
    passes = (
        4 / 3 if options.micro_batch_size else 1.0
    )  # a forward pass more, of about a third of the work
    for row in (ours, nidls):
        with _out_of_memory_told(row.__name__):
            seconds, share = row(options, device, shape, precision)
            n_views, of_ours = 2 * options.batch_size, passes if row is ours else 1.0
            print(
                f"| {row.__name__} | {options.batch_size / seconds:.2f} | {seconds:.3f} s "
                f"| {n_views * n_operations * of_ours / seconds / peak_operations:.1%} "
                f"| {n_views * n_bytes * of_ours / seconds / peak_bytes:.1%} "
                f"| {'' if share is None else f'{share:.1%}'} | {_peak_memory(device)} |",
                flush=True,
            )


# --- the two ways
# ---------------------------------------------------------------------------------------------------
def ours(
    options: argparse.Namespace, device: torch.device, shape: tuple[int, ...], precision: str
) -> tuple[float, float | None]:
    """Return seconds a step, the views among them, and the views' share."""
    state = _state(options, device, shape, precision)
    batches = [list(range(options.batch_size))] * (options.steps + 1)
    state.model.train()
    with (
        deterministic(),
        keeping_freed_memory(),
        contextlib.closing(open_batches(state, batches)) as reading,
    ):
        contrastive_step(state, next(reading), Position())
        step = _seconds(
            lambda: contrastive_step(state, next(reading), Position()), device, options.steps
        )
    n = options.micro_batch_size or options.batch_size
    names, volumes = (
        state.data.names[:n],
        torch.zeros(n, 1, *shape, dtype=torch.float16, device=device),
    )
    views = (
        _seconds(lambda: state.views(volumes, names, epoch=0), device, options.steps)
        * options.batch_size
        / n
    )
    return step, views * (2 if options.micro_batch_size else 1) / step


def _state(
    options: argparse.Namespace, device: torch.device, shape: tuple[int, ...], precision: str
) -> ContrastiveState:
    ages = torch.linspace(18, 80, options.batch_size)
    data = random_scans(options.batch_size, shape, {"age": ages})
    settings = TrainingSettings(
        batch_size=options.batch_size,
        micro_batch_size=options.micro_batch_size,
        precision=precision,
        accelerator=device.type,
    )
    views = TwoViews(brain_views(AugmentSettings.reference()), seed=0)
    objective = YAwareInfoNCE(Gaussian("age", sigma=5.0))
    return ContrastiveState(
        build_model(EncoderSettings()),
        objective,
        views,
        data,
        settings=settings,
        sampler=data.sampler(settings, 0),
    )


def nidls(
    options: argparse.Namespace, device: torch.device, shape: tuple[int, ...], precision: str
) -> tuple[float, float | None]:
    """Return seconds a step of nidl's estimator on the same encoder, with views that are there already."""
    if importlib.util.find_spec("nidl") is None:
        raise ModuleNotFoundError("nidl is not installed: pip install 'neurocontrast[benchmarks]'")
    from nidl.estimators.ssl import YAwareContrastiveLearning
    from pytorch_lightning import Callback

    class Clock(Callback):
        def __init__(self) -> None:
            self.ends: list[float] = []

        def on_train_batch_end(self, *_: object) -> None:
            _synchronise(device)
            self.ends.append(time.perf_counter())

    class Views(torch.utils.data.Dataset):
        def __init__(self) -> None:
            self.x = torch.randn(min(options.batch_size, 64), 1, *shape)

        def __len__(self) -> int:
            return options.batch_size * (options.steps + 1)

        def __getitem__(self, index: int) -> tuple[list[torch.Tensor], torch.Tensor]:
            x = self.x[index % len(self.x)]
            return [x, x], torch.tensor([20.0 + index % 60])

    clock = Clock()
    loader = torch.utils.data.DataLoader(
        Views(), batch_size=options.batch_size, pin_memory=device.type == "cuda"
    )
    estimator = YAwareContrastiveLearning(
        build_encoder(EncoderSettings()),
        proj_input_dim=1024,
        bandwidth=25.0,
        optimizer="adam",
        lr_scheduler="none",
        max_epochs=1,
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=1,
        precision=precision,
        callbacks=[clock],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        random_state=0,
    )
    estimator.fit(loader)
    return float(np.min(np.diff(clock.ends))), None


@contextlib.contextmanager
def _out_of_memory_told(name: str) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:
        print(f"| {name} | does not fit the device at once | | | | | |")
        torch.cuda.empty_cache()
    except ImportError as error:
        print(f"| {name} | not measured: {error} | | | | | |")


# --- what the device does at best, and what a volume asks of it
# -----------------------------------------------------
class _Bytes(TorchDispatchMode):
    """Counts the bytes that every operator reads and writes, views apart."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not any(
            value.alias_info and not value.alias_info.is_write for value in func._schema.returns
        ):
            for value in torch.utils._pytree.tree_leaves((args, kwargs, result)):
                if isinstance(value, torch.Tensor):
                    self.total += value.numel() * value.element_size()
        return result


def cost_of_a_volume(device: torch.device, shape: tuple[int, ...]) -> tuple[float, float]:
    """Return operations and bytes of one volume's forward and backward pass, counted on two."""
    encoder = build_encoder(EncoderSettings()).to(device)
    volumes = torch.randn(2, 1, *shape, device=device)
    counts = []
    for counter in (FlopCounterMode(display=False), _Bytes()):
        with counter, torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            encoder(volumes).float().sum().backward()
        counts.append(
            counter.get_total_flops() if isinstance(counter, FlopCounterMode) else counter.total
        )
    return counts[0] / 2, counts[1] / 2


def matmul_ceiling(device: torch.device, dtype: torch.dtype) -> float:
    """Return operations a second of a large matrix product."""
    n = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    return 2 * n**3 / _seconds(lambda: a @ b, device, 10)


def copy_ceiling(device: torch.device) -> float:
    """Return bytes a second, read and written, of a large copy."""
    source = torch.zeros(
        2**30 if device.type == "cuda" else 2**27, dtype=torch.uint8, device=device
    )
    target = torch.empty_like(source)
    return 2 * source.numel() / _seconds(lambda: target.copy_(source), device, 10)


def _seconds(call: Callable[[], object], device: torch.device, n: int) -> float:
    best = math.inf
    for _ in range(n):
        _synchronise(device)
        start = time.perf_counter()
        call()
        _synchronise(device)
        best = min(best, time.perf_counter() - start)
    return best


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _peak_memory(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    peak = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return f"{peak:.1f} GiB"
