"""Datasets of a cohort: images of scans with columns of the table, or regional measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from monai.data import Dataset
from monai.transforms import Compose, RandomizableTrait, Transform

from neurocontrast.cells import text_of
from neurocontrast.data.batches import Sample
from neurocontrast.data.cache import VolumeCache, VolumeTransforms
from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import ScanFiles, files_of
from neurocontrast.transforms.described import DescribedTransforms, apply_described
from neurocontrast.transforms.images import apply, to_image
from neurocontrast.transforms.preprocessing import Preprocessing

_IMAGE = "image"


class CohortDataset(Dataset):
    """Dataset of a cohort's scans (`monai.data.Dataset`), with the columns of the cohort's table.

    An item is a dictionary: ``"image"``, a `monai.data.MetaTensor` (C, D, H, W) float32 with the
    affine of its voxels, and every column of the table but the paths of the scan, among them
    "participant_id", "subject_id", "session" and, where the table has them, "age" (years), "sex"
    ("F", "M"), "site" and "diagnosis". A missing number is NaN and a missing text is "", so that
    items can be collated by `torch.utils.data.DataLoader` and `monai.data.DataLoader`.

    Parameters
    ----------
    cohort : Cohort or path
        Scans; the items of the dataset are in the order of the cohort's rows. A path is read by
        `neurocontrast.data.read_cohort`.
    transform : Compose, callable, sequence of callables or Preprocessing, optional
        Transforms of ``{"image": path, …}``, of which a loader comes first, for instance
        `neurocontrast.transforms.LoadScand` or `monai.transforms.LoadImaged`; by default
        `neurocontrast.transforms.brain_transforms` with its defaults.
    cache_dir : path, optional
        Folder of images before the first random transform, as `monai.data.PersistentDataset` keeps
        them; the later transforms are applied on each access. An entry is used only while its scan
        and the transforms are unchanged; transforms without a name (a lambda) are refused. The
        folder holds the images themselves: treat the folder as you treat the scans.
    cache_dtype : {"float16", "float32"}, default="float16"
        Precision of voxels on the disk.

    Examples
    --------
    >>> import tempfile
    >>> from neurocontrast import simulate
    >>> from neurocontrast.data import CohortDataset, read_cohort
    >>> from neurocontrast.transforms import brain_transforms
    >>> folder = tempfile.mkdtemp() + "/made"
    >>> cohort = read_cohort(simulate(folder, n_subjects=4, n_sites=2, spacing_mm=8.0))
    >>> dataset = CohortDataset(cohort, brain_transforms(spacing_mm=8.0, shape=(24, 28, 24)))
    >>> item = dataset[0]
    >>> item["image"].shape, item["sex"] in ("F", "M")
    (torch.Size([1, 24, 28, 24]), True)
    """

    image_shape: tuple[int, ...]
    image_dtype: np.dtype[Any]

    def __init__(
        self,
        cohort: Cohort | str | Path,
        transform: Compose
        | Callable[..., Any]
        | Sequence[Callable[..., Any]]
        | VolumeTransforms
        | None = None,
        cache_dir: str | Path | None = None,
        *,
        cache_dtype: Literal["float16", "float32"] = "float16",
    ) -> None:
        chosen: Any = transform
        if transform is None:
            chosen = Preprocessing()
        is_described = hasattr(chosen, "compose")
        composed = chosen
        if is_described:
            composed = chosen.compose()
        if not isinstance(cohort, Cohort):
            cohort = read_cohort(cohort)
        self.scans = cohort.scans
        super().__init__(_Items(cohort, self.scans), composed)
        self.transform: Compose
        self.cache: VolumeCache | None = None
        self._n_kept = 0
        if cache_dir is not None:
            kept = chosen
            if not is_described:
                kept = deterministic_part(self.transform, self.scans[0])
            self._keep_in(VolumeCache(cache_dir, kept, dtype=cache_dtype))

    @classmethod
    def from_cache(cls, cohort: Cohort, cache: VolumeCache) -> CohortDataset:
        """Return a dataset of volumes as `cache` keeps them; no transform is applied on access."""
        dataset = cls(cohort, Compose([]))
        dataset._keep_in(cache)
        return dataset

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Read an image from the cache into `out`, of `image_shape` and `image_dtype`."""
        assert self.cache is not None
        np.copyto(out, self.cache.read(self.scans[index]), casting="no")

    def _keep_in(self, cache: VolumeCache) -> None:
        """Let the dataset take images from `cache`, and apply only the transforms that come later.

        The cache keeps each image as it is before the first random transform. On access the first
        random transform, and all transforms after it, are then applied.
        """
        self.cache = cache
        self.transform = self.transform.flatten()
        self._n_kept = _n_deterministic(self.transform)
        if self._n_kept == len(self.transform):  # an image is then a volume of the cache
            self.image_shape = cache.shape
            self.image_dtype = cache.dtype

    def _transform(self, index: int) -> Sample:
        """Return the sample of row `index` after all transforms, from the cached volume if any."""
        item = self.data[index]
        if self.cache is None:
            return apply(self.transform, item)
        scan = self.scans[index]
        volume, affine = self.cache.read_with_affine(scan)
        # Torch widens float16 over ten times faster than NumPy.
        image = to_image(volume, affine, name=", ".join(files_of(scan))).float()
        return apply(self.transform, {**item, _IMAGE: image}, start=self._n_kept)


