"""Find the source of images of a configuration or a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monai.transforms import Compose, Transform

from neurocontrast.config import AnyDataSettings, DataSettings, ImageDataSettings
from neurocontrast.encoders.weights import CONTRACT
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.stages.brain_volumes import BrainVolumes
from neurocontrast.stages.image_source import ImageSource
from neurocontrast.stages.natural_images import NaturalImages

__all__ = ["brains_of_run", "source_of", "source_of_run"]


def source_of(
    data: AnyDataSettings, *, transforms: Compose | None = None, augment: Transform | None = None
) -> ImageSource:
    """Return the source that the section ``data`` describes, with transforms that came from Python."""
    if isinstance(data, DataSettings):
        return BrainVolumes(data, augment, given=transforms)
    if transforms is not None:
        raise ConfigError("transforms: are for scans (data.kind: volumes). Natural images are prepared by `images`.")
    return NaturalImages(data, augment)


def source_of_run(
    run: Path, contract: Mapping[str, Any], data: AnyDataSettings, *, transforms: Compose | None = None
) -> ImageSource:
    """Return images by the section ``data``, preprocessed as those that a run was trained on.

    Parameters
    ----------
    run : Path
        Folder of the run, for messages.
    contract : mapping
        Content of the run's ``encoder.json``.
    data : DataSettings or ImageDataSettings
        Where images and cache are.
    transforms : Compose, optional
        Transforms that the run was given from Python.

    Raises
    ------
    CheckpointError
        For a contract that is damaged, or of a version or kind that this installation does not have.
    ConfigError
        Where `data` says that its images are of another kind.
    """
    trained = contract["preprocessing"].get("kind", "volumes")
    if trained not in ("volumes", "images"):
        raise CheckpointError(f"{CONTRACT}: preprocessing.kind {trained!r} is not known. Upgrade neurocontrast.")
    if trained != data.kind:
        if "kind" in data.model_fields_set:
            raise ConfigError(
                f"data.kind: is '{data.kind}', and the run was trained on {trained}. Give the run's own configuration, "
                "or none."
            )
        common = {"images_root": data.images_root, "n_workers": data.n_workers}
        data = DataSettings(**common) if trained == "volumes" else ImageDataSettings(kind="images", **common)
    try:
        # Runs before the cache had a choice of precision kept volumes in float32.
        return source_of(data, transforms=transforms).as_in_run({"cache_dtype": "float32", **contract})
    except DataError as error:
        raise CheckpointError(f"{run / CONTRACT}: {error}") from error


def brains_of_run(run: Path, contract: Mapping[str, Any], data: AnyDataSettings, *, what: str) -> BrainVolumes:
    """Return scans preprocessed as those of a run; `what` begins the refusal of a run trained on other images."""
    if contract["preprocessing"].get("kind") == "images":
        raise ConfigError(f"{what}, and this run was trained on natural images. Give a run that was trained on scans.")
    source = source_of_run(run, contract, data)
    assert isinstance(source, BrainVolumes)
    return source
