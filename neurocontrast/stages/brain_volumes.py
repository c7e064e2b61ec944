"""Scans of brains: preprocessed once, kept in a cache, read from the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from monai.transforms import Compose

from neurocontrast.config import Config, DataSettings
from neurocontrast.data import Cohort, CohortDataset, VolumeCache, fit_preprocessing
from neurocontrast.data.batches import Images
from neurocontrast.data.cache import VolumeTransforms, default_cache_folder
from neurocontrast.data.datasets import deterministic_part
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import ScanFiles, files_of
from neurocontrast.machine import describe_processor
from neurocontrast.progress import Progress
from neurocontrast.stages.image_source import ImageSource
from neurocontrast.transforms import AugmentSettings, brain_views
from neurocontrast.transforms.compose import apply
from neurocontrast.transforms.described import DescribedTransforms, build_transforms
from neurocontrast.transforms.description import GIVEN, Description
from neurocontrast.transforms.grids import Grid, preprocessed_grid
from neurocontrast.transforms.images import spacing_of
from neurocontrast.transforms.loading import read_scan_header
from neurocontrast.transforms.preprocessing import Preprocessing

__all__ = ["BrainVolumes"]


@dataclass(frozen=True)
class BrainVolumes(ImageSource):
    """Scans of brains.

    Parameters
    ----------
    data, augment
        As of every `ImageSource`.
    given : Compose, optional
        Transforms from Python, for ``data.transforms: [{_target_: python}]``.
    transforms : Preprocessing or DescribedTransforms
        What is done to each scan.
    columns : tuple of str, optional
        Columns that hold the files of each scan, where a run says which.
    cache_dtype : {'float16', 'float32'}
        Precision of the cache.
    """

    how_to_be_smaller: ClassVar[str] = "Lower data.shape (with a larger spacing_mm)."

    data: DataSettings
    given: Compose | None = None
    transforms: VolumeTransforms = field(default_factory=Preprocessing)
    cache_dtype: Literal["float16", "float32"] = "float32"
    columns: tuple[str, ...] | None = None

    @property
    def channels(self) -> tuple[str, ...] | None:
        """Columns that hold the files of a scan: those of the run, or of `data`."""
        return self.data.channels if self.columns is None else self.columns

    @property
    def n_channels(self) -> int:
        """Channels of a preprocessed image."""
        return self.transforms.image_shape[0]

    @property
    def cache(self) -> VolumeCache:
        """The cache of preprocessed volumes."""
        return VolumeCache(self.data.cache_dir, self.transforms, dtype=self.cache_dtype)

    def prepared(self, cohort: Cohort | None) -> Self:
        """Return the source with the preprocessing of `data`, or the user's transforms, tried on the first scan."""
        targets = self.data.transforms
        transforms = self.data.preprocessing if targets is None else self._tried(targets, cohort)
        return replace(self, transforms=transforms, cache_dtype=self.data.cache_dtype)

    def _tried(self, targets: Description, cohort: Cohort | None) -> DescribedTransforms:
        is_given = tuple(targets) == GIVEN
        if is_given and self.given is None:
            raise ConfigError("data.transforms: came from Python. Give them again: pretrain(..., transforms=...).")
        if cohort is None:
            raise ConfigError("data.participants: missing. The shape of what data.transforms make is that of a scan.")
        transform = self.given if is_given else build_transforms(targets, source="data.transforms")
        assert transform is not None
        found = deterministic_part(transform, cohort.scans[0])
        if len(found.transforms) != len(transform.flatten()):
            random = transform.flatten().transforms[len(found.transforms)]
            raise ConfigError(
                f"data.transforms: {type(random).__name__} is random, or is none of MONAI's Transform, and results are "
                "kept on the disk. Random transforms make views: give them as augment.transforms (augment=...)."
            )
        if len(found.image_shape) != 4:
            raise ConfigError(
                "data.transforms: must make images of shape (channels, D, H, W), found "
                f"{found.image_shape} for the first scan."
            )
        return replace(found, targets=None if is_given else targets)

    def fitted(self, cohort: Cohort, training: Sequence[int], validation: Sequence[int], progress: Progress) -> Self:
        """Return the source fitted on the scans of training."""
        if not self.transforms.unfitted:
            return self
        assert isinstance(self.transforms, Preprocessing)  # a user's transforms are complete
        of_training, of_validation = (cohort.subset(list(rows)) for rows in (training, validation))
        preprocessing = fit_preprocessing(
            self.transforms,
            of_training.scans,
            sites=list(of_training.table["site"]) if "site" in cohort.table else None,
            others=of_validation.scans,
            n_workers=self.data.n_workers,
            progress=progress,
        )
        return replace(self, transforms=preprocessing)

    def as_in_run(self, contract: Mapping[str, Any]) -> Self:
        """Return the source with a run's preprocessing, or a run's description of a user's transforms."""
        preprocessing = contract["preprocessing"]
        columns = tuple(map(str, contract.get("channels") or ("t1",)))
        chosen = replace(self, cache_dtype=contract.get("cache_dtype", self.cache_dtype), columns=columns)
        if "image_shape" in preprocessing:
            return replace(chosen, transforms=DescribedTransforms.from_contract(preprocessing, self.given))
        if self.given is not None:
            raise ConfigError(
                "transforms: the run has the package's own preprocessing (encoder.json), which is applied to every "
                "scan. Leave transforms out."
            )
        return replace(chosen, transforms=Preprocessing.from_contract(preprocessing))

    def contract(self) -> dict[str, Any]:
        """Return the contract of the transforms, and the precision of the cache, which changes last digits."""
        channels = {} if self.channels is None else {"channels": list(self.channels)}
        return {"preprocessing": self.transforms.contract(), "cache_dtype": self.cache_dtype, **channels}

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return the voxels along each axis."""
        del cohort
        return self.transforms.image_shape[1:]

    def images(self, cohort: Cohort) -> Images:
        """Return the cohort's volumes."""
        return CohortDataset.from_cache(cohort, self.cache)

    def make_ready(self, cohort: Cohort, progress: Progress) -> None:
        """Preprocess the scans that the cache does not hold."""
        self.cache.prepare(cohort.scans, n_workers=self.data.n_workers, progress=progress)

    def grid(self, scan: ScanFiles) -> Grid:
        """Return where the voxels of a scan's volume are, after `make_ready`."""
        if isinstance(self.transforms, Preprocessing):
            return preprocessed_grid(scan, self.transforms)
        affine = self.cache.affine_of(scan)
        return Grid(affine, spacing_of(affine), read_scan_header(files_of(scan)[0]).is_mni)

    def built_in_views(self, settings: Config) -> Any:
        """Return the views of volumes."""
        assert isinstance(settings.augment, AugmentSettings)
        return brain_views(settings.augment)

    def cache_folder(self) -> Path:
        """Return the folder of the cache."""
        return self.data.cache_dir or default_cache_folder()

    def pending(self, cohort: Cohort, clock: Callable[[], float]) -> tuple[int, float, int]:
        """Time one scan that is not preprocessed yet."""
        source = self.prepared(cohort)
        scans, preprocessing = cohort.scans, source.transforms
        # What is fitted decides where the cache keeps scans, and takes a reading of each before they are preprocessed.
        missing = scans if preprocessing.unfitted else source.cache.missing(scans)
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
        return len(missing), seconds / n_workers, len(missing) * source.cache.n_bytes

    def bytes_of_image(self, cohort: Cohort | None) -> int:
        """Return the size of a volume in the cache."""
        return self.prepared(cohort).cache.n_bytes
