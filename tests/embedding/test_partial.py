import numpy as np
import pytest

from neurocontrast.embedding.partial import FinishedBatches

FEATURES = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)


@pytest.fixture
def target(tmp_path):
    for first in (0, 4):
        FinishedBatches(tmp_path / "e.parquet", "a" * 32).add(first, FEATURES[first : first + 4])
    return tmp_path / "e.parquet"


def read(target, key="a" * 32):
    features = np.zeros_like(FEATURES)
    return FinishedBatches(target, key).read_into(features), features


def test_batches_of_all_calls_are_found(target):
    there, features = read(target)
    assert there == [0, 4]
    np.testing.assert_array_equal(features[:8], FEATURES[:8])
    np.testing.assert_array_equal(features[8:], 0)


def test_batches_of_another_key_are_not_used_and_go_with_the_others(target):
    assert read(target, "b" * 32)[0] == []
    FinishedBatches(target, "b" * 32).remove()
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("harm", [lambda content: content[:-1], lambda content: content[:-1] + b"?", lambda _: b""])
def test_a_batch_that_was_cut_off_or_damaged_is_not_used(target, harm):
    first = FinishedBatches(target, "a" * 32)
    first.add(8, FEATURES[8:])
    assert read(target)[0] == [0, 4, 8]
    path = next(path for path in target.parent.iterdir() if FEATURES[8:].tobytes() in path.read_bytes())
    path.write_bytes(harm(path.read_bytes()))
    there, features = read(target)
    assert there == [0, 4]
    np.testing.assert_array_equal(features[8:], 0)


def test_features_that_are_not_finite_are_computed_again(target):
    FinishedBatches(target, "a" * 32).add(8, FEATURES[8:] * np.float32("nan"))
    assert read(target)[0] == [0, 4]


def test_a_full_disk_is_an_error_that_names_the_table(target, monkeypatch):
    if not (full := target.parent / "full").exists():
        full.symlink_to("/dev/full")
    finished = FinishedBatches(target, "a" * 32)
    monkeypatch.setattr(finished, "_file", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        finished.add(8, FEATURES[8:])
    assert error.value.filename == str(target)
