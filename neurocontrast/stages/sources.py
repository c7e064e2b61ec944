"""Scans of brains and natural images, as sources of images for training and embedding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from monai.transforms import Compose, Transform

from neurocontrast.config import AnyDataSettings, Config, DataSettings, ImageDataSettings, MeasureDataSettings
from neurocontrast.data import Cohort, CohortDataset, VolumeCache
from neurocontrast.data.batches import Images
from neurocontrast.data.cache import VolumeTransforms, signature_of
from neurocontrast.data.cohort import columns_of
from neurocontrast.data.datasets import JoinedChannels, deterministic_part
from neurocontrast.data.natural import ImageDataset
from neurocontrast.data.natural.store import split_image_path
from neurocontrast.data.problems import Problems
from neurocontrast.encoders import Encoder
from neurocontrast.encoders.weights import CONTRACT
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.files import ScanFiles, files_of
from neurocontrast.progress import Progress
from neurocontrast.stages.image_source import ImageSource, write_given
from neurocontrast.stages.measure_source import RegionalMeasures
from neurocontrast.transforms import AugmentSettings, ImageAugmentSettings, RandImageViewd, brain_views
from neurocontrast.transforms.described import DescribedTransforms, build_transforms
from neurocontrast.transforms.description import GIVEN, Description
from neurocontrast.transforms.grids import Grid, preprocessed_grid
from neurocontrast.transforms.images import spacing_of
from neurocontrast.transforms.loading import read_scan_header
from neurocontrast.transforms.preprocessing import Preprocessing

__all__ = ["AnySource", "BrainVolumes", "Brains", "NaturalImages", "brains_of_run", "source_of", "source_of_run"]

TRANSFORM_VERSION = 1
"""Version of what happens to a natural image between store and network: bytes over 255, standardised by channel."""


@dataclass(frozen=True)
class BrainVolumes(ImageSource):
    """Scans of brains: preprocessed once, kept in a cache, read from the cache."""

    data: DataSettings
    given: Compose | None = None  # from Python, for data.transforms: [{_target_: python}]
    transforms: VolumeTransforms = field(default_factory=Preprocessing)
    cache_dtype: Literal["float16", "float32"] = "float32"
    columns: tuple[str, ...] | None = None  # those that hold the files of each scan, where a run says which

    @property
    def channels(self) -> tuple[str, ...] | None:
        """Columns that hold the files of a scan: those of the run, or of `data`."""
        return self.data.channels if self.columns is None else self.columns

    @property
    def columns_read(self) -> tuple[str, ...] | None:
        """Columns with all files that belong to a scan: its channels, and the maps that views are synthesised from."""
        return (*(self.channels or ("t1",)), *self.data.maps) if self.data.maps else self.channels

    @property
    def n_channels(self) -> int:
        """Channels of a preprocessed image."""
        return self.transforms.image_shape[0]

    @property
    def cache(self) -> VolumeCache:
        """The cache of preprocessed volumes."""
        return self._cache_of(self.transforms)

    def _cache_of(self, transforms: VolumeTransforms) -> VolumeCache:
        data = self.data
        return VolumeCache(data.cache_dir, transforms, dtype=self.cache_dtype, shared=data.cache_shared)

    def cohort_of(self, given: Any, folder: Path) -> Cohort:
        """Return a cohort of paths and nibabel images."""
        return write_given(given, columns_of(self.channels), self.data.images_root, folder)

    def kept_in(self, folder: Path) -> Self:
        """Return the source with its cache in another folder."""
        return replace(self, data=self.data.model_copy(update={"cache_dir": folder}))

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
        """Return the source: no preprocessing of scans is fitted on a cohort."""
        del cohort, training, validation, progress
        return self

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

    def in_run(self, contract: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the preprocessing that is in use."""
        known = {"cache_dtype": self.cache_dtype, "channels": self.columns}
        if isinstance(self.transforms, Preprocessing):
            known |= {name: getattr(self.transforms, name) for name in DataSettings.replaced()} | {"transforms": None}
            if "percentiles" not in contract:  # the run's normalisation has none
                del known["percentiles"]
            return known
        targets = GIVEN if self.transforms.targets is None else tuple(self.transforms.targets)
        return (
            known
            | {name: DataSettings.model_fields[name].default for name in DataSettings.replaced()}
            | {"transforms": targets}
        )

    def contract(self) -> dict[str, Any]:
        """Return the keys of ``encoder.json`` about images; the precision of the cache changes last digits."""
        channels = {} if self.channels is None else {"channels": list(self.channels)}
        channels |= {"maps": list(self.data.maps)} if self.data.maps else {}
        return {"preprocessing": self.transforms.contract(), "cache_dtype": self.cache_dtype, **channels}

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return the voxels along each axis."""
        del cohort
        return self.transforms.image_shape[1:]

    def images(self, cohort: Cohort) -> Images:
        """Return the cohort's volumes, in the order of its rows."""
        scans = CohortDataset.from_cache(self._of(self.channels, cohort), self.cache)
        if not self.data.maps:
            return scans
        return JoinedChannels(scans, CohortDataset.from_cache(self._of(self.data.maps, cohort), self._cache_of_maps()))

    def _of(self, columns: Sequence[str] | None, cohort: Cohort) -> Cohort:
        return replace(cohort, channels=columns_of(columns))

    def _cache_of_maps(self) -> VolumeCache:
        """Return the cache of the maps on the grid of the preprocessed scans, otherwise as they are."""
        changes = {"normalise": "none", "erode_mm": 0.0, "n_channels": len(self.data.maps)}
        assert isinstance(self.transforms, Preprocessing)
        return self._cache_of(self.transforms.model_copy(update=changes))

    def make_ready(self, cohort: Cohort, progress: Progress) -> None:
        """Preprocess the scans that the cache does not hold."""
        scans = self._of(self.channels, cohort).scans
        self.cache.prepare(scans, n_workers=self.data.n_workers, progress=progress)
        if not self.data.maps:
            return
        cache, maps = self._cache_of_maps(), self._of(self.data.maps, cohort).scans
        cache.prepare(maps, n_workers=self.data.n_workers, progress=progress)
        problems = Problems("data.maps")
        for name, scan, of_scan in zip(cohort.names(), scans, maps, strict=True):
            affine = self.cache.affine_of(scan)
            if np.abs(cache.affine_of(of_scan) - affine).max() > 0.1 * min(spacing_of(affine)):
                problems.add("the maps lie elsewhere than the scan; they must be on its grid", name=name)
        problems.raise_if_any()

    def signatures(self, cohort: Cohort) -> list[tuple[int, ...]]:
        """Return the signature of each scan's files."""
        return [signature_of(files_of(scan)) for scan in self._of(self.columns_read, cohort).scans]

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


