"""`index` finds tables of measures, joins people to them, and writes both tables with where they came from."""

import json

import pandas as pd
import pytest

from neurocontrast import index
from neurocontrast.data.measures import read_tables
from neurocontrast.exceptions import DataError
from neurocontrast.files import digest_of_file

PEOPLE = (
    "participant_id\tage\tsex\tsite\tsession\nsub-01\t30\tF\tparis\tn/a\nsub-02\t41\tM\tlondon\t1\n"
)


@pytest.fixture
def subjects(subject):
    subject("sub-01")
    root = subject("sub-02_ses-1", hippocampus=3900).parent
    (root / "participants.tsv").write_text(PEOPLE)
    return root


def made(root, **options):
    (root / "out").mkdir(exist_ok=True)
    found = index(root, root / "out" / "participants.tsv", overwrite=True, **options)
    tables = [
        pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
        for path in (found.path, found.measures_path)
    ]
    return *tables, json.loads((root / "out" / "index.json").read_text())


def test_people_and_measures_become_two_tables_that_join(subjects):
    people, measures, record = made(subjects)
    assert people[["participant_id", "session", "age", "site", "tiv"]].to_numpy().tolist() == [
        ["sub-01", "n/a", "30", "paris", "1500.0"],
        ["sub-02", "1", "41", "london", "1500.0"],
    ]
    assert "path" not in people
    assert measures[["participant_id", "session", "Left-Hippocampus"]].to_numpy().tolist() == [
        ["sub-01", "n/a", "4280.4"],
        ["sub-02", "1", "3900.0"],
    ]
    source = subjects / "subjects" / "sub-01" / "stats" / "aseg.stats"
    recorded = {each["path"]: each for each in record["measures"]["sources"]}
    assert recorded[str(source)]["digest"] == digest_of_file(source)
    assert recorded[str(source)]["n_bytes"] == source.stat().st_size
    assert len(recorded) == 6  # of one atlas
    again = read_tables(subjects / "out" / "measures.tsv")
    raw = read_tables(subjects / "subjects")
    pd.testing.assert_frame_equal(again.values, raw.values)
    assert (again.kinds, again.atlas, again.software) == (raw.kinds, raw.atlas, raw.software)


def test_measures_without_a_person_are_problems_and_may_be_left_out(subjects, subject):
    subject("sub-03")
    with open(subjects / "participants.tsv", "a") as stream:
        stream.write("sub-04\t20\tF\tparis\tn/a\n")
    with pytest.raises(DataError) as error:
        made(subjects)
    assert "sub-03: there are measures, and no table has a row" in str(error.value)
    people, measures, record = made(subjects, skip=True)
    assert record["notes"] == [
        "People in a table with no measures: sub-04.",
        "--skip left out 1 of 3 scans; of 3 people, 1 are left out altogether.",
    ]
    assert len(people) == len(measures) == 2
    assert [each for each in record["left_out"] if each["what"] == "sub-03"] == [
        {"what": "sub-03", "reason": "there are measures, and no table has a row"}
    ]


def test_measures_of_an_earlier_call_do_not_stay_beside_a_table_without_any(subjects):
    made(subjects)
    bids = subjects.with_name("bids")
    for name in ("sub-01", "sub-02"):
        (bids / name / "anat").mkdir(parents=True)
        (bids / name / "anat" / f"{name}_T1w.nii.gz").write_text("image")
    (subjects / "out" / "mine.json").write_text("{}")
    found = index(bids, subjects / "out" / "participants.tsv", overwrite=True)
    assert found.measures_path is None
    assert sorted(path.name for path in (subjects / "out").iterdir()) == [
        "index.json",
        "mine.json",
        "participants.tsv",
    ]


def test_a_column_to_keep_is_of_people_or_of_measures(subjects):
    (subjects / "more.tsv").write_text(
        "participant_id\tWM-hypointensities\tCSF\tOptic-Chiasm\tCC_Central\tCC_Anterior\tlesions\n"
        "sub-01\t1000\t900\t200\t500\t800\t3\nsub-02_ses-1\t1000\t900\t200\t500\t800\t4\n"
    )
    (subjects / "participants.tsv").write_text(PEOPLE.replace("site", "score"))
    people, measures, _ = made(subjects, keep=["lesions", "score"])
    assert (people["score"].tolist(), measures["lesions"].tolist()) == (
        ["paris", "london"],
        ["3.0", "4.0"],
    )
    assert "lesions" not in people


def test_images_get_their_measures_beside_them(subjects):
    (subjects / "subjects" / "sub-01" / "mri").mkdir()
    (subjects / "subjects" / "sub-01" / "mri" / "brainmask.mgz").write_text("image")
    (subjects / "participants.tsv").write_text(PEOPLE.rpartition("sub-02")[0])
    people, measures, record = made(subjects)
    assert people["path"].tolist() == ["../subjects/sub-01/mri/brainmask.mgz"]
    assert measures["participant_id"].tolist() == ["sub-01"]
    assert record["left_out"][-1] == {
        "what": "sub-02 session 1",
        "reason": "a table of measures has a row, and there is no scan",
    }
    (subjects / "subjects" / "sub-02_ses-1" / "stats" / "aseg.stats").write_text("cut")
    (subjects / "out" / "measures.tsv").unlink()
    found = index(subjects, subjects / "out" / "participants.tsv", overwrite=True)
    assert (
        found.measures_path is None
    )  # images can be indexed where measures cannot be read, and it is said
    assert any(
        "no line '# ColHeaders'" in reason for what, reason in found.left_out if what == "measures"
    )
