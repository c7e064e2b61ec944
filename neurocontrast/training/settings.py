"""What a user can say about training."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from neurocontrast.settings import Settings

__all__ = ["TrainingSettings"]

NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveInt = Annotated[int, Field(ge=1)]


class TrainingSettings(Settings):
    """How long, how fast and on what the network is trained; the defaults are the y-Aware paper's.

    Parameters
    ----------
    epochs : int
        How often each training scan is seen; 0 keeps the initial weights (the untrained baseline).
    batch_size : int
        Scans a batch, at most: an epoch's scans are divided into batches of nearly equal size.
    optimizer : {'adam', 'adamw'}
        ``adam`` adds the weight decay to the gradient, ``adamw`` decouples it.
    learning_rate : float
        Before any decay.
    weight_decay : float
        On every parameter.
    schedule : {'step', 'constant'}
        ``step`` multiplies the learning rate by `step_factor` every `step_epochs` epochs.
    step_epochs, step_factor : int, float
        See `schedule`.
    precision : {'32-true', 'bf16-mixed', '16-mixed'}
        Of the network's forward and backward pass; the loss is always float32. Mixed
        precisions need a GPU.
    accelerator : {'auto', 'cpu', 'cuda'}
        ``auto`` takes a GPU where there is one.
    devices : int
        Number of devices; 1 for now.
    keep_checkpoints : int
        How many of the last checkpoints stay on disk.
    probe_every : int
        Every so many epochs a linear probe is fitted on the training scans' features and
        scored on the validation scans'; 0 never.
    probe_columns : tuple of str
        What the probe predicts: ridge for numbers, logistic regression for classes.
    """

    epochs: NonNegativeInt = 50
    batch_size: Annotated[int, Field(ge=2)] = 64
    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0e-4
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5.0e-5
    schedule: Literal["step", "constant"] = "step"
    step_epochs: PositiveInt = 10
    step_factor: Annotated[float, Field(gt=0, le=1)] = 0.9
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    devices: PositiveInt = 1
    keep_checkpoints: PositiveInt = 2
    probe_every: NonNegativeInt = 0
    probe_columns: tuple[str, ...] = ("age", "sex")

    @field_validator("devices")
    @classmethod
    def _one_device(cls, devices: int) -> int:
        if devices > 1:
            raise ValueError(
                "more than one device is not supported yet: each would contrast its scans with its own batch only, "
                "which is another loss; use 1"
            )
        return devices
