"""Import the weights of other programs, and export weights for other programs."""

import hashlib
import io
import json
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch

from neurocontrast.config import AnyConfig, as_config
from neurocontrast.data.settings import DataSettings
from neurocontrast.data.sources import BrainVolumes
from neurocontrast.display import as_progress
from neurocontrast.documents.encoder import (
    EncoderContract,
    EncoderDescription,
    ImportedWeights,
    WeightsFile,
)
from neurocontrast.encoders import Encoder, check_shape, load_encoder, save_encoder
from neurocontrast.encoders.architectures import (
    ARCHITECTURES,
    Architecture,
    convert,
    foreign_names,
    read_state,
)
from neurocontrast.encoders.members import has_members, read_record, write_members
from neurocontrast.encoders.weights import MEMBERS, copy_encoder, folder_of_member
from neurocontrast.exceptions import (
    ConfigError,
    one_of,
    suggestion,
)
from neurocontrast.files import (
    atomic_folder,
    atomic_path,
    check_output_file,
    check_output_folder,
    check_writable,
    digest_of_file,
)
from neurocontrast.losses.registry import describe_objective
from neurocontrast.progress import Progress
from neurocontrast.runs.answer import (
    ANSWER,
)
from neurocontrast.runs.networks import load_networks
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.weights import folder_of

_SUFFIXES = (".pt", ".safetensors")
_N_SHOWN = 5
"""Largest number of layers that a message names, of those left out when weights are imported."""
_STATE = "monai.safetensors"
"""Name of a state dict with MONAI's names, beside the weights of each encoder of an exported
run.
"""


@in_default_torch_state
def import_weights(
    file: str | os.PathLike[str],
    *,
    architecture: str,
    out: str | os.PathLike[str],
    config: AnyConfig | None = None,
    progress: Progress | bool | None = None,
) -> Path:
    """Write weights of another program as a folder that commands take as a run; return its path.

    Parameters
    ----------
    file : path
        State dict as ``.safetensors`` or by ``torch.save``, also together with the state of an
        optimiser, or below a prefix such as ``module.``. No code in it is ever run.
    architecture : str
        Network that the weights are of: a key of
        `neurocontrast.encoders.architectures.ARCHITECTURES`.
    out : path
        Folder to write: ``encoder.safetensors``, ``encoder.json`` and, where the network has a
        projection head, ``head.safetensors``.
    config : Config, mapping or path of a YAML file, optional
        Its section `data` states how the training scans were prepared, where that differs from
        the usual preparation for the architecture.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.

    Raises
    ------
    CheckpointError
        Where the file cannot be read, or its tensors do not fit the network: all of them are named.
    """
    progress = as_progress(progress)
    if architecture not in ARCHITECTURES:
        hint = suggestion(architecture, ARCHITECTURES)
        raise ConfigError(
            f"architecture: '{architecture}' is not known.{hint} Known: {one_of(ARCHITECTURES)}."
        )
    path = Path(file)
    folder = Path(out)
    foreign = ARCHITECTURES[architecture]
    check_writable(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"out: '{folder}' exists and is not an empty folder. Give another.")
    model, left_out = convert(read_state(path, foreign), foreign, path=path)
    source = BrainVolumes(_preparation_of(foreign, config, progress)).prepared(None)
    encoder = model.encoder
    if encoder.n_channels != source.n_channels:
        raise ConfigError(
            f"data.channels: the weights take {encoder.n_channels} channels, found "
            f"{source.n_channels}. Name the columns of the table that hold them, in their order, "
            "for instance --set data.channels=[gm,wm]."
        )
    check_shape(encoder, source.shape(None))
    if left_out:
        listed = ", ".join(left_out[:_N_SHOWN])
        if len(left_out) > _N_SHOWN:
            listed += f" and {len(left_out) - _N_SHOWN} more"
        progress.message(f"{path.name}: left out, since features do without: {listed}")
    imported = ImportedWeights(
        file=path.name,
        sha256=digest_of_file(path),
        architecture=architecture,
        title=foreign.title,
        citation=foreign.citation,
    )
    description = _describe_imported(foreign, source, imported)
    with atomic_folder(folder) as temporary:
        head = model.head if encoder.settings.projection else None
        save_encoder(temporary, encoder, description, head=head)
    return folder


def _preparation_of(
    foreign: Architecture, config: AnyConfig | None, progress: Progress
) -> DataSettings:
    """Return the settings by which scans are prepared for weights of another program.

    Key by key, a setting of the user takes precedence over one that the other program is known to
    use, and that over the default of neurocontrast. If neither has any, a warning says that all are
    defaults.
    """
    data = as_config({} if config is None else config).data
    if not isinstance(data, DataSettings):
        raise ConfigError(
            f"data.kind: these networks encode scans of brains, found '{data.kind}'. Leave it out."
        )
    chosen = data.model_dump(mode="json", include=data.model_fields_set)
    if not foreign.data and not chosen:
        progress.warning(
            f"{foreign.title}: its files do not say how scans were prepared. They will be by the "
            "defaults (1.5 mm, 121×145×121 voxels, zscore); say otherwise with --config or, for "
            "instance, --set data.spacing_mm=2."
        )
    settings = as_config({"data": {**foreign.data, **chosen}}).data
    assert isinstance(settings, DataSettings)
    return settings


