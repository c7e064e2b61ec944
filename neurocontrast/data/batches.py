"""Batches of a dataset, read ahead of the computation that needs them."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Protocol, TypeAlias

import numpy as np
import torch

__all__ = ["Batches", "Images", "even_batches", "read_batches"]

_BATCHES_AHEAD = 2

Batches: TypeAlias = Generator[tuple[torch.Tensor, torch.Tensor], None, None]
"""Rows (n,) and volumes (n, 1, D, H, W), batch by batch; closing it ends the reading."""


class Images(Protocol):
    """What batches are read from: `VolumeDataset`, or anything that answers alike."""

    def __len__(self) -> int:
        """Return the number of scans."""

    def __getitem__(self, index: int) -> dict[str, torch.Tensor | int]:
        """Return ``{"image": Tensor (1, D, H, W), "index": int}``."""


def even_batches(rows: Sequence[int] | np.ndarray, batch_size: int) -> list[list[int]]:
    """Divide rows, in their order, into batches of nearly equal size.

    Every row is in exactly one batch; sizes differ by at most one and do not exceed
    `batch_size`, so there is no small last batch with few negatives and unsteady batch
    statistics. No batch has a single row, which has no negatives: an odd row left
    over by a `batch_size` of 2 joins another batch.

    Examples
    --------
    >>> even_batches(range(7), 3)
    [[0, 1, 2], [3, 4], [5, 6]]
    """
    n_rows = len(rows)
    if n_rows == 0:
        return []
    n_batches = max(1, min(-(-n_rows // batch_size), n_rows // 2))
    return [part.tolist() for part in np.array_split(np.asarray(rows, dtype=np.int64), n_batches)]


def read_batches(images: Images, batches: Iterable[Sequence[int]], *, n_readers: int = 1) -> Batches:
    """Read batches in their order while the caller computes on the one before.

    Threads, not processes: the reading is memory-mapped arrays and conversions that release
    the interpreter, a batch needs no copy between processes, and nothing is left behind
    when the process is killed.

    Parameters
    ----------
    images : Images
        The dataset.
    batches : iterable of sequences of int
        Rows of each batch.
    n_readers : int
        Threads that read; 0 reads in the caller's thread.

    Yields
    ------
    rows : Tensor (n,), int64
        The rows of the batch.
    volumes : Tensor (n, 1, D, H, W)
        Their images.
    """
    if n_readers == 0:
        for rows in batches:
            yield torch.tensor(rows), torch.stack([_image(images, row) for row in rows])
        return
    pool = ThreadPoolExecutor(n_readers, thread_name_prefix="read")
    upcoming = iter(batches)
    waiting: deque[tuple[Sequence[int], list[Future[torch.Tensor]]]] = deque()
    try:
        while True:
            for rows in islice(upcoming, _BATCHES_AHEAD - len(waiting)):
                waiting.append((rows, [pool.submit(_image, images, row) for row in rows]))
            if not waiting:
                return
            rows, pending = waiting.popleft()
            yield torch.tensor(rows), torch.stack([future.result() for future in pending])
    finally:
        pool.shutdown(cancel_futures=True)


def _image(images: Images, row: int) -> torch.Tensor:
    image = images[int(row)]["image"]
    assert isinstance(image, torch.Tensor)
    return image
