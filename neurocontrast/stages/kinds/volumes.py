"""Scans of brains: preprocessed once, kept in a cache, read from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from monai.transforms import Compose, Transform

from neurocontrast.config import Config, DataSettings
from neurocontrast.data import (
    Cohort,
    CohortDataset,
    VolumeCache,
    default_cache_folder,
    fit_preprocessing,
    read_cohort,
)
from neurocontrast.data.batches import Images
from neurocontrast.data.cache import VolumeTransforms
from neurocontrast.data.datasets import deterministic_part
from neurocontrast.encoders import Encoder
from neurocontrast.exceptions import ConfigError
from neurocontrast.machine import describe_processor
from neurocontrast.progress import Progress
from neurocontrast.stages.kinds.kind import Pending, StrPath, check_augment, check_kind, record_of, two_views
from neurocontrast.training import Views
from neurocontrast.transforms import AugmentSettings, brain_views
from neurocontrast.transforms.compose import apply
from neurocontrast.transforms.described import DescribedTransforms
from neurocontrast.transforms.description import GIVEN, Description
from neurocontrast.transforms.grids import Grid, preprocessed_grid
from neurocontrast.transforms.images import spacing_of
from neurocontrast.transforms.loading import read_scan_header
from neurocontrast.transforms.preprocessing import Preprocessing
from neurocontrast.transforms.targets import build_transforms

__all__ = ["VolumeIntake", "VolumeKind"]


@dataclass(frozen=True)
class VolumeIntake:
    """What is done to each scan, and the cache of its results; `given` are transforms of a user's, from Python."""

    transforms: VolumeTransforms
    cache_dir: Path | None
    cache_dtype: Literal["float16", "float32"]
    n_workers: int
    given: Compose | None = None

    @property
    def is_fitted(self) -> bool:
        """Whether the transforms have what is fitted on a cohort, or need nothing."""
        return not self.transforms.unfitted

    @property
    def cache(self) -> VolumeCache:
        """Where volumes are kept."""
        return VolumeCache(self.cache_dir, self.transforms, dtype=self.cache_dtype)

    def fitted(
        self, cohort: Cohort, training: Sequence[int], validation: Sequence[int], progress: Progress
    ) -> VolumeIntake:
        """Return the same, fitted on the scans of training.

        Raises
        ------
        DataError
            Naming all scans, of either side, that cannot be used.
        """
        assert isinstance(self.transforms, Preprocessing)  # transforms of a user's are complete
        of_training, of_validation = (cohort.table.iloc[list(rows)] for rows in (training, validation))
        if self.is_fitted:
            return self
        assert isinstance(self.transforms, Preprocessing)  # nothing else is fitted
        preprocessing = fit_preprocessing(
            self.transforms,
            [str(path) for path in of_training["path"]],
            sites=list(of_training["site"]) if "site" in cohort.table else None,
            others=[str(path) for path in of_validation["path"]],
            n_workers=self.n_workers,
            progress=progress,
        )
        return replace(self, transforms=preprocessing)

    def as_it_was(self, contract: Mapping[str, Any]) -> VolumeIntake:
        """Return the same with the preprocessing, or the transforms, of a contract."""
        if "image_shape" in contract:
            return replace(self, transforms=DescribedTransforms.from_contract(contract, self.given))
        if self.given is not None:
            raise ConfigError(
                "transforms: the run has the package's own preprocessing (encoder.json), which is applied to every "
                "scan. Leave transforms out."
            )
        return replace(self, transforms=Preprocessing.from_contract(contract))

    def contract(self) -> dict[str, Any]:
        """Return the transforms' own contract."""
        return self.transforms.contract()

    def kept_as(self) -> dict[str, Any]:
        """Return the precision of the cache, which changes a volume's last digits."""
        return {"cache_dtype": self.cache_dtype}

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return the voxels along each axis, which the transforms say."""
        del cohort
        return self.transforms.image_shape[1:]

    def images(self, cohort: Cohort) -> Images:
        """Return the cohort's volumes."""
        return CohortDataset.from_cache(cohort, self.cache)

    def grid(self, path: str) -> Grid:
        """Return where the voxels of a scan's volume are; made ready before, if by transforms of a user's."""
        if isinstance(self.transforms, Preprocessing):
            return preprocessed_grid(path, self.transforms)
        affine = self.cache.affine_of(path)
        return Grid(affine, spacing_of(affine), read_scan_header(path).is_mni)

    def make_ready(self, cohort: Cohort, progress: Progress) -> None:
        """Preprocess what the cache does not hold."""
        paths = [str(path) for path in cohort.table["path"]]
        self.cache.prepare(paths, n_workers=self.n_workers, progress=progress)

    def set_up(self, encoder: Encoder) -> None:
        """Do nothing: volumes are normalised before the cache."""


