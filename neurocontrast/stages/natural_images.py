"""Natural images: bytes in a store, standardised by the network itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from neurocontrast.config import Config, ImageDataSettings
from neurocontrast.data import Cohort
from neurocontrast.data.natural import ImageDataset
from neurocontrast.data.store import split_image_path
from neurocontrast.encoders import Encoder
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.progress import Progress
from neurocontrast.stages.image_source import ImageSource
from neurocontrast.transforms import ImageAugmentSettings, RandImageViewd

__all__ = ["TRANSFORM_VERSION", "NaturalImages"]

TRANSFORM_VERSION = 1
"""Version of what happens to an image between store and network: bytes over 255, standardised by channel."""


@dataclass(frozen=True)
class NaturalImages(ImageSource):
    """Natural images.

    Parameters
    ----------
    data, augment
        As of every `ImageSource`.
    standardise : {'channels', 'none'}
        Whether the network standardises colours.
    size : tuple of int, optional
        (3, height, width), where a run or a fit says the size.
    mean, std : tuple of float, optional
        Of each colour over the training images, in [0, 1].
    """

    how_to_be_smaller: ClassVar[str] = "Prepare smaller images (images.size)."

    data: ImageDataSettings
    standardise: str = "channels"
    size: tuple[int, ...] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def prepared(self, cohort: Cohort | None) -> Self:
        """Return the source with the standardisation that `data` asks for."""
        del cohort
        return replace(self, standardise=self.data.standardise)

    def fitted(self, cohort: Cohort, training: Sequence[int], validation: Sequence[int], progress: Progress) -> Self:
        """Return the source with the size of the images, and colours' mean and deviation over the training rows."""
        del validation
        images = self.images(cohort)
        sized = replace(self, size=tuple(images.image_shape))
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
        return replace(sized, mean=tuple(mean.tolist()), std=tuple(std.tolist()))

    def as_in_run(self, contract: Mapping[str, Any]) -> Self:
        """Return the source with size, mean and deviation of a run."""
        preprocessing = contract["preprocessing"]
        version = preprocessing.get("transform_version")
        if version != TRANSFORM_VERSION:
            raise DataError(
                f"preprocessing contract: transform_version is {version!r} and this neurocontrast has "
                f"{TRANSFORM_VERSION} for images; install the version the encoder was trained with."
            )
        shape, standardise, mean, std = (preprocessing.get(key) for key in ("shape", "standardise", "mean", "std"))
        if not _are_three(shape, int) or standardise not in ("channels", "none"):
            raise DataError(
                "preprocessing contract: 'shape' must be [3, height, width], and 'standardise' be 'channels' or "
                f"'none', found {shape!r} and {standardise!r}"
            )
        known = replace(self, standardise=standardise, size=tuple(shape), mean=None, std=None)
        if standardise == "none":
            return known
        if not (_are_three(mean, int, float) and _are_three(std, int, float)):
            raise DataError(
                f"preprocessing contract: 'mean' and 'std' must be three numbers each, found {mean!r} and {std!r}"
            )
        return replace(known, mean=tuple(map(float, mean)), std=tuple(map(float, std)))

    def contract(self) -> dict[str, Any]:
        """Return the kind, the size, and by what colours are standardised."""
        assert self.size is not None
        return {
            "preprocessing": {
                "kind": "images",
                "transform_version": TRANSFORM_VERSION,
                "shape": list(self.size),
                "standardise": self.standardise,
                "mean": None if self.mean is None else list(self.mean),
                "std": None if self.std is None else list(self.std),
            }
        }

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return height and width, which the store says."""
        if cohort is None:
            raise ConfigError(
                "data.participants: missing. The size of images is that of their store: give the table that "
                "`neurocontrast images` wrote."
            )
        return self.images(cohort).image_shape[1:]

    @property
    def n_channels(self) -> int:
        """The three colours."""
        return 3

    def images(self, cohort: Cohort) -> ImageDataset:
        """Return the cohort's images; another size than that of the run is refused."""
        images = ImageDataset(cohort)
        if self.size is not None and tuple(images.image_shape) != self.size:
            found, needed = ("×".join(map(str, size[1:])) for size in (images.image_shape, self.size))
            raise DataError(
                f"{cohort.source.name}: these images have {found} pixels, and the run was trained on {needed}. Prepare "
                "them in that size (images.size)."
            )
        return images

    def set_up(self, encoder: Encoder) -> None:
        """Let the network standardise colours."""
        if self.mean is not None and self.std is not None:
            encoder.set_standardisation(self.mean, self.std)

    def files(self, cohort: Cohort) -> dict[str, list[tuple[str, Path]]]:
        """Return the stores, and the files of vectors."""
        stores = sorted({split_image_path(str(path))[0] for path in cohort.table["path"]})
        vectors = [(name, Path(what).expanduser()) for name, what in self.data.vectors.items() if isinstance(what, str)]
        return {
            "stores": [(store.name, store) for store in stores],
            "vectors": [(name, cohort.source.parent / path) for name, path in vectors],
        }

    def built_in_views(self, settings: Config) -> Any:
        """Return the views of images."""
        assert isinstance(settings.augment, ImageAugmentSettings)
        return RandImageViewd("image", settings.augment)

    def cache_folder(self) -> Path:
        """Return the folder of the table, where the store usually is."""
        return Path() if self.data.participants is None else self.data.participants.expanduser().parent


def _are_three(values: Any, *kinds: type) -> bool:
    return isinstance(values, list) and len(values) == 3 and all(type(each) in kinds for each in values)
