"""Features of finished batches, kept beside the table to be written: a call that was killed continues with them."""

from __future__ import annotations

import glob
import struct
import uuid
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["FinishedBatches"]

_HEAD = struct.Struct("<QQI")  # first row, number of rows, CRC-32 of both and of the features


class FinishedBatches:
    """Features of batches in hidden files beside a table, which a call that was killed leaves.

    Every call, and each of its processes, appends to a file of its own. A batch that was cut off, or is damaged, is
    computed again.

    Parameters
    ----------
    target : Path
        Table that is to be written.
    key : str
        Digest of all that the features depend on; files of another one are not used.
    """

    def __init__(self, target: Path, key: str) -> None:
        self.target, self._key = target, key[:16]
        self._file = target.with_name(f".{target.name}.{self._key}.{uuid.uuid4().hex[:8]}.partial")

    def read_into(self, features: npt.NDArray[np.float32]) -> list[int]:
        """Fill in the rows of finished batches, of all (n, n_features), and return the first row of each batch."""
        found: set[int] = set()
        for path in self._files(self._key):
            with path.open("rb") as stream:
                while len(head := stream.read(_HEAD.size)) == _HEAD.size:
                    first, n_rows, checksum = _HEAD.unpack(head)
                    rows = features[first : first + n_rows]
                    content = stream.read(rows.nbytes) if len(rows) == n_rows else b""
                    if _checksum(first, n_rows, content) != checksum or len(content) < rows.nbytes:
                        break
                    rows[:] = np.frombuffer(content, dtype="<f4").reshape(rows.shape)
                    found.add(first)
        return sorted(found)

    def add(self, first: int, features: npt.NDArray[np.float32]) -> None:
        """Keep the features of a batch, (n_rows, n_features); those that are not finite are computed again."""
        if not np.isfinite(features).all():
            return
        content = features.astype("<f4").tobytes()
        head = _HEAD.pack(first, len(features), _checksum(first, len(features), content))
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("ab") as stream:
                stream.write(head + content)
        except OSError as error:
            error.filename = str(self.target)
            raise

    def remove(self) -> None:
        """Remove all such files of the table, of other keys too."""
        for path in self._files("*"):
            path.unlink(missing_ok=True)

    def _files(self, key: str) -> list[Path]:
        return sorted(self.target.parent.glob(f".{glob.escape(self.target.name)}.{key}.*.partial"))


def _checksum(first: int, n_rows: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(struct.pack("<QQ", first, n_rows)))
