"""Source of natural images: pixels read from a store, standardised by the network itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import ValidationError

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.entries import signature_of
from neurocontrast.data.sources.source import Source
from neurocontrast.documents.document import Json
from neurocontrast.documents.encoder import PreprocessingRecord, Samples
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.natural.augment import ImageAugmentSettings
from neurocontrast.natural.dataset import ImageDataset
from neurocontrast.natural.settings import ImageDataSettings
from neurocontrast.natural.store import split_image_path
from neurocontrast.natural.views import RandImageViewd
from neurocontrast.progress import Progress
from neurocontrast.settings import Settings

if TYPE_CHECKING:
    from neurocontrast.encoders import Encoder

_COLOURS = ("red", "green", "blue")
_ValueOfEach = tuple[float, float, float] | None


class ImageContract(Settings):
    """Preprocessing of natural images, as ``encoder.json`` records the steps before a network."""

    kind: Literal["images"] = "images"
    transform_version: Literal[1] = 1
    """Version of the steps from store to network: bytes over 255, then standardised by colour."""
    shape: tuple[Literal[3], int, int]
    """Number of colours, height and width of an image."""
    standardise: Literal["channels", "none"]
    mean: _ValueOfEach = None
    """Mean of each colour over the training images, in [0, 1]; None without standardisation."""
    std: _ValueOfEach = None
    """Standard deviation of each colour over the training images, in [0, 1]."""


@dataclass(frozen=True)
class NaturalImages(Source):
    """Source of natural images, whose pixels are in a store.

    `data` is the section ``data`` of a configuration.
    """

    content_words: ClassVar[Mapping[str, str]] = {"stores": "images"}

    data: ImageDataSettings
    contract_: ImageContract | None = None
    """Preprocessing fitted on training images, or stored by a run; None before either."""

    @property
    def n_channels(self) -> int:
        """Number of colours: 3."""
        return len(_COLOURS)

    def fitted(self, cohort: Cohort, rows: Sequence[int], progress: Progress) -> Self:
        """Return a copy of the source that is fitted on the training images, `rows` of a cohort.

        Fitted are size of the images, and mean and deviation of each colour.
        """
        images = self.images(cohort)
        standardise = self.data.standardise
        shape: Any = tuple(images.image_shape)
        if standardise == "none":
            return replace(self, contract_=ImageContract(shape=shape, standardise=standardise))
        with progress.task("Standardising", None, "images"):
            means, deviations = images.channel_statistics(list(rows))
        flat = []
        for colour, deviation in zip(_COLOURS, deviations, strict=True):
            if not deviation > 0:
                flat.append(colour)
        if flat:
            raise DataError(
                f"data.standardise: {', '.join(flat)} is the same in every pixel of the training "
                "images, so it cannot be standardised. Set data.standardise to none."
            )
        values: Any = {"mean": tuple(means.tolist()), "std": tuple(deviations.tolist())}
        contract = ImageContract(shape=shape, standardise=standardise, **values)
        return replace(self, contract_=contract)

    def as_in_run(self, samples: Samples) -> Self:
        """Return a copy of the source with the image size, means and deviations that a run stored.

        `samples` is read from the run's ``encoder.json``; damaged content is a `DataError`.
        """
        try:
            contract = ImageContract.model_validate(samples.preprocessing.content())
        except ValidationError as error:
            wrong = []
            for problem in error.errors():
                wrong.append(f"{problem['loc'][0]}: {problem['msg']}, found {problem['input']!r}")
            raise DataError(f"preprocessing contract: {'; '.join(wrong)}") from error
        return replace(self, contract_=contract)

    def in_run(self, preprocessing: PreprocessingRecord) -> Json:
        """Return the setting `standardise` of section ``data`` of a trained run, in a dictionary.

        `preprocessing` is the section ``preprocessing`` of ``encoder.json`` of the trained run,
        from which the value is taken.
        """
        return {"standardise": preprocessing.standardise}

    def contract(self) -> Samples:
        """Return image size, means and deviations for ``encoder.json``; empty before `fitted`."""
        if self.contract_ is None:
            return Samples()
        content = self.contract_.model_dump(mode="json")
        return Samples(preprocessing=PreprocessingRecord.model_validate(content))

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return height and width of the images in a cohort's store."""
        if cohort is None:
            raise ConfigError(
                "data.participants: missing. The size of images is that of their store: give the "
                "table that `neurocontrast images` wrote."
            )
        return self.images(cohort).image_shape[1:]

    def images(self, cohort: Cohort) -> ImageDataset:
        """Return a dataset of a cohort's images; refuse images of another size than in training."""
        images = ImageDataset(cohort)
        if self.contract_ is not None and tuple(images.image_shape) != self.contract_.shape:
            raise DataError(
                f"{cohort.source.name}: these images have {_size_text(images.image_shape)} pixels, "
                f"and the run was trained on {_size_text(self.contract_.shape)}. Prepare them in "
                "that size (images.size)."
            )
        return images

    def set_up(self, encoder: Encoder) -> None:
        """Set the network to standardise colours by means and deviations of the training images."""
        contract = self.contract_
        if contract is not None and contract.mean is not None and contract.std is not None:
            encoder.set_standardisation(contract.mean, contract.std)

    def contents(self, cohort: Cohort, progress: Progress) -> list[str]:
        """Return a list of digests, one of the pixels of each image, in the order of `cohort`."""
        with progress.task("Comparing images", None, "images"):
            return self.images(cohort).contents()

    def signatures(self, cohort: Cohort) -> list[tuple[int, ...]]:
        """Return a list with the size and times of change of each image store (file) of a cohort.

        A file that has changed is noticed by these numbers. The stores are sorted by path.
        """
        signatures: list[tuple[int, ...]] = []
        for _, store in self.files(cohort)["stores"]:
            signatures.append(signature_of([str(store)]))
        return signatures

    def files(self, cohort: Cohort) -> dict[str, list[tuple[str, Path]]]:
        """Return kind of file → list of (name, path): a cohort's image stores and vector files."""
        stores = set()
        for path in cohort.table["path"]:
            store, _ = split_image_path(str(path))
            stores.add(store)
        named = [(store.name, store) for store in sorted(stores)]
        return {"stores": named, **super().files(cohort)}

    def built_in_views(self, augment: ImageAugmentSettings) -> RandImageViewd:
        """Return the random transform of images that section ``augment`` describes."""
        return RandImageViewd("image", augment)


def _size_text(shape: Sequence[int]) -> str:
    """Return height and width of an image for messages: "32×32"."""
    return "×".join(map(str, shape[1:]))
