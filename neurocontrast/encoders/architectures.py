"""Convert weights of other programs' networks, such as MONAI's or MedicalNet's, to encoders."""

import pickle
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from neurocontrast.encoders.building import build_model
from neurocontrast.encoders.encoder import ContrastiveModel
from neurocontrast.encoders.settings import EncoderSettings
from neurocontrast.encoders.weights import load_tensors, misfits
from neurocontrast.exceptions import CheckpointError, said
from neurocontrast.reading import DAMAGE, check_place

_LAYERS_OF_DENSENET = (r"(denselayer\d+)\.layers\.", r"\1.")
_IN_FEATURES = (r"^(?!head\.)", "features.")
_MOST_LINES = 40
"""Largest number of tensors that an error message on unsuitable weights names."""
_DAMAGE: tuple[type[Exception], ...] = (pickle.UnpicklingError, *DAMAGE)
"""Exceptions that reading a damaged file of weights raises."""
_CITATIONS = {
    "yaware": (
        "Dufumier B, Gori P, Victor J, et al. (2021). Contrastive learning with continuous proxy "
        "meta-data for 3D MRI classification. MICCAI 2021, 58-68."
    ),
    "monai": (
        "Cardoso MJ, Li W, Brown R, et al. (2022). MONAI: An open-source framework for deep "
        "learning in healthcare. arXiv:2211.02701."
    ),
    "medicalnet": (
        "Chen S, Ma K, Zheng Y (2019). Med3D: transfer learning for 3D medical image analysis. "
        "arXiv:1904.00625."
    ),
}


@dataclass(frozen=True)
class Architecture:
    """Network of another program whose weights can be converted, with rules to rename layers."""

    name: str
    """Name of the encoder that takes the weights, as in `EncoderSettings.name`."""
    title: str
    citation: str
    anchor: str = "features.conv0.weight"
    """Name of a tensor that occurs once in each file of the network; text before the name in a file
    is the prefix of all tensor names."""
    first: str = "features.conv0.weight"
    """Name of the weight of the first convolution."""
    rules: tuple[tuple[str, str], ...] = (_LAYERS_OF_DENSENET, _IN_FEATURES)
    """Pairs of a regular expression and a replacement, which turn an encoder's layer names into the
    other program's names."""
    head: Mapping[str, str] = field(default_factory=dict)
    """Other program's names of the projection head's layers; empty for a network without a head."""
    left_out: tuple[str, ...] = ()
    """Prefixes of names of layers that the encoder does not use, such as a classifier."""
    data: Mapping[str, object] = field(default_factory=dict)
    """Keys of the configuration section ``data`` with which the weights were trained; empty if
    unknown."""
    objective: Mapping[str, object] = field(default_factory=dict)
    """Configuration section ``objective`` of the weights' training; empty if the loss is not one of
    this package."""


def _medicalnet(depth: int) -> Architecture:
    """Return the names and rules by which weights of MedicalNet's ResNet-`depth` are converted."""
    return Architecture(
        f"resnet{depth}_3d",
        f"MedicalNet's ResNet-{depth}",
        _CITATIONS["medicalnet"],
        anchor="layer1.0.conv1.weight",
        first="conv1.weight",
        rules=(),
        left_out=("conv_seg.", "fc."),
    )


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "yaware": Architecture(
            "densenet121",
            "DenseNet121 of the y-Aware authors (BHB-10K)",
            _CITATIONS["yaware"],
            head={"0": "hidden_representation", "2": "head_projection"},
            left_out=("classifier.",),
            # Maps of grey matter by CAT12, of the size in the authors' config.py; each standardised
            # over its box.
            data={
                "channels": ["gm"],
                "spacing_mm": 1.5,
                "shape": [121, 145, 121],
                "normalise": "zscore",
            },
            objective={
                "loss": "yaware",
                "temperature": 0.1,
                "kernel": [{"column": "age", "type": "gaussian", "sigma": 5.0}],
            },
        ),
        "nidl-densenet121": Architecture(
            "densenet121", "nidl's DenseNet121", _CITATIONS["yaware"], head={"0": "embedding"}
        ),
        "monai-densenet121": Architecture(
            "densenet121",
            "MONAI's DenseNet121",
            _CITATIONS["monai"],
            rules=(_IN_FEATURES,),
            left_out=("class_layers.",),
        ),
        "medicalnet-resnet10": _medicalnet(10),
        "medicalnet-resnet18": _medicalnet(18),
        "medicalnet-resnet34": _medicalnet(34),
        "medicalnet-resnet50": _medicalnet(50),
    }
)
"""Networks of other programs by name, as given to ``weights import --architecture``."""


