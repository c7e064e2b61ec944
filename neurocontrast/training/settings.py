"""Settings of pretraining and fine-tuning: configuration sections ``training``, ``finetune``."""

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
"""Settings with an effect only for certain values of another setting: {other: {setting: values}}.

The keys of ``schedule: step`` are missing, because recipes set these keys and users override the
schedule alone.
"""


class TrainingSettings(Settings):
    """Choose length, optimiser, sampling and hardware of a training.

    Defaults are those of the y-Aware paper.
    """

    epochs: NonNegativeInt = 50
    """Number of passes over the training scans; 0 keeps the initial weights (the untrained
    baseline)."""
    batch_size: Annotated[int, Field(ge=2)] = 64
    """Largest number of scans in a batch: an epoch is divided into batches of nearly equal size."""
    micro_batch_size: PositiveInt | None = None
    """Number of scans that pass the encoder together, which limits the memory needed. Loss and
    gradient are still computed over the whole batch (gradient caching); time grows by a third to a
    half. None: the whole batch passes at once. The encoder's batch normalisation uses the scans of
    a micro-batch; with ``encoder.norm: group`` the gradient is exact."""
    sampling: Literal["shuffle", "site-balanced", "metadata-balanced", "one-group"] = "shuffle"
    """Choice of the scans in a batch. ``shuffle``: each scan once an epoch, in random order.
    ``site-balanced``: scans of each site are as equally frequent as at most four draws of a scan in
    an epoch allow. ``metadata-balanced``: every combination of `sampling_columns`, and each site
    within a combination, is as equally frequent. ``one-group``: each batch has scans of one
    combination of `sampling_columns`, each scan once an epoch (conditional sampling, Ma et al.
    2021)."""
    sampling_columns: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Columns whose combinations ``metadata-balanced`` balances (None: age and sex), or whose
    combinations are the groups of ``one-group``. Numbers are divided into bins for
    ``metadata-balanced``; ``one-group`` needs columns of categories."""
    optimizer: Literal["adam", "adamw", "sgd", "lars"] = "adam"
    """Optimiser. ``adam`` adds the weight decay to the gradient, ``adamw`` decouples the decay;
    ``sgd`` has momentum; ``lars`` adapts SGD's rate to each weight's norm, for large batches (You
    et al. 2017)."""
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0e-4
    """Learning rate before warm-up and schedule."""
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5.0e-5
    """Weight decay of every parameter; ``lars`` does not decay biases and normalisation."""
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Momentum of ``sgd`` and ``lars``; None: 0.9."""
    trust_coefficient: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Ratio of the change of a weight's norm to the norm, at a learning rate of 1, for ``lars``;
    None: 0.001."""
    schedule: Literal["step", "cosine", "constant"] = "step"
    """Schedule of the learning rate. ``step`` multiplies the learning rate by `step_factor` every
    `step_epochs` epochs; ``cosine`` lowers the rate at every step along half a cosine, from the end
    of the warm-up to `min_learning_rate` at the end of training; ``constant`` keeps the rate."""
    min_learning_rate: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Learning rate at the start of the warm-up and at the end of training, for ``schedule:
    cosine``; None: 0."""
    step_epochs: PositiveInt = 10
    """Number of epochs between the steps of ``schedule: step``."""
    step_factor: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Factor on the learning rate at each step of ``schedule: step``."""
    warmup_epochs: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Number of epochs over which the learning rate rises linearly to the schedule's rate."""
    clip_norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Largest norm of the gradient over all weights; larger gradients are scaled down. None: no
    limit."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Precision of the network's passes; the loss is always in float32. Mixed precisions need a
    GPU."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """Device. ``auto`` uses a GPU if there is one."""
    devices: PositiveInt = 1
    """Number of processes on each machine, each with a GPU, or with a share of the CPU's threads.
    Several processes are started by the command line, by ``torchrun`` or by ``srun``; each batch is
    divided among the processes, and the loss is computed over the whole batch."""
    num_nodes: PositiveInt = 1
    """Number of machines; more than one need ``torchrun`` or ``srun``."""
    sync_batchnorm: bool = True
    """Whether batch normalisation uses the batches of all processes, instead of each process's
    batch alone. With `micro_batch_size` the setting concerns the projection head alone."""
    checkpoint_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 15.0
    """Minutes between checkpoints within an epoch; 0: checkpoints only after epochs."""
    keep_checkpoints: PositiveInt = 2
    """Number of most recent checkpoints to keep on disk."""
    probe_every: NonNegativeInt = 0
    """Number of epochs between linear probes, which are fitted on the training scans' features and
    scored on the validation scans' features; 0: no probes."""
    probe_columns: tuple[str, ...] = ("age", "sex")
    """Columns that the linear probes predict: ridge regression for numbers, logistic regression for
    classes."""
    init: Path | None = None
    """Weights to start from instead of random ones: a run, or a folder written by ``weights
    import``; relative to the current directory. If the run has several members, member k starts
    from member k, and `members` must be the same number."""
    members: PositiveInt = 1
    """Number of encoders (members) to train one after the other, each as a run in ``RUN/members``
    with its own seed. Probes are fitted to each encoder, and predictions are averaged. Time and
    disk space grow in proportion."""
    members_leave: Literal["sites"] | None = None
    """``sites``: each member is trained without some of the sites, so that each site is left out by
    one member. None: all members are trained on all people."""

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
        """Raise a ValueError for settings that have no effect with the value of setting `key`.

        `names` maps each setting to the values of setting `key` with which it has an effect.
        """
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
        """Devices, machines and precision with which the processes are started."""
        return Hardware(self.accelerator, self.devices, self.num_nodes, self.precision)

    @property
    def columns_of_strata(self) -> tuple[str, ...]:
        """Metadata columns whose combinations are balanced, or are groups, by setting `sampling`.

        They are `sampling_columns`, or by default age and sex, which ``metadata-balanced``
        balances; ``one-group`` has no default.
        """
        if self.sampling_columns is None:
            return ("age", "sex")
        return self.sampling_columns


