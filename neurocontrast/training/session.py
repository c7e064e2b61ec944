"""The parts of one training run, put on their device, and how far the run has come."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from neurocontrast.data.batches import Batches, Images, read_batches
from neurocontrast.encoders.encoder import ContrastiveModel
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.losses.objective import Objective
from neurocontrast.losses.sum import SumOfObjectives
from neurocontrast.parallel.collectives import Processes
from neurocontrast.parallel.launch import launch
from neurocontrast.training.batchnorm import (
    is_synchronised,
    layers_of,
    still_statistics,
    synchronise,
)
from neurocontrast.training.optimizers import build_optimizer
from neurocontrast.training.sampling import Sampler, build_sampler
from neurocontrast.training.settings import TrainingSettings

AnyObjective = Objective | SumOfObjectives

Views = Callable[..., tuple[torch.Tensor, torch.Tensor]]
"""``views(images, names, epoch=...) -> (view 1, view 2)``, random by (epoch, name of the sample) alone."""


@dataclass(frozen=True)
class TrainingData:
    """Hold what is trained on; rows are positions in `images`, and in every other member."""

    images: Images
    """Images that the views are made of."""
    names: Sequence[str]
    """Name of each sample, for messages and as key of its views."""
    metadata: Mapping[str, torch.Tensor]
    """Columns that the objective asks for."""
    training_rows: Sequence[int]
    """Rows to train on; their subjects have no validation rows."""
    validation_rows: Sequence[int] = ()
    """Rows that only measure."""
    targets: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Columns that the linear probe predicts: floats (NaN where missing) or text (None where missing)."""
    traits: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Columns that batches are balanced by, as `targets`."""
    n_readers: int = 1
    """Threads that read batches."""

    def sampler(self, settings: TrainingSettings, seed: int, *, n_encoders: int = 1) -> Sampler:
        """Return the sampler of the training rows; refuse batches too small for the processes.

        Each of two encoders sees a sample once, and needs two samples for statistics of its own.
        """
        made = build_sampler(
            self.training_rows, self.traits, settings=settings, seed=seed, names=self.names
        )
        n_processes = settings.devices * settings.num_nodes
        if n_processes == 1:
            return made
        smallest = min(
            map(len, made.batches(0)), default=n_processes
        )  # those of every epoch have these sizes
        if smallest < n_processes * n_encoders:
            raise ConfigError(
                f"training.batch_size: the {len(self.training_rows)} training samples are divided into batches of "
                f"{smallest} or more, and each of the {n_processes} processes needs {n_encoders} of every batch. Raise "
                "training.batch_size, or use fewer devices."
            )
        return made


@dataclass
class Position:
    """How far training has come, and its measurements; all other randomness is keyed by epoch and sample."""

    epoch: int = 0  # epochs finished
    batch: int = 0  # batches finished of the epoch under way
    sums: dict[str, float] = field(
        default_factory=dict
    )  # that epoch's figures, summed over its scans
    sum_of_norms: float = 0.0
    n_norms: int = 0
    seconds: float = 0.0
    metrics: list[dict[str, Any]] = field(default_factory=list)  # one row for each finished epoch

    def count_batch(self, figures: Mapping[str, float], *, n_scans: int) -> None:
        """Count a batch as finished, with its figures."""
        self.batch += 1
        for name, value in figures.items():
            if name != "gradient_norm":
                self.sums[name] = self.sums.get(name, 0.0) + value * n_scans
            elif math.isfinite(
                value
            ):  # float16's loss scaler skips a step whose gradient overflows
                self.sum_of_norms, self.n_norms = self.sum_of_norms + value, self.n_norms + 1

    def close_epoch(self, row: dict[str, Any]) -> None:
        """Count the epoch as finished, with its row of metrics."""
        self.metrics.append(row)
        self.epoch = self.epoch + 1
        self.batch = 0
        self.sums = {}
        self.seconds = 0.0
        self.sum_of_norms = 0.0
        self.n_norms = 0


class BaseSession:
    """Model, optimiser and data of a training on their device, whatever its loss.

    `encoder` and `head` are the model's two parts as Fabric runs them, each replicated by itself:
    gradient caching passes backwards through the head once and through the encoder once a
    micro-batch. `groups` are the parameters in groups, for `build_optimizer`, where not all are
    trained alike.
    """

    encoder: Any
    head: Any
    views_total: torch.Tensor | None = None
    """Sum of all views since this was None, on their device: not finite where a view is not."""

    def __init__(
        self,
        model: ContrastiveModel,
        data: TrainingData,
        *,
        settings: TrainingSettings,
        seed: int,
        engine: tuple[Fabric, Processes] | None = None,
        groups: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.fabric, self.processes = fabric, processes = engine or launch(**settings.of_launch)
        if processes.size > 1 and settings.sync_batchnorm:
            whole = model if settings.micro_batch_size is None else model.head
            synchronise(whole, on_gpu=fabric.device.type == "cuda")
        if (
            processes.size > 1
        ):  # DistributedDataParallel waits for the gradient of every weight that may have one
            for parameter in model.encoder.unread_parameters():
                parameter.requires_grad_(False)
        # A head without weights has no gradients to average.
        self.encoder, self.head = (
            fabric.setup_module(part)
            if any(True for _ in part.parameters())
            else fabric.to_device(part)
            for part in (model.encoder, model.head)
        )
        parameters = model.parameters() if groups is None else groups
        self.optimizer: Any = fabric.setup_optimizers(build_optimizer(parameters, settings))
        self.model = model
        self.data = data
        self.settings = settings
        self.seed = seed
        self.sampler = data.sampler(settings, seed, n_encoders=len(model.halves))

    def train(self) -> None:
        """Put the model in training mode."""
        self.model.train()

    def read(self, batches: Sequence[Sequence[int]]) -> contextlib.closing[Batches]:
        """Open batches of the data, on the device."""

        def on_device() -> Batches:
            with contextlib.closing(
                read_batches(self.data.images, batches, n_readers=self.data.n_readers)
            ) as read:
                for rows, images in read:
                    yield rows, self.send(images)

        return contextlib.closing(on_device())

    def send(self, images: Any) -> Any:
        """Send the images of a batch, or the pair of them, to the device, which is not waited for.

        From pinned memory alone a copy to a GPU runs beside the computation.
        """
        if self.fabric.device.type != "cuda":
            return self.fabric.to_device(images)
        if self.is_pair:
            return self.fabric.to_device(tuple(half.pin_memory() for half in images))
        return self.fabric.to_device(images.pin_memory())

    def divided(
        self, batches: Sequence[Sequence[int]]
    ) -> contextlib.AbstractContextManager[list[list[int]]]:
        """Give this process's part of batches that only measure; whole ones where statistics need them whole."""
        own = not all(map(is_synchronised, layers_of(self.model)))
        return self.processes.divided(batches, whole=own)

    def seen(self, images: Any) -> Any:
        """Return the channels of images that the network sees; views alone are made of any further ones."""
        if not self.is_pair:
            return images[:, : self.model.encoder.n_channels]
        halves = zip(self.model.halves, images, strict=True)
        return tuple(each[:, : half.encoder.n_channels] for half, each in halves)

    @property
    def is_pair(self) -> bool:
        """Whether two encoders are trained, each on samples of its own."""
        return len(self.model.halves) > 1

    def names_of(self, rows: torch.Tensor) -> list[str]:
        """Return the names of the samples of a batch."""
        return [self.data.names[row] for row in rows.tolist()]

    def tensors(self) -> dict[str, Any]:
        """Return everything that training changes, for a checkpoint."""
        return {
            **{name: part.state_dict() for name, part in self._parts().items()},
            "software": self.software(),
        }

    def restore(self, tensors: Mapping[str, Any]) -> None:
        """Continue from what `tensors` returned."""
        for name, part in self._parts().items():
            part.load_state_dict(tensors[name])

    def _parts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "precision": self.fabric.strategy.precision,
        }

    def refuse_views(self, rows: torch.Tensor, *, epoch: int) -> None:
        """Refuse a view of the samples that is not finite, by name; here there are no views."""

    def software(self) -> dict[str, Any]:
        """Return versions and counts that the bits of a result depend on."""
        return {
            "torch": str(torch.__version__),
            "device": self.fabric.device.type,
            "n_threads": torch.get_num_threads(),
            "n_processes": self.processes.size,
        }


