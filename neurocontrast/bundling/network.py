"""The encoder of a bundle, built from the plain settings that its configuration holds."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import torch

from neurocontrast.encoders.encoder import Encoder
from neurocontrast.encoders.networks import build_network

__all__ = ["build_encoder"]


def build_encoder(
    settings: Mapping[str, Any], weights: str | os.PathLike[str], *, n_channels: int = 1, n_voxels: int = 0
) -> Encoder:
    """Build the encoder and load its weights, in evaluation mode.

    Parameters
    ----------
    settings : mapping
        Settings of the encoder but those of its projection head.
    weights : path
        File of the state dictionary; it is read without running what a pickle may hold.
    n_channels, n_voxels : int
        Channels of a volume; voxels that a linear encoder looks at.
    """
    read_out = _ReadOut(settings["read_out"]["blocks"], tuple(settings["read_out"]["grid"]))
    is_linear = settings["name"] in ("pca", "lda")
    known = cast(Any, SimpleNamespace(**{**settings, "read_out": read_out, "is_linear": is_linear, "n_dims": 3}))
    encoder = Encoder(build_network(known, n_channels, n_voxels), known, n_channels=n_channels)
    encoder.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return encoder.eval()


class _ReadOut:
    """Blocks and grid that features are read out at, which were checked when the encoder was trained."""

    def __init__(self, blocks: Any, grid: tuple[int, ...]) -> None:
        self.blocks, self.grid = None if blocks is None else tuple(blocks), grid
        self.n_cells = math.prod(grid)

    def check(self, name: str) -> None:
        """Find nothing to refuse."""
        del name
