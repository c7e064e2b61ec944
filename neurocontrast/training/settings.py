"""What a user can say about training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from neurocontrast.parallel.hardware import Hardware
from neurocontrast.settings import Settings

NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveInt = Annotated[int, Field(ge=1)]

# Not the keys of `schedule: step`: recipes give them, and another schedule may be tried on top.
_OWNERS: dict[str, dict[str, tuple[str, ...]]] = {
    "schedule": {"min_learning_rate": ("cosine",)},
    "optimizer": {"momentum": ("sgd", "lars"), "trust_coefficient": ("lars",)},
    "sampling": {"sampling_columns": ("metadata-balanced", "one-group")},
}
"""Keys that only some choices of another key read."""


class TrainingSettings(Settings):
    """Choose how long, how fast and on which scans a network is trained; the defaults are the y-Aware paper's."""

    epochs: NonNegativeInt = 50
    """Passes over the training scans; 0 keeps the initial weights (the untrained baseline)."""
    batch_size: Annotated[int, Field(ge=2)] = 64
    """Scans a batch, at most: an epoch's scans are divided into batches of nearly equal size."""
    micro_batch_size: PositiveInt | None = None
    """Scans that pass the encoder together; loss and gradient are still those of the whole batch (gradient caching).
    Memory depends on this, not on `batch_size`; time grows by a third to a half. None: the whole
    batch at once. The encoder's batch normalisation sees these scans alone; with ``encoder.norm:
    group`` the gradient is exact."""
    sampling: Literal["shuffle", "site-balanced", "metadata-balanced", "one-group"] = "shuffle"
    """Which scans make a batch. ``shuffle``: each once an epoch, in random order. ``site-balanced``: as equal numbers
    of each site as four draws of a scan in an epoch allow. ``metadata-balanced``: as equal numbers
    of every combination of `sampling_columns`, and of each site within a combination.
    ``one-group``: scans of one combination of `sampling_columns`, each scan once an epoch (Tsai et
    al. 2021, conditional sampling)."""
    sampling_columns: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Columns whose combinations ``metadata-balanced`` balances; None: age and sex. Numbers are binned. ``one-group``
    needs columns of categories."""
    optimizer: Literal["adam", "adamw", "sgd", "lars"] = "adam"
    """``adam`` adds the weight decay to the gradient, ``adamw`` decouples it; ``sgd`` has momentum; ``lars`` adapts
    SGD's rate to each weight's norm, for large batches (You et al. 2017)."""
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0e-4
    """Learning rate before warm-up and decay."""
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5.0e-5
    """Decay of every parameter; with ``lars`` not of biases and normalisation."""
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Momentum of ``sgd`` and ``lars``; None: 0.9."""
    trust_coefficient: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """In ``lars``, the ratio of a weight's change to the weight at a rate of 1; None: 0.001."""
    schedule: Literal["step", "cosine", "constant"] = "step"
    """``step`` multiplies the learning rate by `step_factor` every `step_epochs` epochs; ``cosine`` lowers it at every
    step along half a cosine, from the end of the warm-up to `min_learning_rate` at the end."""
    min_learning_rate: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Rate from which the warm-up of ``schedule: cosine`` rises and to which the cosine falls; None: 0."""
    step_epochs: PositiveInt = 10
    """Epochs between the steps of ``schedule: step``."""
    step_factor: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Factor of the learning rate at each step of ``schedule: step``."""
    warmup_epochs: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Epochs over which the rate rises linearly to the schedule's."""
    clip_norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Norm over all weights above which gradients are scaled down to it."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Precision of the network's passes; the loss is always float32. Mixed precisions need a GPU."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """``auto`` takes a GPU where there is one."""
    devices: PositiveInt = 1
    """Processes on each machine, each with a GPU of its own (or a share of the CPU's threads). Several are
    started by the command line, by ``torchrun`` or by ``srun``; they share each batch, and the loss
    is that of the whole batch."""
    num_nodes: PositiveInt = 1
    """Machines; more than one need ``torchrun`` or ``srun``."""
    sync_batchnorm: bool = True
    """Whether batch normalisation is over the whole batch where several processes share it; else each process has its
    own statistics. With `micro_batch_size` this concerns the projection head alone."""
    checkpoint_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 15.0
    """Minutes between checkpoints within an epoch; 0: only after epochs."""
    keep_checkpoints: PositiveInt = 2
    """Number of last checkpoints that stay on disk."""
    probe_every: NonNegativeInt = 0
    """Epochs between linear probes, fitted on the training scans' features and scored on the validation scans'; 0:
    none."""
    probe_columns: tuple[str, ...] = ("age", "sex")
    """Columns that the probe predicts: ridge for numbers, logistic regression for classes."""
    init: Path | None = None
    """Weights to start from, in place of random ones: a run, or a folder of ``weights import``. Relative to the current
    directory. Of a run of members, member k starts from member k, and `members` must be their number."""
    members: PositiveInt = 1
    """Encoders that are trained one after the other, each a run in ``RUN/members`` with a seed of
    its own. Probes are fitted to each, and their predictions averaged. Time and disk grow as many
    times."""
    members_leave: Literal["sites"] | None = None
    """``sites``: each member is trained without its share of the sites, and each site is left out
    by one member. None: all members learn from everybody."""

    @model_validator(mode="after")
    def _check_keys(self) -> TrainingSettings:
        for key, names in _OWNERS.items():
            chosen = getattr(self, key)
            unread = [
                f"{name} belongs to {' and '.join(owners)}"
                for name, owners in names.items()
                if getattr(self, name) is not None and chosen not in owners
            ]
            if unread:
                raise ValueError(
                    f"{'; '.join(unread)}, and nothing reads it with {key}: {chosen}; remove it"
                )
        if self.sampling == "one-group" and self.sampling_columns is None:
            raise ValueError(
                "sampling_columns must name the columns that sampling: one-group makes groups of"
            )
        if self.min_learning_rate is not None and self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"min_learning_rate must be at most learning_rate, got {self.min_learning_rate:g} and "
                f"{self.learning_rate:g}"
            )
        if self.epochs and self.warmup_epochs >= self.epochs:
            raise ValueError(
                f"warmup_epochs must be less than epochs, got {self.warmup_epochs:g} of {self.epochs}; "
                "lower it, or train longer"
            )
        if self.sampling == "metadata-balanced" and "site" in self.columns_of_strata:
            raise ValueError(
                "sampling_columns must not hold 'site', which is balanced within each combination anyway"
            )
        return self

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
        """The settings by which processes are started and joined."""
        return Hardware(self.accelerator, self.devices, self.num_nodes, self.precision)

    @property
    def columns_of_strata(self) -> tuple[str, ...]:
        """What ``sampling: metadata-balanced`` makes its combinations of."""
        return ("age", "sex") if self.sampling_columns is None else self.sampling_columns


