"""The one room that knows kinds of images apart: what stages ask (`Kind`), and each kind's answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from neurocontrast.config import DataSettings
from neurocontrast.encoders.weights import CONTRACT
from neurocontrast.exceptions import CheckpointError, DataError
from neurocontrast.stages.kinds.kind import Intake, Kind
from neurocontrast.stages.kinds.volumes import VolumeKind

__all__ = ["Intake", "Kind", "intake_of_run", "kind_of", "kind_of_run", "volumes_of_run"]

_Found = TypeVar("_Found", covariant=True)


class _KnowsIntakes(Protocol[_Found]):
    def intake_of(self, contract: Mapping[str, Any]) -> _Found: ...


def kind_of(data: DataSettings) -> Kind:
    """Return the kind that the section ``data`` describes."""
    return VolumeKind(data)


def kind_of_run(contract: Mapping[str, Any], data: DataSettings) -> Kind:
    """Return the kind of images that a run was trained on, where they are by the section ``data``."""
    del contract
    return VolumeKind(data)


def volumes_of_run(contract: Mapping[str, Any], data: DataSettings, *, what: str) -> VolumeKind:
    """Return the kind of a run that was trained on scans of brains, for what works on nothing else."""
    del contract, what
    return VolumeKind(data)


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
