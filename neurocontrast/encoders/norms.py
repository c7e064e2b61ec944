"""Choose the normalisation layers of networks by the setting `EncoderSettings.norm`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from neurocontrast.encoders.settings import EncoderSettings


def norm_layer(settings: EncoderSettings, n_groups: int) -> Callable[[int], nn.Module]:
    """Return a function that makes a normalisation layer for a given number of channels.

    The settings choose batch or group normalisation; `n_groups` is the number of groups of the
    latter.
    """
    if settings.norm == "group":
        return partial(nn.GroupNorm, n_groups)
    return {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[settings.n_dims]
