"""Datasets of a cohort: the image of each scan with the columns of its table, or measures."""

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
from neurocontrast.data.cache import VolumeCache, VolumeTransforms
from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import ScanFiles, files_of
from neurocontrast.transforms.described import DescribedTransforms, apply_described
from neurocontrast.transforms.images import apply, to_image
from neurocontrast.transforms.preprocessing import Preprocessing

_IMAGE = "image"


class CohortDataset(Dataset):
    """The scans of a cohort as a `monai.data.Dataset`, with the columns of its table.

    An item is a dictionary: ``"image"``, a `monai.data.MetaTensor` (C, D, H, W) float32 with the
    affine of its voxels, and every column of the table but the paths of the scan, among them
    "participant_id", "subject_id", "session" and, where the table has them, "age" (years), "sex"
    ("F", "M"), "site" and "diagnosis". A missing number is NaN and a missing text is "", so that
    items can be collated by `torch.utils.data.DataLoader` and `monai.data.DataLoader`.

    Parameters
    ----------
    cohort : Cohort or path
        Its rows are the items, in its order; of a participants table, what
        `neurocontrast.data.read_cohort` reads.
    transform : Compose, callable, sequence of callables or Preprocessing, optional
        Applied to ``{"image": path, …}``; `neurocontrast.transforms.brain_transforms` at its
        defaults if not given. Its own loader comes first, for instance
        `neurocontrast.transforms.LoadScand` or `monai.transforms.LoadImaged`.
    cache_dir : path, optional
        Keeps images on the disk, as `monai.data.PersistentDataset` does: those before the first
        random transform; the rest is applied on each access. An entry is used only while its scan
        is the file it was made from and the transforms are the same ones: transforms without a name
        (a lambda) are refused. The folder holds the images themselves: treat it as you treat the
        scans.
    cache_dtype : {"float16", "float32"}
        How voxels are kept on the disk.

    Examples
    --------
    >>> import tempfile
    >>> from neurocontrast import simulate
    >>> from neurocontrast.data import CohortDataset, read_cohort
    >>> from neurocontrast.transforms import brain_transforms
    >>> cohort = read_cohort(simulate(tempfile.mkdtemp() + "/made", n_subjects=4, n_sites=2, spacing_mm=8.0))
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
        known: Any = Preprocessing() if transform is None else transform
        of_settings = hasattr(known, "compose")
        cohort = cohort if isinstance(cohort, Cohort) else read_cohort(cohort)
        self.scans = cohort.scans
        super().__init__(_Items(cohort, self.scans), known.compose() if of_settings else known)
        self.transform: Compose
        self.cache: VolumeCache | None = None
        self._n_kept = 0
        if cache_dir is not None:
            kept = known if of_settings else deterministic_part(self.transform, self.scans[0])
            self._keep_in(VolumeCache(cache_dir, kept, dtype=cache_dtype))

    @classmethod
    def from_cache(cls, cohort: Cohort, cache: VolumeCache) -> CohortDataset:
        """Return the dataset of what a cache keeps; its transforms may be fitted later, before the first item."""
        dataset = cls(cohort, Compose([]))
        dataset._keep_in(cache)
        return dataset

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Read an image in the precision of the cache into `out`, of `image_shape` and `image_dtype`."""
        assert self.cache is not None
        np.copyto(out, self.cache.read(self.scans[index]), casting="no")

    def _keep_in(self, cache: VolumeCache) -> None:
        self.cache = cache
        self.transform = self.transform.flatten()
        self._n_kept = _n_deterministic(self.transform)
        if self._n_kept == len(self.transform):  # else an image is not what the cache holds
            self.image_shape = cache.shape
            self.image_dtype = cache.dtype

    def _transform(self, index: int) -> dict[str, Any]:
        item = self.data[index]
        if self.cache is None:
            return apply(self.transform, item)
        scan = self.scans[index]
        volume, affine = self.cache.read_with_affine(scan)
        # Torch widens float16 over ten times faster than NumPy.
        image = to_image(volume, affine, name=", ".join(files_of(scan))).float()
        return apply(self.transform, {**item, _IMAGE: image}, start=self._n_kept)


class InPlaceDataset(torch.utils.data.Dataset[dict[str, Any]]):
    """Samples that are read straight into an array of `image_shape` and `image_dtype`."""

    image_shape: tuple[int, ...]
    image_dtype: np.dtype[Any]

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Read a sample into `out`."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return ``{"image": tensor of `image_shape`, "index": index}``."""
        image = np.empty(self.image_shape, self.image_dtype)
        self.read_into(image, index)
        return {"image": torch.from_numpy(image), "index": index}


class MeasuresDataset(InPlaceDataset):
    """Standardised measures (n, n_measures), each person's as a sample (n_measures, 1)."""

    def __init__(self, values: npt.NDArray[np.float32]) -> None:
        self.values = values
        self.image_shape = (values.shape[1], 1)
        self.image_dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.values)

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Write the measures of a person into `out`, of `image_shape`."""
        out[:, 0] = self.values[index]

    def batch(self, rows: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the measures of some people, (rows, n_measures, 1)."""
        return self.values[list(rows), :, None]


class _Items(Sequence[dict[str, Any]]):
    """The items of a cohort, each made when it is asked for: most are never, where images are read in place."""

    def __init__(self, cohort: Cohort, scans: Sequence[ScanFiles]) -> None:
        self._scans = scans
        self._columns = {
            str(name): (
                values.to_numpy(),
                float if pd.api.types.is_numeric_dtype(values) else text_of,
            )
            for name, values in cohort.table.items()
            if name not in ("path", _IMAGE, *cohort.channels)
        }

    def __len__(self) -> int:
        return len(self._scans)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        return {_IMAGE: self._scans[index]} | {
            name: of(values[index]) for name, (values, of) in self._columns.items()
        }


def _n_deterministic(transform: Compose) -> int:
    """Return how many transforms come before the first that is random, or none of MONAI's; as in MONAI."""
    n = transform.get_index_of_first(
        lambda each: isinstance(each, RandomizableTrait) or not isinstance(each, Transform)
    )
    return len(transform) if n is None else n


def deterministic_part(transform: Compose, scan: ScanFiles) -> DescribedTransforms:
    """Return the transforms before the first random one, and the shape of what they make of a scan."""
    flat = transform.flatten()
    kept = Compose(flat.transforms[: _n_deterministic(flat)])
    made = apply_described(kept, scan)
    if others := [key for key in made if key != _IMAGE]:
        raise DataError(
            f"transforms: only the item '{_IMAGE}' is kept on the disk, and the transforms before the first random "
            f"one also make {one_of(others)}. Make those behind the first random transform, or delete them again "
            "(monai.transforms.DeleteItemsd)."
        )
    image = made[_IMAGE]
    if not isinstance(image, torch.Tensor):
        raise DataError(
            f"transforms: no transform before the first random one loads '{_IMAGE}'. Put a loader first "
            "(neurocontrast.transforms.LoadScand, or monai.transforms.LoadImaged)."
        )
    return DescribedTransforms(kept, tuple(image.shape))
