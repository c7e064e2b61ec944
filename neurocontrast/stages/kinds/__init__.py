"""The one room that knows kinds of images apart: what stages ask (`Kind`), and each kind's answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from monai.transforms import Compose, Transform

from neurocontrast.config import AnyDataSettings, DataSettings, ImageDataSettings
from neurocontrast.encoders.weights import CONTRACT
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.stages.kinds.images import ImageKind
from neurocontrast.stages.kinds.kind import Intake, Kind
from neurocontrast.stages.kinds.volumes import VolumeKind

__all__ = ["Intake", "Kind", "intake_of_run", "kind_of", "kind_of_run", "volumes_of_run"]

_Found = TypeVar("_Found", covariant=True)


class _KnowsIntakes(Protocol[_Found]):
    def intake_of(self, contract: Mapping[str, Any]) -> _Found: ...


def kind_of(data: AnyDataSettings, *, transforms: Compose | None = None, augment: Transform | None = None) -> Kind:
    """Return the kind that the section ``data`` describes.

    Parameters
    ----------
    data : DataSettings or ImageDataSettings
        The section.
    transforms, augment : optional
        Transforms from Python for what the section and ``augment`` call ``[{_target_: python}]``.

    Raises
    ------
    ConfigError
        For `transforms` of natural images, which a store holds as they are.
    """
    if isinstance(data, DataSettings):
        return VolumeKind(data, transforms, augment)
    if transforms is not None:
        raise ConfigError("transforms: are for scans (data.kind: volumes). Natural images are prepared by `images`.")
    return ImageKind(data, augment)


def kind_of_run(contract: Mapping[str, Any], data: AnyDataSettings, *, transforms: Compose | None = None) -> Kind:
    """Return the kind of images that a run was trained on, where they are by the section ``data``.

    `transforms` are those that the run was given from Python.

    Raises
    ------
    CheckpointError
        For a kind that is not known.
    ConfigError
        Where `data` says that its images are of another kind.
    """
    trained = contract["preprocessing"].get("kind", "volumes")
    if trained == data.kind:
        return kind_of(data, transforms=transforms)
    if trained not in ("volumes", "images"):
        raise CheckpointError(f"{CONTRACT}: preprocessing.kind {trained!r} is not known. Upgrade neurocontrast.")
    if "kind" in data.model_fields_set:
        raise ConfigError(
            f"data.kind: is '{data.kind}', and the run was trained on {trained}. Give the run's own configuration, or "
            "none."
        )
    common = {"images_root": data.images_root, "n_workers": data.n_workers}
    return (
        kind_of(DataSettings(**common), transforms=transforms)
        if trained == "volumes"
        else kind_of(ImageDataSettings(kind="images", **common), transforms=transforms)
    )


def volumes_of_run(contract: Mapping[str, Any], data: AnyDataSettings, *, what: str) -> VolumeKind:
    """Return the kind of a run that was trained on scans of brains.

    Raises
    ------
    ConfigError
        For a run of another kind; `what` says for what nothing else will do.
    """
    kind = kind_of_run(contract, data)
    if not isinstance(kind, VolumeKind):
        raise ConfigError(f"{what}, and this run was trained on natural images. Give a run that was trained on scans.")
    return kind


def intake_of_run(run: Path, contract: Mapping[str, Any], kind: _KnowsIntakes[_Found]) -> _Found:
    """Return what a run did to its images, from its ``encoder.json``.

    Raises
    ------
    CheckpointError
        Where that is damaged, or of a version this installation does not have.
    """
    try:
        return kind.intake_of(contract)
    except DataError as error:
        raise CheckpointError(f"{run / CONTRACT}: {error}") from error
