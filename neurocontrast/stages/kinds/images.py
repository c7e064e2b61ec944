"""Natural images: bytes in a store, standardised by the network itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from monai.transforms import Transform

from neurocontrast.config import Config, ImageDataSettings
from neurocontrast.data import Cohort, read_cohort
from neurocontrast.data.metadata import read_vectors
from neurocontrast.data.natural import ImageDataset
from neurocontrast.data.store import split_image_path
from neurocontrast.encoders import Encoder
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.files import digest_of_file
from neurocontrast.progress import Progress
from neurocontrast.stages.kinds.kind import Pending, StrPath, check_augment, check_kind, record_of, two_views
from neurocontrast.training import Views
from neurocontrast.transforms import ImageAugmentSettings, RandImageViewd

__all__ = ["TRANSFORM_VERSION", "ImageIntake", "ImageKind"]

TRANSFORM_VERSION = 1
"""Of what happens to an image between its store and the network: bytes over 255, standardised by channel."""

_Three = tuple[float, float, float]


@dataclass(frozen=True)
class ImageIntake:
    """The size of images, and by what their colours are standardised; `shape` and the rest are None until fitted."""

    standardise: Literal["channels", "none"]
    size: tuple[int, int, int] | None = None
    mean: _Three | None = None
    std: _Three | None = None

    @property
    def is_fitted(self) -> bool:
        """Whether size, mean and deviation are known."""
        return self.size is not None and (self.standardise == "none" or self.mean is not None)

    def fitted(
        self, cohort: Cohort, training: Sequence[int], validation: Sequence[int], progress: Progress
    ) -> ImageIntake:
        """Return the same with the size of the images, and their colours' mean and deviation over the training rows.

        Raises
        ------
        DataError
            Where a colour is the same in every pixel.
        """
        del validation
        images = self.images(cohort)
        sized = replace(self, size=_three_of(images.image_shape))
        if self.standardise == "none":
            return sized
        with progress.task("Standardising", None, "images"):
            mean, std = images.channel_statistics(list(training))
        flat = [colour for colour, deviation in zip(("red", "green", "blue"), std, strict=True) if not deviation > 0]
        if flat:
            raise DataError(
                f"data.standardise: {', '.join(flat)} is the same in every pixel of the training images, so it cannot "
                "be standardised. Set data.standardise to none."
            )
        return replace(sized, mean=_floats(mean), std=_floats(std))

    def as_it_was(self, contract: Mapping[str, Any]) -> ImageIntake:
        """Return what a contract says.

        Raises
        ------
        DataError
            For a version of the transform that this installation does not have, or a contract that is damaged.
        """
        version = contract.get("transform_version")
        if version != TRANSFORM_VERSION:
            raise DataError(
                f"preprocessing contract: transform_version is {version!r} and this neurocontrast has "
                f"{TRANSFORM_VERSION} for images; install the version the encoder was trained with."
            )
        shape, standardise = contract.get("shape"), contract.get("standardise")
        numbers = [contract.get(key) for key in ("mean", "std")]
        if not _are(shape, int) or standardise not in ("channels", "none"):
            raise DataError(
                "preprocessing contract: 'shape' must be [3, height, width], and 'standardise' be 'channels' or "
                f"'none', found {shape!r} and {standardise!r}"
            )
        if standardise == "none":
            return ImageIntake("none", _three_of(shape))
        if not all(_are(each, float) for each in numbers):
            raise DataError(
                "preprocessing contract: 'mean' and 'std' must be three numbers each, found "
                f"{numbers[0]!r} and {numbers[1]!r}"
            )
        return ImageIntake("channels", _three_of(shape), *(_floats(each) for each in numbers))

    def contract(self) -> dict[str, Any]:
        """Return the kind, the size, and by what colours are standardised."""
        assert self.size is not None
        return {
            "kind": "images",
            "transform_version": TRANSFORM_VERSION,
            "shape": list(self.size),
            "standardise": self.standardise,
            "mean": None if self.mean is None else list(self.mean),
            "std": None if self.std is None else list(self.std),
        }

    def kept_as(self) -> dict[str, Any]:
        """Return nothing: images are kept as the bytes they are."""
        return {}

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return height and width, which the store says.

        Raises
        ------
        ConfigError
            Where there is no table, and so no store.
        """
        if cohort is None:
            raise ConfigError(
                "data.participants: missing. The size of images is that of their store: give the table that "
                "`neurocontrast images` wrote."
            )
        return self.images(cohort).image_shape[1:]

    def images(self, cohort: Cohort) -> ImageDataset:
        """Return the cohort's images.

        Raises
        ------
        DataError
            Naming rows that are no images of a store; where their size is not that of the run.
        """
        images = ImageDataset(cohort)
        if self.size is not None and tuple(images.image_shape) != self.size:
            found, needed = ("×".join(map(str, size[1:])) for size in (images.image_shape, self.size))
            raise DataError(
                f"{cohort.source.name}: these images have {found} pixels, and the run was trained on {needed}. Prepare "
                "them in that size (images.size)."
            )
        return images

    def make_ready(self, cohort: Cohort, progress: Progress) -> None:
        """Do nothing: images were decoded when they were prepared."""

    def set_up(self, encoder: Encoder) -> None:
        """Let the network standardise colours."""
        if self.mean is not None and self.std is not None:
            encoder.set_standardisation(self.mean, self.std)


