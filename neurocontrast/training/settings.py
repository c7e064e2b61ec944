"""Settings of pretraining and fine-tuning: sections ``training`` and ``finetune``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from neurocontrast.parallel.hardware import Hardware
from neurocontrast.settings import Settings

NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveInt = Annotated[int, Field(ge=1)]

_OWNERS: dict[str, dict[str, tuple[str, ...]]] = {
    "schedule": {"min_learning_rate": ("cosine",)},
    "optimizer": {"momentum": ("sgd", "lars"), "trust_coefficient": ("lars",)},
    "sampling": {"sampling_columns": ("metadata-balanced", "one-group")},
}
"""Key → its keys that only some choices read, and these choices.

The keys of ``schedule: step`` are not here: recipes set them, and users try other schedules on top.
"""


class TrainingSettings(Settings):
    """Choose length, speed and scans of a training; the defaults are the y-Aware paper's."""

    epochs: NonNegativeInt = 50
    """Passes over the training scans; 0 keeps the initial weights (the untrained baseline)."""
    batch_size: Annotated[int, Field(ge=2)] = 64
    """Largest number of scans of a batch: an epoch is divided into batches of nearly equal size."""
    micro_batch_size: PositiveInt | None = None
    """Scans that pass the encoder together, on which memory depends in place of `batch_size`. Loss
    and gradient are of the whole batch (gradient caching); time grows by a third to a half. None:
    the whole batch at once. The encoder's batch normalisation is over the scans of a micro-batch;
    with ``encoder.norm: group`` the gradient is exact."""
    sampling: Literal["shuffle", "site-balanced", "metadata-balanced", "one-group"] = "shuffle"
    """Choice of the scans of a batch. ``shuffle``: each once an epoch, in random order.
    ``site-balanced``: numbers of scans of each site are as equal as four draws of a scan in an
    epoch allow. ``metadata-balanced``: numbers of scans of every combination of `sampling_columns`,
    and of each site within a combination, are as equal. ``one-group``: scans of one combination of
    `sampling_columns`, each scan once an epoch (Tsai et al. 2021, conditional sampling)."""
    sampling_columns: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Columns whose combinations ``metadata-balanced`` balances; None: age and sex. Numbers are
    binned. ``one-group`` needs columns of categories."""
    optimizer: Literal["adam", "adamw", "sgd", "lars"] = "adam"
    """``adam`` adds the weight decay to the gradient, ``adamw`` decouples the decay; ``sgd`` has
    momentum; ``lars`` adapts SGD's rate to each weight's norm, for large batches (You et al.
    2017)."""
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0e-4
    """Learning rate before warm-up and decay."""
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5.0e-5
    """Decay of every parameter; ``lars`` does not decay biases and normalisation."""
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Momentum of ``sgd`` and ``lars``; None: 0.9."""
    trust_coefficient: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Ratio of a weight's change to the weight at a rate of 1, for ``lars``; None: 0.001."""
    schedule: Literal["step", "cosine", "constant"] = "step"
    """``step`` multiplies the learning rate by `step_factor` every `step_epochs` epochs; ``cosine``
    lowers the rate at every step along half a cosine, from the end of the warm-up to
    `min_learning_rate` at the end of training."""
    min_learning_rate: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Rate from which the warm-up of ``schedule: cosine`` rises and to which the cosine falls;
    None: 0."""
    step_epochs: PositiveInt = 10
    """Epochs between the steps of ``schedule: step``."""
    step_factor: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Factor of the learning rate at each step of ``schedule: step``."""
    warmup_epochs: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Epochs over which the rate rises linearly to the schedule's."""
    clip_norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Largest norm of the gradient of all weights; larger gradients are scaled down. None: any."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Precision of the network's passes; the loss is always in float32. Mixed precisions need a
    GPU."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """``auto`` takes a GPU where there is one."""
    devices: PositiveInt = 1
    """Processes on each machine, each with a GPU, or with a share of the CPU's threads. Several
    processes are started by the command line, by ``torchrun`` or by ``srun``; they share each
    batch, and the loss is of the whole batch."""
    num_nodes: PositiveInt = 1
    """Number of machines; several need ``torchrun`` or ``srun``."""
    sync_batchnorm: bool = True
    """Whether batch normalisation is over the batches of all processes, or of each process alone.
    With `micro_batch_size` the choice concerns the projection head alone."""
    checkpoint_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 15.0
    """Minutes between checkpoints within an epoch; 0: only after epochs."""
    keep_checkpoints: PositiveInt = 2
    """Number of last checkpoints that stay on disk."""
    probe_every: NonNegativeInt = 0
    """Epochs between linear probes, fitted on the training scans' features and scored on the
    validation scans' features; 0: no probes."""
    probe_columns: tuple[str, ...] = ("age", "sex")
    """Columns that the probe predicts: ridge for numbers, logistic regression for classes."""
    init: Path | None = None
    """Weights to start from, in place of random ones: a run, or a folder of ``weights import``;
    relative to the current directory. From a run of members, member k starts from member k, and
    `members` must be the number of its members."""
    members: PositiveInt = 1
    """Encoders to train one after the other, each a run in ``RUN/members`` with a seed of its own.
    Probes are fitted to each, and predictions are averaged. Time and disk grow in proportion."""
    members_leave: Literal["sites"] | None = None
    """``sites``: each member is trained without a share of the sites, and each site is left out by
    one member. None: all members learn from all people."""

    @model_validator(mode="after")
    def _check_keys(self) -> TrainingSettings:
        for key, names in _OWNERS.items():
            self._check_owners(key, names)
        if self.sampling == "one-group" and self.sampling_columns is None:
            raise ValueError(
                "sampling_columns must name the columns that sampling: one-group makes groups of"
            )
        if self.min_learning_rate is not None and self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"min_learning_rate must be at most learning_rate, got {self.min_learning_rate:g} "
                f"and {self.learning_rate:g}"
            )
        if self.epochs and self.warmup_epochs >= self.epochs:
            raise ValueError(
                f"warmup_epochs must be less than epochs, got {self.warmup_epochs:g} of "
                f"{self.epochs}; lower it, or train longer"
            )
        if self.sampling == "metadata-balanced" and "site" in self.columns_of_strata:
            raise ValueError(
                "sampling_columns must not hold 'site', which is balanced within each combination "
                "anyway"
            )
        return self

    def _check_owners(self, key: str, names: Mapping[str, tuple[str, ...]]) -> None:
        """Refuse keys that no one reads with the chosen value of another key."""
        chosen = getattr(self, key)
        unread = []
        for name, owners in names.items():
            if getattr(self, name) is not None and chosen not in owners:
                unread.append(f"{name} belongs to {' and '.join(owners)}")
        if unread:
            raise ValueError(
                f"{'; '.join(unread)}, and nothing reads it with {key}: {chosen}; remove it"
            )

    @model_validator(mode="after")
    def _check_members(self) -> TrainingSettings:
        if self.members_leave is not None and self.members < 2:
            raise ValueError(
                f"members_leave: {self.members_leave} is for two members or more, and members is "
                f"{self.members}; set members, or leave members_leave out"
            )
        return self

    @property
    def hardware(self) -> Hardware:
        """Devices, machines and precision, with which processes are started."""
        return Hardware(self.accelerator, self.devices, self.num_nodes, self.precision)

    @property
    def columns_of_strata(self) -> tuple[str, ...]:
        """Columns whose combinations are the strata or groups of the sampling."""
        if self.sampling_columns is None:
            return ("age", "sex")
        return self.sampling_columns


