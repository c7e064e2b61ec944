"""Which reader a source is given to."""

from __future__ import annotations

import pytest

from neurocontrast.data.images.settings import ImagesSettings
from neurocontrast.data.images.sources import open_pictures
from neurocontrast.exceptions import DataError


def test_cifar_may_be_class_folders_of_pictures_too(write_folder):
    names = [f"{split}/class{number}/a.png" for split in ("train", "test") for number in range(10)]
    with open_pictures(ImagesSettings(dataset="cifar10", source=write_folder(*names))) as pictures:
        assert len(pictures) == 20
        assert len(set(pictures.labels)) == 10
        assert sorted(set(pictures.splits)) == ["test", "train"]


def test_class_folders_of_another_data_set_are_not_taken_for_cifar(write_folder):
    source = write_folder("train/cat/a.png", "train/dog/a.png", "test/cat/a.png")
    with (
        pytest.raises(DataError, match=r"cifar10 has 10 classes, and its folders name 2 \('cat', 'dog'\)"),
        open_pictures(ImagesSettings(dataset="cifar10", source=source)),
    ):
        pass
