"""Source of brain scans: preprocessed once, kept in a cache, read from the cache."""

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import nibabel as nib
import numpy as np
import pandas as pd
from monai.transforms import Compose
from nibabel.spatialimages import SpatialImage

from neurocontrast.data.batches import Images
from neurocontrast.data.cache import VolumeCache, VolumeTransforms
from neurocontrast.data.cohort import Cohort, columns_of
from neurocontrast.data.datasets import CohortDataset, deterministic_part
from neurocontrast.data.entries import signature_of
from neurocontrast.data.quality import doubts_about_extents, warn_of_headers
from neurocontrast.data.settings import DataSettings
from neurocontrast.data.sources.source import Source
from neurocontrast.documents.encoder import PreprocessingRecord, Samples
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import ScanFiles, files_of
from neurocontrast.progress import Progress
from neurocontrast.transforms import AugmentSettings, brain_views
from neurocontrast.transforms.described import DescribedTransforms
from neurocontrast.transforms.grids import Grid, preprocessed_grid
from neurocontrast.transforms.images import spacing_of
from neurocontrast.transforms.loading import read_scan, read_scan_header
from neurocontrast.transforms.preprocessing import Preprocessing
from neurocontrast.transforms.template import extent_of

_N_SCANS_IN_DOUBT = 8
"""Number of scans whose extent is measured, to warn of whole heads and unregistered brains."""
_Scan = str | os.PathLike | SpatialImage


