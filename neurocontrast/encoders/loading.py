"""Encoders and projection heads, from the files of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pydantic

from neurocontrast.encoders.building import build_encoder, build_head
from neurocontrast.encoders.encoder import Encoder
from neurocontrast.encoders.heads import ContrastiveModel
from neurocontrast.encoders.settings import EncoderSettings
from neurocontrast.encoders.weights import CONTRACT, read_contract, read_tensors
from neurocontrast.exceptions import CheckpointError

__all__ = ["load_encoder", "load_model"]


def load_encoder(folder: str | os.PathLike[str]) -> tuple[Encoder, dict[str, Any]]:
    """Load an encoder and what its JSON says.

    Parameters
    ----------
    folder : path
        A run directory, or any folder with ``encoder.safetensors`` and ``encoder.json``.

    Returns
    -------
    encoder : Encoder
        On the CPU, in evaluation mode.
    contract : dict
        The content of ``encoder.json``.

    Raises
    ------
    CheckpointError
        Where a file is absent, damaged, changed since it was written, or does not fit the network.
    """
    contract = read_contract(folder)
    try:
        settings = EncoderSettings.model_validate(contract["encoder"])
    except pydantic.ValidationError as error:
        problems = "; ".join(f"encoder.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise CheckpointError(f"{Path(folder) / CONTRACT}: {problems}. Upgrade neurocontrast.") from error
    encoder = build_encoder(settings)
    encoder.load_state_dict(read_tensors(folder, contract["weights"], expected=encoder.state_dict()))
    return encoder.eval(), contract


def load_model(folder: str | os.PathLike[str]) -> tuple[ContrastiveModel, dict[str, Any]]:
    """Load an encoder with the projection head it was pretrained with, and what its JSON says.

    Parameters
    ----------
    folder : path
        As for `load_encoder`.

    Returns
    -------
    model : ContrastiveModel
        On the CPU, in evaluation mode.
    contract : dict
        The content of ``encoder.json``.

    Raises
    ------
    CheckpointError
        As for `load_encoder`; also where the run's head was not saved.
    """
    encoder, contract = load_encoder(folder)
    if "head" not in contract:
        raise CheckpointError(
            f"{Path(folder) / CONTRACT}: there is no projection head in this folder: runs of earlier versions did not "
            "keep theirs. Embed the encoder's features (embedding.layer: encoder), or pretrain again."
        )
    head = build_head(encoder.settings, encoder.n_features)
    head.load_state_dict(read_tensors(folder, contract["head"], expected=head.state_dict()))
    return ContrastiveModel(encoder, head).eval(), contract
