"""Numbers with a comma, and columns named in another case, where an evaluation looks for them."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast import evaluate
from neurocontrast.evaluation.rows import tidy_table
from neurocontrast.evaluation.target import read_target
from neurocontrast.exceptions import DataError

RANDOM = np.random.default_rng(0)
YEARS = RANDOM.integers(16, 32, 40) / 2
FORMS = {
    "decimal comma": [f"{value:.1f}".replace(".", ",") for value in YEARS],
    "thousands": [f"{value * 1000:,.0f}" for value in YEARS],
    "text among numbers": [f"{value:.1f}" for value in YEARS[2:]] + ["not done"] * 2,
    "points": [f"{value:.1f}" for value in YEARS],
}


def people(**columns):
    names = [f"feature_{number:04d}" for number in range(4)]
    table = pd.DataFrame(RANDOM.normal(size=(40, 4)), columns=names)
    known = {"diagnosis": list("ab" * 20), **columns}
    return table.assign(participant_id=[f"p{row:02d}" for row in range(40)], **known)


@pytest.mark.parametrize("form", FORMS)
def test_numbers_as_text_are_no_categories(tmp_path, form):
    table = people(years=FORMS[form])
    settings = {"target": "diagnosis", "n_folds": 2, "progress": False, "out": tmp_path / "e"}
    for option in ("covariates", "residualise"):
        with pytest.raises(DataError, match=f"{option}: column 'years' holds numbers as text"):
            evaluate(table, **settings, **{option: ["years"]})
    with pytest.raises(DataError, match="target 'years': column 'years' holds numbers as text"):
        read_target(tidy_table(table), "years")


def test_whole_numbers_and_words_stay_categories():
    for cells in (["1", "2", "10", "07"] * 10, ["1.5T", "3T"] * 20, ["a", "b", "c", "12"] * 10):
        target, _ = read_target(tidy_table(people(scanner=cells)), "scanner")
        assert len(target.classes) == len(set(cells))


@pytest.mark.parametrize("name", ["Age", "SEX", "Site", "Diagnosis"])
def test_a_column_in_another_case_is_named(name):
    table = people(age=30.0, sex="F", site="x").rename(columns={name.lower(): name})
    with pytest.raises(DataError, match=f"rename the column '{name}' to '{name.lower()}'"):
        tidy_table(table)
    assert "Age" in tidy_table(people(age=30.0, Age=31.0))


def test_names_of_columns_that_are_numbers_are_taken_as_text(tmp_path):
    table = people().assign(**{"years": 1.0}).rename(columns={"years": 7})
    settings = {"target": "diagnosis", "n_folds": 2, "new_site": False, "n_bootstraps": 0}
    evaluate(table, out=tmp_path / "e", progress=False, confounds=False, **settings)
    assert (tmp_path / "e" / "evaluation.json").is_file()
