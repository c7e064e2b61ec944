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
    return FinishedBatches(target, key).read_into(features), features


def test_batches_of_all_calls_are_found_but_those_that_are_not_finite_or_not_whole(target):
    FinishedBatches(target, "a" * 32).add(8, FEATURES[8:] * np.float32("nan"))
    next(target.parent.glob(".*")).joinpath(".tmp-00000008.npy").write_bytes(b"half")
    there, features = read(target)
    assert there == [0, 4]
    np.testing.assert_array_equal(features[:8], FEATURES[:8])
    np.testing.assert_array_equal(features[8:], 0)


def test_batches_of_another_key_are_not_used_and_go_with_the_others(target):
    assert read(target, "b" * 32)[0] == []
    FinishedBatches(target, "b" * 32).remove()
    assert list(target.parent.iterdir()) == []
