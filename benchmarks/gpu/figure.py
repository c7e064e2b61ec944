"""Figure 2's experiment of `gpu.py` (Dufumier et al. 2021): five losses, ResNet18, as many epochs as fit.

After each epoch of each loss the encoder's features are classified on the device by a logistic
regression, fitted by L-BFGS. Without CIFAR-10's files images are synthetic, and the cases say so:
then accuracies show that all runs, and nothing about losses.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.gpu.rows import Case, Figures, Options
from benchmarks.gpu.steps import Bytes, settings_of
from neurocontrast import losses
from neurocontrast.config import load_config
from neurocontrast.encoders import build_model
from neurocontrast.kernels import Categorical
from neurocontrast.natural import RandImageViewd
from neurocontrast.natural.archives import open_files
from neurocontrast.natural.formats import read_cifar
from neurocontrast.parallel.devices import keeping_freed_memory
from neurocontrast.training import TrainingData
from neurocontrast.training.position import Position
from neurocontrast.training.state import ContrastiveState, deterministic
from neurocontrast.training.steps import contrastive_step, open_batches
from neurocontrast.transforms import TwoViews

LOSSES = {
    "SimCLR": lambda: losses.NTXent(temperature=0.5),
    "alignment + uniformity": lambda: losses.AlignmentUniformity(),
    "SupCon": lambda: losses.SupCon("label", temperature=0.1),
    "SINCERE": lambda: losses.SINCERE("label", temperature=0.1),
    "conditional A + U": lambda: losses.ConditionalAlignmentUniformity(Categorical("label")),
}
MOST_EPOCHS = 400
PENALTY = 1e-4


@dataclass(frozen=True)
class Pictures:
    """Images in bytes (n, 3, 32, 32) and labels, to train on and to test on."""

    title: str
    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor


def cases(part: str, options: Options) -> Iterator[Case]:
    """Give an epoch of each loss in turn, so that all have had as many when the time is over."""
    del part
    pictures = synthetic(options) if options.cifar is None else cifar(options.cifar)
    if options.small:
        pictures = Pictures(pictures.title, *(values[:64] for values in tensors_of(pictures)))
    runs = {name: Run(name, pictures, options) for name in LOSSES}
    for epoch in range(2 if options.small else MOST_EPOCHS):
        for name, run in runs.items():
            title = f"{name}, epoch {epoch + 1} on {pictures.title}"
            yield Case(title, functools.partial(run.train, epoch))


def tensors_of(pictures: Pictures) -> tuple[Tensor, ...]:
    return pictures.train, pictures.train_labels, pictures.test, pictures.test_labels


def cifar(source: Path) -> Pictures:
    """Read CIFAR-10's official binary files, also packed."""
    with open_files(source) as files:
        pictures = read_cifar("cifar10", files)
        images = torch.from_numpy(np.stack([pictures.read(row) for row in range(len(pictures))]))
    names = sorted(set(pictures.labels))
    labels = torch.tensor([names.index(label) for label in pictures.labels])
    assert pictures.splits is not None
    is_test = torch.tensor([split == "test" for split in pictures.splits])
    kept = (images[~is_test], labels[~is_test], images[is_test], labels[is_test])
    return Pictures("CIFAR-10", *kept)


def synthetic(options: Options) -> Pictures:
    """Make blobs of ten colours and places in noise, in the shape of CIFAR-10."""
    n_train, n_test = (64, 64) if options.small else (50_000, 10_000)
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(10, 3, 4, 4, generator=generator)
    labels = torch.randint(10, (n_train + n_test,), generator=generator)
    images = torch.empty(len(labels), 3, 32, 32, dtype=torch.uint8)
    for start in range(0, len(labels), 5_000):
        rows = slice(start, start + 5_000)
        blobs = torch.nn.functional.interpolate(coarse[labels[rows]], size=32, mode="bilinear")
        noise = torch.rand(blobs.shape, generator=generator)
        images[rows] = (255 * (0.5 * blobs + 0.5 * noise)).to(torch.uint8)
    parts = (images[:n_train], labels[:n_train], images[n_train:], labels[n_train:])
    return Pictures("synthetic images", *parts)


