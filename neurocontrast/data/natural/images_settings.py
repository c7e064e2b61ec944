"""Settings of a prepared data set of natural images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from neurocontrast.exceptions import one_of
from neurocontrast.settings import Settings

__all__ = ["SOURCES", "SPLITS", "SPLIT_OF_NAME", "ClusterSettings", "ImagesSettings"]

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

    Parameters
    ----------
    columns : sequence of str
        Columns of the table to cluster by; ``attr_*`` takes all that match.
    n_clusters : int or sequence of int
        Number of clusters; one number makes the column ``cluster``, several make ``cluster_3``, ``cluster_5`` ….
    """

    columns: Annotated[tuple[str, ...], Field(min_length=1)]
    n_clusters: NClusters | tuple[NClusters, ...] = 10

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.n_clusters, tuple) and len(set(self.n_clusters)) != max(1, len(self.n_clusters)):
            raise ValueError(f"n_clusters must be different numbers. Got {list(self.n_clusters)}.")
        return self


class ImagesSettings(Settings):
    """Choose which images are prepared, how they are divided, and what the table says of each.

    Parameters
    ----------
    dataset : str
        ``digits`` (scikit-learn's, always there), ``cifar10`` and ``cifar100`` (the official *binary* files, or
        class folders of pictures), ``mnist`` and ``fashion-mnist`` (idx files), or ``folder`` (pictures in class
        folders).
    source : path or None
        Folder or archive (``.tar``, ``.tar.gz``, ``.tar.xz``, ``.zip``) of the files; none for digits. A recipe may
        leave the source open, and `neurocontrast images` asks for one.
    name : str or None
        Beginning of the identifiers of the images; None takes the name of the data set, for folders that of the source.
    seed : int
        Seed of the split, the subset, the background and the clusters.
    size : int, pair of int, or None
        Pixels, or (height, width), that every image is scaled to: the shorter side fits, the longer is cropped at the
        centre. None keeps the size, which must then be one for all.
    validation_fraction : float
        Part of the training images, of each class alike, for validation where the source has no such split: 0.2 of
        CIFAR's 50,000 are the usual 10,000.
    test_fraction : float
        Part of all images for testing, where the source has no such split.
    n_train, n_validation, n_test : int or None
        Number of images of each split to keep, of each class alike; None for all. A smaller subset is part of a larger
        one of the same seed.
    background : {'random'} or None
        ColorMNIST of Tsai et al. (ICLR 2022): behind grey pictures one of ten colours plus normal noise, as the columns
        ``background_red``, ``_green`` and ``_blue`` (0 to 1).
    background_sd : float
        Standard deviation of that noise, in values of 0 to 255.
    attributes : path or None
        Table (``.tsv`` or ``.csv``) of further columns, with a row for every image.
    attributes_key : str or None
        Column of that table with the file of each image; ``participant_id`` for identifiers in place of files.
    clusters : ClusterSettings or None
        Groups by k-means.
    """

    dataset: Annotated[str, AfterValidator(_known_source)] = "digits"
    source: Path | None = None
    name: Name | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    size: Pixels | tuple[Pixels, Pixels] | None = None
    validation_fraction: Fraction = 0.2
    test_fraction: Fraction = 0.2
    n_train: Count | None = None
    n_validation: Count | None = None
    n_test: Count | None = None
    background: Literal["random"] | None = None
    background_sd: Annotated[float, Field(ge=0.0, le=255.0, allow_inf_nan=False)] = 40.0
    attributes: Path | None = None
    attributes_key: str | None = None
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
