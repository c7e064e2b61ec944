"""Take over the weights of other programs, and hand an encoder's over to them."""

import io
import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from neurocontrast.config import Config, as_config
from neurocontrast.data.settings import DataSettings
from neurocontrast.data.sources import BrainVolumes, RegionalMeasures, brains_of_run
from neurocontrast.display import as_progress
from neurocontrast.encoders import check_shape, load_encoder, save_encoder
from neurocontrast.encoders.architectures import ARCHITECTURES, convert, foreign_names, read_state
from neurocontrast.evaluation import load_probe
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.files import (
    atomic_folder,
    atomic_path,
    check_output_file,
    check_writable,
    digest_of_file,
)
from neurocontrast.losses.registry import describe_objective
from neurocontrast.progress import SILENT, Progress
from neurocontrast.runs.answer import (
    doubts_of_measures,
    doubts_of_scan,
    features_of,
    phantom_of,
    read_answer,
)
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.weights import load, names

_SUFFIXES = (".pt", ".safetensors")
_FEATURES = 1e-3
_PREDICTIONS = 1e-2
"""Largest differences from a known answer: of features over the largest, of predictions over their size."""


@in_default_torch_state
def import_weights(
    file: str | os.PathLike[str],
    *,
    architecture: str,
    out: str | os.PathLike[str],
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> Path:
    """Write the weights of another program as a folder that `embed` and `pretrain` take as a run, and return its path.

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
        Section `data`, for how scans were prepared that the weights were trained on, where that is
        not what is known of the architecture.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.

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
    known = ARCHITECTURES[architecture]
    check_writable(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"out: '{folder}' exists and is not an empty folder. Give another.")
    model, left_out = convert(read_state(path, known), known, path=path)
    data = as_config({} if config is None else config).data
    if not isinstance(data, DataSettings):
        raise ConfigError(
            f"data.kind: these networks encode scans of brains, found '{data.kind}'. Leave it out."
        )
    given = data.model_dump(mode="json", include=data.model_fields_set)
    if not known.data and not given:
        progress.warning(
            f"{known.title}: its files do not say how scans were prepared. They will be by the defaults (1.5 mm, "
            "121×145×121 voxels, zscore); say otherwise with --config or, for instance, --set data.spacing_mm=2."
        )
    source = BrainVolumes(as_config({"data": {**known.data, **given}}).data).prepared(None)
    encoder = model.encoder
    if encoder.n_channels != source.n_channels:
        raise ConfigError(
            f"data.channels: the weights take {encoder.n_channels} channels, found {source.n_channels}. Name the "
            "columns of the table that hold them, in their order, for instance --set data.channels=[gm,wm]."
        )
    check_shape(encoder, source.shape(None))
    if left_out:
        shown = ", ".join(left_out[:5]) + (
            f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
        )
        progress.message(f"{path.name}: left out, since features do without: {shown}")
    objective = (
        as_config({"objective": dict(known.objective)}).objective if known.objective else None
    )
    contract = {
        **source.contract(),
        "objective": None if objective is None else describe_objective(objective, {}),
        "simulated": False,
        "imported": {
            "file": path.name,
            "sha256": digest_of_file(path),
            "architecture": architecture,
        }
        | {"title": known.title, "citation": known.citation},
    }
    with atomic_folder(folder) as temporary:
        save_encoder(
            temporary, encoder, contract, head=model.head if encoder.settings.projection else None
        )
    return folder


@dataclass(frozen=True)
class Verification:
    """What `verify_weights` found."""

    checks: list[tuple[bool, str]]
    """Of each comparison with the known answer, whether it passed, and what was compared."""
    facts: list[str] = field(default_factory=list)
    """What a scan of the user's is, and where it is like those that were learned from."""
    doubts: list[str] = field(default_factory=list)
    """Where it is unlike these."""

    @property
    def passed(self) -> bool:
        """Whether features and predictions are the stated ones."""
        return all(passed for passed, _ in self.checks)


def verify_weights(
    weights: str | os.PathLike[str],
    *,
    scan: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
) -> Verification:
    """Compare the features of a known sample with those stated, and a scan of yours with those that were learned from.

    A run's sample is a phantom that is made anew, shipped weights have a public scan. Features must
    agree within 1e-3 of the largest, predictions within 1e-2 of their size.

    Parameters
    ----------
    weights : str or path
        Name of weights that ship with the package, or a run.
    scan : path, or sequence of paths, optional
        A scan that is prepared as the encoder expects; one file a channel. For a run of regional
        measures a table or folder of these.

    Raises
    ------
    CheckpointError
        For weights without a known answer.
    DataError
        For a scan that cannot be read.
    """
    folder = Path(load(str(weights)) if str(weights) in names() else weights)
    if not folder.is_dir():
        raise ConfigError(
            f"weights: '{weights}' is no run directory, and these weights ship: {one_of(names())}."
        )
    network, contract = load_encoder(folder)
    answer = read_answer(folder)
    source = brains_of_run(folder, contract, DataSettings(), what="weights verify is for brains")
    if answer["sample"] is None:
        sample = phantom_of(source)
    else:
        of_scan = tuple(str(folder / name) for name in answer["sample"])
        sample = [of_scan if len(of_scan) > 1 else of_scan[0]]
    features = features_of(network, source, sample)
    known = np.asarray(answer["features"], dtype=float)
    apart = np.inf
    if known.shape == features.shape:
        apart = float(np.abs(features - known).max() / max(np.abs(known).max(), 1e-12))
    text = f"{len(features)} features of the known sample differ by {apart:.1g} of the largest (at most {_FEATURES:g})"
    checks = [(apart <= _FEATURES, text)]
    for name, stated in answer["predictions"].items():
        found = float(load_probe(folder / name).predict(features[None])[0])
        close = abs(found - stated) <= _PREDICTIONS * max(abs(stated), 1)
        checks.append(
            (close, f"{name} of the known sample is predicted as {found:.4g}, stated {stated:.4g}")
        )
    if scan is None:
        return Verification(checks)
    files = [scan] if isinstance(scan, str | os.PathLike) else list(scan)
    with tempfile.TemporaryDirectory(prefix="neurocontrast-verify-") as scratch:
        source = source.kept_in(Path(scratch))
        if isinstance(source, RegionalMeasures):
            cohort = source.unlisted(Path(files[0])) if len(files) == 1 else None
            if cohort is None:
                shown = ", ".join(map(str, files))
                raise DataError(
                    f"scan: must be one table or folder of regional measures, found '{shown}'."
                )
            return Verification(checks, *doubts_of_measures(source, cohort))
        if len(files) != source.n_channels:
            raise DataError(
                f"scan: the encoder takes {source.n_channels} files a scan, got {len(files)}."
            )
        cohort = source.cohort_of([tuple(files)] if len(files) > 1 else files, Path(scratch))
        source.make_ready(cohort, SILENT)
        return Verification(checks, *doubts_of_scan(source, cohort, answer["learned_from"]))


@in_default_torch_state
def export_weights(
    run: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Path:
    """Write an encoder's weights as a plain state dict with MONAI's names, and return the path of the file.

    MONAI's own module loads a DenseNet's with ``load_state_dict(..., strict=False)``, which then
    misses ``class_layers`` alone. Where the encoder has no final normalisation, one that changes
    nothing in evaluation mode is written, since MONAI's module has one.

    Parameters
    ----------
    run : path
        Run directory, or any folder with ``encoder.json`` and ``encoder.safetensors``.
    out : path
        File to write: ``.pt``, readable with ``torch.load(..., weights_only=True)``, or
        ``.safetensors``, which says in its metadata how scans are to be prepared.
    overwrite : bool
        Whether a file that exists is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.
    """
    progress = as_progress(progress)
    target = Path(out)
    if target.suffix not in _SUFFIXES:
        raise ConfigError(
            f"out: must be a file that ends in {' or '.join(_SUFFIXES)}, got '{out}'."
        )
    check_output_file(target, target.suffix, overwrite=overwrite)
    encoder, contract = load_encoder(run)
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
    if encoder.n_dims == 2:
        progress.warning(
            f"{run}: its encoder standardises colours itself, which is not in this file: mean "
            f"{encoder.mean.tolist()}, standard deviation {encoder.std.tolist()} of values between 0 and 1."
        )
    with atomic_path(target) as temporary:
        if target.suffix == ".safetensors":
            about = {
                key: contract[key]
                for key in ("encoder", "preprocessing", "channels")
                if key in contract
            }
            metadata = {str(key): json.dumps(value) for key, value in about.items()}
            temporary.write_bytes(safetensors.torch.save(state, metadata=metadata))
        else:
            content = io.BytesIO()  # PyTorch, writing to a file, hides why it could not
            torch.save(state, content)
            temporary.write_bytes(content.getbuffer())
    return target
