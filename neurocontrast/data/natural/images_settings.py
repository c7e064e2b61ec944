"""Settings of a prepared data set of natural images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from neurocontrast.exceptions import one_of
from neurocontrast.settings import Settings

SOURCES = {
    "digits": "neurocontrast.data.natural.sources:read_digits",
    "cifar10": "neurocontrast.data.natural.sources:read_cifar",
    "cifar100": "neurocontrast.data.natural.sources:read_cifar",
    "mnist": "neurocontrast.data.natural.sources:read_mnist",
    "fashion-mnist": "neurocontrast.data.natural.sources:read_mnist",
    "folder": "neurocontrast.data.natural.pictures:read_class_folders",
}
"""Setting ``images.dataset`` → import path of a function ``read(settings, files)`` that returns `Pictures`."""

SPLITS = ("train", "validation", "test")
SPLIT_OF_NAME = {
    **{"train": "train", "training": "train", "test": "test", "testing": "test"},
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
}
"""Names of folders that are splits, in lower case."""


def _known_source(name: str) -> str:
    if name not in SOURCES:
        known = one_of(SOURCES)
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": known})
    return name


Fraction = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Pixels = Annotated[int, Field(ge=4, le=4096)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
NClusters = Annotated[int, Field(ge=2, le=100_000)]


class ClusterSettings(Settings):
    """Group images by k-means, fitted on the training images.

    One number of clusters makes the column ``cluster``, several make ``cluster_3``, ``cluster_5`` ….
    """

    columns: Annotated[tuple[str, ...], Field(min_length=1)]  # to cluster by; ``attr_*`` takes all that match
    n_clusters: NClusters | tuple[NClusters, ...] = 10

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.n_clusters, tuple) and len(set(self.n_clusters)) != max(1, len(self.n_clusters)):
            raise ValueError(f"n_clusters must be different numbers. Got {list(self.n_clusters)}.")
        return self


class ImagesSettings(Settings):
    """Choose which images are prepared, how they are divided, and what the table says of each; see docs/images.md."""

    dataset: Annotated[str, AfterValidator(_known_source)] = "digits"
    source: Path | None = None  # folder or archive of the files; none for digits
    name: Name | None = None  # beginning of identifiers; None for that of the data set, or of a folder's source
    seed: Annotated[int, Field(ge=0)] = 0  # of the split, the subset, the background and the clusters
    size: Pixels | tuple[Pixels, Pixels] | None = None  # (height, width), covered and cropped; None keeps the size
    validation_fraction: Fraction = 0.2  # of the training images of each class, where the source has no such split
    test_fraction: Fraction = 0.2  # of all images of each class, where the source has no such split
    n_train: Count | None = None  # images to keep, of each class alike; a smaller subset is part of a larger one
    n_validation: Count | None = None
    n_test: Count | None = None
    background: Literal["random"] | None = None  # ColorMNIST: behind grey pictures one of ten colours plus noise
    background_sd: Annotated[float, Field(ge=0.0, le=255.0, allow_inf_nan=False)] = 40.0  # of the noise, of 0 to 255
    attributes: Path | None = None  # table of further columns, with a row for every image
    attributes_key: str | None = None  # its column with the file, or the ``participant_id``, of each image
    clusters: ClusterSettings | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.dataset == "digits" and self.source is not None:
            raise ValueError("source is not used by dataset 'digits', which comes with scikit-learn; name the dataset.")
        if self.attributes_key is not None and self.attributes is None:
            raise ValueError("attributes_key names a column of attributes, and no attributes are given.")
        if self.attributes is not None and self.attributes_key is None:
            raise ValueError("attributes_key is missing: the column of attributes that names the file of each image.")
        return self
