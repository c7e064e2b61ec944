import gzip

import numpy as np
import pytest

from neurocontrast.exceptions import DataError
from neurocontrast.natural.archives import open_files
from neurocontrast.natural.formats import (
    class_names,
    read_cifar,
    read_class_folders,
    read_digits,
    read_idx,
    read_mnist,
)
from tests.natural.conftest import idx_bytes

READERS = {"cifar": read_cifar, "mnist": read_mnist, "fashion-mnist": read_mnist}


def read(dataset, source):
    """The pictures of a source, and all of them decoded."""
    with open_files(source) as files:
        read_files = READERS.get(dataset.rstrip("01"), lambda _, given: read_class_folders(given))
        pictures = read_files(dataset, files)
        return pictures, [pictures.read(number) for number in range(len(pictures))]


# Class folders


def folders(source):
    return read("folder", source)[0]


def test_splits_and_classes_are_read_from_folders(write_folder):
    pictures = folders(
        write_folder("Train/cat/1.png", "val/cat/1.png", "test/dog/a/2.png", "readme.txt")
    )
    found = set(zip(pictures.files, pictures.splits, pictures.labels, strict=True))
    assert found == {
        ("Train/cat/1.png", "train", "cat"),
        ("val/cat/1.png", "validation", "cat"),
        ("test/dog/a/2.png", "test", "dog"),
    }
    assert pictures.origin.n_files_skipped == 1


def test_folders_above_the_classes_are_taken_off(write_folder):
    pictures = folders(write_folder("set/v1/cat/1.png", "set/v1/dog/1.png"))
    assert (pictures.files, pictures.labels, pictures.splits) == (
        ["cat/1.png", "dog/1.png"],
        ["cat", "dog"],
        None,
    )
    pictures = folders(write_folder("set/train/cat/1.png", folder="other"))
    assert (pictures.files, pictures.splits) == (["train/cat/1.png"], ["train"])


def test_classes_that_are_numbers_become_text(write_folder):
    assert folders(write_folder("0/1.png", "10/1.png")).labels == ["class 0", "class 10"]
    assert class_names(["nan", "cat"]) == ["class nan", "class cat"]
    assert class_names(["001.Albatross", "002.Finch"]) == ["001.Albatross", "002.Finch"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["readme.txt"], "holds no picture .* 1 other files"),
        (["train/cat/1.png", "cat/2.png"], r"1 outside of them: 'cat/2\.png'"),
        (["1.png", "cat/2.png"], "'1.png': this picture lies in no class folder"),
        (["train/1.png", "train/cat/2.png"], "'train/1.png': this picture lies in no class folder"),
    ],
)
def test_folders_without_an_order_are_refused(write_folder, names, told):
    with pytest.raises(DataError, match=told):
        folders(write_folder(*names))


# CIFAR


def cifar(source, dataset="cifar10"):
    return read(dataset, source)


