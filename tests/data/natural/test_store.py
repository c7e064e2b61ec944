import pickle

import numpy as np
import pytest

from neurocontrast.data.natural.store import (
    ImageStore,
    is_image_path,
    split_image_path,
    statistics_of,
    write_store,
)
from neurocontrast.exceptions import DataError


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (6, 3, 5, 7), dtype=np.uint8)


@pytest.fixture
def store(tmp_path, pixels):
    return write_store(tmp_path, iter(pixels), n_images=6, shape=(3, 5, 7))


def test_a_path_names_a_store_and_an_index():
    assert split_image_path("/a b/images.npy#17")[1] == 17
    assert str(split_image_path("/a b/x#1.npy#2")[0]) == "/a b/x#1.npy"
    assert not any(map(is_image_path, ["images.npy", "images.npy#", "images.npy#-1", "a.nii.gz#3", "images.npy#1x"]))
    with pytest.raises(DataError, match=r"images\.npy#17"):
        split_image_path("images.npy")


def test_another_process_maps_the_file_and_copies_no_pixels(store):
    content = pickle.dumps(store)
    assert len(content) < 500
    np.testing.assert_array_equal(pickle.loads(content).array, store.array)


def test_statistics_are_those_of_numpy(store, pixels):
    mean, std = statistics_of(store.sums([5, 0, 3]))
    values = pixels[[0, 3, 5]] / 255
    np.testing.assert_allclose(mean, values.mean(axis=(0, 2, 3)), rtol=1e-13)
    np.testing.assert_allclose(std, values.std(axis=(0, 2, 3)), rtol=1e-12)


def test_damaged_and_foreign_files_are_refused(tmp_path, store):
    cut = tmp_path / "cut.npy"
    cut.write_bytes(store.path.read_bytes()[:-100])
    grey, pickled, text = (tmp_path / f"{name}.npy" for name in ("grey", "pickled", "text"))
    np.save(grey, np.zeros((4, 1, 5, 7), np.uint8))
    np.save(pickled, np.array([{}], dtype=object), allow_pickle=True)
    text.write_text("no array")
    np.save(tmp_path / "fortran.npy", np.asfortranarray(store.array))
    for path in (cut, pickled, text):
        with pytest.raises(DataError, match="cannot be read as a store"):
            ImageStore.open(path)
    with pytest.raises(DataError, match=r"shape \(n, 3, H, W\)"):
        ImageStore.open(grey)
    with pytest.raises(DataError, match="C order"):
        ImageStore.open(tmp_path / "fortran.npy")
    with pytest.raises(DataError, match="no such file"):
        ImageStore.open(tmp_path / "absent.npy")
