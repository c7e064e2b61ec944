import threading

import numpy as np
import pytest
import torch

from neurocontrast.data.batches import even_batches, read_batches


class Images:
    def __init__(self, n=9, broken=None):
        self.n = n
        self.broken = broken
        self.read = []

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if index == self.broken:
            raise OSError("no such scan")
        self.read.append(index)
        return {"image": torch.full((1, 2, 2, 2), float(index)), "index": index}


class ImagesInPlace(Images):
    image_shape = (1, 40, 40, 40)
    image_dtype = np.dtype(np.float16)

    def __getitem__(self, index):
        raise AssertionError("read in place instead")

    def read_into(self, out, index):
        if index == self.broken:
            raise OSError("no such scan")
        self.read.append(index)
        out[:] = index


class ImagesInMemory(Images):
    def batch(self, rows):
        self.read += list(rows)
        return np.array(rows, dtype=np.float32)[:, None, None, None, None]


@pytest.mark.parametrize(
    ("n", "size", "expected"),
    [
        (0, 4, []),
        (8, 4, [4, 4]),
        (10, 4, [4, 3, 3]),
        (9, 4, [3, 3, 3]),
        (2, 64, [2]),
        (5, 2, [3, 2]),
        (3, 2, [3]),
    ],
)
def test_batches_are_even_and_lose_nothing(n, size, expected):
    batches = even_batches(range(n), size)
    assert [len(batch) for batch in batches] == expected
    assert [row for batch in batches for row in batch] == list(range(n))


@pytest.mark.parametrize("n_readers", [1, 3])
@pytest.mark.parametrize(
    ("images", "side", "dtype"), [(Images, 2, torch.float32), (ImagesInPlace, 40, torch.float16)]
)
def test_batches_come_in_order_with_their_rows_and_stay_while_they_are_held(
    images, side, dtype, n_readers
):
    given = [[3, 1], [8, 0, 2], [5], [7, 6, 4]]
    read = list(read_batches(images(), given, n_readers=n_readers))
    assert [rows.tolist() for rows, _ in read] == given
    for rows, volumes in read:
        assert (volumes.dtype, volumes.shape) == (dtype, (len(rows), 1, side, side, side))
        assert (volumes == rows[:, None, None, None, None]).all()


def test_reading_stays_a_little_ahead_and_ends_when_closed():
    images = Images(n=100)
    reading = read_batches(images, [[row] for row in range(100)], n_readers=1)
    next(reading)
    reading.close()
    assert len(images.read) <= 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read")]


@pytest.mark.parametrize("images", [Images, ImagesInPlace])
def test_an_error_of_reading_reaches_the_caller(images):
    with pytest.raises(OSError, match="no such scan"):
        list(read_batches(images(broken=4), [[1, 2], [3, 4]], n_readers=2))


def test_samples_in_memory_are_taken_a_batch_at_a_time_without_threads():
    before = threading.active_count()
    images = ImagesInMemory(9)
    read = read_batches(images, [[4, 2], [7, 1, 8]])
    rows, volumes = next(read)
    assert threading.active_count() == before
    assert rows.tolist() == [4, 2]
    assert volumes.flatten().tolist() == [4, 2]
    assert images.read == [4, 2]
    rows, volumes = next(read)
    assert rows.tolist() == volumes.flatten().tolist() == [7, 1, 8]
