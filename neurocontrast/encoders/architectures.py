"""Networks of other programs: how their files name what our encoders hold, and what belongs to their weights."""

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
_DAMAGE: tuple[type[Exception], ...] = (
    pickle.UnpicklingError,
    *DAMAGE,
)  # damaged pickles raise nearly any of them
_CITATIONS = {
    "yaware": "Dufumier B, Gori P, Victor J, et al. (2021). Contrastive learning with continuous proxy meta-data for "
    "3D MRI classification. MICCAI 2021, 58-68.",
    "monai": "Cardoso MJ, Li W, Brown R, et al. (2022). MONAI: An open-source framework for deep learning in "
    "healthcare. arXiv:2211.02701.",
    "medicalnet": "Chen S, Ma K, Zheng Y (2019). Med3D: transfer learning for 3D medical image analysis. "
    "arXiv:1904.00625.",
}


@dataclass(frozen=True)
class Architecture:
    """A network of another program, which the encoder `name` of `EncoderSettings` can hold the weights of."""

    name: str
    title: str
    citation: str
    anchor: str = "features.conv0.weight"
    """Name of a tensor that every file of the network holds once; what precedes it is a prefix of all names."""
    first: str = "features.conv0.weight"
    """Name of the first convolution's weight."""
    rules: tuple[tuple[str, str], ...] = (_LAYERS_OF_DENSENET, _IN_FEATURES)
    """Patterns and replacements that lead from our names of layers to theirs."""
    head: Mapping[str, str] = field(default_factory=dict)
    """Layer of our projection head → their name of it; empty where the network has none."""
    left_out: tuple[str, ...] = ()
    """Beginnings of names that belong to layers after the features, such as a classifier."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the section ``data`` that the weights were trained with; empty where nobody knows."""
    objective: Mapping[str, Any] = field(default_factory=dict)
    """Section ``objective`` that the weights were trained with; empty where they were with none of ours."""


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
        **{
            f"medicalnet-resnet{depth}": Architecture(
                f"resnet{depth}_3d",
                f"MedicalNet's ResNet-{depth}",
                _CITATIONS["medicalnet"],
                anchor="layer1.0.conv1.weight",
                first="conv1.weight",
                rules=(),
                left_out=("conv_seg.", "fc."),
            )
            for depth in (10, 18, 34, 50)
        },
    }
)
"""Name for ``weights import --architecture`` → the network."""


def foreign_names(names: Iterable[str], architecture: Architecture) -> dict[str, str]:
    """Return our name of each tensor of a `ContrastiveModel` → the name that the architecture has for it."""
    rules = [(r"^encoder\.", ""), (r"^features\.layers\.", ""), *architecture.rules]
    rules += [(rf"^head\.{ours}\.", f"{theirs}.") for ours, theirs in architecture.head.items()]
    found = {name: name for name in names}
    for pattern, replacement in rules:
        found = {
            name: re.sub(pattern, replacement, theirs, count=1) for name, theirs in found.items()
        }
    return found


def convert(
    state: Mapping[str, torch.Tensor], architecture: Architecture, *, path: Path
) -> tuple[ContrastiveModel, list[str]]:
    """Build the model of an architecture with the weights of a state dict; return it and the names of tensors left out.

    The model is in evaluation mode, and its head is empty where the file has none. All tensors that
    are missing, unknown, of another shape or not finite are one CheckpointError.
    """
    ends = [name for name in state if f".{name}".endswith(f".{architecture.anchor}")]
    if len(ends) > 1:
        raise CheckpointError(
            f"{path}: holds several networks ({', '.join(ends)}). Save the state dict of one of them."
        )
    prefix = ends[0].removesuffix(architecture.anchor)
    own = {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }
    model = _build(architecture, own)
    names = foreign_names(model.state_dict(), architecture)
    expected = {names[ours]: tensor for ours, tensor in model.state_dict().items()}
    left_out = [
        name for name in own if name not in expected and name.startswith(architecture.left_out)
    ]
    # PyTorch before 0.4.1 did not count batches.
    counts = {
        name: tensor for name, tensor in expected.items() if name.endswith(".num_batches_tracked")
    }
    taken = counts | {name: tensor for name, tensor in own.items() if name not in left_out}
    not_finite = [name for name, tensor in taken.items() if not tensor.isfinite().all()]
    problems = [
        *misfits(taken, expected),
        *(f"'{name}' has values that are not finite" for name in not_finite),
    ]
    if problems:
        more = [f"and {len(problems) - _MOST_LINES} more"] if len(problems) > _MOST_LINES else []
        shown = "".join(f"\n  {line}" for line in [*problems[:_MOST_LINES], *more])
        raise CheckpointError(
            f"{path}: these are not the weights of {architecture.title}; {len(problems)} tensors do not fit:{shown}"
        )
    model.load_state_dict({ours: taken[theirs] for ours, theirs in names.items()})
    outside = [name for name in state if not name.startswith(prefix)]
    return model.eval(), sorted([*outside, *(f"{prefix}{name}" for name in left_out)])


