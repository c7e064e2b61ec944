"""State of a training on its device: model, optimiser, data and loss."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

import torch
from torch import nn

from neurocontrast.data.batches import Batches, read_batches
from neurocontrast.encoders.encoder import ContrastiveModel
from neurocontrast.parallel.launch import Engine, launch
from neurocontrast.training.batchnorm import (
    is_synchronised,
    layers_of,
    still_statistics,
    synchronise,
)
from neurocontrast.training.data import AnyObjective, TrainingData, Views
from neurocontrast.training.optimizers import ParameterGroup, build_optimizer
from neurocontrast.training.sampling import Sampler
from neurocontrast.training.settings import TrainingSettings

StateDict = dict[str, object]
"""State of a model, optimiser or other component as in PyTorch's ``state_dict``: values by name."""


class Stateful(Protocol):
    """Protocol of an object whose state is saved in checkpoints: a model, optimiser, or loss."""

    def state_dict(self) -> Any:
        """Return the state of this object, which is saved in a checkpoint."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Set this object to a state that its method `state_dict` returned before."""


@dataclass(frozen=True)
class Software:
    """Software and hardware on which the last bits of trained weights depend."""

    torch: str
    device: str
    n_threads: int
    n_processes: int

    def changes_since(self, before: Mapping[str, object]) -> list[str]:
        """Describe each difference from the software that wrote a checkpoint, for a warning.

        `before` is the checkpoint's record. The list is empty if nothing differs.
        """
        changes = []
        for field in fields(self):
            now = getattr(self, field.name)
            if before.get(field.name) != now:
                changes.append(f"{field.name} was {before.get(field.name)}, is {now}")
        return changes


