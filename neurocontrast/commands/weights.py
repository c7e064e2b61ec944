"""Take over the weights of other programs, and hand an encoder's over to them."""

import hashlib
import io
import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from neurocontrast.config import AnyConfig, as_config
from neurocontrast.data.cohort import columns_of
from neurocontrast.data.settings import DataSettings
from neurocontrast.data.sources import Brains, BrainVolumes, RegionalMeasures
from neurocontrast.display import as_progress
from neurocontrast.documents.answer import KnownAnswer, Ranges
from neurocontrast.documents.encoder import (
    EncoderContract,
    EncoderDescription,
    ImportedWeights,
    WeightsFile,
)
from neurocontrast.encoders import Encoder, check_shape, load_encoder, save_encoder
from neurocontrast.encoders.architectures import ARCHITECTURES, convert, foreign_names, read_state
from neurocontrast.encoders.members import has_members, members_of, read_record, write_members
from neurocontrast.encoders.weights import MEMBERS, copy_encoder, folder_of_member
from neurocontrast.evaluation import load_probe
from neurocontrast.exceptions import (
    ConfigError,
    DataError,
    NeurocontrastError,
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
from neurocontrast.progress import SILENT, Progress
from neurocontrast.runs.answer import (
    ANSWER,
    doubts_of_measures,
    doubts_of_scan,
    features_of,
    phantom_of,
    read_answer,
)
from neurocontrast.runs.networks import RunNetwork, load_networks, sources_of
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.weights import folder_of, names

_SUFFIXES = (".pt", ".safetensors")
_STATE = "monai.safetensors"
"""State dict with MONAI's names, beside the weights of an exported member."""
_T1 = ("t1",)
"""Channel of scans that are no maps."""
_FEATURES = 1e-3
_PREDICTIONS = 1e-2
"""Largest differences from a known answer: of features over the largest, of predictions over
their size."""


@in_default_torch_state
def import_weights(
    file: str | os.PathLike[str],
    *,
    architecture: str,
    out: str | os.PathLike[str],
    config: AnyConfig | None = None,
    progress: Progress | bool | None = None,
) -> Path:
    """Write the weights of another program as a folder that `embed` and `pretrain` take as a run.

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
    scans = as_config({"data": {**known.data, **given}}).data
    assert isinstance(scans, DataSettings)
    source = BrainVolumes(scans).prepared(None)
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
    content = {
        **source.contract().content(),
        "objective": None if objective is None else describe_objective(objective, {}),
        "simulated": False,
        "imported": ImportedWeights(
            file=path.name,
            sha256=digest_of_file(path),
            architecture=architecture,
            title=known.title,
            citation=known.citation,
        ),
    }
    with atomic_folder(folder) as temporary:
        save_encoder(
            temporary,
            encoder,
            EncoderDescription.model_validate(content),
            head=model.head if encoder.settings.projection else None,
        )
    return folder


@dataclass(frozen=True)
class Verification:
    """Outcome of `verify_weights`."""

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
    """Compare the features of a known sample with the stated ones, and a scan with the training's.

    A run's sample is a phantom that is made anew, shipped weights have a public scan. Features must
    agree within 1e-3 of the largest, predictions within 1e-2 of their size.

    Parameters
    ----------
    weights : str or path
        Name of weights that ship or are installed, or a run; of a run of members each is compared.
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
    folder = folder_of(weights)
    if not folder.is_dir():
        raise ConfigError(
            f"weights: '{weights}' is no run directory, and these weights are installed: "
            f"{one_of(names())}."
        )
    networks = load_networks(folder)
    sources = sources_of(networks, DataSettings(), what="weights verify is for brains")
    checks = []
    answers = _read_answers(folder, networks)
    for answer in answers:
        checks += _compare(answer, networks, sources)
    if scan is None:
        return Verification(checks)
    files = [scan] if isinstance(scan, str | os.PathLike) else list(scan)
    columns = _columns_of(sources)
    facts = list[str]()
    doubts = list[str]()
    for answer in answers:
        source = _compared_source(answer, sources)
        of_scan = _doubts_of(source, columns, files, answer.content.learned_from)
        facts += [f"{answer.title}{fact}" for fact in of_scan[0]]
        doubts += [f"{answer.title}{doubt}" for doubt in of_scan[1]]
    return Verification(checks, facts, doubts)


def damage_of_weights(folder: Path) -> str:
    """Read all networks and probes of weights; return the problem of the first damaged, or ""."""
    try:
        for network in members_of(folder):
            load_encoder(network)
        for description in sorted(folder.glob("*/probe.json")):
            load_probe(description.parent)
    except NeurocontrastError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class _Answer:
    """Known answer of a run, of all its members together, or of one member."""

    folder: Path
    content: KnownAnswer
    numbers: tuple[int, ...]
    """Numbers of the networks whose features it states."""
    title: str = ""
    """Name of the member before its figures."""


def _read_answers(run: Path, networks: Sequence[RunNetwork]) -> list[_Answer]:
    """Read the known answer of a run, or of each of its members."""
    if len(networks) == 1 or (run / ANSWER).is_file():
        return [_Answer(run, read_answer(run), tuple(range(len(networks))))]
    answers = []
    for number, network in enumerate(networks):
        folder = network.folder
        answers.append(_Answer(folder, read_answer(folder), (number,), f"member {number}: "))
    return answers


def _known_sample(answer: _Answer, source: Brains, columns: Sequence[str]) -> object:
    """Return the known sample: the phantom, the files of a scan, or a table of measures."""
    names = answer.content.sample
    if names is None:
        return phantom_of(source)
    if isinstance(source, RegionalMeasures):
        return source.unlisted(answer.folder / names[0])
    files = list(map(answer.folder.joinpath, names))
    return [_scan_of(source, columns, files)]


def _compare(
    answer: _Answer, networks: Sequence[RunNetwork], sources: Sequence[Brains]
) -> list[tuple[bool, str]]:
    """Compare features and predictions of the known sample with the stated ones."""
    stated = answer.content
    columns = _columns_of(list(map(sources.__getitem__, answer.numbers)))
    of_networks = []
    for number in answer.numbers:
        sample = _known_sample(answer, sources[number], columns)
        of_networks.append(features_of(networks[number].encoder, sources[number], sample))
    features = np.concatenate(of_networks)
    expected = np.asarray(stated.features, dtype=float)
    apart = np.inf
    if expected.shape == features.shape:
        apart = float(np.abs(features - expected).max() / max(np.abs(expected).max(), 1e-12))
    text = (
        f"{answer.title}{len(features)} features of the known sample differ by {apart:.1g} of the largest "
        f"(at most {_FEATURES:g})"
    )
    checks = [(apart <= _FEATURES, text)]
    for name, value in stated.predictions.items():
        predicted = float(load_probe(answer.folder / name).predict(features[None])[0])
        close = abs(predicted - value) <= _PREDICTIONS * max(abs(value), 1)
        text = f"{answer.title}{name} of the known sample is predicted as {predicted:.4g}, stated {value:.4g}"
        checks.append((close, text))
    return checks


def _columns_of(sources: Sequence[Brains]) -> tuple[str, ...]:
    """Return the columns with scans that the networks of a run read, each column once."""
    columns = list[str]()
    for source in sources:
        if isinstance(source, BrainVolumes):
            columns += columns_of(source.channels)
    return tuple(dict.fromkeys(columns))


def _scan_of(
    source: Brains, columns: Sequence[str], files: Sequence[str | os.PathLike[str]]
) -> str | tuple[str, ...]:
    """Return the files of a scan that a network reads, among the files of all columns."""
    paths = dict(zip(columns, map(str, files), strict=True))
    scan = tuple(map(paths.__getitem__, columns_of(source.channels)))
    return scan if len(scan) > 1 else scan[0]


def _compared_source(answer: _Answer, sources: Sequence[Brains]) -> Brains:
    """Return the source by which a scan is compared with the scans learned from."""
    for number in answer.numbers:
        channels = sources[number].channels or _T1
        if list(channels) == list(answer.content.learned_from):
            return sources[number]
    return sources[answer.numbers[0]]


def _doubts_of(
    source: Brains,
    columns: Sequence[str],
    files: Sequence[str | os.PathLike[str]],
    learned_from: Ranges,
) -> tuple[list[str], list[str]]:
    """Compare a scan, or a table of measures, with the training's, in words."""
    with tempfile.TemporaryDirectory(prefix="neurocontrast-verify-") as scratch:
        source = source.kept_in(Path(scratch))
        if isinstance(source, RegionalMeasures):
            cohort = source.unlisted(Path(files[0])) if len(files) == 1 else None
            if cohort is None:
                shown = ", ".join(map(str, files))
                raise DataError(
                    f"scan: must be one table or folder of regional measures, found '{shown}'."
                )
            return doubts_of_measures(source, cohort)
        if len(files) != len(columns):
            listed = ""
            if len(columns) > 1:
                listed = f" ({', '.join(columns)})"
            raise DataError(
                f"scan: the encoder takes {len(columns)} files a scan{listed}, got {len(files)}."
            )
        cohort = source.cohort_of([_scan_of(source, columns, files)], Path(scratch))
        source.make_ready(cohort, SILENT)
        return doubts_of_scan(source, cohort, learned_from)


@in_default_torch_state
def export_weights(
    run: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Path:
    """Write an encoder's weights as a plain state dict with MONAI's names, and return the path.

    A run of members is written as a folder, which every command takes as the run: the weights of
    each member in ``members``, and ``members.json`` with their SHA-256. Beside the weights of each
    is its state dict with MONAI's names, ``monai.safetensors``. Of the people learned from nobody
    is named, so nobody can tell later whether other people were among them.

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
        ``.safetensors``, which says in its metadata how scans are to be prepared. Of a run of
        members a folder.
    overwrite : bool
        Whether a file, or a folder of exported members, that exists is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.
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
    """Write the weights of all members of a run, and their record, as a folder."""
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
    """Warn that the standardisation of colours is in no state dict."""
    if encoder.n_dims == 2:
        progress.warning(
            f"{run}: its encoder standardises colours itself, which is not in this file: mean "
            f"{encoder.mean.tolist()}, standard deviation {encoder.std.tolist()} of values between 0 and 1."
        )


def _state_of(encoder: Encoder) -> dict[str, torch.Tensor]:
    """Return the weights of an encoder with MONAI's names."""
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
    """Return a state dict as a file of safetensors, which says how samples are prepared."""
    metadata: dict[str, str] = {}
    stated = contract.content()
    for key in ("encoder", "preprocessing", "channels"):
        if key in stated:
            metadata[key] = json.dumps(stated[key])
    content: bytes = safetensors.torch.save(dict(state), metadata=metadata)
    return content
