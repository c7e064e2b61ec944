"""Attributes and groups of prepared images."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast.exceptions import DataError
from pipelines.natural.columns import add_columns, cluster, group_identical, join_attributes


def test_a_table_gets_its_attributes_and_clusters(tmp_path):
    path = tmp_path / "participants.tsv"
    table = pd.DataFrame(
        {
            "participant_id": ["a", "b", "c"],
            "path": "images.npy#0",
            "split": "train",
            "file": ["x/1", "x/2", "y/3"],
        }
    )
    table.to_csv(path, sep="\t", index=False)
    (tmp_path / "attributes.csv").write_text("file,attr_a\n3,9\n1,0\n2,1\n")
    clusters = {"columns": ["attr_*"], "n_clusters": [2, 3], "identical": [1]}
    add_columns(
        path, attributes=str(tmp_path / "attributes.csv"), attributes_key="file", clusters=clusters
    )
    found = pd.read_csv(path, sep="\t")
    assert found["attr_a"].tolist() == [0, 1, 9]
    assert found["cluster_2"].tolist() == ["c0", "c0", "c1"]
    assert found["cluster_3"].tolist() == found["identical_1"].tolist() == ["c0", "c1", "c2"]
    add_columns(path, clusters={"columns": ["attr_a"], "n_clusters": 3})
    assert "cluster" in pd.read_csv(path, sep="\t")
    with pytest.raises(DataError, match="clusters: needs n_clusters, identical, or both"):
        add_columns(path, clusters={"columns": ["attr_a"], "n_clusters": [], "identical": []})
    with pytest.raises(DataError, match="no column 'colour'"):
        add_columns(path, clusters={"columns": ["colour"], "n_clusters": 3})
    with pytest.raises(DataError, match="3 images miss a number"):
        add_columns(path, clusters={"columns": ["cluster"], "n_clusters": 3})


def test_clusters_are_fitted_on_training_images_alone():
    values = np.array([[0.0], [0.1], [5.0], [5.1], [100.0]])
    training = np.array([True, True, True, True, False])
    assert cluster(values, training, n_clusters=2, seed=0) == ["c0", "c0", "c1", "c1", "c1"]


def test_groups_are_equal_in_the_attributes_of_highest_entropy_among_training_images():
    values = np.array([[0, 1, 5], [0, 0, 5], [0, 1, 6], [1, 0, 6], [7, 8, 9.0]])
    training = np.array([True, True, True, True, False])
    assert group_identical(values, training, n_columns=1) == ["c0", "c1", "c0", "c1", "c2"]
    assert group_identical(values, training, n_columns=2) == ["c0", "c1", "c2", "c3", "c4"]
    with pytest.raises(DataError, match="from 1 to the 3 columns, got 4"):
        group_identical(values, training, n_columns=4)
    with pytest.raises(DataError, match=r"3 clusters need as many different values\. Found 2"):
        cluster(np.array([[0.0], [0.0], [1.0]]), np.ones(3, bool), n_clusters=3, seed=0)


FILES = ["cat/1.png", "cat/2.png", "dog/3.png"]


@pytest.fixture
def attributes(tmp_path):
    def write(text, name="attributes.tsv"):
        (tmp_path / name).write_text(text.replace(" ", "\t"))
        return tmp_path / name

    return write


def test_attributes_are_joined_by_file_or_name_in_any_order(attributes):
    table = attributes(
        "file red wings\n./dog/3.png true n/a\ncat/1.png FALSE 2\nextra.png true 3\ncat/2.png true 0.5\n"
    )
    assert join_attributes(FILES, table, key="file") == {
        "red": ["0", "1", "1"],
        "wings": ["2", "0.5", "n/a"],
    }
    by_name = attributes("name a\n3.png z\n1.png x\n2.png y\n")
    assert join_attributes(FILES, by_name, key="name") == {"a": ["x", "y", "z"]}
    by_name.write_text('file,note\ncat/1.png,a\ncat/2.png,"b\tc"\ndog/3.png,d\n')
    assert join_attributes(FILES, by_name.rename(by_name.with_suffix(".csv")), key="file") == {
        "note": ["a", "b c", "d"]
    }


@pytest.mark.parametrize(
    ("text", "key", "told"),
    [
        ("file a\ncat/1.png x\ncat/1.png y\n", "file", "more than one row for 'cat/1.png'"),
        ("file a\ncat/1.png x\n", "fil", "no column 'fil'. Did you mean 'file'"),
        (
            "file a\ncat/2.png x\n",
            "file",
            r"(?s)2 problems.*'cat/1.png': no row tells of this image",
        ),
        ("file Label\ncat/1.png x\ncat/2.png x\ndog/3.png x\n", "file", "a name that is used here"),
    ],
)
def test_attributes_that_do_not_fit_are_refused(attributes, text, key, told):
    with pytest.raises(DataError, match=told):
        join_attributes(FILES, attributes(text), key=key, taken=["label", "background_red"])
