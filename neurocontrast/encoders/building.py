"""Build encoders and pretraining models with random weights, or load both from a run's files."""

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
    """Build an encoder in training mode, with random weights that depend on `seed` alone.

    Parameters
    ----------
    settings : EncoderSettings
        Name of the network, and settings of its layers.
    n_channels : int
        Channels of a volume, such as tissue maps, or number of measures; images have three.
    n_voxels : int
        Number of voxels that a linear encoder (``pca`` or ``lda``) reads; not used by other
        networks.
    seed : int
        Seed of the run; the global random state is neither read nor changed.

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
    """Build an encoder and its projection head, with random weights that depend on `seed` alone.

    Parameters
    ----------
    settings : EncoderSettings
        Settings of the network and of the projection head.
    n_channels : int
        Channels of a volume, or number of measures.
    n_outputs : int, optional
        Number of values that a supervised loss predicts: the head then ends in a further linear
        layer of this size.
    seed : int
        Seed of the run; the global random state is neither read nor changed.

    Returns
    -------
    ContrastiveModel
        Model in training mode.
    """
    if n_outputs is not None:
        settings = settings.model_copy(update={"projection": (*settings.projection, n_outputs)})
    encoder = build_encoder(settings, n_channels=n_channels, seed=seed)
    return ContrastiveModel(encoder, _build_head(encoder, seed=seed))


@in_default_torch_state
def load_encoder(folder: str | os.PathLike[str]) -> tuple[Encoder, EncoderContract]:
    """Load a trained encoder and its description, ``encoder.json``, from a run.

    Parameters
    ----------
    folder : path
        A run directory, or any folder with ``encoder.safetensors`` and ``encoder.json``.

    Returns
    -------
    encoder : Encoder
        Encoder on the CPU, in evaluation mode.
    contract : EncoderContract
        The content of ``encoder.json``.

    Raises
    ------
    CheckpointError
        If a file is absent, damaged, changed since it was written, or does not fit the network.
    """
    contract = read_contract(folder)
    try:
        settings = EncoderSettings.model_validate(contract.encoder.content())
    except pydantic.ValidationError as error:
        problems = []
        for problem in error.errors():
            key = ".".join(map(str, problem["loc"]))
            problems.append(f"encoder.{key}: {problem['msg']}")
        raise CheckpointError(
            f"{Path(folder) / CONTRACT}: {'; '.join(problems)}. Upgrade neurocontrast."
        ) from error
    encoder = build_encoder(settings, n_channels=contract.n_channels, n_voxels=contract.n_voxels)
    beside = contract.beside
    if beside is not None:
        encoder.beside = LinearComponents(beside.n_components, beside.n_voxels)
    encoder.load_state_dict(read_tensors(folder, contract.weights, expected=encoder.state_dict()))
    return encoder.eval(), contract


def load_model(folder: str | os.PathLike[str]) -> tuple[ContrastiveModel, EncoderContract]:
    """Load a trained encoder with its projection head, and ``encoder.json``; see `load_encoder`."""
    encoder, contract = load_encoder(folder)
    if contract.head is None:
        raise CheckpointError(
            f"{Path(folder) / CONTRACT}: there is no projection head in this folder: runs of "
            "earlier versions did not keep theirs. Embed the encoder's features (embedding.layer: "
            "encoder), or pretrain again."
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
    """Two encoders for paired samples, such as scans and measures, each with a projection head.

    A contrastive loss compares the embeddings of both encoders. Samples are a pair, n for the first
    encoder and n for the second. Features and embeddings have 2 n rows, first those of the first
    encoder. Features of the encoder with fewer features are padded with zeros, which the head does
    not read.

    Parameters
    ----------
    first, second : ContrastiveModel
        Encoders with projection heads, whose embeddings have the same size.

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
        # Training calls the methods of an encoder that the pair has too.
        super().__init__(cast(Encoder, encoders), heads)
        self._halves = (first, second)  # a tuple, so that no weight has two names

    @property
    def halves(self) -> tuple[ContrastiveModel, ...]:
        """First and second encoder of the pair, as `ContrastiveModel` with projection head."""
        return self._halves


class _EncoderPair(nn.Module):
    """Two encoders as one network, for `TwoEncoders`: encodes n pairs of samples to features.

    Features have the shape (2 n, n_features), first all of the first encoder, then all of the
    second. The encoder with fewer features has zeros in their place.
    """

    def __init__(self, *encoders: Encoder) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.n_features = max(encoder.n_features for encoder in encoders)

    def network(self, samples: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Return features (2 n, n_features) of n pairs of samples: n rows of each encoder."""
        return self(samples)

    def forward(self, samples: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        rows = []
        for encoder, of_encoder in zip(self.encoders, samples, strict=True):
            features = encoder(of_encoder)
            n_zeros = self.n_features - features.shape[1]
            rows.append(nn.functional.pad(features, (0, n_zeros)))
        return torch.cat(rows)

    def unread_parameters(self) -> list[nn.Parameter]:
        """List the weights, as tensors, of each encoder that get no gradient, in one list.

        The weights of the first encoder come first. They belong to layers behind the last block
        from which the encoder's features are read.
        """
        parameters: list[nn.Parameter] = []
        for encoder in self.encoders:
            parameters += cast(Encoder, encoder).unread_parameters()
        return parameters


class _HeadPair(nn.Module):
    """Two projection heads as one, for `TwoEncoders`: each projects the features of its encoder."""

    def __init__(self, *halves: ContrastiveModel) -> None:
        super().__init__()
        self.heads = nn.ModuleList([half.head for half in halves])
        self.n_read = [half.encoder.n_features for half in halves]
        self.n_features = halves[0].n_features

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        embeddings = []
        for head, rows, n_read in zip(self.heads, features.chunk(2), self.n_read, strict=True):
            embeddings.append(head(rows[:, :n_read]))
        return torch.cat(embeddings)