@dataclass(frozen=True)
class ImageKind:
    """Natural images as the section ``data`` describes them."""

    data: ImageDataSettings
    augment: Transform | None = None
    how_to_be_smaller: ClassVar[str] = "Prepare smaller images (images.size)."

    def read_cohort(
        self, participants: StrPath, *, images_root: StrPath | None = None, check_images: bool = True
    ) -> Cohort:
        """Read a table of images."""
        root = self.data.images_root if images_root is None else Path(images_root)
        return check_kind(read_cohort(Path(participants), images_root=root, check_images=check_images), "images")

    def vectors(self, cohort: Cohort) -> dict[str, npt.NDArray[np.float32]]:
        """Return the vectors that the section ``data`` names."""
        return read_vectors(self.data.vectors, cohort)

    def record(self, cohort: Cohort) -> dict[str, Any]:
        """Return the digest of each store and of each file of vectors, with its name."""
        folder = cohort.source.parent
        files = {
            name: folder / Path(what).expanduser() for name, what in self.data.vectors.items() if isinstance(what, str)
        }
        return record_of(self.augment) | {
            "stores": {digest_of_file(path): path.name for path in _stores_of(cohort)},
            "vectors": {digest_of_file(path): name for name, path in files.items()},
        }

    def check_unchanged(self, cohort: Cohort, provenance: Mapping[str, Any], folder: Path) -> None:
        """Refuse a store, or a file of vectors, with other content than the one that the run began with.

        Raises
        ------
        CheckpointError
            Naming it.
        """
        check_augment(self.augment, provenance, folder)
        now = self.record(cohort)
        changed = [
            f"{name} holds other {what} than when it began"
            for key, what in (("stores", "images"), ("vectors", "vectors"))
            for digest, name in now[key].items()
            if digest not in (provenance.get(key) or now[key])
        ]
        if changed:
            raise CheckpointError(
                f"{folder}: the run cannot continue, because it would not be the same run: {'; '.join(changed)}. Bring "
                "back the files it began with, or start another run."
            )

    def intake(self, cohort: Cohort | None = None) -> ImageIntake:
        """Return what the configuration asks for, not fitted."""
        del cohort
        return ImageIntake(self.data.standardise)

    def intake_of(self, contract: Mapping[str, Any]) -> ImageIntake:
        """Return what a run did."""
        return self.intake().as_it_was(contract["preprocessing"])

    def views(self, settings: Config) -> Views:
        """Return the views of images."""
        assert isinstance(settings.augment, ImageAugmentSettings)
        return two_views(settings, self.augment, built_in=partial(RandImageViewd, "image"))

    def facts(self) -> dict[str, Any]:
        """Return how colours are standardised."""
        return {"kind": "images", "standardise": self.data.standardise}

    def cache_folder(self) -> Path:
        """Return the folder of the table, where the store usually is."""
        return Path() if self.data.participants is None else self.data.participants.expanduser().parent

    def pending(self, cohort: Cohort, clock: Callable[[], float]) -> Pending:
        """Return nothing."""
        del cohort, clock
        return 0, 0.0, 0

    def bytes_of_image(self, cohort: Cohort | None = None) -> int:
        """Return none besides the store."""
        del cohort
        return 0


def _stores_of(cohort: Cohort) -> list[Path]:
    """Return the cohort's stores, each once, in the order of their paths."""
    named = {str(path).rpartition("#")[0]: str(path) for path in cohort.table["path"]}
    return [split_image_path(named[store])[0] for store in sorted(named)]


def _are(values: Any, kind: type) -> bool:
    kinds = (int, float) if kind is float else (kind,)
    return isinstance(values, list) and len(values) == 3 and all(type(each) in kinds for each in values)


def _three_of(values: Any) -> tuple[int, int, int]:
    first, second, third = (int(each) for each in values)
    return first, second, third


def _floats(values: Any) -> _Three:
    first, second, third = (float(each) for each in values)
    return first, second, third
