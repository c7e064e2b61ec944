import pandas as pd
import pytest

from neurocontrast.data.listing import read_text_table
from neurocontrast.documents.embeddings import Embeddings
from neurocontrast.exceptions import DataError


def write(tmp_path, content: bytes, name="participants.tsv"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_cells_are_stripped_text_with_their_lines(tmp_path):
    table = read_text_table(write(tmp_path, b"participant_id\tage\n001 \t 3.50\n\n\t\n002\t4\n"))
    assert table.to_dict("index") == {
        2: {"participant_id": "001", "age": "3.50"},
        5: {"participant_id": "002", "age": "4"},
    }


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfparticipant_id\tage\r\n001\t3\r\n",
        b"participant_id\tage\r001\t3\r",
        "participant_id\tage\n001\t3\n".encode("utf-16"),
        b"participant_id\tage\t\t\n001\t3\t\t\n",
        b'"participant_id"\t"age"\n"001"\t"3"\n',
    ],
    ids=["byte order mark and Windows", "old Mac", "UTF-16", "trailing separators", "quoted"],
)
def test_what_spreadsheets_leave_is_taken_away(tmp_path, content):
    assert read_text_table(write(tmp_path, content)).to_dict("list") == {
        "participant_id": ["001"],
        "age": ["3"],
    }


def test_csv_with_commas_or_semicolons_and_cells_over_two_lines(tmp_path):
    comma = read_text_table(write(tmp_path, b'participant_id,note\n1,"a, b\nc"\n2,d\n', "t.csv"))
    assert comma["note"].to_dict() == {2: "a, b\nc", 4: "d"}
    semicolon = read_text_table(write(tmp_path, b"participant_id;age\n1;3\n", "s.csv"))
    assert semicolon.to_dict("list") == {"participant_id": ["1"], "age": ["3"]}


def test_a_quotation_mark_in_a_tsv_joins_no_lines(tmp_path):
    table = read_text_table(write(tmp_path, b'participant_id\tnote\n1\t"open\n2\t5" head\n'))
    assert table["note"].tolist() == ['"open', '5" head']


def test_rows_of_another_length_are_all_named(tmp_path):
    with pytest.raises(DataError) as caught:
        read_text_table(write(tmp_path, b"participant_id\tage\n001\t3\t4\n002\t3\n003\n"))
    assert "2 problems" in str(caught.value)
    assert "line 2, 001: the row has 3 cells and the header 2" in str(caught.value)
    assert "line 4, 003: the row has 1 cells and the header 2" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "t.tsv", "the table is empty"),
        (b"\n \n", "t.tsv", "the table is empty"),
        (b"participant_id\tage\n", "t.tsv", "a header and no rows"),
        (b"participant_id,age\n1,2\n", "t.tsv", "looks separated by commas"),
        (b"participant_id\tage\n1\t2\n", "t.csv", "looks separated by tabs"),
        (b"age\tage\n1\t2\n", "t.tsv", "names the column 'age' 2 times"),
        (b"a\t\tb\n1\t2\t3\n", "t.tsv", "column 2 has no name"),
        (b"a\tb\n1\tK\xf6ln\n", "t.tsv", "line 2 holds a byte that is not UTF-8"),
        (b"PK\x03\x04....", "t.xlsx", "Excel workbook"),
        (b"\x1f\x8b....", "t.tsv", "compressed with gzip"),
        (b"a\tb\n\x00\t1\n", "t.tsv", "zero bytes"),
        (b'a,b\n1,"open\n', "t.csv", "line 2"),
    ],
)
def test_what_is_no_table_is_refused_with_the_reason(tmp_path, content, name, message):
    with pytest.raises(DataError, match=message):
        read_text_table(write(tmp_path, content, name))


def test_an_absent_file_suggests_its_neighbour(tmp_path):
    write(tmp_path, b"a\tb\n", "participants.tsv")
    with pytest.raises(DataError, match=r"no such file\. Did you mean 'participants.tsv'"):
        read_text_table(tmp_path / "participant.tsv")
    with pytest.raises(DataError, match="this is a folder"):
        read_text_table(tmp_path)


def test_a_data_frame_without_rows_is_refused(tmp_path):
    frame = pd.DataFrame(columns=["participant_id", "site", "feature_0"])
    with pytest.raises(DataError, match="DataFrame: needs at least one row"):
        read_text_table(frame)
    with pytest.raises(DataError, match="the DataFrame needs at least one row"):
        Embeddings.of(frame)


@pytest.mark.parametrize("name", ["site", " site "])
def test_a_data_frame_with_two_columns_of_one_name_is_refused(tmp_path, name):
    frame = pd.DataFrame(
        [["a", "x", "y", 1.0]], columns=["participant_id", "site", name, "feature_0"]
    )
    with pytest.raises(DataError, match="DataFrame: has 'site' more than once"):
        read_text_table(frame)
    with pytest.raises(DataError, match="DataFrame: has 'site' more than once"):
        Embeddings.of(frame)