class FinetuneSettings(Settings):
    """Choose how an encoder is fine-tuned with a linear head, separately in each training fold."""

    epochs: PositiveInt = 50
    """Largest number of passes over the scans of a training fold."""
    batch_size: Annotated[int, Field(ge=2)] = 16
    """Largest number of scans in a batch."""
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0e-3
    """Learning rate of weights that start at random: the head, and from scratch the whole network.
    The rate falls along half a cosine to 0 at the last epoch."""
    encoder_factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Learning rate of a pretrained encoder's last block, as a share of `learning_rate`."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Learning rate of a block as a share of the next block's rate, in a pretrained encoder; 1 for
    equal rates."""
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0e-2
    """Decoupled weight decay (AdamW) of every parameter."""
    patience: PositiveInt | None = 10
    """Number of epochs without a lower loss on the validation scans of the training fold, after
    which training in a fold ends; None to train for all epochs. The weights of the best epoch are
    used either way."""
    augment: bool = True
    """Whether the network is trained on random views of the scans, made by the section ``augment``;
    by default the section ``augment`` of the run that pretrained the encoder."""
    warmup_epochs: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Number of epochs over which the learning rate rises linearly."""
    clip_norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Largest norm of the gradient over all weights; larger gradients are scaled down. None: no
    limit."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Precision of the network's passes; mixed precisions need a GPU."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """Device. ``auto`` uses a GPU if there is one."""
    checkpoint_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 15.0
    """Minutes between checkpoints within an epoch; 0: checkpoints only after epochs."""

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
        """Settings of the training loop for fine-tuning, with AdamW and a cosine schedule."""
        shared = self.model_dump(include=set(TrainingSettings.model_fields))
        return TrainingSettings(**shared, optimizer="adamw", schedule="cosine")
