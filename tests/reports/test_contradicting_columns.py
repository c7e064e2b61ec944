"""Two columns of one meaning that contradict each other, as sex and gender, are named."""

import json

import numpy as np
import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast import index
from neurocontrast.data import read_cohort
from neurocontrast.exceptions import DataError
from tests.reports.folders import write_aseg

N = 12


def people(**columns):
    table = {
        "participant_id": [f"sub-{row:02d}" for row in range(N)],
        "age": [f"{30 + row}" for row in range(N)],
        "sex": ["F", "M"] * (N // 2),
    }
    return pd.DataFrame({**table, **columns})


def cohort_of(table, folder):
    path = folder / "participants.tsv"
    table.to_csv(path, sep="\t", index=False)
    return read_cohort(path, channels=())


def indexed(table, folder):
    random = np.random.default_rng(0)
    for person in table["participant_id"]:
        write_aseg(folder / "fs" / person / "stats" / "aseg.stats", random)
    table.to_csv(folder / "people.tsv", sep="\t", index=False)
    return index(folder / "fs", folder / "out.tsv", phenotypes=[folder / "people.tsv"])


def warnings_of_cohort(table, folder):
    return " ".join(cohort_of(table, folder).warnings)


def warnings_of_index(table, folder):
    return " ".join(indexed(table, folder).notes)


def warnings_of_frame(table, folder):
    del folder
    return " ".join(read_cohort(table, channels=()).warnings)


DOORS = {
    "cohort": warnings_of_cohort,
    "index": warnings_of_index,
    "frame": warnings_of_frame,
}
OTHERS = ["M", "F"] * (N // 2)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "columns",
    [
        {"gender": OTHERS},
        {"Gender": [{"M": "male", "F": "female"}[sex] for sex in OTHERS]},
        {"Gender_ 1=female_2=male": [{"M": "2", "F": "1"}[sex] for sex in OTHERS]},
        {"Geschlecht": [{"M": "m", "F": "w"}[sex] for sex in OTHERS]},
        {"sex": ["1", "2"] * (N // 2), "gender": ["female", "male"] * (N // 2)},
        {"age": [f"{row}" for row in range(3, 3 + N)], "age_years": ["0.5"] * N},
    ],
    ids=lambda columns: next(reversed(columns)),
)
def test_columns_that_contradict_each_other_in_most_rows_are_refused(tmp_path, door, columns):
    with pytest.raises(DataError) as error:
        DOORS[door](people(**columns), tmp_path)
    text = str(error.value)
    assert f"'{next(reversed(columns))}' contradict each other in {N} of {N} rows (line 2: " in text
    assert "Levels" in text
    assert not (tmp_path / "out.tsv").exists()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"gender": ["F", "M"] * 5 + ["M", "F"]}, "'sex' and 'gender' contradict each other in 2"),
        ({"gender": ["1", "2"] * 5 + ["2", "1"]}, "'sex' and 'gender' contradict each other in 2"),
        ({"gender": ["2", "1"] * 5 + ["1", "2"]}, "'sex' and 'gender' contradict each other in 2"),
        (
            {"site": ["a", "b"] * 6, "center": ["A", "B"] * 5 + ["a", "a"]},
            "'site' and 'center' contradict each other in 1 of 12 rows (line 13: 'b' and 'a')",
        ),
        (
            {"diagnosis": ["hc", "pd"] * 6, "group": ["pd", "hc"] * 6},
            "'diagnosis' and 'group' contradict each other in 12",
        ),
        ({"age_at_scan": ["80"] * N}, "'age' and 'age_at_scan' contradict each other in 12"),
    ],
)
def test_other_contradictions_are_warned_of(tmp_path, door, columns, text):
    warnings = DOORS[door](people(**columns), tmp_path)
    assert text in warnings
    assert f"'{text.split(chr(39))[1]}' is taken" in warnings


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "columns",
    [
        {"gender": ["female", "male"] * 6},
        {"gender": ["1", "2"] * 6},
        {"gender": ["f", "n/a"] * 6},
        {"age_years": [f"{30.4 + row}" for row in range(N)]},
        {"interview_age": [f"{12 * (30 + row) + 5}" for row in range(N)]},
        {"site": ["a", "b"] * 6, "center": ["1", "2"] * 6},
        {"diagnosis": ["hc", "pd"] * 6, "group": ["1", "2"] * 6},
    ],
)
def test_columns_that_agree_are_not_named(tmp_path, door, columns):
    assert "contradict" not in DOORS[door](people(**columns), tmp_path)


def test_levels_of_the_json_file_count(tmp_path):
    levels = {"gender": {"Levels": {"1": "female", "2": "male"}}}
    (tmp_path / "participants.json").write_text(json.dumps(levels))
    assert "contradict" not in warnings_of_cohort(people(gender=["1", "2"] * 6), tmp_path)
    with pytest.raises(DataError, match="contradict each other in 12 of 12"):
        cohort_of(people(gender=["2", "1"] * 6), tmp_path)


def test_check_names_them_too(tmp_path):
    table = people(gender=["F", "M"] * 5 + ["M", "F"], path="x.npy")
    np.save(tmp_path / "x.npy", np.ones((4, 4, 4)))
    table.to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    found = nc.check(tmp_path / "participants.tsv", deep=False)
    assert any("'sex' and 'gender' contradict" in str(doubt) for doubt in found.warnings)
