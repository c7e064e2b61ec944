"""What a training step and embedding cost beside the bare network, and which ways to run the network are worth it.

Each figure is a ratio within one run, of calls made in turn, so that it means the same on any machine::

    python -m benchmarks.training step --sides 32 64 96
        # a step over the bare encoder's forward and backward pass
    python -m benchmarks.training recipes --boxes 32x36x32
        # a step of recipes, with their views, over the bare passes of their networks
    python -m benchmarks.training embedding --sides 32 64
        # `extract_features` over the bare encoder's forward pass
    python -m benchmarks.training ways --sides 32 48 64
        # channels_last_3d, bfloat16, fused Adam
    python -m benchmarks.training compile --sides 32
        # torch.compile: minutes of compiling
    python -m benchmarks.training bf16
        # features of simulated brains in bfloat16 and in float32
    python -m benchmarks.training --device cuda
        # the published batch on a GPU (`published.py`)
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import itertools
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cosine_similarity
from torch.optim.swa_utils import update_bn

import neurocontrast
from benchmarks.training import published
from neurocontrast.config import as_config
from neurocontrast.data import CohortDataset, VolumeCache, read_cohort
from neurocontrast.embedding import EmbeddingSettings, extract_features
from neurocontrast.encoders import Encoder, EncoderSettings, build_encoder, build_model
from neurocontrast.losses import NTXent
from neurocontrast.parallel.devices import keeping_freed_memory
from neurocontrast.training import TrainingSettings
from neurocontrast.training.position import Position
from neurocontrast.training.state import ContrastiveState, deterministic
from neurocontrast.training.steps import contrastive_step, open_batches
from neurocontrast.transforms import AugmentSettings, Preprocessing, TwoViews, brain_views

Timed = Callable[[], object]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def main() -> None:
    sections = {
        "step": show_steps,
        "recipes": show_recipes,
        "embedding": show_embedding,
        "ways": show_ways,
        "compile": show_compile,
        "bf16": show_bfloat16,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(sections)}; all by default")
    parser.add_argument("--sides", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--recipes", nargs="+", default=["small", "conditional"])
    parser.add_argument(
        "--boxes", nargs="+", default=["32x36x32"], help="voxels of the boxes of recipes"
    )
    parser.add_argument("--n-scans", type=int, default=8, help="scans of a step of a recipe")
    parser.add_argument("--threads", type=int, nargs="+", default=[torch.get_num_threads()])
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="cpu: beside other work, for guidance"
    )
    parser.add_argument(
        "--encoder",
        type=Path,
        help="a run whose encoder is used for bf16; a new one where not given",
    )
    published.add_options(parser)
    options = parser.parse_args()
    print(
        f"{datetime.date.today()}, PyTorch {torch.__version__}, {platform.machine()}, {os.cpu_count()} cores"
    )
    if options.device is not None:
        published.show(options)
        return
    if unknown := set(options.sections) - set(sections):
        parser.error(f"there is no section {', '.join(unknown)}; choose of {', '.join(sections)}")
    for n_threads in options.threads:
        torch.set_num_threads(n_threads)
        print(f"\nthreads: {n_threads}; {options.clock} time, least of {options.repeats}")
        for section in options.sections or sections:
            sections[section](options)


def least(calls: dict[str, Timed], options: argparse.Namespace) -> dict[str, float]:
    """Return the least seconds of each; they are called in turn, so that a slow moment of the machine meets all."""
    clock = CLOCKS[options.clock]
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(options.repeats + 1):
        for name, call in calls.items():
            start = clock()
            call()
            if repeat:  # the first round warms up
                seconds[name].append(clock() - start)
    return {name: min(values) for name, values in seconds.items()}


def n_scans_of(side: int) -> int:
    return max(2, 2 * (64 // side) ** 2)


# --- a training step
# ------------------------------------------------------------------------------------------------
def show_steps(options: argparse.Namespace) -> None:
    print(
        "\n| | bare encoder | bare, freed memory kept | step without views | step | without views / bare, kept "
        "| step / bare, kept | step / bare | views | Adam |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for side in options.sides:
        n_scans = n_scans_of(side)
        bare = functools.partial(
            _two_passes, build_encoder(EncoderSettings()), torch.randn(2 * n_scans, 1, *[side] * 3)
        )
        plain = least({"bare": bare}, options)["bare"]
        states = {
            name: _state((side, side, side), n_scans, views, options, EncoderSettings())
            for name, views in _VIEWS.items()
        }
        with deterministic(), keeping_freed_memory(), contextlib.ExitStack() as stack:
            steps = {name: stack.enter_context(_steps(state)) for name, state in states.items()}
            calls = {name: functools.partial(next, of) for name, of in steps.items()}
            t = least({"bare": bare, **calls}, options)
            parts = least(_parts(states["step"]), options)
        print(
            f"| {side}³, {n_scans} scans | {plain:.3f} s | {t['bare']:.3f} s | {t['no views']:.3f} s "
            f"| {t['step']:.3f} s | {t['no views'] / t['bare']:.3f} | **{t['step'] / t['bare']:.3f}** "
            f"| {t['step'] / plain:.3f} | {parts['views'] / t['step']:.1%} | {parts['Adam'] / t['step']:.1%} |",
            flush=True,
        )


def show_recipes(options: argparse.Namespace) -> None:
    """Print a whole step of recipes, with the views of each, over the bare passes of its network."""
    print("\n| recipe, box, scans | bare, a view | step, a view | step / bare | views / step |")
    print("|---|---|---|---|---|")
    n_scans = options.n_scans
    for recipe, box in itertools.product(options.recipes, options.boxes):
        config = as_config(recipe)
        depth, height, width = map(int, box.split("x"))
        shape = (depth, height, width)
        batch = torch.randn(2 * n_scans, 1, *shape)
        bare = functools.partial(_two_passes, build_encoder(config.encoder), batch)
        state = _state(shape, n_scans, config.augment, options, config.encoder)
        with deterministic(), keeping_freed_memory(), _steps(state) as steps:
            views = _parts(state)["views"]
            t = least({"bare": bare, "step": lambda s=steps: next(s), "views": views}, options)
        a_view = {name: 1e3 * seconds / (2 * n_scans) for name, seconds in t.items()}
        print(
            f"| {recipe}, {box}, {n_scans} | {a_view['bare']:.1f} ms | {a_view['step']:.1f} ms "
            f"| **{t['step'] / t['bare']:.3f}** | {t['views'] / t['step']:.1%} |",
            flush=True,
        )


_VIEWS = {"no views": AugmentSettings.off(), "step": AugmentSettings()}


def _parts(state: ContrastiveState) -> dict[str, Timed]:
    n_scans = state.settings.batch_size
    volumes = torch.stack([state.data.images[row]["image"] for row in range(n_scans)]).half()
    return {
        "views": lambda: torch.cat(state.views(volumes, state.data.names[:n_scans], epoch=0)),
        "Adam": state.optimizer.step,
    }


def _two_passes(encoder: Encoder, batch: torch.Tensor) -> None:
    encoder(batch).sum().backward()
    encoder.zero_grad()


def _state(
    shape: tuple[int, int, int],
    n_scans: int,
    augment: AugmentSettings,
    options: argparse.Namespace,
    encoder: EncoderSettings,
) -> ContrastiveState:
    data = published.random_scans(n_scans * (options.repeats + 2), shape, {})
    settings = TrainingSettings(batch_size=n_scans, accelerator="cpu")
    return ContrastiveState(
        build_model(encoder),
        NTXent(),
        TwoViews(brain_views(augment), seed=0),
        data,
        settings=settings,
        sampler=data.sampler(settings, 0),
    )


@contextlib.contextmanager
def _steps(state: ContrastiveState) -> Iterator[Iterator[Any]]:
    """Training's own steps, from reading the volumes to changed weights and their figures."""
    size, rows = state.settings.batch_size, state.data.training_rows
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    state.model.train()
    with contextlib.closing(open_batches(state, batches)) as reading:
        yield (contrastive_step(state, batch, Position()) for batch in reading)


