"""A site or diagnosis that two tables of people give differently is taken from one, and said."""

import pytest

from neurocontrast import index
from tests.data.conftest import put, rows

PEOPLE = "participant_id diagnosis site\nsub-01 control london\nsub-02 MDD paris\nsub-03 MDD 1"


def index_with(root, name, table, people=PEOPLE):
    """Index scans of three people with two tables of people; return table and notes."""
    for person in ("sub-01", "sub-02", "sub-03"):
        put(root, f"bids/{person}/anat/{person}_T1w.nii.gz")
    put(root, "bids/participants.tsv", rows(people))
    put(root, name, rows(table))
    phenotypes = []
    if not name.startswith("bids/"):
        phenotypes.append(root / name)
    indexed = index(root / "bids", root / "out.tsv", phenotypes=phenotypes)
    return indexed.table, [note for note in indexed.notes if "contradict" in note]


@pytest.mark.parametrize("name", ["bids/phenotype/cvlt.tsv", "people.tsv"])
def test_contradictory_tables_are_noted_with_both_columns(tmp_path, name):
    groups = "participant_id Group center\nsub-01 A x\nsub-02 B y"
    table, notes = index_with(tmp_path, name, groups)
    source = name.removeprefix("bids/")
    assert table["diagnosis"].tolist() == ["A", "B", "MDD"]
    for taken, second, example in (
        ("Group", "diagnosis", "'A' and 'control'"),
        ("center", "site", "'x' and 'london'"),
    ):
        note = (
            f"Columns '{taken}' of {source} and '{second}' of participants.tsv contradict each "
            f"other (sub-01: {example} and 1 more); '{taken}' of {source} is taken. "
            "Rename the column that is not meant."
        )
        assert note in notes
    assert len(notes) == 2


def test_tables_that_agree_are_not_noted(tmp_path):
    groups = "participant_id dx center\nsub-01 control london\nsub-02 MDD n/a\nsub-03 MDD 1.0"
    assert not index_with(tmp_path, "people.tsv", groups)[1]


def test_the_diagnosis_of_a_session_may_differ(tmp_path):
    put(tmp_path, "bids/sub-04/ses-2/anat/sub-04_ses-2_T1w.nii.gz")
    groups = "participant_id session_id group\nsub-04 2 AD"
    people = f"{PEOPLE}\nsub-04 control paris"
    table, notes = index_with(tmp_path, "people.tsv", groups, people=people)
    assert table["diagnosis"].tolist()[-1] == "AD"
    assert not notes
