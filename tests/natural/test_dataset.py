import numpy as np
import pandas as pd
import pytest
import torch

from neurocontrast.data import read_cohort
from neurocontrast.data.batches import ImagesInPlace, read_batches
from neurocontrast.data.metadata import encode_metadata, read_vectors
from neurocontrast.exceptions import DataError
from neurocontrast.natural import ImageDataset
from neurocontrast.natural.store import write_store


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (5, 3, 4, 6), dtype=np.uint8)


@pytest.fixture
def make_table(tmp_path, pixels):
    """Two stores, `a` of five images and `b` of two, and a table of the given paths."""
    for name, part in (("a", pixels), ("b", pixels[:2] // 2)):
        write_store(tmp_path / name, iter(part), n_images=len(part), shape=(3, 4, 6))

    def make(*paths, **columns):
        lines = ["\t".join(["participant_id", "path", *columns])]
        lines += [
            "\t".join([f"i{row}", path, *(str(columns[name][row]) for name in columns)])
            for row, path in enumerate(paths)
        ]
        table = tmp_path / "participants.tsv"
        table.write_text("\n".join(lines) + "\n")
        return table

    return make


def test_images_of_several_stores_are_read_by_row(make_table, pixels):
    images = ImageDataset(
        read_cohort(make_table("a/images.npy#3", "b/images.npy#1", "a/images.npy#0"))
    )
    expected = np.stack([pixels[3], pixels[1] // 2, pixels[0]])
    assert isinstance(images, ImagesInPlace)
    assert (images.image_shape, images.image_dtype, len(images)) == ((3, 4, 6), np.uint8, 3)
    assert images[1]["image"].dtype == torch.uint8
    rows, batch = next(read_batches(images, [[2, 0, 1]], n_readers=2))
    assert rows.tolist() == [2, 0, 1]
    np.testing.assert_array_equal(batch.numpy(), expected[[2, 0, 1]])
    mean, _ = images.channel_statistics([0, 1])
    np.testing.assert_allclose(mean, expected[:2].mean(axis=(0, 2, 3)) / 255)


def test_a_table_names_all_images_that_are_not_there(make_table):
    with pytest.raises(DataError) as found:
        read_cohort(
            make_table("a/images.npy#5", "c/images.npy#0", "a/images.npy#4", "b/images.npy#99")
        )
    message = str(found.value)
    assert "3 problems" in message
    assert "line 2, i0, column 'path': there is no image 5" in message
    assert "no such file" in message
    assert "holds 2, counted from 0" in message


def test_images_of_two_sizes_and_scans_are_refused_by_name(make_table, tmp_path, pixels):
    write_store(tmp_path / "c", iter(pixels[:, :, :, :4]), n_images=5, shape=(3, 4, 4))
    (tmp_path / "scan.nii.gz").touch()
    cohort = read_cohort(make_table("a/images.npy#0", "c/images.npy#0", "scan.nii.gz"))
    with pytest.raises(DataError) as found:
        ImageDataset(cohort)
    assert "i1, column 'path': this image is 4×4 pixels" in str(found.value)
    assert "i2, column 'path': found" in str(found.value)


def test_columns_and_files_become_vectors(make_table, tmp_path):
    cohort = read_cohort(
        make_table(
            "a/images.npy#0", "a/images.npy#1", red=[0.5, 0.25], blue=[1, 0], name=["x", "y"]
        )
    )
    features = pd.DataFrame(
        {"participant_id": ["i1", "other", "i0"], "f1": [1.0, 9.0, 2.0], "f2": [3, 9, 4]}
    )
    features.to_parquet(tmp_path / "clip.parquet")
    (tmp_path / "volumes.tsv").write_text("participant_id\tgm_ml\twm_ml\ni1\t610.5\tn/a\n")
    vectors = read_vectors(
        {"rgb": ["red", "bl*"], "clip": "clip.parquet", "anatomy": "volumes.tsv"}, cohort
    )
    np.testing.assert_array_equal(vectors["rgb"], [[0.5, 1], [0.25, 0]])
    np.testing.assert_array_equal(vectors["clip"], [[2, 4], [1, 3]])
    np.testing.assert_array_equal(vectors["anatomy"], [[np.nan, np.nan], [610.5, np.nan]])
    metadata, categories = encode_metadata(
        cohort.table,
        {"rgb": "continuous", "name": "categorical", "red": "continuous"},
        vectors=vectors,
    )
    assert metadata["rgb"].dtype == torch.float32
    assert metadata["rgb"].tolist() == [[0.5, 1], [0.25, 0]]
    assert metadata["red"].shape == (2,)
    assert categories == {"name": ["x", "y"]}
    with pytest.raises(DataError, match="is a vector and is used as categorical"):
        encode_metadata(cohort.table, {"rgb": "categorical"}, vectors=vectors)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"v": ["redd"]}, "no column 'redd'. Did you mean 'red'"),
        ({"v": ["name"]}, "data.vectors.v: must hold columns of numbers. Found text in 'name'"),
        ({"v": ["redd"], "w": ["name"], "red": ["red"]}, "3 problems"),
        ({"red": ["red"]}, "has a column of that name"),
        ({"v": "absent.parquet"}, "no file"),
        ({"v": "broken.parquet"}, "not readable as Parquet"),
        ({"v": "others.parquet"}, "no row for any scan: 'sub-1' there, 'i0', 'i1' here"),
        ({"v": "twice.parquet"}, "'i0' more than once"),
        ({"v": "sessions.parquet"}, "it has a column 'session'; take that out"),
        ({"v": "infinite.parquet"}, "1 rows hold numbers that are infinite"),
    ],
)
def test_vectors_that_cannot_be_are_refused(make_table, tmp_path, spec, told):
    ids = ["i0", "i1"]
    files = {
        "others": {"participant_id": ["sub-1"], "f": [1.0]},
        "twice": {"participant_id": ["i0", "i0", "i1"], "f": [1.0, 2.0, 3.0]},
        "sessions": {"participant_id": ids, "session": [1, 2], "f": [1.0, 2.0]},
        "infinite": {"participant_id": ids, "f": [1.0, np.inf]},
    }
    for name, columns in files.items():
        pd.DataFrame(columns).to_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "broken.parquet").write_text("no parquet")
    cohort = read_cohort(
        make_table("a/images.npy#0", "a/images.npy#1", red=[0.5, 0.25], name=["x", "y"])
    )
    with pytest.raises(DataError, match=told):
        read_vectors(spec, cohort)