@dataclass(frozen=True)
class VolumeKind:
    """Scans of brains as the section ``data`` describes them, with the transforms of a user's that came from Python."""

    data: DataSettings
    transforms: Compose | None = None
    augment: Transform | None = None
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
        """Return the views that came from Python; the cache serves no scan that has changed, and scans are many."""
        del cohort
        return record_of(self.augment)

    def check_unchanged(self, cohort: Cohort, provenance: Mapping[str, Any], folder: Path) -> None:
        """Refuse other views from Python than those that the run began with."""
        del cohort
        check_augment(self.augment, provenance, folder)

    def intake(self, cohort: Cohort | None = None) -> VolumeIntake:
        """Return the preprocessing of the section ``data``, or the user's transforms in its place.

        Raises
        ------
        ConfigError, DataError
            For transforms that cannot be used, or without a cohort to try them on.
        """
        data = self.data
        preprocessing = data.preprocessing if data.transforms is None else self._users(data.transforms, cohort)
        return VolumeIntake(preprocessing, data.cache_dir, data.cache_dtype, data.n_workers, self.transforms)

    def _users(self, targets: Description, cohort: Cohort | None) -> DescribedTransforms:
        is_given = tuple(targets) == GIVEN
        if is_given and self.transforms is None:
            raise ConfigError("data.transforms: came from Python. Give them again: pretrain(..., transforms=...).")
        if cohort is None:
            raise ConfigError("data.participants: missing. The shape of what data.transforms make is that of a scan.")
        transform = self.transforms if is_given else build_transforms(targets, source="data.transforms")
        assert transform is not None
        found = deterministic_part(transform, str(cohort.table["path"].iloc[0]))
        if len(found.transforms) != len(transform.flatten()):
            random = transform.flatten().transforms[len(found.transforms)]
            raise ConfigError(
                f"data.transforms: {type(random).__name__} is random, or is none of MONAI's Transform, and results are "
                "kept on the disk. Random transforms make views: give them as augment.transforms (augment=...)."
            )
        if len(found.image_shape) != 4 or found.image_shape[0] != 1:
            raise ConfigError(
                "data.transforms: must make images of shape (1, D, H, W), found "
                f"{found.image_shape} for the first scan."
            )
        return replace(found, targets=None if is_given else targets)

    def intake_of(self, contract: Mapping[str, Any]) -> VolumeIntake:
        """Return a run's own preprocessing, in the precision of its cache, in this machine's cache."""
        data, dtype = self.data, contract.get("cache_dtype", "float32")
        intake = VolumeIntake(Preprocessing(), data.cache_dir, dtype, data.n_workers, self.transforms)
        return intake.as_it_was(contract["preprocessing"])

    def views(self, settings: Config) -> Views:
        """Return the views of volumes."""
        assert isinstance(settings.augment, AugmentSettings)
        return two_views(settings, self.augment, built_in=brain_views)

    def facts(self) -> dict[str, Any]:
        """Return the preprocessing but for what is fitted, or the description of the user's transforms."""
        if self.data.transforms is not None:
            return {"transforms": list(self.data.transforms)}
        return self.data.preprocessing.model_dump(mode="json", exclude={"landmarks", "view"})

    def cache_folder(self) -> Path:
        """Return the folder of the cache."""
        return self.data.cache_dir or default_cache_folder()

    def pending(self, cohort: Cohort, clock: Callable[[], float]) -> Pending:
        """Return how many scans are to be preprocessed, and how long that takes, by one of them."""
        intake = self.intake(cohort)
        paths, preprocessing = [str(path) for path in cohort.table["path"]], intake.transforms
        # What is fitted decides where the cache keeps scans, and takes a reading of each before they are preprocessed.
        missing = paths if preprocessing.unfitted else intake.cache.missing(paths)
        if not missing:
            return 0, 0.0, 0
        n_readings = 1
        if isinstance(preprocessing, Preprocessing):
            n_readings += len(preprocessing.unfitted) - (preprocessing.common_view == "template")
            preprocessing = fit_preprocessing(preprocessing, missing[:1])
        start = clock()
        apply(preprocessing.compose(), {"image": missing[0]})
        seconds = (clock() - start) * n_readings * len(missing)
        n_workers = min(self.data.n_workers, describe_processor()["n_usable"])
        return len(missing), seconds / n_workers, len(missing) * intake.cache.n_bytes

    def bytes_of_image(self, cohort: Cohort | None = None) -> int:
        """Return the size of a volume in the cache."""
        return self.intake(cohort).cache.n_bytes