# --- embedding
# ------------------------------------------------------------------------------------------------------
def show_embedding(options: argparse.Namespace) -> None:
    print(
        "\n| | bare forward pass | freed memory kept | `extract_features` | speed over kept | speed over bare |"
    )
    print("|---|---|---|---|---|---|")
    for side in options.sides:
        n_scans, size = 4 * n_scans_of(side), n_scans_of(side)
        encoder = build_encoder(EncoderSettings()).eval()
        with tempfile.TemporaryDirectory() as folder:
            images = _cached_noise(Path(folder), n_scans, side)
            batch = torch.stack([images[row]["image"] for row in range(size)])

            def bare(
                encoder: Encoder = encoder, batch: torch.Tensor = batch, n: int = n_scans // size
            ) -> None:
                with torch.inference_mode():
                    for _ in range(n):
                        encoder(batch)

            embed = functools.partial(
                extract_features,
                encoder,
                images,
                settings=EmbeddingSettings(batch_size=size, accelerator="cpu"),
            )
            plain = least({"bare": bare}, options)["bare"]
            with keeping_freed_memory():
                t = least({"bare": bare, "embed": embed}, options)
        print(
            f"| {side}³, {n_scans} scans | {plain:.3f} s | {t['bare']:.3f} s | {t['embed']:.3f} s "
            f"| **{t['bare'] / t['embed']:.1%}** | {plain / t['embed']:.1%} |",
            flush=True,
        )


