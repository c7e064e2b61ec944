"""Encoders and models of pretraining, by name or from the files of a run, and two of them as one."""

import os
from pathlib import Path
from typing import cast

import pydantic
import torch
from torch import nn

from neurocontrast.documents.encoder import EncoderContract
from neurocontrast.encoders.encoder import (
    ContrastiveModel,
    Encoder,
    LinearComponents,
    ProjectionHead,
)
from neurocontrast.encoders.networks import build_network
from neurocontrast.encoders.settings import EncoderSettings
from neurocontrast.encoders.weights import CONTRACT, read_contract, read_tensors
from neurocontrast.exceptions import CheckpointError
from neurocontrast.seeds import derive_seed
from neurocontrast.torch_state import in_default_precision, in_default_torch_state


@in_default_precision
def build_encoder(
    settings: EncoderSettings, *, n_channels: int = 1, n_voxels: int = 0, seed: int = 0
) -> Encoder:
    """Build an encoder with weights drawn from `seed` alone, in training mode.

    Parameters
    ----------
    settings : EncoderSettings
        Which network.
    n_channels : int
        Channels of a volume, such as tissue maps; natural images have three.
    n_voxels : int
        Voxels that a linear encoder looks at, once it is fitted.
    seed : int
        The run's seed; the global random state is neither read nor changed.

    Examples
    --------
    >>> from neurocontrast.encoders import EncoderSettings, build_encoder
    >>> build_encoder(EncoderSettings(name="lenet")).n_features
    32
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("encoder weights", seed))
        return Encoder(
            build_network(settings, n_channels, n_voxels), settings, n_channels=n_channels
        )


@in_default_precision
def build_model(
    settings: EncoderSettings, *, n_channels: int = 1, n_outputs: int | None = None, seed: int = 0
) -> ContrastiveModel:
    """Build an encoder and its projection head, with weights drawn from `seed` alone, in training mode.

    Where a loss predicts, the head ends in one more linear layer, of `n_outputs`.
    """
    if n_outputs is not None:
        settings = settings.model_copy(update={"projection": (*settings.projection, n_outputs)})
    encoder = build_encoder(settings, n_channels=n_channels, seed=seed)
    return ContrastiveModel(encoder, _build_head(encoder, seed=seed))


@in_default_torch_state
def load_encoder(folder: str | os.PathLike[str]) -> tuple[Encoder, EncoderContract]:
    """Load an encoder and what its JSON says.

    Parameters
    ----------
    folder : path
        A run directory, or any folder with ``encoder.safetensors`` and ``encoder.json``.

    Returns
    -------
    encoder : Encoder
        On the CPU, in evaluation mode.
    contract : EncoderContract
        The content of ``encoder.json``.

    Raises
    ------
    CheckpointError
        Where a file is absent, damaged, changed since it was written, or does not fit the network.
    """
    contract = read_contract(folder)
    try:
        settings = EncoderSettings.model_validate(contract.encoder.content())
    except pydantic.ValidationError as error:
        problems = "; ".join(
            f"encoder.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()
        )
        raise CheckpointError(
            f"{Path(folder) / CONTRACT}: {problems}. Upgrade neurocontrast."
        ) from error
    encoder = build_encoder(settings, n_channels=contract.n_channels, n_voxels=contract.n_voxels)
    beside = contract.beside
    if beside is not None:
        encoder.beside = LinearComponents(beside.n_components, beside.n_voxels)
    encoder.load_state_dict(read_tensors(folder, contract.weights, expected=encoder.state_dict()))
    return encoder.eval(), contract


def load_model(folder: str | os.PathLike[str]) -> tuple[ContrastiveModel, EncoderContract]:
    """Load an encoder with its projection head, and what its JSON says; see `load_encoder`."""
    encoder, contract = load_encoder(folder)
    if contract.head is None:
        raise CheckpointError(
            f"{Path(folder) / CONTRACT}: there is no projection head in this folder: runs of earlier versions did not "
            "keep theirs. Embed the encoder's features (embedding.layer: encoder), or pretrain again."
        )
    head = _build_head(encoder, seed=0)
    head.load_state_dict(read_tensors(folder, contract.head, expected=head.state_dict()))
    return ContrastiveModel(encoder, head).eval(), contract


def _build_head(encoder: Encoder, *, seed: int) -> ProjectionHead:
    settings = encoder.settings
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("head weights", seed))
        return ProjectionHead(
            encoder.n_network_features, settings.projection, norm=settings.projection_norm
        )


class TwoEncoders(ContrastiveModel):
    """Two encoders of paired samples, each with its own projection head; the loss compares their embeddings.

    Samples are given as a pair, n of each kind, which the first and the second encoder take.
    Features and embeddings have 2 n rows, the first encoder's above the second's. The narrower
    features are filled up with zeros, which their head does not read.

    Parameters
    ----------
    first, second : ContrastiveModel
        Encoders with heads that end in embeddings of one size.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.encoders import EncoderSettings, TwoEncoders, build_model
    >>> scans = build_model(EncoderSettings(name="lenet", projection=(8, 4)))
    >>> measures = build_model(EncoderSettings(name="mlp", projection=(8, 4)), n_channels=180)
    >>> TwoEncoders(scans, measures)((torch.zeros(3, 1, 8, 8, 8), torch.zeros(3, 180, 1))).shape
    torch.Size([6, 4])
    """

    def __init__(self, first: ContrastiveModel, second: ContrastiveModel) -> None:
        encoders = _EncoderPair(first.encoder, second.encoder)
        heads = _HeadPair(first, second)
        super().__init__(
            cast(Encoder, encoders), heads
        )  # training asks a pair for what it has of an encoder
        self._halves = (first, second)  # a tuple, so that no weight has two names

    @property
    def halves(self) -> tuple[ContrastiveModel, ...]:
        """The first and the second encoder, each with its head."""
        return self._halves


class _EncoderPair(nn.Module):
    """Encode pairs of samples to features (2 n, n_features), the narrower ones with zeros behind them."""

    def __init__(self, *encoders: Encoder) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.n_features = max(encoder.n_features for encoder in encoders)

    def network(self, samples: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Encode pairs of samples; no components are kept beside either network."""
        return self(samples)

    def forward(self, samples: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        features = [encoder(each) for encoder, each in zip(self.encoders, samples, strict=True)]
        return torch.cat(
            [nn.functional.pad(each, (0, self.n_features - each.shape[1])) for each in features]
        )

    def unread_parameters(self) -> list[nn.Parameter]:
        """Return the weights that get no gradient, of both."""
        return [
            each for encoder in self.encoders for each in cast(Encoder, encoder).unread_parameters()
        ]


class _HeadPair(nn.Module):
    """Project the features of both encoders, each by its own head."""

    def __init__(self, *halves: ContrastiveModel) -> None:
        super().__init__()
        self.heads = nn.ModuleList([half.head for half in halves])
        self.n_read = [half.encoder.n_features for half in halves]
        self.n_features = halves[0].n_features

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        parts = zip(self.heads, features.chunk(2), self.n_read, strict=True)
        return torch.cat([head(part[:, :n_read]) for head, part, n_read in parts])
