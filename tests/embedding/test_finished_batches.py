import numpy as np
import pytest

from neurocontrast.embedding.extract import FinishedBatches

FEATURES = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)


@pytest.fixture
def target(tmp_path):
    for first in (0, 4):
        FinishedBatches(tmp_path / "e.parquet", "a" * 32).add(first, FEATURES[first : first + 4])
    return tmp_path / "e.parquet"


def read(target, key="a" * 32):
    features = np.zeros_like(FEATURES)
    finished = FinishedBatches(target, key)
    return [first for first in (0, 4, 8) if finished.read_into(features[first : first + 4], first)], features


def test_batches_of_all_calls_are_found_but_those_that_are_not_finite_or_not_whole(target):
    FinishedBatches(target, "a" * 32).add(8, FEATURES[8:] * np.float32("nan"))
    next(target.parent.glob(".*")).joinpath(".tmp-8.npy").write_bytes(b"half")
    there, features = read(target)
    assert there == [0, 4]
    np.testing.assert_array_equal(features[:8], FEATURES[:8])
    np.testing.assert_array_equal(features[8:], 0)


def test_batches_of_another_key_are_not_used_and_go_with_the_others(target):
    assert read(target, "b" * 32)[0] == []
    FinishedBatches(target, "b" * 32).remove()
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", None])
def test_a_damaged_batch_is_computed_again(target, content):
    file = next(target.parent.glob(".*")) / "4.npy"
    file.write_bytes(file.read_bytes()[:-1] if content is None else content)
    there, features = read(target)
    assert there == [0]
    np.testing.assert_array_equal(features[4:], 0)