def _cached_noise(folder: Path, n_scans: int, side: int) -> CohortDataset:
    generator = np.random.default_rng(0)
    lines = ["participant_id\tpath"]
    for i in range(n_scans):
        np.save(folder / f"s{i}.npy", generator.normal(size=(side, side, side)).astype(np.float32))
        lines.append(f"s{i}\ts{i}.npy")
    (folder / "participants.tsv").write_text("\n".join(lines) + "\n")
    cache = VolumeCache(folder / "cache", Preprocessing(shape=(side, side, side)))
    images = CohortDataset.from_cache(read_cohort(folder / "participants.tsv"), cache)
    cache.prepare(images.scans, n_workers=0)
    return images


# --- ways to run the network
# ----------------------------------------------------------------------------------------
def show_ways(options: argparse.Namespace) -> None:
    print("\n| time over the default's | inference | training |\n|---|---|---|")
    for side in options.sides:
        n_scans = n_scans_of(side)
        batch = torch.randn(n_scans, 1, side, side, side)
        with keeping_freed_memory():
            inference = least(
                {name: functools.partial(_infer, *way) for name, way in _ways(batch).items()},
                options,
            )
            training = {
                name: functools.partial(_two_passes, way[0].train(), way[1])
                for name, way in _ways(batch).items()
                if not way[
                    2
                ]  # half-precision weight gradients of 3D convolutions are wrong on CPUs
            }
            seconds = least(training, options)
        for name in inference:
            if name != "default":
                trained = f"{seconds[name] / seconds['default']:.2f}" if name in seconds else ""
                print(
                    f"| {side}³, {n_scans} volumes: {name} | {inference[name] / inference['default']:.2f} | {trained} |"
                )
    parts = {
        name: functools.partial(_adam_step, torch.optim.Adam(**of)) for name, of in _adams().items()
    }
    adam = least(parts, options)
    print(
        f"\nAdam over all weights: fused {adam['fused'] / adam['plain']:.2f} of PyTorch's default",
        end=", ",
    )
    print(f"{1000 * adam['plain']:.1f} ms")


