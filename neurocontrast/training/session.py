"""The parts of one training run, put on their device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from neurocontrast.data.batches import Batches, Images, read_batches
from neurocontrast.encoders import ContrastiveModel
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.losses import Objective, SumOfObjectives
from neurocontrast.training.optimizers import build_optimizer
from neurocontrast.training.settings import TrainingSettings

__all__ = [
    "AnyObjective",
    "Session",
    "TrainingData",
    "Views",
    "accelerator_of",
    "check_split",
    "deterministic",
    "start_session",
]

AnyObjective = Objective | SumOfObjectives
"""A loss of `neurocontrast.losses`, or several of them."""

Views = Callable[..., tuple[torch.Tensor, torch.Tensor]]
"""``views(volumes, rows, epoch=...) -> (view 1, view 2)``, random by (epoch, row) alone."""


@dataclass(frozen=True)
class TrainingData:
    """What is trained on; rows are positions in `images`, and in every other member.

    Parameters
    ----------
    images : Images
        The preprocessed scans.
    names : sequence of str
        Who each scan is, for messages.
    metadata : mapping of str to Tensor
        The columns the objective asks for.
    training_rows, validation_rows : sequence of int
        The split; no subject is on both sides.
    targets : mapping of str to ndarray
        What the linear probe predicts: floats (NaN where missing) or text (None where missing).
    n_readers : int
        Threads that read batches.
    """

    images: Images
    names: Sequence[str]
    metadata: Mapping[str, torch.Tensor]
    training_rows: Sequence[int]
    validation_rows: Sequence[int] = ()
    targets: Mapping[str, np.ndarray] = field(default_factory=dict)
    n_readers: int = 1


@dataclass(frozen=True)
class Session:
    """One run's objects on their device: `forward` is the model as Fabric runs it."""

    fabric: Fabric
    model: ContrastiveModel
    forward: Any
    optimizer: Any
    objective: AnyObjective
    views: Views
    data: TrainingData
    metadata: Mapping[str, torch.Tensor]
    settings: TrainingSettings
    seed: int

    def read(self, batches: Sequence[Sequence[int]]) -> contextlib.closing[Batches]:
        """Open batches of the data, on the device."""

        def on_device() -> Batches:
            with contextlib.closing(read_batches(self.data.images, batches, n_readers=self.data.n_readers)) as read:
                for rows, volumes in read:
                    yield rows, self.fabric.to_device(volumes)

        return contextlib.closing(on_device())

    def embed_views(
        self, volumes: torch.Tensor, rows: torch.Tensor, *, epoch: int
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor] | None]:
        """Return both views' embeddings and the metadata of a batch.

        Both views pass the network together, so batch statistics are taken over both.
        """
        with torch.no_grad():
            both = torch.cat(self.views(volumes, rows, epoch=epoch))
        z1, z2 = self.forward(both).float().chunk(2)
        here = rows.to(z1.device)
        return z1, z2, {name: column[here] for name, column in self.metadata.items()} or None

    def tensors(self) -> dict[str, Any]:
        """Return everything that training changes, for a checkpoint."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "objective": self.objective.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),
            "software": self.software(),
        }

    def restore(self, tensors: Mapping[str, Any]) -> None:
        """Continue from what `tensors` returned."""
        self.model.load_state_dict(tensors["model"])
        self.optimizer.load_state_dict(tensors["optimizer"])
        self.objective.load_state_dict(tensors["objective"])
        self.fabric.strategy.precision.load_state_dict(tensors["precision"])

    def software(self) -> dict[str, Any]:
        """Return what the bits of a result also depend on."""
        return {
            "torch": str(torch.__version__),
            "device": self.fabric.device.type,
            "n_threads": torch.get_num_threads(),
        }


def start_session(
    model: ContrastiveModel,
    objective: AnyObjective,
    views: Views,
    data: TrainingData,
    *,
    settings: TrainingSettings,
    seed: int,
) -> Session:
    """Check the data, fit the objective's kernel on the training rows, and move all to the device."""
    check_split(data.training_rows, data.validation_rows)
    objective.check(data.metadata, names=data.names)
    if objective.kernel is not None:
        training = torch.as_tensor(data.training_rows)
        objective.kernel.fit({name: column[training] for name, column in data.metadata.items()})
    fabric = Fabric(accelerator=accelerator_of(settings), devices=settings.devices, precision=settings.precision)
    fabric.launch()
    optimizer = build_optimizer(model.parameters(), settings)
    forward, wrapped = fabric.setup(model, optimizer)
    return Session(
        fabric=fabric,
        model=model,
        forward=forward,
        optimizer=wrapped,
        objective=objective.to(fabric.device),
        views=views,
        data=data,
        metadata={name: column.to(fabric.device) for name, column in data.metadata.items()},
        settings=settings,
        seed=seed,
    )


def check_split(training_rows: Sequence[int], validation_rows: Sequence[int]) -> None:
    """Refuse a side of the split on which there is nothing to contrast."""
    if len(training_rows) < 2:
        raise DataError(f"a contrastive loss needs at least two training scans, found {len(training_rows)}.")
    if len(validation_rows) == 1:
        raise ConfigError(
            "data.val_fraction leaves a single validation scan, and a contrastive loss needs two. "
            "Raise it, or set it to 0 for no validation."
        )


def accelerator_of(settings: TrainingSettings) -> str:
    """Return 'cpu' or 'cuda', or refuse what this machine cannot do."""
    there = torch.cuda.is_available()
    accelerator = settings.accelerator
    if accelerator == "auto":
        accelerator = "cuda" if there else "cpu"
    if accelerator == "cuda" and not there:
        raise ConfigError("training.accelerator: 'cuda' asked for, but PyTorch sees no GPU here. Use 'cpu' or 'auto'.")
    if accelerator == "cpu" and settings.precision != "32-true":
        raise ConfigError(
            f"training.precision: '{settings.precision}' is for GPUs. On a CPU PyTorch's half-precision weight "
            "gradients of 3D convolutions are wrong (measured with 2.13: NaN, or a cosine of 0.5 to float32). "
            "Use '32-true'."
        )
    return accelerator


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Ask PyTorch for deterministic algorithms, where it has them, and put its switches back."""
    was_on, warned_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    switches = torch.utils.deterministic
    filled = switches.fill_uninitialized_memory  # type: ignore[attr-defined]
    # Some backward passes of 3D pooling on GPUs have none: warn, do not refuse.
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling would write every new tensor twice.
    switches.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_on, warn_only=warned_only)
        switches.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