@dataclass(frozen=True)
class NaturalImages(ImageSource):
    """Natural images: bytes in a store, standardised by the network itself."""

    data: ImageDataSettings
    standardise: str = "channels"
    size: tuple[int, ...] | None = None  # (3, height, width), where a run or a fit says the size
    mean: tuple[float, ...] | None = None  # of each colour over the training images, in [0, 1]
    std: tuple[float, ...] | None = None
    n_channels = 3

    def prepared(self, cohort: Cohort | None) -> Self:
        """Return the source with the standardisation that `data` asks for."""
        del cohort
        return replace(self, standardise=self.data.standardise)

    def fitted(self, cohort: Cohort, training: Sequence[int], validation: Sequence[int], progress: Progress) -> Self:
        """Return the source with the size of the images, and colours' mean and deviation over the training rows."""
        del validation
        images = self.images(cohort)
        sized = replace(self, size=tuple(images.image_shape))
        if self.standardise == "none":
            return sized
        with progress.task("Standardising", None, "images"):
            mean, std = images.channel_statistics(list(training))
        flat = [colour for colour, deviation in zip(("red", "green", "blue"), std, strict=True) if not deviation > 0]
        if flat:
            raise DataError(
                f"data.standardise: {', '.join(flat)} is the same in every pixel of the training images, so it cannot "
                "be standardised. Set data.standardise to none."
            )
        return replace(sized, mean=tuple(mean.tolist()), std=tuple(std.tolist()))

    def as_in_run(self, contract: Mapping[str, Any]) -> Self:
        """Return the source with size, mean and deviation of a run."""
        preprocessing = contract["preprocessing"]
        version = preprocessing.get("transform_version")
        if version != TRANSFORM_VERSION:
            raise DataError(
                f"preprocessing contract: transform_version is {version!r} and this neurocontrast has "
                f"{TRANSFORM_VERSION} for images; install the version the encoder was trained with."
            )
        shape, standardise, mean, std = (preprocessing.get(key) for key in ("shape", "standardise", "mean", "std"))
        if not _are_three(shape, int) or standardise not in ("channels", "none"):
            raise DataError(
                "preprocessing contract: 'shape' must be [3, height, width], and 'standardise' be 'channels' or "
                f"'none', found {shape!r} and {standardise!r}"
            )
        known = replace(self, standardise=standardise, size=tuple(shape), mean=None, std=None)
        if standardise == "none":
            return known
        if not (_are_three(mean, int, float) and _are_three(std, int, float)):
            raise DataError(
                f"preprocessing contract: 'mean' and 'std' must be three numbers each, found {mean!r} and {std!r}"
            )
        return replace(known, mean=tuple(map(float, mean)), std=tuple(map(float, std)))

    def in_run(self, contract: Mapping[str, Any]) -> dict[str, Any]:
        """Return whether colours are standardised."""
        del contract
        return {"standardise": self.standardise}

    def contract(self) -> dict[str, Any]:
        """Return the kind, the size, and by what colours are standardised."""
        assert self.size is not None
        colours = {name: None if values is None else list(values)
                   for name, values in (("mean", self.mean), ("std", self.std))}  # fmt: skip
        known = {"kind": "images", "transform_version": TRANSFORM_VERSION, "shape": list(self.size)}
        return {"preprocessing": {**known, "standardise": self.standardise, **colours}}

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return height and width, which the store says."""
        if cohort is None:
            raise ConfigError(
                "data.participants: missing. The size of images is that of their store: give the table that "
                "`neurocontrast images` wrote."
            )
        return self.images(cohort).image_shape[1:]

    def images(self, cohort: Cohort) -> ImageDataset:
        """Return the cohort's images; another size than that of the run is refused."""
        images = ImageDataset(cohort)
        if self.size is not None and tuple(images.image_shape) != self.size:
            found, needed = ("×".join(map(str, size[1:])) for size in (images.image_shape, self.size))
            raise DataError(
                f"{cohort.source.name}: these images have {found} pixels, and the run was trained on {needed}. Prepare "
                "them in that size (images.size)."
            )
        return images

    def set_up(self, encoder: Encoder) -> None:
        """Let the network standardise colours."""
        if self.mean is not None and self.std is not None:
            encoder.set_standardisation(self.mean, self.std)

    def signatures(self, cohort: Cohort) -> list[tuple[int, ...]]:
        """Return the signatures of the stores."""
        return [signature_of([str(store)]) for _, store in self.files(cohort)["stores"]]

    def files(self, cohort: Cohort) -> dict[str, list[tuple[str, Path]]]:
        """Return the stores, and the files of vectors."""
        stores = sorted({split_image_path(str(path))[0] for path in cohort.table["path"]})
        return {"stores": [(store.name, store) for store in stores], **super().files(cohort)}

    def built_in_views(self, settings: Config) -> Any:
        """Return the views of images."""
        assert isinstance(settings.augment, ImageAugmentSettings)
        return RandImageViewd("image", settings.augment)