def _build(architecture: Architecture, own: Mapping[str, torch.Tensor]) -> ContrastiveModel:
    """Return the network with random weights, with the sizes that the file's first and last layers have."""
    first = own.get(architecture.first)
    last = [own.get(f"{theirs}.weight") for theirs in architecture.head.values()]
    settings = EncoderSettings(
        name=architecture.name,
        # The y-Aware authors' classifier has a final norm, and what they pretrain has none; MONAI's
        # always has one.
        final_norm=not architecture.head or "features.norm5.weight" in own,
        projection=tuple(len(weight) for weight in last if weight is not None),
        projection_norm="none",
    )
    return build_model(
        settings, n_channels=first.shape[1] if first is not None and first.ndim > 1 else 1
    )


def read_state(path: Path, architecture: Architecture) -> dict[str, torch.Tensor]:
    """Read a state dict from a ``.safetensors`` file, or from one of ``torch.save``, without running any of it.

    The state dict is the file itself, or the value of one of its keys, such as ``model`` next to an
    optimiser's state.
    """
    check_place(path, error=CheckpointError, remedy="Give a file of weights.")
    try:
        is_safe = path.suffix == ".safetensors"
        content = (
            load_tensors(path)
            if is_safe
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except _DAMAGE as error:
        raise _unreadable(path, error) from error
    places = {"the file": content, **(content if isinstance(content, dict) else {})}
    states = {
        str(key): {
            str(name): tensor for name, tensor in each.items() if isinstance(tensor, torch.Tensor)
        }
        for key, each in places.items()
        if isinstance(each, Mapping)
        and any(str(name).endswith(architecture.anchor) for name in each)
    }
    if len(states) > 1:
        raise CheckpointError(
            f"{path}: holds several state dicts ({', '.join(states)}). Save one of them alone."
        )
    if not states:
        found = list(map(str, content)) if isinstance(content, dict) else [type(content).__name__]
        raise CheckpointError(
            f"{path}: these are not the weights of {architecture.title}: no tensor is named '{architecture.anchor}', "
            f"whatever comes before. Found: {', '.join(found[:8])}{' …' if len(found) > 8 else ''}."
        )
    return next(iter(states.values()))


def _unreadable(path: Path, error: Exception) -> CheckpointError:
    if isinstance(error, pickle.UnpicklingError) and (
        code := re.search(r"GLOBAL (\S+)", str(error))
    ):
        return CheckpointError(
            f"{path}: holds more than tensors, numbers and text ({code[1]}), which could run code of its author's. "
            "Refused, and nothing of it was run. Whoever trusts the file can save the tensors alone: "
            "torch.save(model.state_dict(), FILE)."
        )
    # PyTorch's own text advises to switch its protection off.
    wordless = isinstance(error, pickle.UnpicklingError | LookupError | AssertionError)
    found = type(error).__name__ if wordless else said(str(error).partition("\n")[0])
    return CheckpointError(
        f"{path}: not a readable file of weights ({found}). Is it cut short? Copy it again."
    )
