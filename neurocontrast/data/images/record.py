"""The record beside a prepared data set: what it was made from, and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from neurocontrast.data.images.background import BACKGROUND_COLUMNS
from neurocontrast.data.images.quality import Repeated
from neurocontrast.data.images.settings import ImagesSettings
from neurocontrast.data.images.splitting import SPLITS
from neurocontrast.data.images.store import ImageStore
from neurocontrast.files import digest_of_file
from neurocontrast.provenance import describe_environment

__all__ = ["describe_images"]


def describe_images(
    settings: ImagesSettings,
    *,
    name: str,
    store: ImageStore,
    columns: Mapping[str, Sequence[str]],
    origin: Mapping[str, Any],
    repeated: Repeated,
) -> dict[str, Any]:
    """Return what ``images.json`` holds, JSON-ready and without a path of this machine.

    Parameters
    ----------
    settings : ImagesSettings
    name : str
        What identifiers begin with.
    store : ImageStore
        As written.
    columns : mapping of str to sequence of str
        The table.
    origin : mapping
        Of `Pictures`.
    repeated : Repeated
    """
    counted = Counter(columns["split"])
    environment = describe_environment()
    environment.pop("command")  # it holds the paths of the machine
    environment["packages"]["pillow"] = metadata.version("pillow")
    return {
        "format": 1,
        "dataset": settings.dataset,
        "name": name,
        "shape": list(store.shape),
        "n_images": {split: counted[split] for split in SPLITS},
        "classes": _classes(columns),
        "columns": [column for column in columns if column not in ("participant_id", "path")],
        "statement": _statements(settings),
        "source": {"name": _name(settings.source), **origin},
        "settings": _without_folders(settings.model_dump(mode="json")),
        "repeated_images": {"n": repeated.n_images, "n_across_splits": repeated.n_across},
        "images_sha256": digest_of_file(store.path),
        "libraries": _jpeg(),
        "environment": environment,
    }


def _classes(columns: Mapping[str, Sequence[str]]) -> dict[str, dict[str, int]]:
    counted = Counter(zip(columns["label"], columns["split"], strict=True))
    return {
        label: {split: counted[label, split] for split in SPLITS if counted[label, split]}
        for label in sorted(set(columns["label"]))
    }


def _statements(settings: ImagesSettings) -> list[str]:
    sentences = []
    if settings.size is not None:
        sentences.append("Scaled to cover the size (bicubic, Pillow) and cropped around the centre.")
    if settings.background == "random":
        sentences.append(
            "Grey pictures as black on a coloured background, (255 - x)·c/255: one of ten colours plus normal noise "
            f"of standard deviation {settings.background_sd:g} in each channel, clipped to 0-255 (ColorMNIST, Tsai et "
            "al., ICLR 2022, and their released code). The colour does not depend on the class."
        )
    elif settings.background == "uniform":
        sentences.append(
            "Grey pictures as black on a coloured background, (255 - x)·c/255, c uniform over all colours."
        )
    if settings.background is not None:
        sentences.append(f"{', '.join(BACKGROUND_COLUMNS)} are c/255.")
    subset = {split: getattr(settings, f"n_{split}") for split in SPLITS}
    for split, n_kept in subset.items():
        if n_kept is not None:
            sentences.append(
                f"A subset: {n_kept:,} images of {split}, stratified by label, chosen by seed {settings.seed}."
            )
    return sentences


def _name(path: Path | None) -> str | None:
    return None if path is None else path.expanduser().absolute().name


def _without_folders(settings: dict[str, Any]) -> dict[str, Any]:
    """Keep of each path its last part alone: where a user keeps files is nobody's business."""
    for key in ("source", "attributes"):
        if settings[key] is not None:
            settings[key] = Path(settings[key]).name
    settings["vectors"] = {name: Path(path).name for name, path in settings["vectors"].items()}
    return settings


def _jpeg() -> dict[str, str | None]:
    from PIL import features

    return {"libjpeg_turbo": features.version("libjpeg_turbo"), "jpg": features.version("jpg")}