def _are_three(values: Any, *kinds: type) -> bool:
    return isinstance(values, list) and len(values) == 3 and all(type(each) in kinds for each in values)


Brains = BrainVolumes | RegionalMeasures
AnySource = Brains | NaturalImages


def source_of(
    data: AnyDataSettings, *, transforms: Compose | None = None, augment: Transform | None = None
) -> AnySource:
    """Return the source that the section ``data`` describes, with transforms that came from Python."""
    if isinstance(data, DataSettings):
        return BrainVolumes(data, augment, given=transforms)
    if transforms is not None:
        raise ConfigError(f"transforms: are for scans (data.kind: volumes), found data.kind: {data.kind}.")
    return RegionalMeasures(data, augment) if isinstance(data, MeasureDataSettings) else NaturalImages(data, augment)


def source_of_run(
    run: Path, contract: Mapping[str, Any], data: AnyDataSettings, *, transforms: Compose | None = None
) -> AnySource:
    """Return images by the section ``data``, preprocessed as those of a run; `contract` is its ``encoder.json``."""
    trained = contract["preprocessing"].get("kind", "volumes")
    if trained not in ("volumes", "images", "measures"):
        raise CheckpointError(f"{CONTRACT}: preprocessing.kind {trained!r} is not known. Upgrade neurocontrast.")
    if trained != data.kind:
        if "kind" in data.model_fields_set:
            raise ConfigError(
                f"data.kind: is '{data.kind}', and the run was trained on {trained}. Give the run's own configuration, "
                "or none."
            )
        common: dict[str, Any] = {"images_root": data.images_root, "n_workers": data.n_workers}
        if trained == "measures":
            data = MeasureDataSettings(n_workers=data.n_workers)
        else:
            data = DataSettings(**common) if trained == "volumes" else ImageDataSettings(kind="images", **common)
    try:
        # Runs before the cache had a choice of precision kept volumes in float32.
        data = data.model_copy(update={"maps": ()}) if isinstance(data, DataSettings) else data  # views alone need them
        source = source_of(data, transforms=transforms).as_in_run({"cache_dtype": "float32", **contract})
    except DataError as error:
        raise CheckpointError(f"{run / CONTRACT}: {error}") from error
    _check_as_in_run(data, source, contract["preprocessing"])
    return source


def _check_as_in_run(data: AnyDataSettings, source: AnySource, contract: Mapping[str, Any]) -> None:
    """Refuse settings of ``data`` that were given and say otherwise than the run, which they cannot change."""
    of_run, problems = source.in_run(contract), []
    for name in sorted(of_run.keys() & data.model_fields_set):
        asked, trained = getattr(data, name), of_run[name]
        asked = ("t1",) if name == "channels" and asked is None else asked
        if asked != trained:
            shown = [json.dumps(each, default=str) for each in (asked, trained)]
            problems.append(f"data.{name}: is {shown[0]}, and the run was trained with {shown[1]}")
    if problems:
        raise ConfigError("\n".join(problems) + "\nThe run decides how they are prepared: take this out.")


def brains_of_run(
    run: Path, contract: Mapping[str, Any], data: AnyDataSettings, *, what: str, transforms: Compose | None = None
) -> Brains:
    """Return brains as a run was trained on them; `what` begins the refusal of a run of natural images."""
    if contract["preprocessing"].get("kind") == "images":
        raise ConfigError(f"{what}, and this run was trained on natural images. Give a run that was trained on brains.")
    source = source_of_run(run, contract, data, transforms=transforms)
    assert not isinstance(source, NaturalImages)
    return source
