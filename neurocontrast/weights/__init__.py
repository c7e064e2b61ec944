"""Weights that ship with the package: encoders with a card, and probes that predict from their features."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from neurocontrast.exceptions import ConfigError, one_of, suggestion

if TYPE_CHECKING:
    from neurocontrast.encoders import Encoder

__all__ = ["Weights", "load", "names"]

_FOLDER = Path(__file__).parent
CARD = "README.md"


@dataclass(frozen=True)
class Weights(os.PathLike[str]):
    """Weights on the disk; `embed`, `predict`, `pretrain` (``training.init``) and `ScanEmbedder` take them as a run.

    Parameters
    ----------
    name : str
        Name of the weights.
    path : Path
        Folder with ``encoder.json`` and ``encoder.safetensors``, the card, and a folder for each
        probe.
    """

    name: str
    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def card(self) -> str:
        """Data, ages, sites, intended use, limits and licence, in Markdown."""
        return (self.path / CARD).read_text(encoding="utf-8")

    @property
    def probes(self) -> dict[str, Path]:
        """What can be predicted from the features → the folder of the probe, for `predict`."""
        return {place.parent.name: place.parent for place in sorted(self.path.glob("*/probe.json"))}

    @property
    def encoder(self) -> Encoder:
        """The encoder, on the CPU, in evaluation mode."""
        from neurocontrast.encoders import load_encoder

        return load_encoder(self.path)[0]


def names() -> list[str]:
    """Return the names of the weights that ship."""
    return sorted(card.parent.name for card in _FOLDER.glob(f"*/{CARD}"))


def load(name: str) -> Weights:
    """Return weights that ship with the package; nothing is downloaded.

    Parameters
    ----------
    name : str
        One of `names`.

    Raises
    ------
    ConfigError
        Where none have that name.

    Examples
    --------
    >>> from neurocontrast import weights
    >>> brain_maps = weights.load("brain-maps-lda")
    >>> brain_maps.encoder.n_features
    60
    >>> sorted(brain_maps.probes)
    ['age', 'sex']
    """
    if name not in names():
        raise ConfigError(
            f"weights: none are named '{name}'.{suggestion(name, names())} There are: {one_of(names())}."
        )
    return Weights(name, _FOLDER / name)