def _ways(batch: torch.Tensor) -> dict[str, tuple[Encoder, torch.Tensor, bool]]:
    """Return encoder, batch and whether it runs in bfloat16."""
    last = batch.contiguous(memory_format=torch.channels_last_3d)
    return {
        "default": (_encoder(), batch, False),
        "channels_last_3d": (_encoder().to(memory_format=torch.channels_last_3d), last, False),
        "bfloat16": (_encoder(), batch, True),
        "bfloat16, channels_last_3d": (
            _encoder().to(memory_format=torch.channels_last_3d),
            last,
            True,
        ),
    }


def show_compile(options: argparse.Namespace) -> None:
    if not (shutil.which("gcc") or shutil.which("g++")):
        print("\ntorch.compile: not measured, there is no C++ compiler")
        return
    print(
        "\n| torch.compile | compiling | inference over the default's | compiling | training |\n|---|---|---|---|---|"
    )
    for side in options.sides:
        batch = torch.randn(n_scans_of(side), 1, side, side, side)
        cells = []
        with keeping_freed_memory():
            for call, mode in ((functools.partial(_infer, half=False), False), (_two_passes, True)):
                plain, compiled = _encoder().train(mode), torch.compile(_encoder().train(mode))
                start = time.perf_counter()
                call(compiled, batch)
                cells.append(f"{time.perf_counter() - start:.0f} s")
                ways = {
                    name: functools.partial(call, net, batch)
                    for name, net in (("d", plain), ("c", compiled))
                }
                t = least(ways, options)
                cells.append(f"{t['c'] / t['d']:.2f}")
        print(f"| {side}³, {len(batch)} volumes | " + " | ".join(cells) + " |", flush=True)


def _encoder() -> Encoder:
    return build_encoder(EncoderSettings()).eval()


def _infer(encoder: Encoder, batch: torch.Tensor, half: bool) -> torch.Tensor:
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=half):
        return encoder(batch).float()


def _adams() -> dict[str, dict[str, Any]]:
    optimizers = {}
    for name, fused in (("plain", None), ("fused", True)):
        parameters = list(build_model(EncoderSettings()).parameters())
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizers[name] = {"params": parameters, "fused": fused}
    return optimizers


def _adam_step(optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()


# --- bfloat16
# -------------------------------------------------------------------------------------------------------
def show_bfloat16(options: argparse.Namespace) -> None:
    """Features of simulated brains: time, and agreement after what all brains have in common is taken away."""
    print(
        "\n| brains | time, bfloat16 / float32 | cosine of features | cosine of centred features |\n|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for side in options.sides:
            table = neurocontrast.simulate(
                Path(folder) / str(side), n_subjects=24, n_sites=2, spacing_mm=180 / side
            )
            cohort = read_cohort(table)
            preprocessing = Preprocessing(spacing_mm=190 / side, shape=(side, side, side))
            images = CohortDataset.from_cache(
                cohort, VolumeCache(Path(folder) / "cache", preprocessing)
            )
            images.cache.prepare(images.scans, n_workers=0)
            batch = torch.stack([images[row]["image"] for row in range(len(images))])
            encoder = _encoder_of(options.encoder, batch)
            exact, half = _infer(encoder, batch, False), _infer(encoder, batch, True)
            part = batch[: n_scans_of(side)]
            t = least(
                {str(on): functools.partial(_infer, encoder, part, on) for on in (False, True)},
                options,
            )
            centred = cosine_similarity(exact - exact.mean(dim=0), half - half.mean(dim=0), dim=1)
            print(
                f"| {len(batch)} of {side}³ | {t['True'] / t['False']:.2f} "
                f"| {cosine_similarity(exact, half, dim=1).min():.5f} at least "
                f"| {centred.mean():.4f} (least {centred.min():.4f}) |",
                flush=True,
            )


def _encoder_of(run: Path | None, batch: torch.Tensor) -> Encoder:
    if run is not None:
        from neurocontrast.encoders import load_encoder

        return load_encoder(run)[0].eval()
    encoder = build_encoder(EncoderSettings())
    update_bn(batch.split(8), encoder)
    return encoder.eval()


if __name__ == "__main__":
    main()
