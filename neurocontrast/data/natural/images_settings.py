"""Settings of a prepared data set of natural images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from neurocontrast.settings import Settings

SPLITS = ("train", "validation", "test")

Fraction = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Pixels = Annotated[int, Field(ge=4, le=4096)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]


class ImagesSettings(Settings):
    """Choose which images are prepared, how they are divided, and what the table says of each; see docs/images.md."""

    dataset: Literal["digits", "cifar10", "cifar100", "mnist", "fashion-mnist", "folder"] = "digits"
    """Format of the files: a published data set, or any folder with a folder for each class."""
    source: Path | None = None
    """Folder or archive of the files; none for digits."""
    name: Name | None = None
    """Beginning of identifiers; None for the name of the data set, or of the source of a folder."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the split, the subset and the background."""
    size: Pixels | tuple[Pixels, Pixels] | None = None
    """Height and width that images are scaled to cover, and cropped to; None keeps their size."""
    validation_fraction: Fraction = 0.2
    """Part of the training images of each class, where the source has no such split."""
    test_fraction: Fraction = 0.2
    """Part of all images of each class, where the source has no such split."""
    n_train: Count | None = None
    """Images to keep, of each class alike; a smaller subset is part of a larger one."""
    n_validation: Count | None = None
    """Images to keep for validation."""
    n_test: Count | None = None
    """Images to keep for the test."""
    background: Literal["random"] | None = None
    """ColorMNIST: behind grey pictures one of ten colours plus noise."""
    background_sd: Annotated[float, Field(ge=0.0, le=255.0, allow_inf_nan=False)] = 40.0
    """Standard deviation of the noise of colours, which go from 0 to 255."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.dataset == "digits" and self.source is not None:
            raise ValueError("source is not used by dataset 'digits', which comes with scikit-learn; name the dataset.")
        return self
