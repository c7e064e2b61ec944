"""Units and levels in the JSON file beside a table of people hold for every command, or are refused."""

import json

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

from neurocontrast import index
from neurocontrast.commands.check import check
from neurocontrast.commands.prepare import prepare
from neurocontrast.data import read_cohort
from neurocontrast.data.measures.joining import read_measures
from neurocontrast.data.privacy import look_for_identities
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.runs.labels import read_cells

SEXES = {"Levels": {"1": "female", "2": "male"}}


def write_table(folder, columns, described=None, *, name="participants"):
    """Write a table of people, a JSON file beside it, and an image for each; returns the table's path."""
    folder.mkdir(parents=True, exist_ok=True)
    n_people = len(next(iter(columns.values())))
    people = pd.DataFrame(
        {"participant_id": [f"sub-{number}" for number in range(n_people)], **columns}
    )
    for number, person in enumerate(people["participant_id"]):
        path = folder / person / "anat" / f"{person}_T1w.nii.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        voxels = np.random.default_rng(number).normal(100, 20, (8, 8, 8)).astype(np.float32)
        nib.save(nib.Nifti1Image(voxels, np.eye(4)), path)
    people["path"] = people["participant_id"].map("{0}/anat/{0}_T1w.nii.gz".format)
    path = folder / f"{name}.tsv"
    people.to_csv(path, sep="\t", index=False)
    if described is not None:
        text = described if isinstance(described, str) else json.dumps(described)
        path.with_suffix(".json").write_text(text)
    return path


@pytest.mark.parametrize(
    ("columns", "described", "expected"),
    [
        ({"age": [11, 30]}, {"age": {"Units": "months"}}, {"age": [0.9167, 2.5]}),
        ({"age": [11, 30]}, {"AGE": {"Units": "Mo."}}, {"age": [0.9167, 2.5]}),
        ({"age": [11, 30]}, {"age": {"units": "months"}}, {"age": [0.9167, 2.5]}),
        ({"age": [11, 30]}, {"age": {"Unit": "months"}}, {"age": [0.9167, 2.5]}),
        (
            {"age": [11, 30]},
            {"age": {"Description": "Age on the day of the scan"}},
            {"age": [11, 30]},
        ),
        (
            {"sex": [1, 2]},
            {"sex": {"levels": {"1": "female", "2": "male"}}},
            {"sex": ["F", "M"]},
        ),
        (
            {"sex": [1, 2]},
            {"sex": {"Description": "Sex of the participant: 1 = female, 2 = male"}},
            {"sex": ["F", "M"]},
        ),
        (
            {"sex": [0, 1]},
            {"sex": {"Description": "female (0), male (1)"}},
            {"sex": ["F", "M"]},
        ),
        (
            {"sex": [1, 2]},
            {"sex": {"Description": "1 woman had a twin"}},
            {"sex": ["M", "F"]},
        ),
        ({"Age": [731, 3650]}, {"Age": {"Units": "days"}}, {"age": [2.001, 9.993]}),
        ({"age": [11, 30]}, {"age": {"Units": "years old"}}, {"age": [11, 30]}),
        ({"age": [30, -9]}, {"age": {"Levels": {"-9": "unknown"}}}, {"age": [30, np.nan]}),
        ({"sex": [1, 2]}, {"sex": SEXES}, {"sex": ["F", "M"]}),
        ({"sex": ["1.0", "2.0"]}, {"sex": SEXES}, {"sex": ["F", "M"]}),
        ({"sex": [0, 1]}, {"sex": {"Levels": {"0": "Frauen", "1": "Männer"}}}, {"sex": ["F", "M"]}),
        ({"sex": [1, 2]}, {"sex": {"Levels": {"female": 1, "male": 2}}}, {"sex": ["F", "M"]}),
        (
            {"sex": ["H", "M"]},
            {"sex": {"Levels": {"H": "hombre", "M": "mujer"}}},
            {"sex": ["M", "F"]},
        ),
        ({"sex": ["F", "male"]}, {"sex": SEXES}, {"sex": ["F", "M"]}),
        (
            {"sex": ["F", "M"]},
            {"sex": {"Levels": {"F": "female participant", "M": "male participant"}}},
            {"sex": ["F", "M"]},
        ),
        (
            {"diagnosis": [0, 1]},
            {"diagnosis": {"Levels": {"0": "control", "1": {"Description": "patient"}}}},
            {"diagnosis": ["control", "patient"]},
        ),
        (
            {"site": [1, 2]},
            {"site": {"Levels": {"1": "Köln", "2": "Bonn"}}},
            {"site": ["Köln", "Bonn"]},
        ),
    ],
)
def test_units_and_levels_hold_at_every_door(tmp_path, columns, described, expected):
    path = write_table(tmp_path / "bids", columns, described)
    indexed = index(tmp_path / "bids", tmp_path / "idx" / "participants.tsv").path
    report = check(path, write_good=tmp_path / "good.tsv")
    assert not report.problems.found
    for table in (path, indexed, tmp_path / "good.tsv"):
        cohort = read_cohort(table)
        for column, values in expected.items():
            known = pd.Series(values)
            pd.testing.assert_series_equal(
                cohort.table[column], known, check_names=False, check_dtype=False
            )