class TrainerState:
    """State of a training on its device, for any loss: model, optimiser, data and sampler.

    Parameters
    ----------
    model : ContrastiveModel
        Network and projection head.
    data : TrainingData
        Images, and rows of training and validation.
    settings : TrainingSettings
        Settings of the optimiser, batches and hardware.
    sampler : Sampler
        Sampler that draws the batches of each epoch.
    engine : Engine, optional
        Fabric and processes of the run; by default processes are started as the settings ask.
    groups : sequence of ParameterGroup, optional
        Groups of parameters with different learning rates or decays; by default all parameters are
        one group.
    """

    encoder: Any
    """Encoder wrapped by Fabric, separately from the head: with gradient caching, a batch is passed
    backwards through the head once, and through the encoder once for each micro-batch."""
    head: Any
    """Projection head wrapped by Fabric."""
    views_total: torch.Tensor | None = None
    """Sum of a step's views on their device, which is not finite if any view is not; None before a
    step."""

    def __init__(
        self,
        model: ContrastiveModel,
        data: TrainingData,
        *,
        settings: TrainingSettings,
        sampler: Sampler,
        engine: Engine | None = None,
        groups: Sequence[ParameterGroup] | None = None,
    ) -> None:
        if engine is None:
            engine = launch(settings.hardware)
        self.fabric = engine.fabric
        self.processes = engine.processes
        if self.processes.size > 1:
            self._ready_for_processes(model, settings)
        self.encoder = self._on_device(model.encoder)
        self.head = self._on_device(model.head)
        optimizer = build_optimizer(groups or model.parameters(), settings)
        self.optimizer: Any = self.fabric.setup_optimizers(optimizer)
        self.model = model
        self.data = data
        self.settings = settings
        self.sampler = sampler

    def _ready_for_processes(self, model: ContrastiveModel, settings: TrainingSettings) -> None:
        """Prepare `model` for training by several processes, in place.

        Batch normalisation is synchronised over the processes if `settings` ask so. Encoder weights
        that get no gradient are frozen.
        """
        on_gpu = self.fabric.device.type == "cuda"
        if settings.sync_batchnorm and settings.micro_batch_size is None:
            synchronise(model, on_gpu=on_gpu)
        elif settings.sync_batchnorm:
            synchronise(model.head, on_gpu=on_gpu)
        # DistributedDataParallel waits for the gradient of every weight that may have one.
        for parameter in model.encoder.unread_parameters():
            parameter.requires_grad_(False)

    def _on_device(self, module: nn.Module) -> nn.Module:
        """Move a module, encoder or head, to the device, and return the module.

        A module with weights is returned wrapped by Fabric.
        """
        if next(module.parameters(), None) is None:
            return self.fabric.to_device(module)
        return self.fabric.setup_module(module)

    def train(self) -> None:
        """Put the model in training mode."""
        self.model.train()

    def read(self, batches: Sequence[Sequence[int]]) -> contextlib.closing[Batches]:
        """Open an iterator over (row numbers, images) of `batches`, lists of row numbers.

        The images of a batch are sent to the device when the batch is read.
        """

        def on_device() -> Batches:
            with contextlib.closing(
                read_batches(self.data.images, batches, n_readers=self.data.n_readers)
            ) as read:
                for rows, images in read:
                    yield rows, self.send(images)

        return contextlib.closing(on_device())

    def send(self, images: Any) -> Any:
        """Return the images of a batch, or of a pair of batches, on the device of the training.

        A copy to a GPU is not waited for: the images are pinned in memory, so that the copy runs in
        parallel with the computation.
        """
        if self.fabric.device.type != "cuda":
            return self.fabric.to_device(images)
        if self.is_pair:
            first, second = images
            return self.fabric.to_device((first.pin_memory(), second.pin_memory()))
        return self.fabric.to_device(images.pin_memory())

    def divided(
        self, batches: Sequence[Sequence[int]]
    ) -> contextlib.AbstractContextManager[list[list[int]]]:
        """Open a context that gives this process's rows of each batch in `batches`, for metrics.

        `batches` has the row numbers of each batch, of all processes together. The context gives a
        list with one list of row numbers for each batch, the part of the batch that this process
        computes. If any BatchNorm layer normalises by the batch of one process alone, or a batch
        has fewer rows than there are processes, every process gets all batches whole.
        """
        whole = not all(map(is_synchronised, layers_of(self.model)))
        return self.processes.divided(batches, whole=whole)

    def seen(self, images: Any) -> Any:
        """Return the first channels of `images`, as many as the encoder reads.

        Further channels are only for the functions that make views. For two encoders, the result is
        a tuple of the images of each.
        """
        if not self.is_pair:
            return images[:, : self.model.encoder.n_channels]
        channels = []
        for half, of_half in zip(self.model.halves, images, strict=True):
            channels.append(of_half[:, : half.encoder.n_channels])
        return tuple(channels)

    @property
    def seed(self) -> int:
        """Seed of the order of samples, of dropout and of other random choices."""
        return self.sampler.seed

    @property
    def is_pair(self) -> bool:
        """Whether two encoders are trained, each on one kind of sample (scans and measures)."""
        return len(self.model.halves) > 1

    def names_of(self, rows: torch.Tensor) -> list[str]:
        """Return the names of samples at row numbers `rows`, for messages and random views."""
        return list(map(self.data.names.__getitem__, rows.tolist()))

    def state_dict(self) -> StateDict:
        """Return the state to save in a checkpoint: a dictionary by name of the component.

        Components are the model, the optimiser, Fabric's precision with its loss scaler, and in
        contrastive training the loss; the key ``software`` is added.
        """
        state: StateDict = {}
        for name, component in self._parts().items():
            state[name] = component.state_dict()
        state["software"] = asdict(self.software())
        return state

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Set model, optimiser and other components to a checkpoint's `state`; see `state_dict`."""
        for name, component in self._parts().items():
            component.load_state_dict(state[name])

    def _parts(self) -> dict[str, Stateful]:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "precision": self.fabric.strategy.precision,
        }

    def refuse_views(self, rows: torch.Tensor, *, epoch: int) -> None:
        """Raise an error that names the samples at `rows` whose random views are not finite.

        This base class makes no views and does nothing.
        """

    def software(self) -> Software:
        """Return the software and hardware of this process, which a checkpoint records.

        The last bits of trained weights depend on them.
        """
        return Software(
            torch=str(torch.__version__),
            device=self.fabric.device.type,
            n_threads=torch.get_num_threads(),
            n_processes=self.processes.size,
        )


