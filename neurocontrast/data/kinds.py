"""Base class and registry for kinds of samples besides brain scans and regional measures.

A kind is added by registering it in `KINDS`, as the package `neurocontrast.natural` does for
natural images.
"""

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
    """Kind of samples besides brain scans and regional measures: settings, reading and checks.

    The package that adds a kind writes a subclass of `SampleKind`, and registers in `KINDS` a
    function that returns an instance; `neurocontrast.natural`, for instance, adds natural images.
    """

    name: ClassVar[str]
    """Name of the kind in the setting ``data.kind`` and in ``encoder.json``."""
    title: ClassVar[str]
    """Name of the samples in messages: "natural images"."""
    items: ClassVar[str]
    """Noun for counts of the samples: "images"."""
    files: ClassVar[str]
    """Words for the files that hold the samples, for messages."""
    content: ClassVar[str]
    """Words for the parts of a sample that a deep `check` reads, for messages."""
    data: ClassVar[type[Settings]]
    """Class of settings for the configuration's section ``data``."""

    @abstractmethod
    def source(
        self, data: AnyDataSettings, augment: Transform | None, frame: pd.DataFrame | None
    ) -> Source:
        """Return the source of samples that the configuration's section ``data`` describes.

        `augment` is a transform that makes views, and `frame` a table in place of
        ``data.participants``, both from Python.
        """

    @abstractmethod
    def inspect(
        self, cohort: Cohort, problems: Problems, *, deep: bool, progress: Progress
    ) -> tuple[str, ...]:
        """Return warnings about the samples of a cohort, and add errors to `problems`.

        `deep` reads the whole content of each sample.
        """

    @abstractmethod
    def summarise(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a DataFrame with counts of samples: a row for each part of `table`, one for all.

        A part is for instance train or test. The last row counts the samples of all parts.
        """


KINDS: Registry[SampleKind] = Registry()
"""Kinds of samples by their name in the setting ``data.kind``."""