@dataclass(frozen=True)
class BrainVolumes(Source):
    """Source of brain scans: preprocessed once, kept in a cache, read from the cache."""

    views_revision: ClassVar[int] = 2  # 2: views of a whole batch at once, November 2026

    data: DataSettings
    python_transforms: Compose | None = None
    """Preprocessing that the user passes in Python, for the setting ``data.transforms: python``.

    None to preprocess by the settings `data`.
    """
    transforms: VolumeTransforms = field(default_factory=Preprocessing)
    cache_dtype: Literal["float16", "float32"] = "float32"
    columns: tuple[str, ...] | None = None
    """Table columns with the files of each scan, as a trained run records; None before training."""

    @property
    def channels(self) -> tuple[str, ...] | None:
        """Names of the table columns with a scan's files, one column for each channel.

        In a source made from a trained run they are `columns`, as the run records; before training
        they are the setting ``data.channels``.
        """
        if self.columns is not None:
            return self.columns
        return self.data.channels

    @property
    def n_channels(self) -> int:
        """Number of channels of a preprocessed image."""
        return self.transforms.image_shape[0]

    @property
    def cache(self) -> VolumeCache:
        """Cache of the volumes that the source's `transforms` make, in ``data.cache_dir``."""
        data = self.data
        return VolumeCache(
            data.cache_dir, self.transforms, dtype=self.cache_dtype, shared=data.cache_shared
        )

    def cohort_of(self, scans: Any, folder: Path) -> Cohort:
        """Return a cohort with the paths of `scans`; write nibabel images in memory to `folder`.

        The cohort then has the paths of the written files. `scans` has one path or image a scan, or
        a tuple of one a channel, or is a DataFrame with columns of paths. Relative paths start from
        ``data.images_root``, by default the working directory.
        """
        channels = columns_of(self.channels)
        listed = _scans_of(scans, channels)
        names = [f"scan {row}" for row in range(len(listed))]
        table = pd.DataFrame({"participant_id": names, "subject_id": names, "session": ""})
        for channel, column in enumerate(channels):
            paths = []
            for row, scan in enumerate(listed):
                target = folder / f"{row:04d}-{channel}.nii"
                paths.append(str(_path_of(scan[channel], self.data.images_root, target)))
            table[column] = paths
        return Cohort(table, Path("scans"), channels=channels)

    def kept_in(self, folder: Path) -> Self:
        """Return a copy of the source whose cache of preprocessed volumes is in `folder`."""
        return replace(self, data=self.data.model_copy(update={"cache_dir": folder}))

    def prepared(self, cohort: Cohort | None, rows: Sequence[int] = ()) -> Self:
        """Return a copy of the source with preprocessing: a user's Python transforms, or built-in.

        With the setting ``data.transforms: python``, `python_transforms`, which the user passes in
        Python, preprocess the scans; they are tried on the first scan of `cohort`, to find the
        shape of the images that they make. Otherwise the other settings of section ``data``
        describe the preprocessing. `rows` is not used.
        """
        del rows
        transforms: VolumeTransforms = self.data.preprocessing
        if self.data.transforms is not None:
            transforms = self._tried(cohort)
        return replace(self, transforms=transforms, cache_dtype=self.data.cache_dtype)

    def _tried(self, cohort: Cohort | None) -> DescribedTransforms:
        """Return the user's transforms with the shape of images that they make, as one object.

        The `DescribedTransforms` has the transforms `python_transforms`, which the user passes in
        Python, and their `image_shape`, found on the first scan of `cohort`, with ``--skip`` the
        first that can be read. Random transforms are a `ConfigError`.
        """
        transform = self.python_transforms
        if transform is None:
            raise ConfigError(
                "data.transforms: came from Python. Give them again: pretrain(..., transforms=...)."
            )
        if cohort is None:
            raise ConfigError(
                "data.participants: missing. The shape of what data.transforms make is that of a "
                "scan."
            )
        scan = cohort.scans[0]
        if self.skips:
            scan = _first_readable(cohort.scans)
        described = deterministic_part(transform, scan)
        n_deterministic = len(described.transforms)
        if n_deterministic != len(transform.flatten()):
            random = transform.flatten().transforms[n_deterministic]
            raise ConfigError(
                f"data.transforms: {type(random).__name__} is random, or is none of MONAI's "
                "Transform, and results are kept on the disk. Random transforms make views: give "
                "them as augment.transforms (augment=...)."
            )
        if len(described.image_shape) != 4:
            raise ConfigError(
                "data.transforms: must make images of shape (channels, D, H, W), found "
                f"{described.image_shape} for the first scan."
            )
        return described

    def as_in_run(self, samples: Samples) -> Self:
        """Return a copy of the source with a run's preprocessing, by settings or Python transforms.

        `samples` is the part of the run's ``encoder.json`` on the samples. If the run was
        preprocessed by transforms that a user passed in Python, `python_transforms`, which the user
        must pass again, are matched with the record.
        """
        preprocessing = samples.preprocessing.content()
        chosen = replace(self, cache_dtype=samples.cache_dtype, columns=tuple(samples.channels))
        if "image_shape" in preprocessing:
            described = DescribedTransforms.from_contract(preprocessing, self.python_transforms)
            return replace(chosen, transforms=described)
        if self.python_transforms is not None:
            raise ConfigError(
                "transforms: the run has the package's own preprocessing (encoder.json), which is "
                "applied to every scan. Leave transforms out."
            )
        return replace(chosen, transforms=Preprocessing.from_contract(preprocessing))

    def in_run(self, preprocessing: PreprocessingRecord) -> dict[str, Any]:
        """Return name → value of the settings of section ``data`` that a trained run has fixed.

        The values are attributes of this source, which `as_in_run` has set as the run had them; a
        user's setting may not contradict them. `preprocessing` is the run's record in
        ``encoder.json``. If built-in preprocessing is recorded without the setting ``percentiles``
        (of intensities), the result has no such setting either.
        """
        settings: dict[str, Any] = {"cache_dtype": self.cache_dtype, "channels": self.columns}
        replaced = DataSettings.replaced()
        if not isinstance(self.transforms, Preprocessing):
            for name in replaced:
                settings[name] = DataSettings.model_fields[name].default
            settings["transforms"] = "python"
            return settings
        for name in replaced:
            settings[name] = getattr(self.transforms, name)
        settings["transforms"] = None
        if not preprocessing.has("percentiles"):  # the run's normalisation has none
            del settings["percentiles"]
        return settings

    def contract(self) -> Samples:
        """Return `Samples` with preprocessing, precision and channels, for ``encoder.json``."""
        return Samples(
            preprocessing=PreprocessingRecord.model_validate(self.transforms.contract()),
            cache_dtype=self.cache_dtype,
            channels=list(self.channels or ("t1",)),
        )

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return the number of voxels of a preprocessed image along each axis."""
        del cohort
        return self.transforms.image_shape[1:]

    def images(self, cohort: Cohort) -> Images:
        """Return a dataset of the cohort's preprocessed volumes, in the order of the rows."""
        return CohortDataset.from_cache(self._with_channels(cohort), self.cache)

    def _with_channels(self, cohort: Cohort) -> Cohort:
        return replace(cohort, channels=columns_of(self.channels))

    def make_ready(self, cohort: Cohort, progress: Progress) -> None:
        """Preprocess the scans of `cohort` that the cache on disk lacks, and add the volumes there.

        A warning goes to `progress` if sform and qform of scans disagree or are both absent.
        """
        scans = self._with_channels(cohort).scans
        self.cache.prepare(scans, n_workers=self.data.n_workers, progress=progress)
        warn_of_headers(scans, progress)

    def doubts(self, cohort: Cohort) -> list[str]:
        """Return warnings about whole heads and unregistered brains, from a few of the scans."""
        if self.python_transforms is not None or columns_of(self.channels) != columns_of(None):
            return []
        scans = self._with_channels(cohort).scans
        step = -(-len(scans) // _N_SCANS_IN_DOUBT)
        extents = {}
        for scan in scans[::step]:
            with contextlib.suppress(DataError):  # told where all scans are read
                volume = read_scan(files_of(scan)[0])
                if volume.affine is not None:
                    extents[scan] = extent_of(volume.voxels, volume.affine)
        return doubts_about_extents(extents)

    def failures(self, cohort: Cohort, progress: Progress) -> dict[int, str]:
        """Preprocess scans absent from the cache; return row → reason for unusable scans.

        Rows are positions in `cohort`.
        """
        scans = self._with_channels(cohort).scans
        failures = dict[ScanFiles, str]()
        self.cache.prepare(
            scans, n_workers=self.data.n_workers, progress=progress, failures=failures
        )
        warn_of_headers(scans, progress)
        return {row: failures[scan] for row, scan in enumerate(scans) if scan in failures}

    def contents(self, cohort: Cohort, progress: Progress) -> list[str]:
        """Return one text for each scan: digests of its files' voxels, with spaces between.

        Digests that the cache has are not computed again. The text is "" for a scan with an
        unreadable file.
        """
        scans = self._with_channels(cohort).scans
        return self.cache.contents(scans, n_workers=self.data.n_workers, progress=progress)

    def signatures(self, cohort: Cohort) -> list[tuple[int, ...]]:
        """Return (total size, latest modification, latest change time) of each scan's files."""
        return [signature_of(files_of(scan)) for scan in self._with_channels(cohort).scans]

    def grid(self, scan: ScanFiles) -> Grid:
        """Return the voxel grid that `scan` has after preprocessing; call `make_ready` first."""
        if isinstance(self.transforms, Preprocessing):
            return preprocessed_grid(scan, self.transforms)
        _, affine = self.cache.read_with_affine(scan)
        return Grid(affine, spacing_of(affine), read_scan_header(files_of(scan)[0]).is_mni)

    def built_in_views(self, augment: AugmentSettings) -> Any:
        """Return the random transform of volumes that section ``augment`` describes."""
        return brain_views(augment)


def _first_readable(scans: Sequence[ScanFiles]) -> ScanFiles:
    """Return the first of `scans` whose files have readable headers, or `scans[0]` if none has.

    A scan is the path of a file, or a tuple with a path for each channel.
    """
    for scan in scans:
        with contextlib.suppress(DataError):
            for path in files_of(scan):
                read_scan_header(path)
            return scan
    return scans[0]


def _path_of(scan: str | os.PathLike[str] | SpatialImage, root: Path | None, target: Path) -> Path:
    """Return a scan's path on disk, after writing a scan that is only in memory to `target`.

    Relative paths start from `root`, or from the working directory if None.
    """
    if not isinstance(scan, SpatialImage):
        return (Path(root or "") / Path(scan).expanduser()).absolute()
    name = scan.get_filename()
    if name is not None and nib.is_proxy(scan.dataobj) and not scan.in_memory:
        return Path(name).absolute()
    # A new header: the image's own could say to store whole numbers.
    data = np.asarray(scan.get_fdata(caching="unchanged"), dtype=np.float32)
    nib.Nifti1Image(data, scan.affine).to_filename(target)
    return target


def _scans_of(X: Any, channels: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return the scans in `X`, the argument of `ScanEmbedder`, each as a tuple of files.

    A tuple has one path or nibabel image for each of `channels`, the columns of a DataFrame `X`.
    """
    if isinstance(X, pd.DataFrame):
        X = _rows_of_paths(X, channels)
    if isinstance(X, _Scan) or not isinstance(X, Iterable):
        raise DataError(
            f"X: must be a list of scans, got {type(X).__name__}. For one scan give a list of one."
        )
    if isinstance(X, np.ndarray) and len(channels) == 1:
        X = np.ravel(X)
    listed = list(X)
    if not listed:
        raise DataError("X: there is no scan to embed.")
    scans = list(map(_files_of_scan, listed))
    wrong = [row for row, scan in enumerate(scans) if not _has_channels(scan, len(channels))]
    if wrong:
        wanted = "a path or a nibabel image"
        if len(channels) > 1:
            wanted = "a tuple of paths or nibabel images, one a channel of the run"
        raise DataError(
            f"X: every scan must be {wanted}; {len(wrong)} of {len(scans)} are not (first: row "
            f"{wrong[0]}, {type(listed[wrong[0]]).__name__})."
        )
    return scans


def _rows_of_paths(frame: pd.DataFrame, channels: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return the paths in a DataFrame's columns of channels, as a tuple for each row."""
    for column in channels:
        if column not in frame:
            columns = ", ".join(map(str, frame.columns))
            raise DataError(f"X: a DataFrame needs a column '{column}'; it has: {columns}.")
    return list(zip(*(frame[column] for column in channels), strict=True))


def _files_of_scan(scan: Any) -> tuple[Any, ...]:
    """Return `scan`, one file or a list with a file for each channel, as a tuple."""
    if isinstance(scan, list | tuple | np.ndarray):
        return tuple(scan)
    return (scan,)


def _has_channels(scan: tuple[Any, ...], n_channels: int) -> bool:
    """Tell whether the tuple `scan` has `n_channels` items, each a path or a nibabel image."""
    return len(scan) == n_channels and all(isinstance(file, _Scan) for file in scan)
