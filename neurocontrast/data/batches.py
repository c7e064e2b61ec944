"""Batches of a dataset, read ahead of the computation that needs them."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

_BATCHES_AHEAD = 2

Batches: TypeAlias = Generator[tuple[torch.Tensor, torch.Tensor], None, None]
"""Rows (n,) and volumes (n, 1, D, H, W), batch by batch; closing it ends the reading."""


class Images(Protocol):
    """What batches are read from: `CohortDataset`, or anything that answers alike."""

    def __len__(self) -> int:
        """Return the number of scans."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return ``{"image": Tensor (C, D, H, W), …}``."""


@runtime_checkable
class ImagesInPlace(Protocol):
    """Images that are read straight into a batch, in the precision they are kept in."""

    image_shape: tuple[int, ...]
    image_dtype: np.dtype[Any]

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Read one volume into an array of `image_shape` and `image_dtype`."""


def even_batches(rows: Sequence[int] | np.ndarray, batch_size: int) -> list[list[int]]:
    """Divide rows, in their order, into batches whose sizes differ by at most one and do not exceed `batch_size`.

    No batch has a single row, which has no negatives: an odd row left over by a `batch_size` of 2 is in a batch of 3.
    """
    n_rows = len(rows)
    if n_rows == 0:
        return []
    n_batches = max(1, min(-(-n_rows // batch_size), n_rows // 2))
    return [part.tolist() for part in np.array_split(np.asarray(rows, dtype=np.int64), n_batches)]


def read_batches(images: Images, batches: Iterable[Sequence[int]], *, n_readers: int = 1) -> Batches:
    """Yield the batches in their order, read by threads while the caller computes on the one before.

    Images of `ImagesInPlace` stay in the precision they are kept in (`Encoder` and `TwoViews` widen them on their
    device). With 0 readers the caller's thread reads.
    """
    if n_readers == 0:
        for rows in batches:
            yield _read(_Batch(images, rows))
        return
    pool = ThreadPoolExecutor(n_readers, thread_name_prefix="read")
    upcoming = iter(batches)
    waiting: deque[tuple[_Batch, list[Future[None]]]] = deque()
    try:
        while True:
            for rows in islice(upcoming, _BATCHES_AHEAD - len(waiting)):
                batch = _Batch(images, rows)
                parts = np.array_split(range(len(rows)), n_readers)
                waiting.append((batch, [pool.submit(batch.read, part) for part in parts]))
                del batch
            if not waiting:
                return
            # Nothing here may refer to the batch while the caller has it: its memory would be kept longer.
            yield _finish(*waiting.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


class _Batch:
    """A batch while it is read: straight into its memory, or volume by volume to be stacked."""

    def __init__(self, images: Images, rows: Sequence[int]) -> None:
        self.rows, self._images = rows, images
        self._array: npt.NDArray[Any] | None = None
        if isinstance(images, ImagesInPlace):
            self._array = np.empty((len(rows), *images.image_shape), images.image_dtype)
        self._volumes: dict[int, torch.Tensor] = {}

    def read(self, places: Iterable[int]) -> None:
        for place in places:
            row = int(self.rows[place])
            if self._array is None:
                self._volumes[place] = self._images[row]["image"]
            else:
                assert isinstance(self._images, ImagesInPlace)
                self._images.read_into(self._array[place], row)

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._array is not None:
            return torch.tensor(self.rows), torch.from_numpy(self._array)
        return torch.tensor(self.rows), torch.stack([self._volumes[place] for place in range(len(self.rows))])


def _read(batch: _Batch) -> tuple[torch.Tensor, torch.Tensor]:
    batch.read(range(len(batch.rows)))
    return batch.tensors()


def _finish(batch: _Batch, pending: list[Future[None]]) -> tuple[torch.Tensor, torch.Tensor]:
    for future in pending:
        future.result()
    return batch.tensors()
