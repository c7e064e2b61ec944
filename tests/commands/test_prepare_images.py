"""Preparing natural images, from Python and from the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from small_run import Listening

from neurocontrast import check, prepare_images
from neurocontrast.cli import run
from neurocontrast.data import ImageDataset, read_cohort
from neurocontrast.exceptions import DataError
from neurocontrast.seeds import derive_generator


def write_picture(path, seed, *, size=(8, 8)):
    path.parent.mkdir(parents=True, exist_ok=True)
    colours = derive_generator("picture", seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(colours).save(path)


@pytest.fixture
def source(tmp_path):
    """Two classes of ten training and five test images each, every one another."""
    folders = {"train/cat": 10, "train/dog": 10, "test/cat": 5, "test/dog": 5}
    for seed, name in enumerate(f"{folder}/{each:02d}" for folder, n in folders.items() for each in range(n)):
        write_picture(tmp_path / "pets" / f"{name}.png", seed)
    return tmp_path / "pets"


def table_of(path):
    return pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)


def test_digits_are_the_default_and_a_cohort(tmp_path):
    cohort = read_cohort(prepare_images(tmp_path / "digits", n_train=100, n_test=20))
    images = ImageDataset(cohort)
    assert images.image_shape == (3, 8, 8)
    assert dict(cohort.table["split"].value_counts()) == {"train": 100, "validation": 288, "test": 20}
    assert cohort.table["label"].nunique() == 10
    assert cohort.table["participant_id"].str.startswith("digits-image-").all()


def test_a_folder_becomes_a_store_a_table_and_a_record(tmp_path, source):
    path = prepare_images(tmp_path / "out", dataset="folder", source=source)
    cohort = read_cohort(path)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["images.json", "images.npy", "participants.tsv"]
    table = cohort.table
    assert dict(table["split"].value_counts()) == {"train": 16, "test": 10, "validation": 4}
    assert dict(table.groupby("split")["label"].nunique()) == {"train": 2, "test": 2, "validation": 2}
    images = ImageDataset(cohort)
    for row in (0, 17, 29):
        expected = np.asarray(Image.open(source / table["file"][row])).transpose(2, 0, 1)
        np.testing.assert_array_equal(images[row]["image"].numpy(), expected)
        assert table["file"][row].split("/")[1] == table["label"][row]
    # An identifier counts the images of the source's own split.
    last = table[table["file"] == "train/dog/09.png"].iloc[0]
    assert last["participant_id"] == "pets-train-00019"
    record = json.loads((path.parent / "images.json").read_text())
    assert record["n_images"] == {"train": 16, "validation": 4, "test": 10}
    assert record["classes"]["cat"] == {"train": 8, "validation": 2, "test": 5}
    assert str(tmp_path) not in (path.parent / "images.json").read_text()


def test_the_same_settings_write_the_same_bytes(tmp_path, source):
    chosen = {"dataset": "folder", "source": source, "size": 6, "seed": 5}
    first, second = (prepare_images(tmp_path / name, **chosen).parent for name in ("a", "b"))
    for name in ("images.npy", "participants.tsv"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    other = prepare_images(tmp_path / "c", **(chosen | {"seed": 6})).parent
    assert (first / "participants.tsv").read_bytes() != (other / "participants.tsv").read_bytes()


def test_colours_behind_digits_are_in_the_table_and_in_the_picture(tmp_path):
    path = prepare_images(tmp_path / "c", background="random", n_train=200)
    table, images = table_of(path), ImageDataset(read_cohort(path))
    plain = ImageDataset(read_cohort(prepare_images(tmp_path / "plain", n_train=200)))
    colours = table[["background_red", "background_green", "background_blue"]].astype(float).to_numpy()
    for row in (0, 150, 400):
        image, grey = images[row]["image"].numpy(), plain[row]["image"].numpy()
        colour = np.round(colours[row] * 255)
        np.testing.assert_array_equal(image, np.floor((255.0 - grey) * colour[:, None, None] / 255))
    # A subset has the colours of the whole.
    whole = table_of(prepare_images(tmp_path / "whole", background="random")).set_index("participant_id")
    assert (whole.loc[table["participant_id"], "background_red"].to_numpy() == table["background_red"].to_numpy()).all()


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


def test_the_same_image_in_two_splits_is_told(tmp_path, source):
    heard = Listening()
    (source / "test/dog/01.png").write_bytes((source / "train/cat/05.png").read_bytes())
    path = prepare_images(tmp_path / "out", dataset="folder", source=source, progress=heard)
    assert ["1 images of validation or test are the same" in text for text in heard.said] == [True]
    found = check(path)
    assert found.passed
    assert any("1 images of validation or test are the same" in warning for warning in found.warnings)


def test_check_reads_the_store_and_sums_up_its_splits(tmp_path):
    path = prepare_images(tmp_path / "out", n_train=300)
    found = check(path)
    assert found.passed
    assert (found.kind, found.warnings) == ("images", ())
    assert list(found.summary.index) == ["train", "validation", "test", "all"]
    assert found.summary.loc["train", "images"] == 300
    assert found.summary.loc["all", "classes"] == 10
    assert "images; checked table, stores and pixels" in found.to_text()
    store = path.parent / "images.npy"
    content = bytearray(store.read_bytes())
    store.write_bytes(content[:-1])
    cut = check(path, deep=False)
    assert not cut.passed
    assert "cannot be read as a store" in cut.to_text()


# The command line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--dataset", "cifar"], "--dataset: must be"),
        (["--dataset", "cifar10"], "images.source: missing. Dataset 'cifar10' needs"),
        (["--source", "x"], "source is not used by dataset 'digits'"),
        (["--dataset", "folder", "--source", "absent"], "no file or folder 'absent'"),
        (["--dataset", "mnist", "--source", "."], "none of"),
        (["--size", "2"], "images.size"),
        (["--n-train", "100000"], "100,000 images are to be kept"),
        (["--background", "red"], "--background: must be"),
        (["--set", "images.validation_fraction=1.5"], "images.validation_fraction"),
        (["--set", "images.sise=4"], "Did you mean 'size'"),
    ],
)
def test_wrong_input_ends_with_2_and_leaves_nothing(tmp_path, monkeypatch, capsys, arguments, told):
    monkeypatch.chdir(tmp_path)
    assert run(["images", "out", *arguments]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []
