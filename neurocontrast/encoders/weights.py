"""Read and write weights of encoder and projection head, with the description encoder.json."""

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
"""Subfolder of a run that trains two encoders: files of the second encoder."""
MEMBERS = "members.json"
"""File that lists the members of a run of several encoders; each member is a run in the subfolder
``members``."""
_REMEDY = "Copy the run again."
_MOST_SUGGESTIONS = 9
"""Number of unknown tensor names in a file; with fewer, an error message suggests similar names."""


def folder_of_member(run: Path, number: int) -> Path:
    """Return the folder of encoder ("member") `number`, from 0, in a run of several encoders."""
    return run / "members" / str(number)


def save_encoder(
    folder: str | os.PathLike[str],
    encoder: Encoder,
    contract: EncoderDescription,
    *,
    head: nn.Module | None = None,
) -> None:
    """Write an encoder's weights and description: ``encoder.safetensors`` and ``encoder.json``.

    Each file is written atomically. The JSON file is written last and holds the digests of the
    weights, so that a folder with all files is complete.

    Parameters
    ----------
    folder : path
        Folder to write into.
    encoder : Encoder
        Trained network, whose settings are recorded too.
    contract : EncoderDescription
        Further keys of ``encoder.json``, such as the preprocessing.
    head : torch.nn.Module, optional
        Projection head, written as ``head.safetensors``.
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
    """Write the encoder of a model with its projection head, or both encoders of a pair.

    Parameters
    ----------
    folder : Path
        Folder of the first encoder.
    model : ContrastiveModel
        Model of one encoder, or of two.
    contracts : sequence of EncoderDescription
        Further keys of each encoder's ``encoder.json``.
    run : Path
        Run directory, whose ``provenance.json`` and ``metrics.csv`` are copied into the second
        encoder's folder, so that the folder can be used as a run.
    heads : bool
        Whether projection heads are written.
    **facts
        Keys to add to the ``encoder.json`` of each encoder.
    """
    if len(model.halves) > 1:
        second = folder / SECOND
        for name in ("provenance.json", "metrics.csv"):
            if (run / name).is_file():
                write_text(second / name, (run / name).read_text(encoding="utf-8"))
        _save_half(second, model.halves[1], contracts[1].with_keys(**facts), with_head=heads)
    _save_half(folder, model.halves[0], contracts[0].with_keys(**facts), with_head=heads)


def _save_half(
    folder: Path, half: ContrastiveModel, contract: EncoderDescription, *, with_head: bool
) -> None:
    """Write the encoder of `half` into a folder, and its projection head if `with_head` is True.

    `half` is one of the two models of a pair, or the only model. `contract` are further keys of
    ``encoder.json``.
    """
    head = None
    if with_head:
        head = half.head
    save_encoder(folder, half.encoder, contract, head=head)


def _write_tensors(path: Path, module: nn.Module) -> dict[str, str]:
    """Write the tensors of `module` to a safetensors file at `path`.

    Returned are name and SHA-256 of the file, as ``encoder.json`` records them.
    """
    tensors = {}
    for name, tensor in module.state_dict().items():
        tensors[name] = tensor.detach().cpu().contiguous()
    content = safetensors.torch.save(tensors, metadata={"format": f"neurocontrast {path.stem}"})
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return {"file": path.name, "sha256": hashlib.sha256(content).hexdigest()}


def copy_encoder(source: Path, contract: EncoderContract, target: Path) -> None:
    """Copy an encoder's weights, projection head and ``encoder.json`` to another folder.

    Weights are copied byte by byte, because probes and ``members.json`` refer to their digests.

    Raises
    ------
    CheckpointError
        If a file changes while it is copied.
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
    """Raise a CheckpointError if `folder` is a run of several encoders ("members").

    An ``encoder.json`` is read from the folder of one encoder.
    """
    if (folder / MEMBERS).is_file():
        raise CheckpointError(
            f"{folder}: this run has several members (training.members), and one encoder is taken. "
            f"Give one of them, which is a run of its own: {folder_of_member(folder, 0)}."
        )