class Session(BaseSession):
    """A contrastive run: checks the data, and fits the objective's kernel on the training rows; see `fit`."""

    def __init__(
        self,
        model: ContrastiveModel,
        objective: AnyObjective,
        views: Views,
        data: TrainingData,
        *,
        settings: TrainingSettings,
        seed: int,
        engine: tuple[Fabric, Processes] | None = None,
    ) -> None:
        check_split(data.training_rows, data.validation_rows)
        objective.check(data.metadata, names=data.names)
        training = torch.as_tensor(data.training_rows)
        objective.fit({name: column[training] for name, column in data.metadata.items()})
        learnt: list[Mapping[str, Any]] = [
            {"params": list(objective.parameters()), "weight_decay": 0.0}
        ]
        groups = [{"params": list(model.parameters())}, *learnt] if learnt[0]["params"] else None
        super().__init__(model, data, settings=settings, seed=seed, engine=engine, groups=groups)
        device = self.fabric.device
        self.objective = objective.to(device)
        self.views = views
        # Views are checked with the figures of a step, so that the device is waited for once.
        self._unchecked_views = getattr(views, "unchecked", views)
        self.metadata = {name: column.to(device) for name, column in data.metadata.items()}
        if self.processes.size == 1:
            return
        # One sample passes backwards without a step: DDP keeps all gradients in one bucket until
        # its first backward pass has shown their order. The sum of three or more processes depends
        # on the layout, so that without this pass the first step of a resumed run would round
        # otherwise.
        with still_statistics(self.model), self.read([[self.data.training_rows[0]]]) as batches:
            for _, images in batches:
                seen = self.seen(images)
                twice = tuple(torch.cat([each] * 2) for each in (seen if self.is_pair else [seen]))
                features = self.encoder(twice if self.is_pair else twice[0]).float()
                self.fabric.backward(self.head(features).float().sum())
        self.optimizer.zero_grad(set_to_none=True)

    def encode_views(self, images: Any, rows: torch.Tensor, *, epoch: int) -> torch.Tensor:
        """Return the features of both views, (2, n, n_features), from one network, or each from its own.

        The sum of the views is added to `views_total`.
        """
        with torch.no_grad():
            views = self._unchecked_views(images, self.names_of(rows), epoch=epoch)
            sums = [view.sum() for view in views]
            if self.views_total is not None:
                sums.append(self.views_total)
            self.views_total = torch.stack(sums).sum()
            both = views if self.is_pair else torch.cat(views)
        features: torch.Tensor = self.encoder(both)
        return features.float().unflatten(0, (2, -1))

    def refuse_views(self, rows: torch.Tensor, *, epoch: int) -> None:
        """Read samples again, and refuse a view that is not finite where the image is, by name."""
        size = self.settings.micro_batch_size or len(rows)
        parts = [part.tolist() for part in rows.split(size)]
        with self.read(parts) as reading:
            for here, images in reading:
                self.views(images, self.names_of(here), epoch=epoch)

    def project(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return both views' embeddings of features (2, n, n_features)."""
        z1, z2 = self.head(features.flatten(0, 1)).float().chunk(2)
        return z1, z2

    def metadata_of(
        self, rows: torch.Tensor, features: torch.Tensor
    ) -> dict[str, torch.Tensor] | None:
        """Return the columns of a batch with features (2, n, n_features), or None if the objective asks for none."""
        on_device = rows.to(self.fabric.device, non_blocking=True)
        columns = {name: column[on_device] for name, column in self.metadata.items()}
        if self.objective.reads_features:
            columns["features"] = features.detach().transpose(0, 1).flatten(1)
        return columns or None

    def _parts(self) -> dict[str, Any]:
        return {**super()._parts(), "objective": self.objective}


def check_split(training_rows: Sequence[int], validation_rows: Sequence[int]) -> None:
    """Refuse a side of the split on which there is nothing to contrast."""
    if len(training_rows) < 2:
        raise DataError(
            f"a contrastive loss needs at least two training samples, found {len(training_rows)}."
        )
    if len(validation_rows) == 1:
        raise ConfigError(
            "data.val_fraction leaves a single validation sample, and a contrastive loss needs two. "
            "Raise it, or set it to 0 for no validation."
        )


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Ask PyTorch for deterministic algorithms, where it has them, and put its switches back."""
    was_on = torch.are_deterministic_algorithms_enabled()
    warned_only = torch.is_deterministic_algorithms_warn_only_enabled()
    switches: Any = torch.utils.deterministic
    filled = switches.fill_uninitialized_memory
    # Some backward passes of 3D pooling on GPUs have none: warn, do not refuse.
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling would write every new tensor twice.
    switches.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_on, warn_only=warned_only)
        switches.fill_uninitialized_memory = filled
