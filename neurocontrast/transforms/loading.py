"""Scans from files: MONAI's reader with a faster gunzip, and a loader that refuses what is no usable volume."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from isal import igzip
from monai.config import KeysCollection
from monai.data import NibabelReader
from monai.transforms import MapTransform
from monai.utils import ensure_tuple

from neurocontrast.exceptions import ConfigError
from neurocontrast.transforms.images import centred, to_image
from neurocontrast.transforms.preprocessing import SPACING_LIMITS_MM
from neurocontrast.transforms.reading import GZIP, nifti_type, read_scan

__all__ = ["IsalNibabelReader", "LoadScand"]


class IsalNibabelReader(NibabelReader):
    """Read NIfTI files as MONAI's `NibabelReader` does, decompressing ``.nii.gz`` with ISA-L.

    Voxels and metadata are those of `NibabelReader`. The whole file is decompressed at once, so that its checksum is
    verified. Parameters are those of `NibabelReader`.

    Raises
    ------
    DataError
        Where a file is empty or not a NIfTI image.

    Examples
    --------
    >>> from monai.transforms import LoadImaged
    >>> load = LoadImaged("image", reader=IsalNibabelReader, ensure_channel_first=True)
    """

    def read(self, data: Any, **kwargs: Any) -> Any:
        """Return the nibabel image of a file, or a list of those of several files."""
        self.filenames: Sequence[Any] = ensure_tuple(data)
        images = [self._read_one(str(name), **{**self.kwargs, **kwargs}) for name in self.filenames]
        return images if len(images) > 1 else images[0]

    def _read_one(self, name: str, **kwargs: Any) -> Any:
        with open(name, "rb") as stream:
            is_compressed = stream.read(len(GZIP)) == GZIP
        if not is_compressed or kwargs or self.to_gpu:
            return nib.load(name, **kwargs)
        content = igzip.decompress(Path(name).read_bytes())
        return nifti_type(name, content).from_bytes(content)


class LoadScand(MapTransform):
    """Load scans, and refuse by name what is no usable volume.

    A ``.nii``, ``.nii.gz`` or ``.npy`` file becomes a `monai.data.MetaTensor` of shape (1, D, H, W), float32, with its
    axes as they are stored and the affine of its header. Axes of length 1 before or behind the volume are dropped.

    Parameters
    ----------
    keys : str or sequence of str
        Items that are paths.
    spacing_mm : float
        Voxel size of a ``.npy`` array, which has no header; its axes are taken to be in RAS order, and its centre to
        be the origin.
    allow_missing_keys : bool
        Whether an item may lack a key.

    Raises
    ------
    DataError
        When called, naming the file, where it is absent, unreadable, truncated, not three-dimensional, not of real
        numbers, constant, with non-finite voxels or with an impossible voxel size.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from neurocontrast.transforms import LoadScand
    >>> path = Path(tempfile.mkdtemp()) / "scan.npy"
    >>> np.save(path, np.random.default_rng(0).normal(size=(10, 12, 8)))
    >>> LoadScand("image", spacing_mm=2.0)({"image": path})["image"].shape
    torch.Size([1, 10, 12, 8])
    """

    def __init__(self, keys: KeysCollection, *, spacing_mm: float = 1.0, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys)
        low, high = SPACING_LIMITS_MM
        if not low <= spacing_mm <= high:
            raise ConfigError(f"LoadScand: spacing_mm must be between {low:g} and {high:g}, got {spacing_mm!r}.")
        self.spacing_mm = spacing_mm

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the item with images in place of paths."""
        item = dict(data)
        for key in self.key_iterator(item):
            scan = read_scan(item[key])
            affine = centred(scan.voxels.shape, (self.spacing_mm,) * 3) if scan.affine is None else scan.affine
            item[key] = to_image(scan.voxels[np.newaxis], affine, name=str(item[key]))
        return item
