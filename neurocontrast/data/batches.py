"""Batches of a dataset, read ahead of the computation that needs them."""

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

Batches: TypeAlias = Generator[tuple[torch.Tensor, torch.Tensor], None, None]
"""Rows (n,) and volumes (n, 1, D, H, W), batch by batch; closing it ends the reading."""


class Images(Protocol):
    """A source of batches: `CohortDataset`, or any object with these methods."""

    def __len__(self) -> int:
        """Return the number of scans."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return ``{"image": Tensor (C, D, H, W), …}``."""


@runtime_checkable
class ImagesInPlace(Protocol):
    """Images that are read straight into the memory of a batch, in the precision of the cache."""

    image_shape: tuple[int, ...]
    image_dtype: np.dtype[Any]

    def read_into(self, out: npt.NDArray[Any], index: int) -> None:
        """Read one volume into an array of `image_shape` and `image_dtype`."""


@runtime_checkable
class ImagesInMemory(Protocol):
    """Samples that are at hand without a file to read, such as tables of measures."""

    def batch(self, rows: Sequence[int]) -> npt.NDArray[Any]:
        """Return the samples of some rows, one after the other, as an array of their own."""


@dataclass(frozen=True)
class PairedImages:
    """Two kinds of samples of the same scans, in the same order, whose batches are pairs."""

    first: Images
    second: Images

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return ``{"image": (sample of the first kind, sample of the second)}``."""
        return {"image": (self.first[index]["image"], self.second[index]["image"])}


def even_batches(rows: Sequence[int] | np.ndarray, batch_size: int) -> list[list[int]]:
    """Divide rows, in their order, into batches whose sizes differ by at most one and do not exceed `batch_size`.

    No batch has a single row, which has no negatives: an odd row left over by a `batch_size` of 2
    is in a batch of 3.
    """
    n_rows = len(rows)
    if n_rows == 0:
        return []
    n_batches = max(1, min(-(-n_rows // batch_size), n_rows // 2))
    return [part.tolist() for part in np.array_split(np.asarray(rows, dtype=np.int64), n_batches)]


def read_batches(
    images: Images, batches: Iterable[Sequence[int]], *, n_readers: int = 1
) -> Batches:
    """Yield the batches in their order, read by threads while the caller computes on the one before.

    Samples of `ImagesInMemory` need no reading and no thread. Images of `ImagesInPlace` stay in the
    precision they are kept in (`Encoder` and `TwoViews` widen them on their device).
    """
    if isinstance(images, PairedImages):
        batches = list(batches)
        halves = [
            read_batches(half, batches, n_readers=n_readers)
            for half in (images.first, images.second)
        ]
        try:
            yield from map(_paired, *halves)
        finally:
            for half in halves:
                half.close()
        return
    if isinstance(images, ImagesInMemory):
        for rows in batches:
            yield torch.tensor(rows), torch.from_numpy(images.batch(rows))
        return
    pool = ThreadPoolExecutor(n_readers, thread_name_prefix="read")
    upcoming = iter(batches)
    waiting: deque[tuple[Any, ...]] = deque()
    try:
        while True:
            waiting.extend(
                _asked(pool, images, rows)
                for rows in islice(upcoming, _BATCHES_AHEAD - len(waiting))
            )
            if not waiting:
                return
            # No name here may refer to the batch while the caller has it: its memory would be kept
            # longer.
            yield _stacked(*waiting.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _paired(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the rows of a batch, and its samples of both kinds."""
    assert torch.equal(first[0], second[0])
    return first[0], (first[1], second[1])


def _asked(
    pool: ThreadPoolExecutor, images: Images, rows: Sequence[int]
) -> tuple[Sequence[int], npt.NDArray[Any] | None, list[Future[Any]]]:
    """Ask for the volumes of a batch: straight into its memory, or one by one to be stacked."""
    if not isinstance(images, ImagesInPlace):
        return rows, None, [pool.submit(images.__getitem__, int(row)) for row in rows]
    array = np.empty((len(rows), *images.image_shape), images.image_dtype)
    return (
        rows,
        array,
        [
            pool.submit(images.read_into, part, int(row))
            for part, row in zip(array, rows, strict=True)
        ],
    )


def _stacked(
    rows: Sequence[int], array: npt.NDArray[Any] | None, parts: list[Future[Any]]
) -> tuple[torch.Tensor, torch.Tensor]:
    read = [part.result() for part in parts]
    volumes = (
        torch.from_numpy(array)
        if array is not None
        else torch.stack([item["image"] for item in read])
    )
    return torch.tensor(rows), volumes
