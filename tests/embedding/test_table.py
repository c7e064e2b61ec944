import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from neurocontrast.documents.embeddings import Embeddings
from neurocontrast.embedding import read_embeddings, write_embeddings
from neurocontrast.exceptions import DataError

INFO = {
    "pretraining_subjects": ["ab"],
    "simulated": True,
    "training_metrics": [{"epoch": 1, "val_loss": None}],
}
TABLE = pd.DataFrame({
    "participant_id": ["001", "002", "003"], "subject_id": ["1", "2", "2"], "session": ["", "1", "2"],
    "path": ["/a", "/b", "/c"], "age": [20.5, np.nan, 71.0], "sex": pd.Series(["F", None, "M"], dtype=object),
})  # fmt: skip
FEATURES = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


def test_table_features_and_description_survive(tmp_path):
    write_embeddings(tmp_path / "e.parquet", TABLE, FEATURES, INFO)
    read = read_embeddings(tmp_path / "e.parquet")
    assert read.features.dtype == np.float32
    np.testing.assert_array_equal(read.features, FEATURES)
    assert read.info.content() == {"format": 1, **INFO}
    assert list(read.table.columns) == list(TABLE.columns)
    assert read.table["participant_id"].tolist() == ["001", "002", "003"]
    np.testing.assert_array_equal(read.table["age"], [20.5, np.nan, 71.0])
    assert read.table["sex"].isna().tolist() == [False, True, False]
    names = pyarrow.parquet.read_schema(tmp_path / "e.parquet").names
    assert names == [*TABLE, "feature_0000", "feature_0001", "feature_0002", "feature_0003"]


def test_a_table_that_pandas_sorted_and_indexed_is_read_as_before(tmp_path):
    values = TABLE.assign(
        score=pd.Series([1, 2, None], dtype=object),
        **{f"feature_{k}": FEATURES[:, 0] + k for k in (10, 9)},
    )
    for frame in (values[::-1], values[::-1].set_index("participant_id")):
        frame.to_parquet(tmp_path / "e.parquet")
        read = read_embeddings(tmp_path / "e.parquet")
        assert read.table.index.tolist() == [0, 1, 2]
        assert (read.table["participant_id"].tolist(), read.table.shape[1]) == (
            ["003", "002", "001"],
            7,
        )
        np.testing.assert_allclose(
            read.features, np.stack([FEATURES[::-1, 0] + k for k in (9, 10)], axis=1)
        )
    read = Embeddings.of(values)
    np.testing.assert_allclose(read.features[:, 1] - read.features[:, 0], 1)
    np.testing.assert_array_equal(read.table["score"], [1, 2, np.nan])  # numbers, not text


def test_what_is_no_embeddings_table_is_refused(tmp_path):
    with pytest.raises(DataError, match="Give an embeddings table"):
        read_embeddings(tmp_path / "absent.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(DataError, match=r"not a readable Parquet file.*neurocontrast embed"):
        read_embeddings(tmp_path / "text.parquet")
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(DataError, match=r"it lacks participant_id, feature_0000 …"):
        read_embeddings(tmp_path / "other.parquet")
    pd.DataFrame({"participant_id": ["a"], "feature_0000": ["x"]}).to_parquet(
        tmp_path / "words.parquet"
    )
    with pytest.raises(DataError, match="feature columns must hold numbers"):
        read_embeddings(tmp_path / "words.parquet")


def test_features_that_are_not_finite_are_refused_by_name(tmp_path):
    features = FEATURES.copy()
    features[1, 2] = np.nan
    with pytest.raises(DataError, match="not finite for 002"):
        write_embeddings(tmp_path / "e.parquet", TABLE, features, INFO)
    assert not list(tmp_path.iterdir())


def test_other_format_and_damaged_description_are_refused(tmp_path):
    write_embeddings(tmp_path / "e.parquet", TABLE, FEATURES, INFO)
    written = pyarrow.parquet.read_table(tmp_path / "e.parquet")
    for text, message in (
        (b'{"format": 2}', "format 2 is not known"),
        (b"{", "its description: not readable as JSON"),
    ):
        changed = written.replace_schema_metadata({b"neurocontrast": text})
        pyarrow.parquet.write_table(changed, tmp_path / "c.parquet")
        with pytest.raises(DataError, match=message):
            read_embeddings(tmp_path / "c.parquet")


def test_a_data_frame_is_what_its_file_would_be(tmp_path):
    names = [f"feature_{number:04d}" for number in range(4)]
    frame = TABLE.assign(**dict(zip(names, FEATURES.T, strict=True))).drop(columns="session")
    frame["n_scans"] = [1, None, 3]
    write_embeddings(tmp_path / "e.parquet", frame.drop(columns=names), FEATURES, {})
    written = read_embeddings(tmp_path / "e.parquet")
    taken = Embeddings.of(frame)
    pd.testing.assert_frame_equal(taken.table, written.table)
    np.testing.assert_array_equal(taken.features, written.features)
    assert taken.digest() == written.digest()
    assert (taken.path.name, Embeddings.of(frame, parameter="test").path.name) == (
        "embeddings.parquet",
        "test.parquet",
    )
    frame.loc[1, names[2]] = np.inf
    with pytest.raises(DataError, match="not finite for 002"):
        Embeddings.of(frame)


def test_damaged_digests_of_people_are_refused(tmp_path):
    write_embeddings(tmp_path / "e.parquet", TABLE, FEATURES, INFO)
    written = pyarrow.parquet.read_table(tmp_path / "e.parquet")
    text = b'{"format": 1, "pretraining_subjects": "ab", "training_metrics": [1]}'
    changed = written.replace_schema_metadata({b"neurocontrast": text})
    pyarrow.parquet.write_table(changed, tmp_path / "c.parquet")
    problem = (
        r"c\.parquet: its description: 'pretraining_subjects' must be a list, found 'ab'; "
        r"'training_metrics\.0' must be a section of keys, found 1\. Embed the scans again"
    )
    with pytest.raises(DataError, match=problem):
        read_embeddings(tmp_path / "c.parquet")