class FinetuneSettings(Settings):
    """Choose how an encoder is trained further with a linear head, inside every training fold."""

    epochs: PositiveInt = 50
    """Largest number of passes over the scans of a training fold."""
    batch_size: Annotated[int, Field(ge=2)] = 16
    """Largest number of scans of a batch."""
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0e-3
    """Rate of weights that start at random: the head, and from scratch the whole network. The rate
    falls along half a cosine to 0 at the last epoch."""
    encoder_factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Rate of a pretrained encoder's last block over `learning_rate`."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Rate of a block over the rate of the next block, in pretrained encoders; 1 for one rate."""
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0e-2
    """Decoupled weight decay (AdamW) of every parameter."""
    patience: PositiveInt | None = 10
    """Epochs without a lower loss on the validation scans of the training fold, after which a fold
    ends; None for all epochs. The weights of the best epoch are kept either way."""
    augment: bool = True
    """Whether the network is shown random views by the section ``augment``, by default the run's,
    in place of the scans."""
    warmup_epochs: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Epochs over which the rate rises linearly."""
    clip_norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Largest norm of the gradient of all weights; larger gradients are scaled down. None: any."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Precision of the network's passes; mixed precisions need a GPU."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """``auto`` takes a GPU where there is one."""
    checkpoint_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 15.0
    """Minutes between checkpoints within an epoch; 0: only after epochs."""

    @model_validator(mode="after")
    def _check_keys(self) -> FinetuneSettings:
        if self.warmup_epochs >= self.epochs:
            raise ValueError(
                f"warmup_epochs must be less than epochs, got {self.warmup_epochs:g} of "
                f"{self.epochs}"
            )
        return self

    @property
    def of_loop(self) -> TrainingSettings:
        """Settings of the training loop, as pretraining has them."""
        shared = self.model_dump(include=set(TrainingSettings.model_fields))
        return TrainingSettings(**shared, optimizer="adamw", schedule="cosine")
