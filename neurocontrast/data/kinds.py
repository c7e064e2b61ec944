"""Kinds of samples beside scans and measures of brains, each registered by its own room."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from neurocontrast.registry import Registry

if TYPE_CHECKING:
    import pandas as pd
    from monai.transforms import Transform

    from neurocontrast.data.cohort import Cohort
    from neurocontrast.data.problems import Problems
    from neurocontrast.data.settings import AnyDataSettings
    from neurocontrast.data.sources.source import Source
    from neurocontrast.progress import Progress
    from neurocontrast.settings import Settings


class SampleKind(ABC):
    """Kind of samples that are no brains: how its data are chosen, read and checked."""

    name: ClassVar[str]
    """Name in ``data.kind`` and in ``encoder.json``."""
    title: ClassVar[str]
    """Samples as messages name them: "natural images"."""
    items: ClassVar[str]
    """Samples as they are counted: "images"."""
    files: ClassVar[str]
    """Files that hold samples."""
    content: ClassVar[str]
    """Parts of samples that a deep `check` reads."""
    data: ClassVar[type[Settings]]
    """Settings of the section ``data``."""

    @abstractmethod
    def source(
        self, data: AnyDataSettings, augment: Transform | None, frame: pd.DataFrame | None
    ) -> Source:
        """Return the source that the section ``data`` describes.

        `augment` and `frame` are a transform and a table from Python.
        """

    @abstractmethod
    def inspect(
        self, cohort: Cohort, problems: Problems, *, deep: bool, progress: Progress
    ) -> tuple[str, ...]:
        """Return doubts about samples, and add errors to `problems`.

        `deep` reads the whole content of each sample.
        """

    @abstractmethod
    def summarise(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the counts of a table by its parts; the last row counts all."""


KINDS: Registry[SampleKind] = Registry()
"""Kinds by their name in ``data.kind``."""