def write_files(folder, files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_cifar10_is_read_from_a_folder_and_the_official_archive(tmp_path, write_tar, cifar10):
    archive = write_tar(
        {f"cifar-10-batches-bin/{name}": content for name, content in cifar10.items()}, "c.tar.gz"
    )
    for source in (write_files(tmp_path / "bin", cifar10), archive):
        pictures, images = cifar(source)
        assert len(pictures) == 24
        assert pictures.labels[:5] == ["airplane", "automobile", "bird", "cat", "airplane"]
        assert pictures.splits == ["train"] * 20 + ["test"] * 4
        record = np.frombuffer(cifar10["data_batch_2.bin"], np.uint8).reshape(4, 3073)[1]
        np.testing.assert_array_equal(images[5], record[1:].reshape(3, 32, 32))
        assert len(set(pictures.files)) == 24


def test_cifar100_has_fine_and_coarse_labels(tmp_path):
    records = np.zeros((3, 3074), np.uint8)
    records[:, :2] = [[0, 99], [19, 5], [1, 0]]
    records[:, 2:] = np.arange(3)[:, None]
    files = {name: records.tobytes() for name in ("train.bin", "test.bin")}
    files["fine_label_names.txt"] = "\n".join(f"fine{n}" for n in range(100)).encode()
    files["coarse_label_names.txt"] = "\n".join(f"coarse{n}" for n in range(20)).encode()
    pictures, images = cifar(write_files(tmp_path / "c", files), "cifar100")
    assert pictures.labels == ["fine99", "fine5", "fine0"] * 2
    assert pictures.columns["coarse_label"] == ["coarse0", "coarse19", "coarse1"] * 2
    assert [int(image[0, 0, 0]) for image in images] == [0, 1, 2] * 2


def test_cifar_files_that_are_wrong_are_named(tmp_path, cifar10):
    bad = bytearray(cifar10["data_batch_1.bin"])
    bad[3073] = 10
    with pytest.raises(
        DataError, match=r"data_batch_1\.bin: 1 images have a label beyond 9 \(image 1 has 10\)"
    ):
        cifar(write_files(tmp_path / "a", cifar10 | {"data_batch_1.bin": bytes(bad)}))
    with pytest.raises(DataError, match=r"test_batch\.bin: 12,291 bytes"):
        cifar(
            write_files(
                tmp_path / "b", cifar10 | {"test_batch.bin": cifar10["test_batch.bin"][:-1]}
            )
        )


def test_the_python_version_is_never_unpickled(tmp_path):
    source = write_files(
        tmp_path / "c", {"data_batch_1": b"\x80\x04.", "batches.meta": b"\x80\x04."}
    )
    with pytest.raises(DataError, match="This is the Python version, whose pickles are never read"):
        cifar(source)


def test_cifar_with_wrong_names_is_refused(tmp_path, cifar10):
    with pytest.raises(DataError, match=r"must name 10 classes, each once\. Found 2"):
        cifar(write_files(tmp_path / "c", cifar10 | {"batches.meta.txt": b"cat\ndog\n"}))
    with pytest.raises(
        DataError, match=r"cifar100 needs .*train\.bin.*A folder or archive of pictures"
    ):
        cifar(tmp_path / "c", "cifar100")


# MNIST


@pytest.mark.parametrize("compressed", [True, False])
def test_mnist_is_read_compressed_or_not(write_mnist, compressed):
    pictures, images = read("mnist", write_mnist(compressed=compressed))
    assert pictures.splits == ["train"] * 20 + ["test"] * 10
    assert pictures.labels[:3] == ["digit 0", "digit 1", "digit 2"]
    first = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)[7]
    np.testing.assert_array_equal(images[7], np.stack([first] * 3))


def test_fashion_mnist_has_names_of_its_own_and_names_with_dots(write_mnist):
    folder = write_mnist()
    for file in folder.iterdir():
        file.rename(folder / file.name.replace("-idx", ".idx"))
    assert read("fashion-mnist", folder)[0].labels[9] == "Ankle boot"


def test_labels_out_of_range_and_numbers_that_disagree_are_refused(write_mnist):
    folder = write_mnist(compressed=False)
    test_labels = folder / "t10k-labels-idx1-ubyte"
    for content, told in (
        (
            bytes((0, 0, 8, 1, 0, 0, 0, 10)) + bytes([10] * 10),
            r"10 images have a label beyond 9 \(image 0 has 10\)",
        ),
        (bytes((0, 0, 8, 1, 0, 0, 0, 2, 1, 2)), "test: there are 10 images and 2 labels"),
    ):
        test_labels.write_bytes(content)
        with pytest.raises(DataError, match=told):
            read("mnist", folder)
    test_labels.unlink()
    with pytest.raises(DataError, match=r"t10k-labels\.idx1-ubyte.* is there"):
        read("mnist", folder)


def test_idx_files_that_are_wrong_are_refused():
    good = idx_bytes(np.zeros((4, 8, 8), np.uint8))
    cases = {
        "magic": (
            idx_bytes(np.zeros((4, 8, 8), np.uint8), magic=b"\0\0\x0d\3"),
            "begins with 00 00 08 03. Found 00 00 0d 03",
        ),
        "labels": (idx_bytes(np.zeros(4, np.uint8)), "Found 00 00 08 01"),
        "empty": (b"", "Found nothing"),
        "header": (good[:9], "it is cut or damaged"),
        "cut": (good[:-3], "announces 256 bytes, and it holds 253"),
        "long": (good + b"x", "it holds 257"),
        "cut.gz": (
            gzip.compress(np.random.default_rng(0).bytes(3000) + good)[:-40],
            "Found|cut or damaged",
        ),
        "cutdata.gz": (gzip.compress(good)[:-12], "it is cut or damaged"),
        "bomb": (bytes((0, 0, 8, 3)) + b"\xff" * 12, "its header announces"),
    }
    for name, (content, told) in cases.items():
        with pytest.raises(DataError, match=f"{name}: .*({told})"):
            read_idx(name, content, n_dims=3)
    assert read_idx("good", good, n_dims=3).shape == (4, 8, 8)


# Digits


def test_digits_come_with_scikit_learn():
    from sklearn.datasets import load_digits

    pictures = read_digits()
    assert len(pictures) == 1797
    assert pictures.labels[:2] == ["digit 0", "digit 1"]
    np.testing.assert_allclose(pictures.read(5)[2], load_digits().images[5] * 255 / 16, atol=0.5)
    assert pictures.read(0).shape == (3, 8, 8)