@pytest.mark.parametrize(
    ("columns", "described", "message"),
    [
        ({"sex": [1, 3]}, {"sex": SEXES}, r"found '3'; Levels of the JSON file has '1', '2'"),
        (
            {"sex": ["F", "M"]},
            {"sex": {"Levels": {"F": "male", "M": "female"}}},
            r"found 'F'; it is explained as 'male'",
        ),
        ({"sex": ["F", "x"]}, {"sex": SEXES}, r"found 'x'"),
        (
            {"sex": [1, 2]},
            {"sex": {"Levels": {"1": "type A", "2": "type B"}}},
            r"found '1'; it is explained as 'type A'",
        ),
        (
            {"sex (1=male, 2=female)": [1, 2]},
            {"sex": SEXES},
            r"found '1'; the column's name says 'male', Levels 'female'",
        ),
        ({"diagnosis": [0, 5]}, {"diagnosis": {"Levels": {"0": "control"}}}, r"found '5'; Levels"),
        ({"age": [3, 4]}, {"age": {"Units": "decades"}}, r"Units 'decades' are not known"),
        (
            {"age": [30, 40]},
            {"age": {"Units": "months", "Description": "age in years"}},
            r"are months, and .* in years",
        ),
        (
            {"age": [30, 40]},
            {"age": {"Description": "Age in months at the scan"}},
            r"are not given, and .* in months",
        ),
        (
            {"age": [60, 70]},
            {"age": {"Description": "Age in months (scans 2 years apart)"}},
            r"are not given, and .* in months",
        ),
        (
            {"age": [60, 70]},
            {"age": {"Description": "age at the scan, months"}},
            r"are not given, and .* in months",
        ),
        (
            {"age": [60, 70]},
            {"age": {"Description": "Alter in Monaten"}},
            r"are not given, and .* in months",
        ),
        (
            {"age": [60, 70]},
            {"age": {"Description": "age at scan (month)"}},
            r"are not given, and .* in months",
        ),
        (
            {"age": [120, 999]},
            {"age": {"Units": "months"}},
            r"found '999'; it seems to mean that the age is not known",
        ),
        (
            {"sex": [1, 9]},
            {"sex": {"Levels": {"1": "male", "2": "female", "9": "w/o answer"}}},
            r"found '9'; it is explained as 'w/o answer'",
        ),
        (
            {"sex": [1, 2]},
            {"sex": {"Levels": {"1": "male", "2": "Trans woman"}}},
            r"found '2'; it is explained as 'Trans woman'",
        ),
        (
            {"sex": [1, 2]},
            {"sex": {"Levels": {"1": "male", "2": "nicht weiblich"}}},
            r"found '2'; it is explained as 'nicht weiblich'",
        ),
        (
            {"sex": ["M", "M"]},
            {"sex": {"Levels": {"1": "Hombre", "2": "Mujer"}}},
            r"found 'M'; Levels of the JSON file has '1', '2'",
        ),
        (
            {"age": [30, 40]},
            {"age": {"LongName": "Age", "Description": "Age (months)"}},
            r"are not given, and .* in months",
        ),
        (
            {"sex": [1, 2, 3]},
            {"sex": {"Description": "1: female, 2: male"}},
            r"found '3'; .* has '1', '2'",
        ),
        ({"age": [1, 2]}, {"age": {"Levels": {"1": "20-25", "2": "26-30"}}}, r"found '1'"),
    ],
)
def test_a_contradiction_is_refused_at_every_door(tmp_path, columns, described, message):
    path = write_table(tmp_path / "bids", columns, described)
    for read in (
        lambda: read_cohort(path),
        lambda: index(tmp_path / "bids", tmp_path / "idx" / "participants.tsv"),
        lambda: check(path).problems.raise_if_any(),
    ):
        with pytest.raises(DataError, match=message):
            read()
    assert not (tmp_path / "idx" / "participants.tsv").exists()


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ("{", r"participants\.json: not readable as JSON"),
        ("[]", r"participants\.json: must hold a JSON object"),
        ({"age": {"Levels": ["1"]}}, r"participants\.json: 'age': Levels must be an object"),
    ],
)
def test_a_damaged_description_is_refused_by_name(tmp_path, described, message):
    path = write_table(tmp_path / "bids", {"age": [30, 40]}, described)
    with pytest.raises(DataError, match=message):
        read_cohort(path)
    with pytest.raises(DataError, match=message):
        index(tmp_path / "bids", tmp_path / "idx" / "participants.tsv")


