"""Scans of brains: preprocessed once, kept in a cache, read from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from neurocontrast.augment import AugmentSettings, TwoViews
from neurocontrast.config import Config, DataSettings
from neurocontrast.data import (
    Cohort,
    Preprocessing,
    VolumeCache,
    VolumeDataset,
    default_cache_folder,
    fit_preprocessing,
    load_volume,
    read_cohort,
)
from neurocontrast.data.batches import Images
from neurocontrast.data.images.paths import check_kind
from neurocontrast.encoders import Encoder
from neurocontrast.machine import describe_processor
from neurocontrast.progress import Progress
from neurocontrast.stages.kinds.kind import Pending, StrPath
from neurocontrast.training import Views

__all__ = ["VolumeIntake", "VolumeKind"]


@dataclass(frozen=True)
class VolumeIntake:
    """A preprocessing, and the cache of what it makes."""

    preprocessing: Preprocessing
    cache_dir: Path | None
    cache_dtype: Literal["float16", "float32"]
    n_workers: int

    @property
    def is_fitted(self) -> bool:
        """Whether the preprocessing has its view and landmarks, or needs none."""
        return not self.preprocessing.unfitted

    @property
    def cache(self) -> VolumeCache:
        """Where volumes are kept."""
        return VolumeCache(self.cache_dir, self.preprocessing, dtype=self.cache_dtype)

    def fitted(
        self, cohort: Cohort, training: Sequence[int], validation: Sequence[int], progress: Progress
    ) -> VolumeIntake:
        """Return the same, fitted on the scans of training.

        Raises
        ------
        DataError
            Naming all scans, of either side, that cannot be used.
        """
        of_training, of_validation = (cohort.table.iloc[list(rows)] for rows in (training, validation))
        preprocessing = fit_preprocessing(
            self.preprocessing,
            [str(path) for path in of_training["path"]],
            sites=list(of_training["site"]) if "site" in cohort.table else None,
            others=[str(path) for path in of_validation["path"]],
            n_workers=self.n_workers,
            progress=progress,
        )
        return replace(self, preprocessing=preprocessing)

    def as_it_was(self, contract: Mapping[str, Any]) -> VolumeIntake:
        """Return the same with the preprocessing of a contract."""
        return replace(self, preprocessing=Preprocessing.from_contract(contract))

    def contract(self) -> dict[str, Any]:
        """Return the preprocessing's own contract."""
        return self.preprocessing.contract()

    def kept_as(self) -> dict[str, Any]:
        """Return the precision of the cache, which changes a volume's last digits."""
        return {"cache_dtype": self.cache_dtype}

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return the voxels along each axis, which the configuration says."""
        del cohort
        return self.preprocessing.shape

    def images(self, cohort: Cohort) -> Images:
        """Return the cohort's volumes."""
        return VolumeDataset(cohort, self.cache)

    def make_ready(self, cohort: Cohort, progress: Progress) -> None:
        """Preprocess what the cache does not hold."""
        paths = [str(path) for path in cohort.table["path"]]
        self.cache.prepare(paths, n_workers=self.n_workers, progress=progress)

    def set_up(self, encoder: Encoder) -> None:
        """Do nothing: volumes are normalised before the cache."""


@dataclass(frozen=True)
class VolumeKind:
    """Scans of brains as the section ``data`` describes them."""

    data: DataSettings
    how_to_be_smaller: ClassVar[str] = "Lower data.shape (with a larger spacing_mm)."

    def read_cohort(
        self, participants: StrPath, *, images_root: StrPath | None = None, check_images: bool = True
    ) -> Cohort:
        """Read a table of scans."""
        cohort = read_cohort(
            Path(participants),
            images_root=self.data.images_root if images_root is None else Path(images_root),
            images_pattern=self.data.images_pattern,
            check_images=check_images,
        )
        return check_kind(cohort, "volumes")

    def vectors(self, cohort: Cohort) -> dict[str, npt.NDArray[np.float32]]:
        """Return none."""
        del cohort
        return {}

    def record(self, cohort: Cohort) -> dict[str, Any]:
        """Return nothing: the cache serves no scan that has changed, and scans are many files."""
        del cohort
        return {}

    def check_unchanged(self, cohort: Cohort, provenance: Mapping[str, Any], folder: Path) -> None:
        """Do nothing, for the same reason."""

    def intake(self) -> VolumeIntake:
        """Return the preprocessing of the section ``data``."""
        data = self.data
        return VolumeIntake(data.preprocessing, data.cache_dir, data.cache_dtype, data.n_workers)

    def intake_of(self, contract: Mapping[str, Any]) -> VolumeIntake:
        """Return a run's own preprocessing, in the precision of its cache, in this machine's cache."""
        intake = replace(self.intake(), cache_dtype=contract.get("cache_dtype", "float32"))
        return intake.as_it_was(contract["preprocessing"])

    def views(self, settings: Config) -> Views:
        """Return the views of volumes."""
        assert isinstance(settings.augment, AugmentSettings)
        return TwoViews(settings.augment, seed=settings.seed)

    def facts(self) -> dict[str, Any]:
        """Return the preprocessing but for what is fitted."""
        return self.data.preprocessing.model_dump(mode="json", exclude={"landmarks", "view"})

    def cache_folder(self) -> Path:
        """Return the folder of the cache."""
        return self.data.cache_dir or default_cache_folder()

    def pending(self, cohort: Cohort, clock: Callable[[], float]) -> Pending:
        """Return how many scans are to be preprocessed, and how long that takes, by one of them."""
        intake, n_bytes = self.intake(), self.bytes_of_image()
        paths, preprocessing = [str(path) for path in cohort.table["path"]], intake.preprocessing
        # What is fitted decides where the cache keeps scans, and takes a reading of each before they are preprocessed.
        missing = paths if preprocessing.unfitted else intake.cache.missing(paths)
        if not missing:
            return 0, 0.0, 0
        n_readings = 1 + len(preprocessing.unfitted) - (preprocessing.common_view == "template")
        preprocessing = fit_preprocessing(preprocessing, missing[:1])
        start = clock()
        load_volume(missing[0], preprocessing)
        seconds = (clock() - start) * n_readings * len(missing)
        n_workers = min(self.data.n_workers, describe_processor()["n_usable"])
        return len(missing), seconds / n_workers, len(missing) * n_bytes

    def bytes_of_image(self) -> int:
        """Return the size of a volume in the cache."""
        return self.intake().cache.n_bytes
