"""Rows of several visits without a column session_id never become one row of all scans."""

import pytest

from neurocontrast import index
from neurocontrast.exceptions import DataError
from tests.data.conftest import put, rows

HEADER = "participant_id redcap_event_name age sex diagnosis mmse subject_id"
BASELINE = "01 baseline_arm_1 70 F n/a n/a n/a"
FOLLOW_UP = "01 fu_arm_1 n/a n/a AD 21 n/a"
WITH_SEX = "01 first 70 F AD 21 n/a"
WITH_SUBJECT = "01 second 70.0 n/a AD 21 P1"


def index_with(root, *lines):
    """Index two scans of one person with a table of the user; return the table of scans."""
    for session in "12":
        put(root, f"bids/sub-01/ses-{session}/anat/sub-01_ses-{session}_T1w.nii.gz")
    put(root, "people.tsv", rows("\n".join([HEADER, *lines])))
    return index(
        root / "bids",
        root / "out.tsv",
        phenotypes=[root / "people.tsv"],
        keep=["mmse"],
    ).table


@pytest.mark.parametrize(
    ("lines", "messages"),
    [
        (
            [BASELINE, FOLLOW_UP],
            [
                "age is '70' in line 2, and missing here",
                "diagnosis is missing in line 2, and 'AD' here",
                "mmse is missing in line 2, and '21' here",
            ],
        ),
        (
            [FOLLOW_UP, BASELINE],
            [
                "age is missing in line 2, and '70' here",
                "diagnosis is 'AD' in line 2, and missing here",
                "mmse is '21' in line 2, and missing here",
            ],
        ),
    ],
)
def test_a_cell_filled_in_one_row_alone_is_refused_either_way(tmp_path, lines, messages):
    with pytest.raises(DataError) as caught:
        index_with(tmp_path, *lines)
    report = str(caught.value)
    for message in messages:
        assert (
            f"line 3, sub-01: people.tsv: {message}; several rows of a participant need" in report
        )
    assert "3 problems" in report
    assert not (tmp_path / "out.tsv").exists()


@pytest.mark.parametrize("lines", [(WITH_SEX, WITH_SUBJECT), (WITH_SUBJECT, WITH_SEX)])
def test_sex_and_subject_hold_for_all_rows_of_a_person(tmp_path, lines):
    table = index_with(tmp_path, *lines)
    for column, cell in (("sex", "F"), ("subject_id", "P1"), ("mmse", "21")):
        assert table[column].tolist() == [cell, cell]
