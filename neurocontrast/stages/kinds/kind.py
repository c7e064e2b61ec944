"""What a stage asks of the images it works on, whatever they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from neurocontrast.config import Config
from neurocontrast.data.batches import Images
from neurocontrast.data.cohort import Cohort
from neurocontrast.encoders import Encoder
from neurocontrast.progress import Progress
from neurocontrast.training import Views

__all__ = ["Intake", "Kind", "Pending", "StrPath"]

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

    def intake(self) -> Intake:
        """Return what the configuration asks for."""

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

    def bytes_of_image(self) -> int:
        """Return how much of that disk an image takes."""
