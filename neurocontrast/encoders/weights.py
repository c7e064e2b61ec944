"""Encoder weights as files that say what they are: safetensors and a JSON beside."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic
import safetensors
import safetensors.torch
import torch

from neurocontrast.encoders.encoder import Encoder, build_encoder
from neurocontrast.encoders.settings import EncoderSettings
from neurocontrast.exceptions import CheckpointError, suggestion
from neurocontrast.files import atomic_path, digest_of_file, write_json
from neurocontrast.provenance import version

__all__ = ["load_encoder", "read_contract", "save_encoder"]

WEIGHTS = "encoder.safetensors"
CONTRACT = "encoder.json"
_FORMAT = 1


def save_encoder(folder: str | os.PathLike[str], encoder: Encoder, contract: Mapping[str, Any]) -> None:
    """Write ``encoder.safetensors``, then ``encoder.json``, each atomically.

    The JSON is written last and holds the digest of the weights, so a folder with both files
    is a finished one.

    Parameters
    ----------
    folder : path
        Where to write.
    encoder : Encoder
        The network; its settings and number of features are recorded.
    contract : mapping
        What else whoever loads it must know: `preprocessing`, `batchnorm`, `provenance` …
    """
    folder = Path(folder)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in encoder.state_dict().items()}
    with atomic_path(folder / WEIGHTS) as temporary:
        try:
            safetensors.torch.save_file(tensors, temporary, metadata={"format": "neurocontrast encoder"})
        except safetensors.SafetensorError as error:
            raise OSError(errno.EIO, f"the weights cannot be written ({error})", str(temporary)) from error
    write_json(
        folder / CONTRACT,
        {
            "format": _FORMAT,
            "neurocontrast": version(),
            "encoder": encoder.settings.model_dump(mode="json"),
            "n_features": encoder.n_features,
            "weights": {"file": WEIGHTS, "sha256": digest_of_file(folder / WEIGHTS)},
            **contract,
        },
    )


def read_contract(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and check ``encoder.json``.

    Raises
    ------
    CheckpointError
        Where it is absent, not readable, or of a format this version does not know.
    """
    path = Path(folder) / CONTRACT
    if not path.is_file():
        weights = sorted((Path(folder) / "checkpoints").glob(f"epoch-*/{CONTRACT}"), key=lambda path: path.parent.name)
        unfinished = (Path(folder) / "checkpoints").is_dir()
        advice = "The run is not finished: continue it with --resume" if unfinished else "Give a run directory"
        advice += f", or give the weights of its last epoch, {weights[-1].parent}." if weights else "."
        raise CheckpointError(f"{folder}: no {CONTRACT} there. {advice}")
    try:
        contract = json.loads(path.read_text(encoding="utf-8"))
        if contract["format"] != _FORMAT:
            raise CheckpointError(
                f"{path}: format {contract['format']!r} is not known to neurocontrast {version()} "
                f"(it reads format {_FORMAT}). Upgrade neurocontrast."
            )
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: not a readable encoder description ({error!r}). Copy the run again.") from error
    missing = [key for key in ("encoder", "n_features", "weights", "preprocessing") if key not in contract]
    if missing:
        raise CheckpointError(f"{path}: lacks {', '.join(missing)}. Copy the run again.")
    if not isinstance(contract["preprocessing"], dict):
        raise CheckpointError(f"{path}: 'preprocessing' must be a section of keys. Copy the run again.")
    weights = contract["weights"]
    if not isinstance(weights, dict) or not all(isinstance(weights.get(key), str) for key in ("file", "sha256")):
        raise CheckpointError(f"{path}: 'weights' must have the keys 'file' and 'sha256'. Copy the run again.")
    if Path(weights["file"]).name != weights["file"]:
        raise CheckpointError(f"{path}: weights.file must be a file beside it, found '{weights['file']}'.")
    return dict(contract)


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
    path = Path(folder) / contract["weights"]["file"]
    encoder = build_encoder(settings)
    encoder.load_state_dict(_read_tensors(path, contract["weights"]["sha256"], expected=encoder.state_dict()))
    return encoder.eval(), contract


def _read_tensors(path: Path, sha256: str, *, expected: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise CheckpointError(f"{path}: the weights are missing. Copy the run again.")
    found = digest_of_file(path)
    if found != sha256:
        raise CheckpointError(
            f"{path}: SHA-256 is {found[:12]}…, but {CONTRACT} says {sha256[:12]}…: the file is damaged or belongs to "
            "another run. Copy both files of one run."
        )
    try:
        tensors = safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: not a readable safetensors file ({error}). Copy the run again.") from error
    problems = [f"'{name}' is missing" for name in expected if name not in tensors]
    problems += [f"'{name}' is unknown.{suggestion(name, expected)}" for name in tensors if name not in expected]
    problems += [
        f"'{name}' has shape {list(tensors[name].shape)}, the network needs {list(tensor.shape)}"
        for name, tensor in expected.items()
        if name in tensors and tensors[name].shape != tensor.shape
    ]
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise CheckpointError(f"{path}: the weights do not fit the network that {CONTRACT} describes: {shown}.")
    return tensors