class FinetuneSettings(Settings):
    """Choose how the encoder of a run is trained further with a linear head, inside every training fold."""

    epochs: PositiveInt = 50
    """Passes over the scans of a training fold, at most."""
    batch_size: Annotated[int, Field(ge=2)] = 16
    """Scans a batch, at most."""
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0e-3
    """Rate of what starts from random weights: the head, and from scratch the whole network. It falls along half a
    cosine to 0 at the last epoch."""
    encoder_factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Rate of a pretrained encoder's last block, as a part of `learning_rate`."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Rate of a block, as a part of that of the block after it; 1 for one rate. For pretrained encoders alone."""
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0e-2
    """Decoupled weight decay (AdamW) of every parameter."""
    patience: PositiveInt | None = 10
    """Epochs without a lower loss on the validation scans of the training fold, after which a fold ends; None for all
    epochs. The weights of the best epoch are kept either way."""
    augment: bool = True
    """Whether the network is shown views by the section ``augment``, by default the run's own, in place of the
    scans."""
    warmup_epochs: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Epochs over which the rate rises linearly."""
    clip_norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Norm over all weights above which gradients are scaled down to it."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Precision of the network's passes; mixed ones need a GPU."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """``auto`` takes a GPU where there is one."""
    checkpoint_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 15.0
    """Minutes between checkpoints within an epoch; 0: only after epochs."""

    @model_validator(mode="after")
    def _check_keys(self) -> FinetuneSettings:
        if self.warmup_epochs >= self.epochs:
            raise ValueError(
                f"warmup_epochs must be less than epochs, got {self.warmup_epochs:g} of {self.epochs}"
            )
        return self

    @property
    def of_loop(self) -> TrainingSettings:
        """The settings of the training loop, which are shared with pretraining."""
        shared = self.model_dump(include=set(TrainingSettings.model_fields))
        return TrainingSettings(**shared, optimizer="adamw", schedule="cosine")
