"""Natural images: bytes in a store, standardised by the network itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import ValidationError

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.datasets import ImageDataset
from neurocontrast.data.entries import signature_of
from neurocontrast.data.natural.store import split_image_path
from neurocontrast.data.settings import ImageDataSettings
from neurocontrast.data.sources.source import Source
from neurocontrast.documents.encoder import PreprocessingRecord, Samples
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.progress import Progress
from neurocontrast.settings import Settings
from neurocontrast.transforms import ImageAugmentSettings, RandImageViewd

if TYPE_CHECKING:
    from neurocontrast.encoders import Encoder

_Colours = tuple[float, float, float] | None


class ImageContract(Settings):
    """What ``encoder.json`` says of natural images."""

    kind: Literal["images"] = "images"
    transform_version: Literal[1] = 1
    """Version of what happens between store and network: bytes over 255, standardised by channel."""
    shape: tuple[Literal[3], int, int]
    """Colours, height and width."""
    standardise: Literal["channels", "none"]
    mean: _Colours = None
    """Mean of each colour over the training images, in [0, 1]."""
    std: _Colours = None
    """Standard deviation of each colour over the training images."""


@dataclass(frozen=True)
class NaturalImages(Source):
    """Natural images: bytes in a store, standardised by the network itself."""

    data: ImageDataSettings
    known: ImageContract | None = None  # of a run, or fitted
    n_channels = 3

    def fitted(self, cohort: Cohort, rows: Sequence[int], progress: Progress) -> Self:
        """Return the source with the size of the images, and colours' mean and deviation over the training rows."""
        images = self.images(cohort)
        standardise = self.data.standardise
        shape: Any = tuple(images.image_shape)
        if standardise == "none":
            return replace(self, known=ImageContract(shape=shape, standardise=standardise))
        with progress.task("Standardising", None, "images"):
            mean, std = (values.tolist() for values in images.channel_statistics(list(rows)))
        flat = [
            colour
            for colour, deviation in zip(("red", "green", "blue"), std, strict=True)
            if not deviation > 0
        ]
        if flat:
            raise DataError(
                f"data.standardise: {', '.join(flat)} is the same in every pixel of the training images, so it cannot "
                "be standardised. Set data.standardise to none."
            )
        return replace(
            self, known=ImageContract(shape=shape, standardise=standardise, mean=mean, std=std)
        )

    def as_in_run(self, samples: Samples) -> Self:
        """Return the source with size, mean and deviation of a run."""
        try:
            known = ImageContract.model_validate(samples.preprocessing.content())
        except ValidationError as error:
            wrong = [
                f"{each['loc'][0]}: {each['msg']}, found {each['input']!r}"
                for each in error.errors()
            ]
            raise DataError(f"preprocessing contract: {'; '.join(wrong)}") from error
        return replace(self, known=known)

    def in_run(self, preprocessing: PreprocessingRecord) -> dict[str, Any]:
        """Return whether colours are standardised."""
        return {"standardise": preprocessing.standardise}

    def contract(self) -> Samples:
        """Return the kind, the size, and by what colours are standardised; nothing before that is fitted."""
        if self.known is None:
            return Samples()
        return Samples(
            preprocessing=PreprocessingRecord.model_validate(self.known.model_dump(mode="json"))
        )

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return height and width, which the store says."""
        if cohort is None:
            raise ConfigError(
                "data.participants: missing. The size of images is that of their store: give the table that "
                "`neurocontrast images` wrote."
            )
        return self.images(cohort).image_shape[1:]

    def images(self, cohort: Cohort) -> ImageDataset:
        """Return the cohort's images; another size than that of the run is refused."""
        images = ImageDataset(cohort)
        if self.known is not None and tuple(images.image_shape) != self.known.shape:
            found, needed = (
                "×".join(map(str, size[1:])) for size in (images.image_shape, self.known.shape)
            )
            raise DataError(
                f"{cohort.source.name}: these images have {found} pixels, and the run was trained on {needed}. Prepare "
                "them in that size (images.size)."
            )
        return images

    def set_up(self, encoder: Encoder) -> None:
        """Let the network standardise colours."""
        if self.known is not None and self.known.mean is not None and self.known.std is not None:
            encoder.set_standardisation(self.known.mean, self.known.std)

    def contents(self, cohort: Cohort, progress: Progress) -> list[str]:
        """Return the digest of the pixels of each image."""
        with progress.task("Comparing images", None, "images"):
            return self.images(cohort).contents()

    def signatures(self, cohort: Cohort) -> list[tuple[int, ...]]:
        """Return the signatures of the stores."""
        return [signature_of([str(store)]) for _, store in self.files(cohort)["stores"]]

    def files(self, cohort: Cohort) -> dict[str, list[tuple[str, Path]]]:
        """Return the stores, and the files of vectors."""
        stores = sorted({split_image_path(str(path))[0] for path in cohort.table["path"]})
        return {"stores": [(store.name, store) for store in stores], **super().files(cohort)}

    def built_in_views(self, augment: ImageAugmentSettings) -> Any:
        """Return the views of images."""
        return RandImageViewd("image", augment)