class InPlaceDataset(torch.utils.data.Dataset[Sample]):
    """Base of datasets that read samples into arrays of `image_shape` and `image_dtype`."""

    image_shape: tuple[int, ...]
    image_dtype: np.dtype[Any]

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Write the sample of row `index` into `out`, of `image_shape` and `image_dtype`."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> Sample:
        """Return ``{"image": tensor of `image_shape`, "index": index}``."""
        image = np.empty(self.image_shape, self.image_dtype)
        self.read_into(image, index)
        return {"image": torch.from_numpy(image), "index": index}


class MeasuresDataset(InPlaceDataset):
    """Dataset of people's standardised regional measures; a sample has shape (measures, 1)."""

    def __init__(self, values: npt.NDArray[np.float32]) -> None:
        self.values = values
        self.image_shape = (values.shape[1], 1)
        self.image_dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.values)

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Write the regional measures of the person at row `index` into `out`, of `image_shape`."""
        out[:, 0] = self.values[index]

    def batch(self, rows: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the regional measures of people at `rows`, of shape (len(rows), measures, 1)."""
        return self.values[list(rows), :, None]


class _Items(Sequence[Sample]):
    """Sequence of a cohort's samples before any transform: paths of the scan, and cells of its row.

    `CohortDataset` holds one; each sample is made on access.
    """

    def __init__(self, cohort: Cohort, scans: Sequence[ScanFiles]) -> None:
        self._scans = scans
        self._columns: dict[str, tuple[npt.NDArray[Any], Callable[[Any], float | str]]] = {}
        for name, values in cohort.table.items():
            if name in ("path", _IMAGE, *cohort.channels):
                continue
            value_of: Callable[[Any], float | str] = text_of
            if pd.api.types.is_numeric_dtype(values):
                value_of = float
            self._columns[str(name)] = (values.to_numpy(), value_of)

    def __len__(self) -> int:
        return len(self._scans)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[position] for position in range(len(self))[index]]
        item: Sample = {_IMAGE: self._scans[index]}
        for name, (values, value_of) in self._columns.items():
            item[name] = value_of(values[index])
        return item


def _n_deterministic(transform: Compose) -> int:
    """Count the transforms before the first one that is random or not from MONAI."""
    position = transform.get_index_of_first(_may_be_random)
    if position is None:
        return len(transform)
    return position


def _may_be_random(transform: object) -> bool:
    """Tell whether a transform may be random: MONAI says so, or the transform is not MONAI's."""
    return isinstance(transform, RandomizableTrait) or not isinstance(transform, Transform)


def deterministic_part(transform: Compose, scan: ScanFiles) -> DescribedTransforms:
    """Return the transforms before the first random one, with the shape of the image made by them.

    The transforms are applied to `scan` to find the shape.
    """
    flat = transform.flatten()
    kept = Compose(flat.transforms[: _n_deterministic(flat)])
    item = apply_described(kept, scan)
    further = [key for key in item if key != _IMAGE]
    if further:
        raise DataError(
            f"transforms: only the item '{_IMAGE}' is kept on the disk, and the transforms before "
            f"the first random one also make {one_of(further)}. Make those behind the first random "
            "transform, or delete them again (monai.transforms.DeleteItemsd)."
        )
    image = item[_IMAGE]
    if not isinstance(image, torch.Tensor):
        raise DataError(
            f"transforms: no transform before the first random one loads '{_IMAGE}'. Put a loader "
            "first (neurocontrast.transforms.LoadScand, or monai.transforms.LoadImaged)."
        )
    return DescribedTransforms(kept, tuple(image.shape))
