"""What can be chosen when a data set of natural images is prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from neurocontrast.settings import Settings

__all__ = ["ClusterSettings", "Dataset", "ImagesSettings"]

Dataset = Literal["digits", "cifar10", "cifar100", "mnist", "fashion-mnist", "folder"]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Pixels = Annotated[int, Field(ge=4, le=4096)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]


class ClusterSettings(Settings):
    """Groups of images by k-means, fitted on the training images.

    Parameters
    ----------
    columns : sequence of str
        Columns of the table to cluster by; ``attr_*`` takes all that match.
    vector : str or None
        One of the prepared `vectors`, instead of columns.
    n_clusters : int or sequence of int
        Number of clusters; one number makes the column ``cluster``, several make ``cluster_3``, ``cluster_5`` ….
    """

    columns: tuple[str, ...] = ()
    vector: str | None = None
    n_clusters: Annotated[int, Field(ge=2, le=100_000)] | tuple[Annotated[int, Field(ge=2, le=100_000)], ...] = 10

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.columns) == (self.vector is not None):
            raise ValueError("give either columns or a vector to cluster by.")
        if isinstance(self.n_clusters, tuple) and len(set(self.n_clusters)) != max(1, len(self.n_clusters)):
            raise ValueError(f"n_clusters must be different numbers. Got {list(self.n_clusters)}.")
        return self


class ImagesSettings(Settings):
    """Which images are prepared, how they are divided, and what is known about each.

    Parameters
    ----------
    dataset : str
        ``digits`` (scikit-learn's, always there), ``cifar10`` and ``cifar100`` (the official *binary* files, or
        class folders of pictures), ``mnist`` and ``fashion-mnist`` (idx files), or ``folder`` (pictures in class
        folders).
    source : path or None
        Folder or archive (``.tar``, ``.tar.gz``, ``.tar.xz``, ``.zip``) that holds the files; none for digits. A recipe
        may leave it open, and `neurocontrast images` asks for it.
    name : str or None
        Begins the identifiers of the images; None takes the data set's name, for folders that of the source.
    seed : int
        Of the split, the subset, the background and the clusters.
    size : int, pair of int, or None
        Pixels, or (height, width), that every image is scaled to: the shorter side fits, the longer is cropped at its
        centre. None keeps the size, which must then be one for all.
    validation_fraction : float
        Part of the training images, of each class alike, that is set aside for validation where the source has no
        such split: 0.2 of CIFAR's 50,000 are the usual 10,000.
    test_fraction : float
        Part of all images for testing, where the source has no such split.
    n_train, n_validation, n_test : int or None
        A stated subset: so many images of each split, of each class alike; None for all. A smaller subset is part of a
        larger one of the same seed.
    classes : sequence of str or None
        Names of the classes to keep; None for all.
    background : {'random', 'uniform'} or None
        A coloured background behind grey pictures, as the columns ``background_red``, ``_green`` and ``_blue`` (0 to
        1). ``random`` is ColorMNIST of Tsai et al. (ICLR 2022): one of ten colours, plus normal noise of
        `background_sd`; ``uniform`` draws from all colours alike.
    background_sd : float
        Standard deviation of that noise, in values of 0 to 255.
    attributes : path or None
        Table (``.tsv``, ``.csv``, ``.parquet``) of further columns.
    attributes_key : str or None
        Its column that names the file of each image; ``participant_id``: by the identifiers given here, for sources
        whose images have no files of their own. None joins row by row, in the order of the source.
    label_column, split_column : str or None
        Its columns that give the class, and the split, where folders do not.
    unmatched : {'error', 'drop'}
        What is done with images that have no row in that table.
    vectors : mapping of str to path
        Name → ``.npy`` (one row an image, in the order of the source) or ``.parquet`` (with a column ``file``, or in
        that order) of continuous features, for instance CLIP's; written to ``vectors/<name>.parquet``.
    clusters : ClusterSettings or None
        Groups by k-means.
    """

    dataset: Dataset = "digits"
    source: Path | None = None
    name: Name | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    size: Pixels | tuple[Pixels, Pixels] | None = None
    validation_fraction: Fraction = 0.2
    test_fraction: Fraction = 0.2
    n_train: Count | None = None
    n_validation: Count | None = None
    n_test: Count | None = None
    classes: tuple[str, ...] | None = None
    background: Literal["random", "uniform"] | None = None
    background_sd: Annotated[float, Field(ge=0.0, le=255.0, allow_inf_nan=False)] = 40.0
    attributes: Path | None = None
    attributes_key: str | None = None
    label_column: str | None = None
    split_column: str | None = None
    unmatched: Literal["error", "drop"] = "error"
    vectors: dict[Name, Path] = Field(default_factory=dict)
    clusters: ClusterSettings | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.dataset == "digits" and self.source is not None:
            raise ValueError("source is not used by dataset 'digits', which comes with scikit-learn; name the dataset.")
        for key in ("attributes_key", "label_column", "split_column"):
            if getattr(self, key) is not None and self.attributes is None:
                raise ValueError(f"{key} names a column of attributes, and no attributes are given.")
        if self.clusters is not None and self.clusters.vector is not None and self.clusters.vector not in self.vectors:
            raise ValueError(f"clusters.vector: '{self.clusters.vector}' is not one of vectors ({list(self.vectors)}).")
        return self
