"""Weights that ship with the package: encoders with a card, and probes that predict from their features."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from neurocontrast.exceptions import ConfigError, one_of, suggestion

if TYPE_CHECKING:
    from neurocontrast.encoders import Encoder
    from neurocontrast.encoders.members import SeveralEncoders

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
        Folder with ``encoder.json`` and ``encoder.safetensors``, or of a run of members, the card,
        and a folder for each probe.
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
    def encoder(self) -> Encoder | SeveralEncoders:
        """The encoder, on the CPU, in evaluation mode; of members all, with features side by side.

        Members whose samples are prepared in different ways are no one network, and are refused.
        """
        from neurocontrast.encoders import load_encoder
        from neurocontrast.encoders.members import SeveralEncoders, members_of

        encoders = []
        prepared = []
        for folder in members_of(self.path):
            encoder, contract = load_encoder(folder)
            encoders.append(encoder)
            prepared.append((contract["preprocessing"], contract.get("channels")))
        if len(encoders) == 1:
            return encoders[0]
        if prepared.count(prepared[0]) < len(prepared):
            raise ConfigError(
                f"weights: the {len(encoders)} members of '{self.name}' prepare their samples in "
                f"different ways. Take `embed`, or one of them: load_encoder('{folder}')."
            )
        return SeveralEncoders(encoders)


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
