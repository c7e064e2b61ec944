"""Settings of natural images: section ``data`` of a run, and settings of `neurocontrast images`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from neurocontrast.data.settings import TableSettings
from neurocontrast.settings import Settings

SPLITS = ("train", "validation", "test")
"""Names of the splits of a prepared data set."""
DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "augment": {"kind": "images"},
    "encoder": {"name": "resnet18"},
    "training": {"probe_columns": ["label"]},
    "objective": {"loss": "ntxent"},
}
"""Section of a configuration → defaults for images, where the defaults for scans would not do."""

_Fraction = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]
_Pixels = Annotated[int, Field(ge=4, le=4096)]
_FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]


class ImageDataSettings(TableSettings):
    """Choose natural images, and how the network standardises their colours."""

    kind: Literal["images"]
    """Kind of the samples: natural images, as `neurocontrast images` prepares."""
    images_root: Path | None = None
    """Folder that relative image paths in the table start from; None for the folder of the
    table.
    """
    n_workers: Annotated[int, Field(ge=1)] = 2
    """Number of threads that read batches."""
    standardise: Literal["channels", "none"] = "channels"
    """Whether the network standardises each colour by its mean and standard deviation over the
    training images."""


class ImagesSettings(Settings):
    """Choose which images are prepared, how they are divided, and the columns of their table.

    See docs/images.md.
    """

    dataset: Literal["digits", "cifar10", "cifar100", "mnist", "fashion-mnist", "folder"] = "digits"
    """Data set, by the format of its files: a published one, or any folder with a folder for
    each class.
    """
    source: Path | None = None
    """Folder or archive with the files of the data set; None for digits."""
    name: _FileName | None = None
    """Beginning of identifiers; None for the name of the data set, or of the source for a
    folder.
    """
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the split, of the subset, and of background colours."""
    size: _Pixels | tuple[_Pixels, _Pixels] | None = None
    """Height and width in pixels that images are scaled to cover, and cropped to; None keeps
    the size.
    """
    validation_fraction: _Fraction = 0.2
    """Share of the training images of each class for validation, if the source has no such
    split.
    """
    test_fraction: _Fraction = 0.2
    """Share of all images of each class for the test, if the source has no such split."""
    n_train: _Count | None = None
    """Number of training images to keep, alike for each class; None keeps all. A smaller subset
    is part of a larger one.
    """
    n_validation: _Count | None = None
    """Number of images to keep for validation; None keeps all."""
    n_test: _Count | None = None
    """Number of images to keep for the test; None keeps all."""
    background: Literal["random"] | None = None
    """Background to lay behind grey pictures: ``random`` for one of ten colours plus noise, as
    ColorMNIST.
    """
    background_sd: Annotated[float, Field(ge=0.0, le=255.0, allow_inf_nan=False)] = 40.0
    """Standard deviation of the noise on background colours, whose values go from 0 to 255."""

    @model_validator(mode="after")
    def _check(self) -> ImagesSettings:
        if self.dataset == "digits" and self.source is not None:
            raise ValueError(
                "source is not used by dataset 'digits', which comes with scikit-learn; name the "
                "dataset."
            )
        return self
