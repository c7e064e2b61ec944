"""Read batches of a dataset in threads, ahead of the computation on earlier batches."""

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

_BATCHES_AHEAD = 2
"""Number of batches that are read ahead of the computation."""

Batches: TypeAlias = Generator[tuple[torch.Tensor, torch.Tensor], None, None]
"""Generator of batches: row numbers (n,) and images (n, C, D, H, W). Closing the generator ends
the reading.
"""
Sample: TypeAlias = dict[str, Any]
"""Sample of a dataset: the image under key ``image``, and the scan's metadata by column."""


class Images(Protocol):
    """Interface of datasets that are read in batches, such as `CohortDataset`."""

    def __len__(self) -> int:
        """Return the number of scans in the dataset."""

    def __getitem__(self, index: int) -> Sample:
        """Return the sample of row `index`, ``{"image": Tensor (C, D, H, W), …}``."""


@runtime_checkable
class ImagesInPlace(Protocol):
    """Interface of datasets that read images straight into a batch's memory, without a copy."""

    image_shape: tuple[int, ...]
    image_dtype: np.dtype[Any]

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Write the image of row `index` into `out`, of `image_shape` and `image_dtype`."""


@runtime_checkable
class ImagesInMemory(Protocol):
    """Interface of datasets that are in memory, such as regional measures, and need no reading."""

    def batch(self, rows: Sequence[int]) -> npt.NDArray[Any]:
        """Return a new array with the samples of the dataset's `rows`, in the order of `rows`."""


@dataclass(frozen=True)
class PairedImages:
    """Two datasets of the same scans in the same order, such as images and regional measures."""

    first: Images
    second: Images

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, index: int) -> Sample:
        """Return both datasets' samples of row `index`, ``{"image": (first, second)}``."""
        return {"image": (self.first[index]["image"], self.second[index]["image"])}


def even_batches(rows: Sequence[int] | np.ndarray, batch_size: int) -> list[list[int]]:
    """Divide rows, in their order, into batches of nearly equal size, at most `batch_size`.

    No batch has a single row, since a contrastive loss compares the rows of a batch: with a
    `batch_size` of 2 and an odd number of rows, one batch has 3.
    """
    n_rows = len(rows)
    if n_rows == 0:
        return []
    n_batches = max(1, min(-(-n_rows // batch_size), n_rows // 2))
    batches = np.array_split(np.asarray(rows, dtype=np.int64), n_batches)
    return [batch.tolist() for batch in batches]


def read_batches(
    images: Images, batches: Iterable[Sequence[int]], *, n_readers: int = 1
) -> Batches:
    """Yield row numbers and images of each of `batches`, in order, read ahead in threads.

    `n_readers` threads read while the caller computes on earlier batches. Samples of
    `ImagesInMemory` need no reading and no thread. Images of `ImagesInPlace` stay in the precision
    of the cache (`Encoder` and `TwoViews` widen them on their device).
    """
    if isinstance(images, PairedImages):
        yield from _read_pairs(images, list(batches), n_readers=n_readers)
        return
    if isinstance(images, ImagesInMemory):
        for rows in batches:
            yield torch.tensor(rows), torch.from_numpy(images.batch(rows))
        return
    pool = ThreadPoolExecutor(n_readers, thread_name_prefix="read")
    upcoming = iter(batches)
    waiting: deque[_Reading] = deque()
    try:
        while True:
            for rows in islice(upcoming, _BATCHES_AHEAD - len(waiting)):
                waiting.append(_start_reading(pool, images, rows))
            if not waiting:
                return
            # No name may refer to the batch while the caller has it: its memory would be kept
            # longer.
            yield waiting.popleft().batch()
    finally:
        pool.shutdown(cancel_futures=True)


def _read_pairs(
    images: PairedImages, batches: Sequence[Sequence[int]], *, n_readers: int
) -> Generator[tuple[Any, Any], None, None]:
    """Yield for each of `batches` the row numbers, and a pair of tensors of samples.

    The tensors hold the samples of `images.first` and of `images.second`. For each of these two
    datasets `n_readers` threads read, unless the dataset is in memory.
    """
    first = read_batches(images.first, batches, n_readers=n_readers)
    second = read_batches(images.second, batches, n_readers=n_readers)
    try:
        yield from map(_paired, first, second)
    finally:
        first.close()
        second.close()


def _paired(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the row numbers of two batches of the same rows, and the pair of the batches' samples.

    `first` and `second` are one batch each, from two datasets: row numbers and samples, as
    `read_batches` yields.
    """
    assert torch.equal(first[0], second[0])
    return first[0], (first[1], second[1])


@dataclass(frozen=True)
class _Reading:
    """Batch that threads are reading: row numbers, the threads' tasks, and an array for the images.

    The array is None if the dataset cannot read into a batch's memory.
    """

    rows: Sequence[int]
    array: npt.NDArray[Any] | None
    tasks: list[Future[Any]]

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Wait until all images of the batch are read; return row numbers and images."""
        items = [task.result() for task in self.tasks]
        if self.array is not None:
            volumes = torch.from_numpy(self.array)
        else:
            volumes = torch.stack([item["image"] for item in items])
        return torch.tensor(self.rows), volumes


def _start_reading(pool: ThreadPoolExecutor, images: Images, rows: Sequence[int]) -> _Reading:
    """Return a batch that threads of `pool` begin to read: the samples of `images` at `rows`.

    If `images` are `ImagesInPlace`, each image is read straight into the memory of the batch.
    """
    if not isinstance(images, ImagesInPlace):
        return _Reading(rows, None, [pool.submit(images.__getitem__, int(row)) for row in rows])
    array = np.empty((len(rows), *images.image_shape), images.image_dtype)
    tasks = []
    for target, row in zip(array, rows, strict=True):
        tasks.append(pool.submit(images.read_into, target, int(row)))
    return _Reading(rows, array, tasks)
