"""Features of finished batches, kept next to the table to be written: a call that was killed continues with them."""

from __future__ import annotations

import glob
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neurocontrast.files import atomic_path

__all__ = ["FinishedBatches"]


class FinishedBatches:
    """Features of batches, a file each in a hidden folder next to a table, which a call that was killed leaves.

    Parameters
    ----------
    target : Path
        Table that is to be written.
    key : str
        Digest of all that the features depend on; folders of another one are not used.
    """

    def __init__(self, target: Path, key: str) -> None:
        self.target, self._folder = target, target.with_name(f".{target.name}.{key[:16]}.partial")

    def read_into(self, features: npt.NDArray[np.float32]) -> list[int]:
        """Fill in the rows of finished batches, of all (n, n_features), and return the first row of each batch."""
        found = []
        for path in sorted(self._folder.glob("[0-9]*.npy")):
            rows = np.load(path, allow_pickle=False)
            found.append(int(path.stem))
            features[found[-1] : found[-1] + len(rows)] = rows
        return found

    def add(self, first: int, features: npt.NDArray[np.float32]) -> None:
        """Keep the features of a batch, (n_rows, n_features); those that are not finite are computed again."""
        if np.isfinite(features).all():
            with atomic_path(self._folder / f"{first:08d}.npy") as temporary, temporary.open("wb") as stream:
                np.save(stream, features, allow_pickle=False)

    def remove(self) -> None:
        """Remove all such folders of the table, of other keys too."""
        for folder in self.target.parent.glob(f".{glob.escape(self.target.name)}.*.partial"):
            shutil.rmtree(folder)
