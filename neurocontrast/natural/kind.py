"""Natural images as a kind of samples (`SampleKind`), for settings, sources and checks of data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.data.kinds import SampleKind
from neurocontrast.natural.checking import inspect_images, summarise_images
from neurocontrast.natural.settings import ImageDataSettings

if TYPE_CHECKING:
    import pandas as pd
    from monai.transforms import Transform

    from neurocontrast.data.cohort import Cohort
    from neurocontrast.data.problems import Problems
    from neurocontrast.data.settings import AnyDataSettings
    from neurocontrast.natural.source import NaturalImages
    from neurocontrast.progress import Progress


class NaturalImagesKind(SampleKind):
    """Natural images as a kind of samples, read from stores of pixels."""

    name = "images"
    title = "natural images"
    items = "images"
    files = "stores"
    content = "pixels"
    data = ImageDataSettings

    def source(
        self, data: AnyDataSettings, augment: Transform | None, frame: pd.DataFrame | None
    ) -> NaturalImages:
        """Return the source of natural images that the section ``data`` describes."""
        from neurocontrast.natural.source import NaturalImages  # loads PyTorch

        assert isinstance(data, ImageDataSettings)
        return NaturalImages(data, augment, frame)

    def inspect(
        self, cohort: Cohort, problems: Problems, *, deep: bool, progress: Progress
    ) -> tuple[str, ...]:
        """Return warnings about the images of a cohort, as texts, and add errors to `problems`.

        An error is a path that names no usable image. With `deep`, every pixel is read, and images
        of the cohort that are the same, byte by byte, are a warning.
        """
        return inspect_images(cohort, problems, deep=deep, progress=progress)

    def summarise(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table of the numbers of images and classes for each split, and for all images.

        `table` is the table of images.
        """
        return summarise_images(table)
