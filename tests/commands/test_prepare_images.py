"""Preparing natural images, from Python and from the command line."""

import numpy as np
import pytest
from PIL import Image
from small_run import read_json

from neurocontrast import prepare_images
from neurocontrast.cli import run
from neurocontrast.data import read_cohort
from neurocontrast.exceptions import DataError
from neurocontrast.natural import ImageDataset
from neurocontrast.seeds import derive_generator


def write_picture(path, seed, *, size=(8, 8)):
    path.parent.mkdir(parents=True, exist_ok=True)
    colours = derive_generator("picture", seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(colours).save(path)


@pytest.fixture
def source(tmp_path):
    """Two classes of ten training and five test images each, every one another."""
    folders = {"train/cat": 10, "train/dog": 10, "test/cat": 5, "test/dog": 5}
    for seed, name in enumerate(
        f"{folder}/{each:02d}" for folder, n in folders.items() for each in range(n)
    ):
        write_picture(tmp_path / "pets" / f"{name}.png", seed)
    return tmp_path / "pets"


def test_a_folder_becomes_a_store_a_table_and_a_record(tmp_path, source):
    path = prepare_images(tmp_path / "out", dataset="folder", source=source)
    cohort = read_cohort(path)
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        "images.json",
        "images.npy",
        "participants.tsv",
    ]
    table = cohort.table
    assert dict(table["split"].value_counts()) == {"train": 16, "test": 10, "validation": 4}
    assert dict(table.groupby("split")["label"].nunique()) == {
        "train": 2,
        "test": 2,
        "validation": 2,
    }
    images = ImageDataset(cohort)
    for row in (0, 17, 29):
        expected = np.asarray(Image.open(source / table["file"][row])).transpose(2, 0, 1)
        np.testing.assert_array_equal(images[row]["image"].numpy(), expected)
        assert table["file"][row].split("/")[1] == table["label"][row]
    # An identifier counts the images of the source's own split.
    last = table[table["file"] == "train/dog/09.png"].iloc[0]
    assert last["participant_id"] == "pets-train-00019"
    record = read_json(path.parent / "images.json")
    assert record["n_images"] == {"train": 16, "validation": 4, "test": 10}
    assert record["classes"]["cat"] == {"train": 8, "validation": 2, "test": 5}
    assert str(tmp_path) not in (path.parent / "images.json").read_text()


def test_all_pictures_that_cannot_be_used_are_told_and_nothing_is_left(tmp_path, source):
    (source / "train/cat/03.png").write_bytes(b"no picture")
    (source / "test/dog/01.png").write_bytes((source / "test/dog/01.png").read_bytes()[:60])
    write_picture(source / "train/dog/04.png", 99, size=(9, 8))
    with pytest.raises(DataError) as found:
        prepare_images(tmp_path / "out", dataset="folder", source=source)
    message = str(found.value)
    assert "3 problems" in message
    assert "train/cat/03.png" in message
    assert "test/dog/01.png" in message
    assert "9×8 pixels, and the first has 8×8" in message
    assert "images.size" in message
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["pets"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--dataset", "cifar10"], "images.source: missing. Dataset 'cifar10' needs"),
        (["--source", "x"], "source is not used by dataset 'digits'"),
        (["--dataset", "folder", "--source", "absent"], "no file or folder 'absent'"),
        (["--dataset", "mnist", "--source", "."], "none of"),
        (["--n-train", "100000"], "100,000 images are to be kept"),
        (["--set", "images.sise=4"], "Did you mean 'size'"),
    ],
)
def test_wrong_input_ends_with_2_and_leaves_nothing(tmp_path, monkeypatch, capsys, arguments, told):
    monkeypatch.chdir(tmp_path)
    assert run(["images", "out", *arguments]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []
