"""What an evaluation of images is of: the data set, the parts it is divided into, the views that were compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.images.pictures import store_of
from neurocontrast.reporting.naming import join_words, value_text

__all__ = ["PARTS", "augment_text", "dataset_name", "image_size", "parts_of", "read_origin", "statements"]

_NAMES = {
    "digits": "the handwritten digits of scikit-learn",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
}
_OPERATIONS = {
    "crop": "random resized crop",
    "resized_crop": "random resized crop",
    "pad_crop": "crop after padding",
    "affine": "rotation, shift and zoom",
    "rotation": "rotation",
    "flip": "horizontal flip",
    "colour_jitter": "colour jitter",
    "grayscale": "conversion to grey",
    "blur": "blur",
}
PARTS = {"train": "training", "validation": "validation", "test": "test"}
"""What the parts of a fixed split are called."""

_LARGEST = 4_000_000


def read_origin(files: EvaluationFiles) -> Mapping[str, Any]:
    """Return what images.json says of the data set: from evaluation.json, else from beside the store; {} if neither."""
    recorded = files.summary.get("images")
    if isinstance(recorded, Mapping):
        return recorded
    tables = [table for table in (files.scans, files.predictions) if table is not None and "path" in table]
    paths = [path for table in tables for path in table["path"].dropna().head(1)]
    named = store_of(paths[0], folder=files.folder) if paths else None
    beside = None if named is None else named[0].with_name("images.json")
    if beside is None or not beside.is_file() or beside.stat().st_size > _LARGEST:
        return {}
    try:
        found = json.loads(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, Mapping) else {}


def dataset_name(origin: Mapping[str, Any]) -> str:
    """Name the data set as its field does; empty where it is not recorded."""
    settings = origin.get("settings")
    key = origin.get("dataset") or (settings.get("dataset") if isinstance(settings, Mapping) else None)
    if key == "folder":
        return str(origin.get("name") or "")
    return _NAMES.get(str(key), str(key)) if key else ""


def statements(origin: Mapping[str, Any]) -> list[str]:
    """Return what images.json says was done to the images, in sentences."""
    told = origin.get("statement")
    return [str(sentence) for sentence in told] if isinstance(told, list) else []


def image_size(files: EvaluationFiles) -> str:
    """Write the size of an image: "3 × 32 × 32"; empty where it is not recorded."""
    contract = files.run.get("preprocessing") or {}
    shape = contract.get("shape") or ()
    return " × ".join(str(size) for size in shape)


def parts_of(files: EvaluationFiles) -> dict[str, int]:
    """Return how many images are for training, validation and test; nothing with cross-validation."""
    split = files.summary.get("split")
    counts = split.get("n") if isinstance(split, Mapping) else None
    counts = counts if isinstance(counts, Mapping) else {}
    return {name: int(counts[name]) for name in PARTS if counts.get(name) is not None}


def augment_text(augment: Any) -> str:
    """Name the operations that make a view, in the order of the record; empty where none is recorded."""
    if not isinstance(augment, Mapping):
        return ""
    if augment.get("transforms"):
        names = [str(step.get("_target_")).rpartition(".")[2] for step in augment["transforms"]]
        return f"transforms of the study's own ({join_words(names)})"
    parts = []
    for key, settings in augment.items():
        if key == "kind" or settings is None:
            continue
        about = settings if isinstance(settings, Mapping) else {"": settings}
        told = join_words([f"{name} {value_text(value)}".strip() for name, value in about.items() if value is not None])
        parts.append(f"{_OPERATIONS.get(str(key), str(key).replace('_', ' '))}{f' ({told})' if told else ''}")
    return "; ".join(parts)
