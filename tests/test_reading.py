"""One way in for files: what is damaged, hostile or no file at all is one sentence with its name."""

import os
import zipfile

import numpy as np
import pandas as pd
import pytest

from neurocontrast.data.listing import read_parquet, read_sheet, read_table, read_workbook
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.reading import read_array, read_arrays, read_bytes, read_json


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", r"not readable as JSON \(Expecting value"),
        (b"{", "not readable as JSON"),
        (b"[]", "must hold a JSON object, found list"),
        (b"null", "must hold a JSON object, found null"),
        (b'"\xff"', "not readable as JSON .*0xff"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deep"),
        (b'{"n": ' + b"9" * 5_000 + b"}", "4300 digits"),
        (b'{"n": NaN}', "NaN is not JSON"),
        (b'{"sex": {"1": "male", "1": "female"}}', "two values for the key '1'"),
    ],
)
def test_json_that_cannot_be_used_is_one_sentence(tmp_path, content, found):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"x\.json: .*{found}.*\. Copy it again\.$"):
        read_json(path, error=CheckpointError, remedy="Copy it again.")


def test_json_that_people_write_is_read(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(
        b'\xef\xbb\xbf{"a": 1, "a": 1, "b": [340282366920938463463374607431768211455, 0.5, "\xc3\xa9"]}'
    )
    assert read_json(path) == {"a": 1, "b": [2**128 - 1, 0.5, "é"]}
    path.write_text("[1]")
    assert read_json(path, of=list) == [1]
    with pytest.raises(ConfigError, match="holds more than 2 bytes"):
        read_json(path, error=ConfigError, limit=2)


def test_what_is_no_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, found in {
        "pipe": "a named pipe",
        "link": "a named pipe",
        "loop": "a link that leads back to itself",
        "zero": "a device",
        ".": "a folder",
        "absent": "there is no such file",
        "a\0b": "no usable path",
    }.items():
        for read in (
            read_bytes,
            read_json,
            read_array,
            read_arrays,
            read_table,
            read_workbook,
            read_parquet,
        ):
            with pytest.raises(DataError, match=found):
                read(f"{tmp_path}/{name}")


def test_arrays_are_as_they_were_saved(tmp_path):
    arrays = {
        "a": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "text": np.array("x"),
        "none": np.zeros((0, 3), ">i2"),
    }
    np.savez(tmp_path / "a.npz", **arrays)
    for name, array in read_arrays(tmp_path / "a.npz", shapes={"a": (2, None), "text": ()}).items():
        np.testing.assert_array_equal(array, arrays[name], strict=True)
    np.save(tmp_path / "a.npy", arrays["a"])
    np.testing.assert_array_equal(read_array(tmp_path / "a.npy"), arrays["a"])


def test_damaged_arrays_are_one_sentence(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((12, 34, 56)))
    whole = path.read_bytes()
    huge = whole.replace(b"(12, 34, 56)", b"(9999999999999, )")
    for content in (b"", whole[:40], whole[:-1], b"\x93NUMPY\x09\x00" + whole[8:], huge):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.npy: not readable as an array"):
            read_array(path)
    np.save(path, np.array([{}]), allow_pickle=True)
    with pytest.raises(DataError, match=r"not readable as an array .*allow_pickle"):
        read_array(path)


def test_damaged_archives_are_one_sentence(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(1000.0), b=np.zeros(3))
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[600] ^= 1
    for content in (b"", b"PK\x03\x04", whole[: len(whole) // 2], bytes(damaged)):
        path.write_bytes(content)
        with pytest.raises(
            CheckpointError, match=r"a\.npz: not readable as an archive of arrays .*\. Copy\.$"
        ):
            read_arrays(path, error=CheckpointError, remedy="Copy.")
    path.write_bytes(whole)
    with pytest.raises(DataError, match="the array 'c' is missing"):
        read_arrays(path, shapes={"c": ()})
    with pytest.raises(DataError, match=r"the array 'b' is of shape \(3,\), and must be 4"):
        read_arrays(path, shapes={"b": (4,)})


def test_tables_that_cannot_be_used_are_one_sentence(tmp_path):
    path = tmp_path / "t.tsv"
    for content, found in {
        b"": "not readable as a table",
        b"a\tb\n\xff\t1\n": "not readable as a table",
        b"a\tb\n1\t2\t3\n4\t5\t6\n": "not readable as a table .Length of header",
        b"a\tc\n1\t2\n": "missing columns: 'b'; found: 'a', 'c'",
    }.items():
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=rf"t\.tsv: .*{found}.* Copy\.$"):
            read_table(path, needed=["a", "b"], error=CheckpointError, remedy="Copy.")


def test_damaged_workbooks_are_one_sentence(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "w.xlsx"
    pd.DataFrame({"id": ["1", "2"], "age": ["3", "4"]}).to_excel(path, index=False)
    assert read_workbook(path).to_dict("list") == {"id": ["1", "2"], "age": ["3", "4"]}
    pd.DataFrame([[1, 3, 5]], columns=["id", "age", "age"]).to_excel(path, index=False)
    with pytest.raises(DataError, match=r"w\.xlsx: has 'age' more than once"):
        read_sheet(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for damage in ("", "<a/>", parts["xl/workbook.xml"][:-20]):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, damage if name == "xl/workbook.xml" else content)
        with pytest.raises(DataError, match="not readable as an Excel workbook"):
            read_workbook(path)