def foreign_names(names: Iterable[str], architecture: Architecture) -> dict[str, str]:
    """Translate names of a `ContrastiveModel`'s tensors to the names of another program.

    Parameters
    ----------
    names : iterable of str
        Names of a model's tensors.
    architecture : Architecture
        Network of another program.

    Returns
    -------
    dict
        Name in files of the other program, by the tensor's name in the model.
    """
    rules = [(r"^encoder\.", ""), (r"^features\.layers\.", ""), *architecture.rules]
    for ours, theirs in architecture.head.items():
        rules.append((rf"^head\.{ours}\.", f"{theirs}."))
    translated = {}
    for name in names:
        foreign = name
        for pattern, replacement in rules:
            foreign = re.sub(pattern, replacement, foreign, count=1)
        translated[name] = foreign
    return translated


def convert(
    state: Mapping[str, torch.Tensor], architecture: Architecture, *, path: Path
) -> tuple[ContrastiveModel, list[str]]:
    """Build a model with the weights of another program's network, given as a state dict.

    Parameters
    ----------
    state : mapping
        Tensors by name, as in a file of the other program.
    architecture : Architecture
        Network of the other program.
    path : Path
        File of the weights, for messages.

    Returns
    -------
    model : ContrastiveModel
        Model in evaluation mode; its head is empty if the file has no head.
    left_out : list of str
        Names of tensors in the file that the model does not use.

    Raises
    ------
    CheckpointError
        Naming all tensors that are missing, unknown, of another shape or not finite.
    """
    prefix = _prefix_of(state, architecture, path)
    inside = {}
    left_out = []
    for name, tensor in state.items():
        if name.startswith(prefix):
            inside[name.removeprefix(prefix)] = tensor
        else:
            left_out.append(name)
    model = _build(architecture, inside)
    names = foreign_names(model.state_dict(), architecture)
    expected = {}
    taken = {}
    for ours, tensor in model.state_dict().items():
        expected[names[ours]] = tensor
        if names[ours].endswith(".num_batches_tracked"):  # PyTorch before 0.4.1 counts no batches
            taken[names[ours]] = tensor
    for name, tensor in inside.items():
        if name not in expected and name.startswith(architecture.left_out):
            left_out.append(f"{prefix}{name}")
        else:
            taken[name] = tensor
    _check_tensors(taken, expected, architecture, path)
    model.load_state_dict({ours: taken[theirs] for ours, theirs in names.items()})
    return model.eval(), sorted(left_out)


def _prefix_of(state: Iterable[str], architecture: Architecture, path: Path) -> str:
    """Return the text that precedes every tensor name of a network in a file, such as "module.".

    The text is found by the architecture's `anchor` among the names in `state`. A CheckpointError
    refuses a file that holds several networks.
    """
    ends = [name for name in state if f".{name}".endswith(f".{architecture.anchor}")]
    if len(ends) > 1:
        raise CheckpointError(
            f"{path}: holds several networks ({', '.join(ends)}). "
            "Save the state dict of one of them."
        )
    return ends[0].removesuffix(architecture.anchor)


def _check_tensors(
    taken: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    architecture: Architecture,
    path: Path,
) -> None:
    """Raise a CheckpointError if tensors of the file at `path` do not fit the model's tensors.

    `taken` are the file's tensors, and `expected` the model's, by name in the file. The error names
    tensors that are missing, unknown, of another shape or not finite.
    """
    problems = misfits(taken, expected)
    for name, tensor in taken.items():
        if not tensor.isfinite().all():
            problems.append(f"'{name}' has values that are not finite")
    if not problems:
        return
    lines = problems[:_MOST_LINES]
    if len(problems) > _MOST_LINES:
        lines.append(f"and {len(problems) - _MOST_LINES} more")
    listed = "\n  ".join(lines)
    raise CheckpointError(
        f"{path}: these are not the weights of {architecture.title}; {len(problems)} tensors do "
        f"not fit:\n  {listed}"
    )


