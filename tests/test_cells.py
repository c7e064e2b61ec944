"""One rule for missing cells, at every door: tables, DataFrames, losses' metadata, splits, draws and attributes."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from neurocontrast.cells import is_missing, level_of, number_of, text_of
from neurocontrast.data import read_cohort
from neurocontrast.evaluation import read_split_file
from neurocontrast.evaluation.rows import tidy_table
from neurocontrast.evaluation.target import read_target
from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Categorical, Gaussian
from pipelines.brain.cohort import draw_subjects
from pipelines.natural.columns import join_attributes

MISSING = ("", "n/a", "NA", "NaN", "nan", "null", "<NA>", "#N/A", "#NULL!", ".", "None", "NaT")
VALUES = ("none", "NONE", "unknown", "other", "no")


def test_marks_are_missing_and_words_are_not():
    assert all(map(is_missing, MISSING))
    assert not any(map(is_missing, (*VALUES, "0")))


def test_text_of_a_value_is_what_a_table_would_hold():
    assert [text_of(value) for value in (1.0, 0.5, math.nan, "01", pd.NaT)] == [
        "1",
        "0.5",
        "",
        "01",
        "",
    ]
    assert (number_of("1e400"), number_of("-2.5")) == (None, -2.5)


@pytest.fixture
def people():
    """Return a table with one scan for every mark and for every word that is a value."""
    cells = [*MISSING, *VALUES]
    n_scans = len(cells)
    return pd.DataFrame(
        {
            "participant_id": [f"sub-{scan:02d}" for scan in range(n_scans)],
            "path": [f"{scan}.nii" for scan in range(n_scans)],
            "site": cells,
            "handedness": cells,
        }
    )


@pytest.mark.parametrize("column", ["site", "handedness"])
def test_a_cohort_has_the_rule_in_files_and_in_dataframes(people, column, tmp_path):
    path = tmp_path / "participants.tsv"
    people.to_csv(path, sep="\t", index=False)
    cohort = read_cohort(path, check_images=False)
    from_frame = read_cohort(people, images_root=tmp_path, check_images=False)
    for table in (cohort.table, from_frame.table):
        assert table[column].isna().tolist() == [True] * len(MISSING) + [False] * len(VALUES)
    assert any(
        f"column '{column}': 1 cells 'None' are read as missing" in warning
        for warning in cohort.warnings
    )


@pytest.mark.parametrize("mark", MISSING)
def test_ages_and_sexes_of_a_cohort_may_have_every_mark(people, mark, tmp_path):
    table = people.assign(age="30", sex="F")
    table.loc[0, ["age", "sex"]] = mark
    cohort = read_cohort(table, images_root=tmp_path, check_images=False)
    assert cohort.table.loc[0, ["age", "sex"]].isna().all()


@pytest.mark.parametrize("mark", [*MISSING, None, math.nan, pd.NA, pd.NaT, np.datetime64("NaT")])
def test_an_evaluation_and_a_loss_have_the_rule(mark):
    cells = pd.Series(["a", "b", "a", "b", mark], dtype=object)
    table = pd.DataFrame({"participant_id": list("12345"), "site": cells, "dx": cells})
    tidy = tidy_table(table)
    assert tidy["site"].isna().tolist() == [False] * 4 + [True]
    assert not read_target(tidy, "dx")[1][4]
    assert level_of(mark) is None
    weights = Categorical("site", missing="marginal")({"site": cells.tolist()})
    assert torch.equal(weights[4, :4], torch.full((4,), 1 / 3))
    with pytest.raises(DataError, match="'age' is missing for 1 row: 1"):
        Gaussian("age", sigma=5.0)({"age": [30.0, mark, 41.0]})


def test_a_value_of_a_loss_is_a_category_of_its_own():
    weights = Categorical("site")({"site": [*VALUES, "1", 1.0, " no "]})
    assert torch.equal(weights[:4, :4], torch.eye(4))
    assert weights[5, 6] == 1
    assert weights[4, 7] == 1


@pytest.mark.parametrize("mark", MISSING)
def test_splits_draws_and_attributes_have_the_rule(mark, tmp_path):
    path = tmp_path / "splits.tsv"
    path.write_text(
        f"participant_id\tsession\trepeat\tfold\n1\t{mark}\t0\t0\n2\t{mark}\t0\t{mark}\n"
    )
    splits = read_split_file(path)
    assert splits["session"].tolist() == ["", ""]
    assert splits["fold"].tolist()[0] == 0 > splits["fold"].tolist()[1]
    table = pd.DataFrame({"subject_id": list("0123"), "diagnosis": ["a", "b", "a", mark]})
    assert draw_subjects(table, target="diagnosis", sizes=[3], seed=0)[3] == {"0", "1", "2"}
    attributes = tmp_path / "attributes.tsv"
    attributes.write_text(f"name\ta\none\tx\ntwo\t{mark}\n")
    assert join_attributes(["one", "two"], attributes, key="name") == {"a": ["x", "n/a"]}
