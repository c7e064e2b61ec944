import pickle
import tracemalloc

import numpy as np
import pytest

from neurocontrast.exceptions import DataError
from neurocontrast.natural.store import (
    ImageStore,
    is_image_path,
    split_image_path,
    statistics_of,
    write_store,
)


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (6, 3, 5, 7), dtype=np.uint8)


@pytest.fixture
def store(tmp_path, pixels):
    return write_store(tmp_path, iter(pixels), n_images=6, shape=(3, 5, 7))


def test_a_path_names_a_store_and_an_index():
    assert split_image_path("/a b/images.npy#17")[1] == 17
    assert str(split_image_path("/a b/x#1.npy#2")[0]) == "/a b/x#1.npy"
    assert not any(
        map(
            is_image_path,
            ["images.npy", "images.npy#", "images.npy#-1", "a.nii.gz#3", "images.npy#1x"],
        )
    )
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


@pytest.mark.parametrize("n_images", [5, 7])
def test_too_many_or_too_few_images_leave_no_file(tmp_path, pixels, n_images):
    with pytest.raises(DataError, match=f"{n_images} images were announced and 6"):
        write_store(tmp_path, iter(pixels), n_images=n_images, shape=(3, 5, 7))
    assert list(tmp_path.iterdir()) == []


def test_an_image_of_another_shape_or_type_is_refused(tmp_path, pixels):
    with pytest.raises(DataError, match=r"Image 0 is uint8 \(3, 5, 7\)"):
        write_store(tmp_path, iter(pixels), n_images=6, shape=(3, 5, 5))
    with pytest.raises(DataError, match="float64"):
        write_store(tmp_path, iter(pixels / 2), n_images=6, shape=(3, 5, 7))


def test_a_store_takes_space_as_images_come_so_that_a_full_disk_is_an_error(tmp_path):
    sizes = []

    def images():
        for _ in range(4):
            sizes.extend(path.stat().st_size for path in tmp_path.iterdir())
            yield np.zeros((3, 512, 1024), np.uint8)

    store = write_store(tmp_path, images(), n_images=4, shape=(3, 512, 1024))
    assert (
        sizes[0] == 0
    )  # a map is as long as the whole from the start; what the disk cannot hold ends the process
    assert sizes == sorted(set(sizes))
    assert store.path.stat().st_size > 4 * 3 * 512 * 1024


def test_sums_take_little_memory_beside_the_images(tmp_path):
    images = np.zeros((64, 3, 256, 256), np.uint8)
    store = write_store(tmp_path, iter(images), n_images=64, shape=(3, 256, 256))
    tracemalloc.start()
    try:
        store.sums(range(64))
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


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