def _build(architecture: Architecture, state: Mapping[str, torch.Tensor]) -> ContrastiveModel:
    """Build the model of an architecture with random weights, as large as a file's tensors need.

    The numbers of channels and of the head's outputs are read from the tensors in `state`.
    """
    n_channels = 1
    first = state.get(architecture.first)
    if first is not None and first.ndim > 1:
        n_channels = first.shape[1]
    projection = []
    for theirs in architecture.head.values():
        weight = state.get(f"{theirs}.weight")
        if weight is not None:
            projection.append(len(weight))
    settings = EncoderSettings(
        name=architecture.name,
        # The y-Aware authors' network has a final norm as a classifier, and none in pretraining;
        # MONAI's always has one.
        final_norm=not architecture.head or "features.norm5.weight" in state,
        projection=tuple(projection),
        projection_norm="none",
    )
    return build_model(settings, n_channels=n_channels)


def read_state(path: Path, architecture: Architecture) -> dict[str, torch.Tensor]:
    """Read a state dict from a file of weights, without running any code in the file.

    Parameters
    ----------
    path : Path
        A ``.safetensors`` file, or a file of ``torch.save`` that holds a state dict, also as the
        value of a key, such as ``model`` next to an optimiser's state.
    architecture : Architecture
        Network whose weights the file should hold, which are recognised by one tensor's name.

    Raises
    ------
    CheckpointError
        If the file cannot be read without running code, or does not hold exactly one state dict of
        the network.
    """
    check_place(path, error=CheckpointError, remedy="Give a file of weights.")
    try:
        content = _load(path)
    except _DAMAGE as error:
        raise _unreadable(path, error) from error
    candidates = {"the file": content}
    if isinstance(content, dict):
        candidates |= content
    states = {}
    for key, candidate in candidates.items():
        if _has_tensor(candidate, architecture.anchor):
            states[str(key)] = _tensors_of(candidate)
    if len(states) > 1:
        raise CheckpointError(
            f"{path}: holds several state dicts ({', '.join(states)}). Save one of them alone."
        )
    if not states:
        raise CheckpointError(
            f"{path}: these are not the weights of {architecture.title}: no tensor is named "
            f"'{architecture.anchor}', whatever comes before. Found: {_summary(content)}."
        )
    return next(iter(states.values()))


def _load(path: Path) -> Any:
    """Return the content of a weights file (safetensors or ``torch.save``), without running code.

    A file of safetensors gives tensors by name; a file of ``torch.save`` can hold any object of
    tensors, numbers and text.
    """
    if path.suffix == ".safetensors":
        return load_tensors(path)
    return torch.load(path, map_location="cpu", weights_only=True)


def _has_tensor(candidate: object, anchor: str) -> bool:
    """Tell whether `candidate` is a mapping in which any tensor's name ends in `anchor`.

    By this name, a network's state dict is recognised in a file of weights.
    """
    if not isinstance(candidate, Mapping):
        return False
    return any(str(name).endswith(anchor) for name in candidate)


def _tensors_of(candidate: Mapping[object, object]) -> dict[str, torch.Tensor]:
    """Return the tensors among the values of `candidate`, a state dict, by name."""
    tensors = {}
    for name, tensor in candidate.items():
        if isinstance(tensor, torch.Tensor):
            tensors[str(name)] = tensor
    return tensors


def _summary(content: object) -> str:
    """Describe the content of a weights file for messages: first eight keys, or type of object."""
    if not isinstance(content, dict):
        return type(content).__name__
    names = list(map(str, content))
    listed = ", ".join(names[:8])
    if len(names) > 8:
        return f"{listed} …"
    return listed


def _unreadable(path: Path, error: Exception) -> CheckpointError:
    """Return the CheckpointError to raise for a weights file whose reading failed with `error`.

    The message tells a damaged file from a file that only running its code could load.
    """
    code = re.search(r"GLOBAL (\S+)", str(error))
    if isinstance(error, pickle.UnpicklingError) and code is not None:
        return CheckpointError(
            f"{path}: holds more than tensors, numbers and text ({code[1]}), which could run code "
            "of its author's. Refused, and nothing of it was run. Whoever trusts the file can save "
            "the tensors alone: torch.save(model.state_dict(), FILE)."
        )
    reason = said(str(error).partition("\n")[0])
    # PyTorch's messages advise to switch its protection off.
    if isinstance(error, pickle.UnpicklingError | LookupError | AssertionError):
        reason = type(error).__name__
    return CheckpointError(
        f"{path}: not a readable file of weights ({reason}). Is it cut short? Copy it again."
    )