def _describe_imported(
    foreign: Architecture, source: BrainVolumes, imported: ImportedWeights
) -> EncoderDescription:
    """Return the description, for ``encoder.json``, of weights that another program has trained."""
    objective = None
    if foreign.objective:
        settings = as_config({"objective": dict(foreign.objective)}).objective
        objective = describe_objective(settings, {})
    content = {
        **source.contract().content(),
        "objective": objective,
        "simulated": False,
        "imported": imported,
    }
    return EncoderDescription.model_validate(content)


@in_default_torch_state
def export_weights(
    run: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Path:
    """Write an encoder's weights as a plain state dict with MONAI's names, and return the path.

    A run of several encoders (members) is written as a folder, which every command takes as the
    run: the weights of each member in ``members``, and ``members.json`` with their SHA-256. Beside
    the weights of each is its state dict with MONAI's names, ``monai.safetensors``. The people of
    pretraining are not named, so that no evaluation can tell later whether its people were among
    them.

    MONAI's own module loads a DenseNet's with ``load_state_dict(..., strict=False)``, which then
    misses ``class_layers`` alone. Where the encoder has no final normalisation, one that changes
    nothing in evaluation mode is written, since MONAI's module has one.

    Parameters
    ----------
    run : str or path
        Run directory, any folder with ``encoder.json`` and ``encoder.safetensors``, or weights by
        name.
    out : path
        File to write: ``.pt``, readable with ``torch.load(..., weights_only=True)``, or
        ``.safetensors``, which says in its metadata how scans are to be prepared. For a run of
        several encoders a folder.
    overwrite : bool
        Whether a file, or a folder of exported encoders, that exists is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.
    """
    progress = as_progress(progress)
    target = Path(out)
    run = folder_of(run)
    if has_members(run):
        return _export_members(run, target, overwrite=overwrite, progress=progress)
    if target.suffix not in _SUFFIXES:
        raise ConfigError(
            f"out: must be a file that ends in {' or '.join(_SUFFIXES)}, got '{out}'."
        )
    check_output_file(target, target.suffix, overwrite=overwrite)
    encoder, contract = load_encoder(run)
    _warn_of_colours(encoder, run, progress)
    state = _state_of(encoder)
    with atomic_path(target) as temporary:
        if target.suffix == ".safetensors":
            temporary.write_bytes(_as_safetensors(state, contract))
        else:
            content = io.BytesIO()  # PyTorch, writing to a file, hides why it could not
            torch.save(state, content)
            temporary.write_bytes(content.getbuffer())
    return target


def _export_members(run: Path, target: Path, *, overwrite: bool, progress: Progress) -> Path:
    """Write all encoders of a run (members), and ``members.json``, to the folder `target`."""
    if target.suffix in _SUFFIXES:
        n_members = len(read_record(run).seeds)
        raise ConfigError(
            f"out: the run '{run}' has {n_members} members, whose weights are a folder, got "
            f"'{target}'. Give a folder, or export one member: {folder_of_member(run, 0)}."
        )
    check_output_folder(target, overwrite=overwrite, marker=MEMBERS, what="a folder of members")
    networks = load_networks(run)
    _warn_of_colours(networks[0].encoder, run, progress)
    with atomic_folder(target) as folder:
        for network in networks:
            member = folder / network.folder.relative_to(run)
            member.mkdir(parents=True)
            state = _as_safetensors(_state_of(network.encoder), network.contract)
            (member / _STATE).write_bytes(state)
            if (network.folder / ANSWER).is_file():
                shutil.copyfile(network.folder / ANSWER, member / ANSWER)
            of_state = WeightsFile(file=_STATE, sha256=hashlib.sha256(state).hexdigest())
            copy_encoder(network.folder, network.contract.with_keys(exported=of_state), member)
        write_members(folder, read_record(run))
    return target


def _warn_of_colours(encoder: Encoder, run: str | os.PathLike[str], progress: Progress) -> None:
    """Warn that an encoder of photographs standardises colours: a step that exported files lack."""
    if encoder.n_dims == 2:
        progress.warning(
            f"{run}: its encoder standardises colours itself, which is not in this file: mean "
            f"{encoder.mean.tolist()}, standard deviation {encoder.std.tolist()} of values "
            "between 0 and 1."
        )


def _state_of(encoder: Encoder) -> dict[str, torch.Tensor]:
    """Return an encoder's weights as a state dict: name of a tensor in MONAI's network → tensor."""
    is_densenet = encoder.settings.name.startswith("densenet")
    tensors = {
        name: tensor
        for name, tensor in encoder.state_dict().items()
        if name.startswith("features.")
    }
    like = ARCHITECTURES["monai-densenet121" if is_densenet else "medicalnet-resnet10"]
    state = {
        theirs: tensors[ours].contiguous() for ours, theirs in foreign_names(tensors, like).items()
    }
    if is_densenet and not encoder.settings.final_norm:
        unchanged = torch.nn.BatchNorm3d(encoder.features.n_features)
        torch.nn.init.constant_(unchanged.weight, math.sqrt(1 + unchanged.eps))
        state |= {
            f"features.norm5.{name}": tensor for name, tensor in unchanged.state_dict().items()
        }
    return state


def _as_safetensors(state: Mapping[str, torch.Tensor], contract: EncoderContract) -> bytes:
    """Return the bytes of a safetensors file with `state`; metadata tell how scans are prepared."""
    metadata: dict[str, str] = {}
    stated = contract.content()
    for key in ("encoder", "preprocessing", "channels"):
        if key in stated:
            metadata[key] = json.dumps(stated[key])
    content: bytes = safetensors.torch.save(dict(state), metadata=metadata)
    return content