def read_contract(folder: str | os.PathLike[str]) -> EncoderContract:
    """Read and check a folder's ``encoder.json``, the description of an encoder.

    Raises
    ------
    CheckpointError
        If the folder is a run of several encoders (members) or has no ``encoder.json``, or the file
        is damaged or of another version.
    """
    path = Path(folder) / CONTRACT
    refuse_members(path.parent)
    if not path.is_file():
        advice = _advice_without_contract(path.parent)
        raise CheckpointError(f"{folder}: no {CONTRACT} there. {advice}")
    content: Json = read_json(path, error=CheckpointError, remedy=_REMEDY)
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: format {content.get('format')!r} is not known to neurocontrast {version()} "
            f"(it reads format {FORMAT}). Upgrade neurocontrast, or copy the run again."
        )
    return EncoderContract.of(content, path, error=CheckpointError, remedy=_REMEDY)


def _advice_without_contract(folder: Path) -> str:
    """Return advice for an error message on a folder without ``encoder.json``.

    The advice is to resume an unfinished run, or to give the weights of its last epoch, if there
    are.
    """
    checkpoints = folder / "checkpoints"
    advice = "Give a run directory"
    if checkpoints.is_dir():
        advice = "The run is not finished: continue it with --resume"
    epochs = sorted(path.parent.name for path in checkpoints.glob(f"epoch-*/{CONTRACT}"))
    if not epochs:
        return f"{advice}."
    return f"{advice}, or give the weights of its last epoch, {checkpoints / epochs[-1]}."


def digest_of_weights(path: Path) -> str:
    """Return the SHA-256 of an encoder's weights, as ``encoder.json`` states, or of a file.

    Parameters
    ----------
    path : Path
        Run, folder of an encoder, ``encoder.json``, or file of weights.
    """
    folder = path
    if path.name == CONTRACT:
        folder = path.parent
    if folder.is_dir():
        return read_contract(folder).sha256
    return digest_of_file(path)


def read_tensors(
    folder: str | os.PathLike[str],
    weights: WeightsFile,
    *,
    expected: Mapping[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """Read the tensors of a weights file, and check digest, names and shapes.

    Parameters
    ----------
    folder : path
        Folder of the file.
    weights : WeightsFile
        Name and digest of the file, as ``encoder.json`` records them.
    expected : mapping
        Tensors of the module that will hold the weights, by name.

    Raises
    ------
    CheckpointError
        If the file is missing or damaged, or tensors do not fit the module.
    """
    path = Path(folder) / weights.file
    sha256 = weights.sha256
    if not path.is_file():
        raise CheckpointError(f"{path}: the weights are missing. Copy the run again.")
    digest = digest_of_file(path)
    if digest != sha256:
        raise CheckpointError(
            f"{path}: SHA-256 is {digest[:12]}…, but {CONTRACT} says {sha256[:12]}…: the file is "
            "damaged or belongs to another run. Copy both files of one run."
        )
    tensors = load_tensors(path, remedy=_REMEDY)
    problems = misfits(tensors, expected)
    if problems:
        phrases = problems[:5]
        if len(problems) > 5:
            phrases.append(f"and {len(problems) - 5} more")
        raise CheckpointError(
            f"{path}: the weights do not fit the network that {CONTRACT} describes: "
            f"{'; '.join(phrases)}."
        )
    return tensors


def load_tensors(path: Path, *, remedy: str = "") -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file by name; raise a CheckpointError if unreadable.

    `remedy` ends the error's message.
    """
    check_place(path, error=CheckpointError, remedy=remedy)
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError, KeyError) as error:
        problem = f"{path}: not a readable safetensors file ({said(error)}). {remedy}"
    raise CheckpointError(problem.rstrip())


def misfits(tensors: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> list[str]:
    """Describe each difference between tensors of a file and the `expected` tensors of a module.

    Differences are tensors that are missing, unknown or of another shape. The list is empty if all
    fit.
    """
    problems = [f"'{name}' is missing" for name in expected if name not in tensors]
    unknown = [name for name in tensors if name not in expected]
    for name in unknown:
        near = ""
        if len(unknown) < _MOST_SUGGESTIONS:
            near = suggestion(name, expected)
        problems.append(f"'{name}' is unknown.{near}")
    for name, tensor in expected.items():
        if name in tensors and tensors[name].shape != tensor.shape:
            shape = list(tensors[name].shape)
            problems.append(f"'{name}' has shape {shape}, the network needs {list(tensor.shape)}")
    return problems