class ContrastiveState(TrainerState):
    """State of a contrastive training: model, optimiser, data, views, and a fitted loss.

    Parameters are as in `TrainerState`, with a loss and a function that makes views.
    """

    def __init__(
        self,
        model: ContrastiveModel,
        objective: AnyObjective,
        views: Views,
        data: TrainingData,
        *,
        settings: TrainingSettings,
        sampler: Sampler,
        engine: Engine | None = None,
    ) -> None:
        learnt = list(objective.parameters())
        groups: list[ParameterGroup] | None = None
        if learnt:
            groups = [{"params": list(model.parameters())}, {"params": learnt, "weight_decay": 0.0}]
        super().__init__(
            model, data, settings=settings, sampler=sampler, engine=engine, groups=groups
        )
        device = self.fabric.device
        self.objective = objective.to(device)
        self.views = views
        # Views are checked with the figures of a step, so that the device is waited for once.
        self._unchecked_views = getattr(views, "unchecked", views)
        self.metadata = {}
        for name, column in data.metadata.items():
            self.metadata[name] = column.to(device)
        if self.processes.size > 1:
            self._pass_one_sample()

    def _pass_one_sample(self) -> None:
        """Pass one sample backwards without a step, so that resumed runs round gradients equally.

        PyTorch's DDP keeps all gradients in one bucket until the first backward pass has shown the
        order of gradients. Rounding of a sum over three or more processes depends on the buckets:
        without this pass, the first step of a resumed run would be rounded differently.
        """
        with still_statistics(self.model), self.read([[self.data.training_rows[0]]]) as batches:
            for _, images in batches:
                features = self.encoder(_twice(self.seen(images))).float()
                self.fabric.backward(self.head(features).float().sum())
        self.optimizer.zero_grad(set_to_none=True)

    def encode_views(self, images: Any, rows: torch.Tensor, *, epoch: int) -> torch.Tensor:
        """Compute the features of both views of a batch, by one encoder or by one for each view.

        The sum of all values of the views is added to `views_total`.

        Parameters
        ----------
        images : tensor, or pair of tensors
            Samples of a batch, or pairs of samples for two encoders.
        rows : tensor of int (n,)
            Rows of the samples, whose names determine the random views.
        epoch : int
            Number that determines the random views; see `Sampler.occasion`.

        Returns
        -------
        tensor (2, n, n_features)
            Features of the first views, and of the second views, float32.
        """
        with torch.no_grad():
            views = self._unchecked_views(images, self.names_of(rows), epoch=epoch)
            sums = [view.sum() for view in views]
            if self.views_total is not None:
                sums.append(self.views_total)
            self.views_total = torch.stack(sums).sum()
            both: Any = views
            if not self.is_pair:
                both = torch.cat(views)
        features: torch.Tensor = self.encoder(both)
        return features.float().unflatten(0, (2, -1))

    def refuse_views(self, rows: torch.Tensor, *, epoch: int) -> None:
        """Make the views of samples at `rows` again, and raise an error if any view is not finite.

        The error, which `views` raises, names the samples. `epoch` determines the random views.
        """
        size = self.settings.micro_batch_size or len(rows)
        with self.read([batch.tolist() for batch in rows.split(size)]) as reading:
            for numbers, images in reading:
                self.views(images, self.names_of(numbers), epoch=epoch)

    def project(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map features (2, n, n_features) of both views to embeddings, a tensor (n, d) a view."""
        z1, z2 = self.head(features.flatten(0, 1)).float().chunk(2)
        return z1, z2

    def metadata_of(
        self, rows: torch.Tensor, features: torch.Tensor
    ) -> dict[str, torch.Tensor] | None:
        """Return the metadata of a batch that the loss reads; None if the loss reads none.

        Parameters
        ----------
        rows : tensor of int (n,)
            Rows of the batch.
        features : tensor (2, n, n_features)
            Features of both views, which some losses read as a column ``features``.
        """
        on_device = rows.to(self.fabric.device, non_blocking=True)
        columns = {}
        for name, column in self.metadata.items():
            columns[name] = column[on_device]
        if self.objective.reads_features:
            columns["features"] = features.detach().transpose(0, 1).flatten(1)
        return columns or None

    def _parts(self) -> dict[str, Stateful]:
        return {**super()._parts(), "objective": self.objective}


def _twice(images: Any) -> Any:
    """Return a batch of images followed by the same images, or a tuple of such batches.

    Batch statistics need at least two samples.
    """
    if isinstance(images, tuple):
        return tuple(map(_twice, images))
    return torch.cat([images, images])


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Let PyTorch use deterministic algorithms until the context ends; warn if there is none."""
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
