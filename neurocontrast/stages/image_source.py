"""What scans of brains and natural images have in common: how they are read, seen twice, and recorded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import nibabel as nib
import numpy as np
import pandas as pd
from monai.transforms import Compose, Transform
from nibabel.spatialimages import SpatialImage

from neurocontrast.config import AnyDataSettings, Config
from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.data.natural.store import is_image_path
from neurocontrast.data.problems import shown
from neurocontrast.encoders import Encoder
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.files import digest_of_file
from neurocontrast.progress import Progress
from neurocontrast.training import Views
from neurocontrast.transforms import TwoViews
from neurocontrast.transforms.described import build_transforms, describe
from neurocontrast.transforms.description import GIVEN

__all__ = ["ImageSource", "check_kind", "write_given"]

_WHAT = {"volumes": "scans of brains", "images": "images of a store, as `neurocontrast images` writes them,"}
_Scan = str | os.PathLike | SpatialImage
_WANTED = ("a path or a nibabel image", "a tuple of paths or nibabel images, one a channel of the run")


@dataclass(frozen=True)
class ImageSource:
    """Images as the section ``data`` of a configuration describes them; `sources` has one class for each kind.

    `augment` are transforms from Python that make views, for ``augment.transforms: [{_target_: python}]``.
    """

    data: AnyDataSettings
    augment: Transform | None = None

    @property
    def channels(self) -> tuple[str, ...] | None:
        """Columns that hold the files of a scan, one a channel; None for the column ``path``."""
        return None

    @property
    def columns_read(self) -> tuple[str, ...] | None:
        """Columns with all files that belong to a scan; None for the column ``path``."""
        return self.channels

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures that a network is given; none of images."""
        return ()

    def read_cohort(
        self, participants: str | os.PathLike[str], *, images_root: Any = None, check_images: bool = True
    ) -> Cohort:
        """Read a table of such images."""
        cohort = read_cohort(
            Path(participants),
            images_root=self.data.images_root if images_root is None else Path(images_root),
            images_pattern=getattr(self.data, "images_pattern", None),
            channels=self.columns_read,
            check_images=check_images,
        )
        return check_kind(cohort, self.data.kind)

    def cohort_of(self, given: Any, folder: Path) -> Cohort:
        """Return a cohort of what Python gives; images that are only in memory are written to a folder."""
        raise NotImplementedError

    def unlisted(self, place: Path, *, images_root: Any = None) -> Cohort | None:
        """Return the samples of a place that needs no table of people beside it; None where it does."""
        del place, images_root
        return None

    def kept_in(self, folder: Path) -> Self:
        """Return the source with another place for what is prepared."""
        del folder
        return self

    def learning_from(self, cohort: Cohort, rows: Sequence[int]) -> Self:
        """Return the source with what must be known of the rows of training before a network can be built."""
        del cohort, rows
        return self

    def in_run(self, contract: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of ``data`` that a run has decided; `contract` is its preprocessing."""
        raise NotImplementedError

    def make_ready(self, cohort: Cohort, progress: Progress) -> None:
        """Prepare images that are not ready to be read."""
        del cohort, progress

    def table_of(self, cohort: Cohort) -> pd.DataFrame:
        """Return what is known of the rows of a cohort, which embeddings carry."""
        return cohort.table

    def signatures(self, cohort: Cohort) -> list[tuple[int, ...]]:
        """Return the signatures by which a change of the files that images are read from is seen."""
        raise NotImplementedError

    def set_up(self, encoder: Encoder) -> None:
        """Give a new network the part of the preprocessing that the network does."""
        del encoder

    def built_in_views(self, settings: Config) -> Any:
        """Return the transform that the operations of the section ``augment`` describe."""
        raise NotImplementedError

    def views(self, settings: Config) -> Views:
        """Return two views by the section ``augment``: its operations, its transforms, or those given from Python."""
        targets = settings.augment.transforms
        options: dict[str, Any] = {"seed": settings.seed, "n_channels": 1 if getattr(self.data, "maps", ()) else None}
        if targets is None:
            return TwoViews(self.built_in_views(settings), **options)
        if tuple(targets) != GIVEN:
            return TwoViews(build_transforms(targets, source="augment.transforms"), **options)
        if self.augment is None:
            raise ConfigError("augment.transforms: came from Python. Give them again: pretrain(..., augment=...).")
        return TwoViews(self.augment, **options)

    def files(self, cohort: Cohort) -> dict[str, list[tuple[str, Path]]]:
        """Return names and paths of files that a run depends on, by kind of content; scans are left to the cache."""
        vectors = [(name, Path(what).expanduser()) for name, what in self.data.vectors.items() if isinstance(what, str)]
        return {"vectors": [(name, cohort.source.parent / path) for name, path in vectors]}

    def record(self, cohort: Cohort) -> dict[str, Any]:
        """Return the part of ``provenance.json`` by which `check_unchanged` knows a run's images and views again."""
        record: dict[str, Any] = {
            key: {digest_of_file(path): name for name, path in files} for key, files in self.files(cohort).items()
        }
        if self.augment is not None:
            try:
                record["augment"] = describe(self.augment)
            except DataError:  # a lambda, for instance, has no description: the classes of the transforms do
                record["augment"] = [type(each).__name__ for each in Compose(self.augment).flatten().transforms]
        return record

    def check_unchanged(self, cohort: Cohort, provenance: Mapping[str, Any], folder: Path) -> None:
        """Refuse to continue a run with other files, or other views from Python, than the run began with."""
        now = self.record(cohort)
        refusal = f"{folder}: the run cannot continue, because it would not be the same run:"
        if "augment" in now and now["augment"] != provenance.get("augment"):
            raise CheckpointError(
                f"{refusal} augment has other transforms, or other settings of them. Give what it began with, or start "
                "another run."
            )
        changed = [
            f"{name} holds other {'images' if key == 'stores' else key} than when it began"
            for key in self.files(cohort)
            for digest, name in now[key].items()
            if digest not in (provenance.get(key) or now[key])
        ]
        if changed:
            raise CheckpointError(
                f"{refusal} {'; '.join(changed)}. Bring back the files it began with, or start another run."
            )


def check_kind(cohort: Cohort, wanted: str) -> Cohort:
    """Return a cohort if its rows are of the kind ``volumes`` or ``images`` that is wanted."""
    for participant, path in zip(cohort.table["participant_id"], cohort.table["path"], strict=True):
        found = "images" if is_image_path(str(path)) else "volumes"
        if found != wanted:
            raise DataError(
                f"{cohort.source.name}: {_WHAT[wanted]} are wanted, because data.kind is '{wanted}' or the run was "
                f"trained on them, and '{participant}' is {shown(path, 200)}. To train on it, set data.kind to {found}."
            )
    return cohort


def write_given(given: Any, channels: tuple[str, ...], root: Path | None, folder: Path) -> Cohort:
    """Return a cohort of paths and nibabel images; those that are only in memory are written to a folder.

    Parameters
    ----------
    given : sequence or DataFrame
        One path or image a scan, or a tuple of one a channel, or a DataFrame with the columns `channels`.
    channels : tuple of str
        Columns with the files of each scan.
    root : Path or None
        Folder that relative paths start from; the working directory for None.
    folder : Path
        Where images are written to.
    """
    scans = _scans_of(given, channels)
    names = [f"scan {row}" for row in range(len(scans))]
    table = pd.DataFrame({"participant_id": names, "subject_id": names, "session": ""})
    for at, column in enumerate(channels):
        targets = [folder / f"{row:04d}-{at}.nii" for row in range(len(scans))]
        table[column] = [str(_path_of(scan[at], root, target)) for scan, target in zip(scans, targets, strict=True)]
    return Cohort(table, Path("scans"), channels=channels)


def _path_of(scan: str | os.PathLike[str] | SpatialImage, root: Path | None, target: Path) -> Path:
    """Return where a scan lies on disk; an image that is only in memory is written to `target`."""
    if not isinstance(scan, SpatialImage):
        return (Path(root or "") / Path(scan).expanduser()).absolute()
    name = scan.get_filename()
    if name is not None and nib.is_proxy(scan.dataobj) and not scan.in_memory:
        return Path(name).absolute()
    # With a header of its own: the image's could say to store whole numbers.
    data = np.asarray(scan.get_fdata(caching="unchanged"), dtype=np.float32)
    nib.Nifti1Image(data, scan.affine).to_filename(target)
    return target


def _scans_of(X: Any, channels: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return the scans, each a tuple of one path or image a channel."""
    if isinstance(X, pd.DataFrame):
        for column in channels:
            if column not in X:
                raise DataError(f"X: a DataFrame needs a column '{column}'; it has: {', '.join(map(str, X.columns))}.")
        X = list(zip(*(X[column] for column in channels), strict=True))
    if isinstance(X, _Scan) or not isinstance(X, Iterable):
        raise DataError(f"X: must be a list of scans, got {type(X).__name__}. For one scan give a list of one.")
    listed = list(np.ravel(X)) if isinstance(X, np.ndarray) and len(channels) == 1 else list(X)
    if not listed:
        raise DataError("X: there is no scan to embed.")
    scans = [tuple(scan) if isinstance(scan, list | tuple | np.ndarray) else (scan,) for scan in listed]
    wrong = [
        (row, type(listed[row]).__name__)
        for row, scan in enumerate(scans)
        if len(scan) != len(channels) or not all(isinstance(file, _Scan) for file in scan)
    ]
    if wrong:
        raise DataError(
            f"X: every scan must be {_WANTED[len(channels) > 1]}; {len(wrong)} of {len(scans)} are not (first: row "
            f"{wrong[0][0]}, {wrong[0][1]})."
        )
    return scans
