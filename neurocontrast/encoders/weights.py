"""Weights as files that say what they are: safetensors of encoder and projection head, and their JSON."""

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import nn

from neurocontrast.documents.document import Json
from neurocontrast.documents.encoder import (
    FORMAT,
    EncoderContract,
    EncoderDescription,
    WeightsFile,
)
from neurocontrast.encoders.encoder import ContrastiveModel, Encoder
from neurocontrast.exceptions import CheckpointError, said, suggestion
from neurocontrast.files import atomic_path, digest_of_file, write_json, write_text
from neurocontrast.provenance import version
from neurocontrast.reading import check_place, read_json

WEIGHTS = "encoder.safetensors"
HEAD = "head.safetensors"
CONTRACT = "encoder.json"
SECOND = "encoder_2"
"""Folder of a run with its second encoder, where it has two: again weights, their JSON, and who was learned from."""
MEMBERS = "members.json"
"""File of a run with several members, each of which is a run in the folder ``members``."""


_REMEDY = "Copy the run again."


def folder_of_member(run: Path, number: int) -> Path:
    """Return the folder of a member, which is a run as any other."""
    return run / "members" / str(number)


def save_encoder(
    folder: str | os.PathLike[str],
    encoder: Encoder,
    contract: EncoderDescription,
    *,
    head: nn.Module | None = None,
) -> None:
    """Write ``encoder.safetensors`` and ``head.safetensors``, then ``encoder.json``, each atomically.

    The JSON is written last and holds the digests of the weights, so a folder with all files is a
    finished one. It records the encoder's settings, and the `contract`: what else must be known to
    use the encoder.
    """
    folder = Path(folder)
    content: Json = {
        "format": FORMAT,
        "neurocontrast": version(),
        "encoder": encoder.settings.model_dump(mode="json"),
        "n_features": encoder.n_features,
        "n_channels": encoder.n_channels,
        "weights": _write_tensors(folder / WEIGHTS, encoder),
    }
    if head is not None:
        content["head"] = _write_tensors(folder / HEAD, head)
    write_json(folder / CONTRACT, content | contract.content())


def save_model(
    folder: Path,
    model: ContrastiveModel,
    contracts: Sequence[EncoderDescription],
    *,
    run: Path,
    heads: bool = True,
    **facts: Json,
) -> None:
    """Write the encoder of a model with its head, and the second one of two to a folder of its own, which comes first.

    Each has its contract, and both have the `facts`. The folder of a second encoder has copies of
    ``provenance.json`` and ``metrics.csv`` of the `run`, so that it serves wherever a run's does.
    """
    places = (folder, folder / SECOND)
    for half, contract, place in reversed(list(zip(model.halves, contracts, places, strict=False))):
        for name in ("provenance.json", "metrics.csv") if place != folder else ():
            if (run / name).is_file():
                write_text(place / name, (run / name).read_text(encoding="utf-8"))
        described = contract.with_keys(**facts)
        save_encoder(place, half.encoder, described, head=half.head if heads else None)


def _write_tensors(path: Path, module: nn.Module) -> dict[str, str]:
    """Write a module's tensors; return how the JSON names the file."""
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()
    }
    content = safetensors.torch.save(tensors, metadata={"format": f"neurocontrast {path.stem}"})
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return {"file": path.name, "sha256": hashlib.sha256(content).hexdigest()}


def copy_encoder(source: Path, contract: EncoderContract, target: Path) -> None:
    """Copy the weight files that a contract names, a head only if there is one, and the contract.

    Files are not written anew: probes, and the record of members, name their digests.
    """
    target.mkdir(parents=True, exist_ok=True)
    for weights in (contract.weights, contract.head):
        if weights is None or not (source / weights.file).is_file():
            continue
        shutil.copyfile(source / weights.file, target / weights.file)
        if digest_of_file(target / weights.file) != weights.sha256:
            raise CheckpointError(
                f"{source / weights.file}: has changed while it was copied. Start again."
            )
    write_json(target / CONTRACT, contract.content())


def refuse_members(folder: Path) -> None:
    """Refuse a run of several members where one encoder is taken."""
    if (folder / MEMBERS).is_file():
        raise CheckpointError(
            f"{folder}: this run has several members (training.members), and one encoder is taken. "
            f"Give one of them, which is a run of its own: {folder_of_member(folder, 0)}."
        )


def read_contract(folder: str | os.PathLike[str]) -> EncoderContract:
    """Read and check ``encoder.json``."""
    path = Path(folder) / CONTRACT
    refuse_members(path.parent)
    if not path.is_file():
        weights = sorted(
            (Path(folder) / "checkpoints").glob(f"epoch-*/{CONTRACT}"),
            key=lambda path: path.parent.name,
        )
        unfinished = (Path(folder) / "checkpoints").is_dir()
        advice = (
            "The run is not finished: continue it with --resume"
            if unfinished
            else "Give a run directory"
        )
        advice += (
            f", or give the weights of its last epoch, {weights[-1].parent}." if weights else "."
        )
        raise CheckpointError(f"{folder}: no {CONTRACT} there. {advice}")
    content: Json = read_json(path, error=CheckpointError, remedy=_REMEDY)
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: format {content.get('format')!r} is not known to neurocontrast {version()} "
            f"(it reads format {FORMAT}). Upgrade neurocontrast, or copy the run again."
        )
    return EncoderContract.of(content, path, error=CheckpointError, remedy=_REMEDY)


def digest_of_weights(path: Path) -> str:
    """Return the SHA-256 of an encoder's weights, given as a run, as a folder, or as one of their files."""
    folder = path.parent if path.name == CONTRACT else path
    if folder.is_dir():
        return read_contract(folder).sha256
    return digest_of_file(path)


def read_tensors(
    folder: str | os.PathLike[str],
    weights: WeightsFile,
    *,
    expected: Mapping[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """Read the tensors of a file that ``encoder.json`` names, as a module needs them."""
    path = Path(folder) / weights.file
    sha256 = weights.sha256
    if not path.is_file():
        raise CheckpointError(f"{path}: the weights are missing. Copy the run again.")
    found = digest_of_file(path)
    if found != sha256:
        raise CheckpointError(
            f"{path}: SHA-256 is {found[:12]}…, but {CONTRACT} says {sha256[:12]}…: the file is damaged or belongs to "
            "another run. Copy both files of one run."
        )
    tensors = load_tensors(path, remedy=_REMEDY)
    problems = misfits(tensors, expected)
    if problems:
        shown = "; ".join(problems[:5]) + (
            f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        )
        raise CheckpointError(
            f"{path}: the weights do not fit the network that {CONTRACT} describes: {shown}."
        )
    return tensors


def load_tensors(path: Path, *, remedy: str = "") -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file."""
    check_place(path, error=CheckpointError, remedy=remedy)
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError, KeyError) as error:
        problem = f"{path}: not a readable safetensors file ({said(error)}). {remedy}"
    raise CheckpointError(problem.rstrip())


def misfits(tensors: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> list[str]:
    """Return a line for each tensor of a module that is missing, unknown, or of another shape."""
    problems = [f"'{name}' is missing" for name in expected if name not in tensors]
    unknown = [name for name in tensors if name not in expected]
    # With more names than these, suggestions take long and help nobody.
    problems += [
        f"'{name}' is unknown.{suggestion(name, expected) if len(unknown) < 9 else ''}"
        for name in unknown
    ]
    return problems + [
        f"'{name}' has shape {list(tensors[name].shape)}, the network needs {list(tensor.shape)}"
        for name, tensor in expected.items()
        if name in tensors and tensors[name].shape != tensor.shape
    ]
