"""What a user can say about the network."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from neurocontrast.settings import Settings

__all__ = ["EncoderSettings"]


class EncoderSettings(Settings):
    """The encoder and the projection head that is put on it for pretraining.

    Parameters
    ----------
    name : {'densenet121', 'densenet_small', 'lenet'}
        ``densenet121`` is MONAI's 3D DenseNet with blocks of 6, 12, 24 and 16 layers, growth 32
        and 64 first features: 1024 features. ``densenet_small`` has blocks of 4, 5, 8 and 6 layers,
        growth 16 and 32 first features: 192 features, a thirteenth of the weights and a fifth of the
        time, for cohorts of hundreds and machines without a GPU. ``lenet`` is a three-layer network for
        tests and first steps on tiny volumes, not for results.
    norm : {'batch', 'group', 'instance'}
        What the encoder normalises its feature maps over. ``batch``: the volumes that pass together,
        as published. ``group``: groups of channels of one volume (32 of them, Wu & He 2018; 16 in
        ``densenet_small``, 4 in ``lenet``); ``instance``: each channel of one volume. With the last two a
        representation does not depend on the other volumes, so micro-batches change nothing but memory.
        ``instance`` takes out each map's mean, which is what is pooled: set `final_norm` to false with it.
    final_norm : bool
        Whether DenseNet normalises its last feature maps before they are pooled.
    projection : tuple of int
        Sizes of the projection head's layers after the encoder's features; the last is the
        size of the embedding that the loss sees. Evaluation uses the features before the head, and what
        the loss makes the embedding forget, such as the site, they may keep: with ``[]`` there is no head,
        and the loss sees the features.
    projection_norm : {'batch', 'none'}
        Whether the head standardises the features over the batch first, which lets short trainings
        learn sooner; the y-Aware authors' head does not.
    """

    name: Literal["densenet121", "densenet_small", "lenet"] = "densenet121"
    norm: Literal["batch", "group", "instance"] = "batch"
    final_norm: bool = True
    projection: tuple[Annotated[int, Field(ge=1)], ...] = (512, 128)
    projection_norm: Literal["batch", "none"] = "batch"
