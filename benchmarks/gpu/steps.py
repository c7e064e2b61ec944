"""Steps and embedding of `gpu.py`: whole steps of recipes over the bare passes of their networks."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.gpu.rows import Case, Figures, Options, busy_share, peak_mib, seconds_of
from benchmarks.training import published
from neurocontrast.config import load_config
from neurocontrast.embedding import EmbeddingSettings, extract_features
from neurocontrast.encoders import Encoder, EncoderSettings, build_encoder, build_model
from neurocontrast.losses.registry import build_objective
from neurocontrast.natural import RandImageViewd
from neurocontrast.parallel.devices import keeping_freed_memory
from neurocontrast.training import TrainingData, TrainingSettings
from neurocontrast.training.data import fit_objective
from neurocontrast.training.position import Position
from neurocontrast.training.state import ContrastiveState, deterministic
from neurocontrast.training.steps import contrastive_step, open_batches
from neurocontrast.transforms import TwoViews, brain_views

RECIPES = ("small", "conditional", "conditional_reference")
PEOPLE = ("data.participants=people.tsv",)
MICRO_BATCH = 16


@dataclass(frozen=True)
class Sizes:
    """Sizes of the steps: those of a GPU, or of a test on a CPU."""

    n_pairs: int = 64
    n_images: int = 1024
    shape: tuple[int, int, int] | None = None  # None: the recipe's
    micro_batch: int = MICRO_BATCH
    resnet: str = "resnet18"


SMALL = Sizes(n_pairs=4, n_images=8, shape=(32, 32, 32), micro_batch=2, resnet="resnet_small")


class Bytes:
    """Random colour images in bytes, held in memory."""

    image_shape = (3, 32, 32)
    image_dtype = np.dtype(np.uint8)

    def __init__(self, n: int) -> None:
        generator = np.random.default_rng(0)
        self.values = generator.integers(0, 256, (n, *self.image_shape), np.uint8)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": torch.from_numpy(self.values[index]), "index": index}

    def read_into(self, out: np.ndarray, index: int) -> None:
        """Copy an image, as an image store reads one."""
        out[...] = self.values[index]


def cases(part: str, options: Options) -> Iterator[Case]:
    """Give the cases of a part: the recipes' steps and natural images', or embedding."""
    sizes = SMALL if options.small else Sizes()
    if part == "embedding":
        for recipe in RECIPES[1:]:
            yield Case(recipe, functools.partial(embedding, recipe, sizes, options))
        return
    for recipe in RECIPES:
        for micro in (None, sizes.micro_batch):
            ways = f"{sizes.n_pairs} pairs" + (f" in micro-batches of {micro}" if micro else "")
            run = functools.partial(recipe_step, recipe, micro, sizes, options)
            yield Case(f"{recipe}, {ways}", run)
    for is_last in (False, True):
        layout = ", channels last" if is_last else ""
        run = functools.partial(image_step, is_last, sizes, options)
        yield Case(f"{sizes.resnet}, {sizes.n_images} images{layout}", run)


def precision_of(options: Options) -> str:
    return "bf16-mixed" if options.device == "cuda" else "32-true"


def recipe_step(
    recipe: str, micro: int | None, sizes: Sizes, options: Options, deadline: float
) -> Figures:
    """Measure a step of a recipe on random volumes, over the bare passes of its network."""
    config = load_config(recipe, PEOPLE)
    shape = sizes.shape or config.data.shape
    n = sizes.n_pairs
    columns = {"age": torch.linspace(18, 80, n), "sex": torch.arange(n) % 2}
    data = published.random_scans(n, shape, columns)
    encoder = config.encoder.model_copy(update={"beside": None})
    settings = settings_of(n, micro, options)
    objective = build_objective(config.objective)
    fit_objective(
        objective,
        data.metadata,
        names=data.names,
        training_rows=data.training_rows,
        validation_rows=data.validation_rows,
    )
    state = ContrastiveState(
        build_model(encoder),
        objective,
        TwoViews(brain_views(config.augment), seed=0),
        data,
        settings=settings,
        sampler=data.sampler(settings, 0),
    )
    views = torch.randn(2 * n, 1, *shape, device=options.device)
    return over_bare(state, views, micro, options, deadline)


def image_step(is_last: bool, sizes: Sizes, options: Options, deadline: float) -> Figures:
    """Measure a step of conditional A + U on random images, with the network in channels-last or not."""
    config = load_config("natural/conditional")
    n = sizes.n_images
    data = TrainingData(
        images=Bytes(n),
        names=[str(row) for row in range(n)],
        metadata={"label": torch.arange(n) % 10},
        training_rows=range(n),
    )
    encoder = config.encoder.model_copy(update={"name": sizes.resnet})
    model = build_model(encoder, n_channels=3)
    views = torch.randn(2 * n, 3, 32, 32, device=options.device)
    if is_last:
        model = model.to(memory_format=torch.channels_last)
        views = views.to(memory_format=torch.channels_last)
    settings = settings_of(n, None, options)
    state = ContrastiveState(
        model,
        build_objective(config.objective),
        TwoViews(RandImageViewd("image", config.augment), seed=0),
        data,
        settings=settings,
        sampler=data.sampler(settings, 0),
    )
    return over_bare(state, views, None, options, deadline)


def settings_of(n_pairs: int, micro: int | None, options: Options) -> TrainingSettings:
    return TrainingSettings(
        batch_size=n_pairs,
        micro_batch_size=micro,
        precision=precision_of(options),
        accelerator=options.device,
    )


def over_bare(
    state: ContrastiveState, views: Tensor, micro: int | None, options: Options, deadline: float
) -> Figures:
    """Time training's own steps, and the encoder's passes alone on views that are there already."""
    rows = list(state.data.training_rows)
    state.model.train()
    bare_passes = functools.partial(bare, state.model.encoder, views, micro, options)
    with deterministic(), keeping_freed_memory():
        plain = seconds_of(bare_passes, options, deadline=deadline)
        state.optimizer.zero_grad(set_to_none=True)
        with contextlib.closing(open_batches(state, [rows] * 60)) as batches:

            def run() -> object:
                return contrastive_step(state, next(batches), Position())

            seconds = seconds_of(run, options, deadline=deadline)
            return {
                "step, s": seconds,
                "bare, s": plain,
                "step / bare": seconds / plain,
                "busy": busy_share(run, options.device),
                "MiB": peak_mib(run, options.device),
            }


def bare(encoder: nn.Module, views: Tensor, micro: int | None, options: Options) -> None:
    """Pass views forwards and backwards; in micro-batches, forwards once more before that."""
    parts = [views] if micro is None else views.split(2 * micro)
    is_half = options.device == "cuda"
    with torch.autocast(options.device, dtype=torch.bfloat16, enabled=is_half):
        if micro is not None:
            with torch.no_grad():
                for part in parts:
                    encoder(part)
        for part in parts:
            encoder(part).float().sum().backward()
    encoder.zero_grad(set_to_none=True)


def embedding(recipe: str, sizes: Sizes, options: Options, deadline: float) -> Figures:
    """Time the embedding of volumes over the encoder's forward pass on a batch that is there already."""
    config = load_config(recipe, PEOPLE)
    shape = sizes.shape or config.data.shape
    n = sizes.n_pairs
    encoder: Encoder = build_encoder(EncoderSettings(name=config.encoder.name)).eval()
    images = published.InMemory(4 * n, shape)
    batch = torch.randn(n, 1, *shape, device=options.device)
    settings = EmbeddingSettings(batch_size=n, accelerator=options.device)
    embed = functools.partial(extract_features, encoder, images, settings=settings)

    def forward() -> None:
        with torch.inference_mode():
            for _ in range(4):
                encoder(batch)

    with keeping_freed_memory():
        seconds = seconds_of(embed, options, deadline=deadline)
        encoder.to(options.device)
        plain = seconds_of(forward, options, deadline=deadline)
    return {
        "scans/s": 4 * n / seconds,
        "bare / embedding": plain / seconds,
        "busy": busy_share(embed, options.device),
    }
