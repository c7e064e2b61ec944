"""Data of a training (images, metadata, row numbers), and checks before training begins."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from neurocontrast.data.batches import Images
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.losses.objective import Objective
from neurocontrast.losses.sum import SumOfObjectives
from neurocontrast.training.sampling import Sampler, build_sampler
from neurocontrast.training.settings import TrainingSettings

AnyObjective = Objective | SumOfObjectives

Views = Callable[..., tuple[torch.Tensor, torch.Tensor]]
"""Function ``views(images, names, epoch=...)`` that returns two random views of each image,
reproducible from epoch and name."""


@dataclass(frozen=True)
class PretextTask:
    """Self-supervised task: random views of each sample, and the loss that compares them."""

    views: Views
    """Function that makes two random views of each sample of a batch; see `Views`."""
    objective: AnyObjective
    """Loss of `neurocontrast.losses`; `fit` fits its kernel on the training rows."""


@dataclass(frozen=True)
class TrainingData:
    """Images of a training with metadata, and the row numbers of training and validation samples.

    Row k of every sequence and column, such as `names`, `metadata` and `targets`, belongs to image
    k.
    """

    images: Images
    """Preprocessed images from which views are made."""
    names: Sequence[str]
    """Name of each sample, for messages and as a key of the sample's random views."""
    metadata: Mapping[str, torch.Tensor]
    """Metadata columns that the loss reads, by name."""
    training_rows: Sequence[int]
    """Rows of the training samples; subjects of training rows have no validation rows."""
    validation_rows: Sequence[int] = ()
    """Rows of samples that are only measured, not trained on."""
    targets: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Columns that the linear probe predicts, by name: floats (NaN if missing) or text (None if
    missing).
    """
    traits: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Columns by which batches are balanced, by name, in the form of `targets`."""
    n_readers: int = 1
    """Number of threads that read batches."""

    def sampler(self, settings: TrainingSettings, seed: int, *, n_encoders: int = 1) -> Sampler:
        """Return the sampler of batches; refuse batches too small for the number of processes.

        With two encoders, each encodes one view of a sample, and needs two samples to compute batch
        statistics.
        """
        sampler = build_sampler(
            self.training_rows, self.traits, settings=settings, seed=seed, names=self.names
        )
        n_processes = settings.devices * settings.num_nodes
        if n_processes == 1:
            return sampler
        # Batches of every epoch have the sizes of the first.
        smallest = min(map(len, sampler.batches(0)), default=n_processes)
        if smallest < n_processes * n_encoders:
            raise ConfigError(
                f"training.batch_size: the {len(self.training_rows)} training samples are divided "
                f"into batches of {smallest} or more, and each of the {n_processes} processes "
                f"needs {n_encoders} of every batch. Raise training.batch_size, or use fewer "
                "devices."
            )
        return sampler


def select_rows(
    metadata: Mapping[str, torch.Tensor], rows: Sequence[int]
) -> dict[str, torch.Tensor]:
    """Return all columns of `metadata` by name, each with the values at the given `rows` alone."""
    chosen = torch.as_tensor(rows)
    columns = {}
    for name, column in metadata.items():
        columns[name] = column[chosen]
    return columns


def fit_objective(
    objective: AnyObjective,
    metadata: Mapping[str, torch.Tensor],
    *,
    names: Sequence[str],
    training_rows: Sequence[int],
    validation_rows: Sequence[int],
) -> None:
    """Check the metadata that a loss reads, and fit the kernels of the loss to the training rows.

    All rows are checked, before training begins. The kernels are changed in place. Too few training
    or validation rows are refused, too.
    """
    objective.check(metadata, names=names)
    check_split(training_rows, validation_rows)
    objective.fit(select_rows(metadata, training_rows))


def check_split(training_rows: Sequence[int], validation_rows: Sequence[int]) -> None:
    """Refuse a single validation row, or fewer than two training rows: a loss compares samples."""
    if len(training_rows) < 2:
        raise DataError(
            f"a contrastive loss needs at least two training samples, found {len(training_rows)}."
        )
    if len(validation_rows) == 1:
        raise ConfigError(
            "data.val_fraction leaves a single validation sample, and a contrastive loss needs "
            "two. Raise it, or set it to 0 for no validation."
        )