class Held(Bytes):
    """Images in bytes that are held in memory."""

    def __init__(self, images: Tensor) -> None:
        self.values = images.numpy()


class Run:
    """One loss and its network, trained by further epochs; built when its first epoch begins."""

    def __init__(self, name: str, pictures: Pictures, options: Options) -> None:
        self.name = name
        self.pictures = pictures
        self.options = options
        self.state: ContrastiveState | None = None

    def build(self) -> ContrastiveState:
        """Return the state of training at the settings of the recipe natural/conditional."""
        config = load_config("natural/conditional")
        encoder = config.encoder
        n = config.training.batch_size
        if self.options.small:
            encoder = encoder.model_copy(update={"name": "resnet_small"})
            n = 32
        n_images = len(self.pictures.train)
        data = TrainingData(
            images=Held(self.pictures.train),
            names=[str(row) for row in range(n_images)],
            metadata={"label": self.pictures.train_labels},
            training_rows=range(n_images),
        )
        settings = settings_of(n, None, self.options)
        return ContrastiveState(
            build_model(encoder, n_channels=3),
            LOSSES[self.name](),
            TwoViews(RandImageViewd("image", config.augment), seed=0),
            data,
            settings=settings,
            sampler=data.sampler(settings, 0),
        )

    def train(self, epoch: int, deadline: float) -> Figures:
        """Train an epoch, until the deadline at the latest, and classify the test images."""
        if self.state is None:
            self.state = self.build()
        state = self.state
        state.model.train()
        start = time.perf_counter()
        batches = state.sampler.batches(epoch)
        losses_of_steps = list[float]()
        position = Position(epoch=epoch)
        with (
            deterministic(),
            keeping_freed_memory(),
            contextlib.closing(open_batches(state, batches)) as reading,
        ):
            for batch in reading:
                figures = contrastive_step(state, batch, position)
                losses_of_steps.append(figures["loss"])
                position.batch += 1
                if time.perf_counter() > deadline:
                    break
        seconds = time.perf_counter() - start
        accuracy = self.accuracy(state)
        return {
            "accuracy": accuracy,
            "loss": sum(losses_of_steps) / len(losses_of_steps),
            "train, s": seconds,
            "classify, s": time.perf_counter() - start - seconds,
            "steps": f"{len(losses_of_steps)} of {len(batches)}",
        }

    def accuracy(self, state: ContrastiveState) -> float:
        """Return the share of test images that a logistic regression on features classifies rightly."""
        train = features_of(state, self.pictures.train, self.options.device)
        test = features_of(state, self.pictures.test, self.options.device)
        labels = self.pictures.train_labels.to(train.device)
        predicted = classify(train, labels, test).cpu()
        return float((predicted == self.pictures.test_labels).float().mean())


@torch.no_grad()
def features_of(state: ContrastiveState, images: Tensor, device: str) -> Tensor:
    """Return the encoder's features of images as they are, in evaluation mode."""
    state.model.eval()
    parts = []
    for batch in images.split(2_048):
        parts.append(state.encoder(batch.to(device).float().div_(255)).float())
    state.model.train()
    return torch.cat(parts)


def classify(features: Tensor, labels: Tensor, others: Tensor) -> Tensor:
    """Fit a logistic regression by L-BFGS on the device, and return the classes of other features."""
    mean = features.mean(0)
    sd = features.std(0).clamp_min(1e-6)
    x = (features - mean) / sd
    n_classes = int(labels.max()) + 1
    weights = torch.zeros(x.shape[1], n_classes, device=x.device, requires_grad=True)
    offsets = torch.zeros(n_classes, device=x.device, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weights, offsets], max_iter=100, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        penalty = PENALTY * weights.square().sum()
        loss = cross_entropy(x @ weights + offsets, labels) + penalty
        loss.backward()
        return loss

    optimiser.step(closure)
    return (((others - mean) / sd) @ weights.detach() + offsets.detach()).argmax(1)