def test_a_decoded_table_is_not_written_beside_a_description(tmp_path):
    described = {"age": {"Units": "months"}, "sex": SEXES}
    path = write_table(tmp_path / "bids", {"age": [11, 30], "sex": [1, 2]}, described)
    people = path.rename(tmp_path / "people.tsv")
    path.with_suffix(".json").rename(tmp_path / "people.json")
    for place in ("other", "other2"):
        (tmp_path / place).mkdir()
    beside = tmp_path / "other" / "participants.tsv"
    beside.with_suffix(".json").write_text(json.dumps(described))
    with pytest.raises(
        ConfigError, match=r"participants\.json is there, and says what 'age', 'sex'"
    ):
        index(tmp_path / "bids", beside, phenotypes=[people])
    assert sorted(file.name for file in beside.parent.iterdir()) == ["participants.json"]
    with pytest.raises(ConfigError, match=r"participants\.json is there"):
        check(people, images_root=tmp_path / "bids", write_good=beside)
    beside.with_suffix(".json").write_text(json.dumps({"Authors": "us", "hand": {"Levels": {}}}))
    index(tmp_path / "bids", beside, phenotypes=[people])
    assert read_cohort(beside).table["sex"].tolist() == ["F", "M"]


def test_codes_in_the_names_of_other_columns_hold(tmp_path):
    path = write_table(tmp_path, {"Diagnosis (0=control, 1=patient)": [0, 1]})
    assert read_cohort(path).table["diagnosis"].tolist() == ["control", "patient"]


def test_measures_of_people_are_read_by_the_same_rule(tmp_path):
    described = {"age": {"Units": "months"}, "sex": SEXES}
    path = write_table(tmp_path, {"age": [11, 30], "sex": [1, 2]}, described)
    measures = tmp_path / "measures.tsv"
    measures.write_text(
        "participant_id\tlh_cuneus_thickness\trh_cuneus_thickness\n"
        "sub-0\t2.5\t2.4\nsub-1\t2.6\t2.3\n"
    )
    table = read_measures(path, measures).table
    assert table["age"].tolist() == [0.9167, 2.5]
    assert table["sex"].tolist() == ["F", "M"]


def test_labels_that_calibrate_are_decoded(tmp_path):
    described = {"age": {"Units": "months"}, "sex": SEXES}
    path = write_table(tmp_path, {"age": [120, 240], "sex": [1, 2]}, described, name="labels")
    labels = read_cells(path, ["age"])
    assert labels["age"].tolist() == ["10", "20"]
    assert labels["sex"].tolist() == ["F", "M"]
    path.with_suffix(".json").write_text(json.dumps({"age": {"Units": "decades"}}))
    with pytest.raises(DataError, match=r"(?s)labels\.tsv: .*decades"):
        read_cells(path, ["age"])


def test_ages_that_identify_are_judged_in_years(tmp_path):
    path = write_table(tmp_path, {"age": [360, 1080]}, {"age": {"Units": "months"}})
    problems = Problems("participants.tsv")
    look_for_identities(path, [], problems)
    assert [problem.text for problem in problems.found] == [
        "1 ages are above 89 years; write 89+ instead"
    ]


def test_prepared_scans_are_not_listed_beside_a_description(tmp_path):
    described = {"sex": SEXES}
    path = write_table(tmp_path, {"sex": [1, 2]}, described)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "participants.json").write_text(json.dumps(described))
    with pytest.raises(ConfigError, match=r"participants\.json is there, and says what 'sex'"):
        prepare(path, tmp_path / "out")


def test_the_content_of_the_description_changes_the_cohort(tmp_path):
    path = write_table(tmp_path, {"sex": [1, 2]}, {"sex": SEXES})
    before = read_cohort(path).digest()
    path.with_suffix(".json").write_text(json.dumps({"sex": {"Levels": {"1": "m", "2": "f"}}}))
    assert read_cohort(path).digest() != before


def test_a_description_under_the_plain_name_holds_for_another_usual_name(tmp_path):
    people = {"gender": [1, 2], "age": [30, 40]}
    write_table(tmp_path / "bids", people, {"sex": SEXES})
    indexed = index(tmp_path / "bids", tmp_path / "idx" / "participants.tsv")
    assert indexed.table["sex"].tolist() == ["F", "M"]


@pytest.mark.parametrize("name", ["sessions", "scans"])
def test_a_data_set_among_several_has_its_own_description(tmp_path, name):
    image = "anat/sub-01_T1w.nii.gz"
    key = {"sessions": "session_id\tage\nses-1", "scans": f"filename\tage\n{image}"}[name]
    contents = {"dsA": {"age": {"Units": "months"}}, "dsB": {}, "dsC": {"age": {"Units": "years"}}}
    for dataset, content in contents.items():
        person = tmp_path / dataset / "sub-01"
        (person / "anat").mkdir(parents=True)
        (person / image).write_text("image")
        (person / f"sub-01_{name}.tsv").write_text(f"{key}\t84\n")
        (tmp_path / dataset / f"{name}.json").write_text(json.dumps(content))
    alone = index(tmp_path / "dsA", tmp_path / "alone.tsv")
    together = index(tmp_path, tmp_path / "together.tsv")
    assert alone.table["age"].tolist() == ["7"]
    assert together.table["age"].tolist() == ["7", "84", "84"]
    (tmp_path / f"{name}.json").write_text(json.dumps({"age": {"Units": "months"}}))
    inherited = index(tmp_path, tmp_path / "inherited.tsv")
    assert inherited.table["age"].tolist() == ["7", "7", "84"]
