"""What a stage asks of the images it works on, whatever they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
from monai.transforms import Compose, Transform

from neurocontrast.config import Config
from neurocontrast.data.batches import Images
from neurocontrast.data.cohort import Cohort
from neurocontrast.data.problems import shown
from neurocontrast.data.store import is_image_path
from neurocontrast.encoders import Encoder
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.progress import Progress
from neurocontrast.training import Views
from neurocontrast.transforms import TwoViews
from neurocontrast.transforms.described import describe
from neurocontrast.transforms.description import GIVEN
from neurocontrast.transforms.targets import build_transforms

__all__ = [
    "Intake",
    "Kind",
    "Pending",
    "StrPath",
    "check_augment",
    "check_kind",
    "record_of",
    "two_views",
]

StrPath = str | os.PathLike[str]

Pending = tuple[int, float | None, int]
"""Images that must be made ready before training: how many, the seconds it takes, the bytes of disk it takes."""


class Intake(Protocol):
    """What is done to images before a network sees them; it travels with the network's weights."""

    @property
    def is_fitted(self) -> bool:
        """Whether nothing is left to be fitted on training images."""

    def fitted(self, cohort: Cohort, training: Sequence[int], validation: Sequence[int], progress: Progress) -> Self:
        """Return the same, fitted on the rows of training; a row of either side that cannot be used is refused."""

    def as_it_was(self, contract: Mapping[str, Any]) -> Self:
        """Return the same with what a run's contract says; a contract that says nothing sound is a `DataError`."""

    def contract(self) -> dict[str, Any]:
        """Return the section ``preprocessing`` of ``encoder.json``."""

    def kept_as(self) -> dict[str, Any]:
        """Return what else travels with the weights: in which precision images are kept."""

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return the shape of an image without its channels; of a cohort's where the configuration leaves it open."""

    def images(self, cohort: Cohort) -> Images:
        """Return the cohort's images, in the order of its rows."""

    def make_ready(self, cohort: Cohort, progress: Progress) -> None:
        """Do what is done once, before the first batch."""

    def set_up(self, encoder: Encoder) -> None:
        """Give a new network what it keeps of all this."""


class Kind(Protocol):
    """One kind of images, with what the section ``data`` says of them."""

    def read_cohort(
        self, participants: StrPath, *, images_root: StrPath | None = None, check_images: bool = True
    ) -> Cohort:
        """Read a table; `images_root` goes before that of the configuration."""

    def vectors(self, cohort: Cohort) -> dict[str, npt.NDArray[np.float32]]:
        """Return what a kernel may compare besides columns of the table: one row an image."""

    def record(self, cohort: Cohort) -> dict[str, Any]:
        """Return what ``provenance.json`` says of the files that the table names, besides the table."""

    def check_unchanged(self, cohort: Cohort, provenance: Mapping[str, Any], folder: Path) -> None:
        """Refuse files that are not those a run began with."""

    def intake(self, cohort: Cohort | None = None) -> Intake:
        """Return what the configuration asks for; transforms of a user's are tried on the cohort's first scan."""

    def intake_of(self, contract: Mapping[str, Any]) -> Intake:
        """Return what a run did, from its ``preprocessing`` and what was kept beside it; damaged is a `DataError`."""

    def views(self, settings: Config) -> Views:
        """Return what makes two random views of a batch."""

    def facts(self) -> dict[str, Any]:
        """Return what loggers note of the section ``data``: what was chosen, and no path of the user's."""

    @property
    def how_to_be_smaller(self) -> str:
        """What to do where images take too much memory, as a sentence."""

    def cache_folder(self) -> Path:
        """Return the folder on whose disk images are kept ready."""

    def pending(self, cohort: Cohort, clock: Callable[[], float]) -> Pending:
        """Return what making a cohort's images ready will cost."""

    def bytes_of_image(self, cohort: Cohort | None = None) -> int:
        """Return how much of that disk an image takes."""


def two_views(settings: Config, given: Transform | None, *, built_in: Callable[[Any], Any]) -> Views:
    """Return what makes two views by the section ``augment``: its operations, its transforms, or those given.

    Raises
    ------
    ConfigError
        For transforms that are refused, or came from Python and were not given again.
    """
    targets = settings.augment.transforms
    if targets is None:
        return TwoViews(built_in(settings.augment), seed=settings.seed)
    if tuple(targets) != GIVEN:
        return TwoViews(build_transforms(targets, source="augment.transforms"), seed=settings.seed)
    if given is None:
        raise ConfigError("augment.transforms: came from Python. Give them again: pretrain(..., augment=...).")
    return TwoViews(given, seed=settings.seed)


def record_of(augment: Any) -> dict[str, Any]:
    """Return what ``provenance.json`` says of views that came from Python: their classes and settings."""
    if augment is None:
        return {}
    try:
        return {"augment": describe(augment)}
    except DataError:  # something in it has no name, such as a lambda: the classes are what can be told
        return {"augment": [type(each).__name__ for each in Compose(augment).flatten().transforms]}


def check_augment(augment: Any, provenance: Mapping[str, Any], folder: Path) -> None:
    """Refuse views from Python that are not those a run began with.

    Raises
    ------
    CheckpointError
        Where they differ in a class or a setting.
    """
    now = record_of(augment)
    if augment is not None and now["augment"] != provenance.get("augment"):
        raise CheckpointError(
            f"{folder}: the run cannot continue, because it would not be the same run: augment has other transforms, "
            "or other settings of them. Give what it began with, or start another run."
        )


def check_kind(cohort: Cohort, wanted: Literal["volumes", "images"]) -> Cohort:
    """Return a cohort if its rows are of the kind that is wanted.

    Raises
    ------
    DataError
        Naming the first row that is not.
    """
    names = {"volumes": "scans of brains", "images": "images of a store, as `neurocontrast images` writes them,"}
    for participant, path in zip(cohort.table["participant_id"], cohort.table["path"], strict=True):
        found: Literal["volumes", "images"] = "images" if is_image_path(str(path)) else "volumes"
        if found != wanted:
            raise DataError(
                f"{cohort.source.name}: {names[wanted]} are wanted, because data.kind is '{wanted}' or the run was "
                f"trained on them, and '{participant}' is {shown(path, 200)}. To train on it, set data.kind to {found}."
            )
    return cohort
