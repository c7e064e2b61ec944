"""Codes and signs for "not known" that tables do not mark: -9, 999, 99, a question mark; units in headers."""

import numpy as np
import pandas as pd
import pytest
import torch

from neurocontrast import evaluate, index
from neurocontrast.data import read_cohort
from neurocontrast.data.measures.tables import measures_of, read_tables
from neurocontrast.data.metadata import encode_metadata
from neurocontrast.data.unmarked import unmarked_missing
from neurocontrast.evaluation.plan.models.regional import check_regional
from neurocontrast.evaluation.rows import tidy_table
from neurocontrast.evaluation.target import read_target
from neurocontrast.exceptions import DataError
from tests.reports.people import draw_measures, write_measures, write_people

PEOPLE = [f"sub-{number:02d}" for number in range(20)]
GAPS = [("diagnosis", "-9"), ("diagnosis", "?"), ("site", "#REF!"), ("site", "-"), ("age", "99")]


def people(column, cells):
    table = pd.DataFrame(
        {
            "participant_id": PEOPLE,
            "age": np.linspace(20, 70, 20).round(1),
            "sex": list("FM" * 10),
            "site": list("ab" * 10),
            "diagnosis": list("1122" * 5),
        }
    ).astype(object)
    table[column] = [*cells, *table[column].iloc[len(cells) :]]
    return table


def with_features(table):
    columns = np.random.default_rng(0).normal(size=(len(table), 4))
    names = [f"feature_{number:04d}" for number in range(4)]
    return pd.concat([table, pd.DataFrame(columns, columns=names)], axis=1)


@pytest.mark.parametrize(("column", "code"), GAPS)
class TestTheyAreRefusedByName:
    def test_in_a_table_of_people(self, column, code):
        with pytest.raises(DataError, match="value is not known") as caught:
            read_cohort(people(column, [code] * 3), channels=())
        for line in (2, 3, 4):
            assert f"line {line}, {PEOPLE[line - 2]}, column '{column}'" in str(caught.value)
        assert "n/a" in str(caught.value)

    def test_by_index(self, tmp_path, column, code):
        write_measures(tmp_path / "m" / "measures.tsv", PEOPLE)
        people(column, [code] * 3).to_csv(tmp_path / "p.tsv", sep="\t", index=False)
        with pytest.raises(DataError, match=f"column '{column}'.*value is not known"):
            index(
                tmp_path / "m",
                out=tmp_path / "i" / "p.tsv",
                phenotypes=[tmp_path / "p.tsv"],
                progress=False,
            )

    def test_in_an_evaluation(self, tmp_path, column, code):
        table = with_features(people(column, [code] * 3))
        with pytest.raises(DataError, match="value is not known"):
            evaluate(table, target="diagnosis", n_folds=2, out=tmp_path / "e", progress=False)


class TestNumbersWithCodes:
    def scores(self, code):
        scores = np.random.default_rng(0).integers(10, 31, 20).astype(float)
        scores[:4] = code
        return with_features(people("site", []).assign(mmse=scores))

    @pytest.mark.parametrize("code", [-9, -99, 99, 999, 9999])
    def test_are_no_target_and_no_covariate(self, tmp_path, code):
        table = self.scores(code)
        with pytest.raises(DataError, match=rf"'mmse'.*4 scans: '{code}'"):
            evaluate(table, target="mmse", n_folds=2, out=tmp_path / "e", progress=False)
        settings = {"target": "diagnosis", "n_folds": 2, "progress": False}
        with pytest.raises(DataError, match="covariates: column 'mmse'"):
            evaluate(table, covariates=["mmse"], out=tmp_path / "e", **settings)
        with pytest.raises(DataError, match="residualise: column 'mmse'"):
            evaluate(table, residualise=["mmse"], out=tmp_path / "e", **settings)

    def test_are_not_learned_from(self):
        with pytest.raises(DataError, match="column 'mmse'"):
            encode_metadata(self.scores(-9), {"mmse": "continuous"})
        known, _ = encode_metadata(self.scores(np.nan), {"mmse": "continuous"})
        assert int(torch.isnan(known["mmse"]).sum()) == 4

    def test_true_values_are_none(self):
        assert not unmarked_missing("z", ["-9", "-1.5", "2"])
        assert not unmarked_missing("n", ["99", "99", "98", "40"])
        assert not unmarked_missing("volume", ["999", "870", "640"])
        assert not unmarked_missing("lesions", ["0", "3", "88", "12"])
        assert not unmarked_missing("site", ["1", "2", "99", "99"])
        assert not unmarked_missing("name", ["-1", "control", "99", "100"])
        assert unmarked_missing("name", ["-9", "control", "999"]) == {"-9", "999"}
        assert not unmarked_missing("code", ["-9", "-9"])
        assert not unmarked_missing("age", ["99", "95", "20"])
        assert not unmarked_missing("age", ["99", "20", "30"])
        assert not unmarked_missing("age", ["0", "0", "1", "2", "30"])
        assert unmarked_missing("age", ["0", "0", "20", "30"]) == {"0"}


def test_a_cell_that_cannot_be_read_is_refused_beside_them(tmp_path):
    write_measures(tmp_path / "m" / "measures.tsv", PEOPLE)
    people("age", [">89", "99", "99"]).to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    with pytest.raises(DataError, match="found '>89'") as caught:
        index(tmp_path / "m", out=tmp_path / "i.tsv", phenotypes=[tmp_path / "p.tsv"])
    assert str(caught.value).count("found '99'") == 2


@pytest.mark.parametrize("mark", [".", "#NULL!", "<NA>"])
def test_marks_of_statistics_programs_are_missing(tmp_path, mark):
    table = people("diagnosis", [mark] * 3)
    assert read_cohort(table, channels=()).table["diagnosis"].isna().sum() == 3
    target, present = read_target(tidy_table(table), "diagnosis")
    assert target.classes == ("1", "2")
    assert present.sum() == 17
    write_measures(tmp_path / "m" / "measures.tsv", PEOPLE)
    path = write_people(tmp_path / "p.tsv", PEOPLE, diagnosis=[mark] * 3 + ["x"] * 17)
    found = index(tmp_path / "m", out=tmp_path / "i.tsv", phenotypes=[path], progress=False)
    assert (found.table["diagnosis"] == "").sum() == 3


def test_a_diagnosis_of_numbers_is_of_classes():
    for name in ("diagnosis", "dx", "group"):
        table = tidy_table(people("site", []).assign(**{name: [1.0, 2.0, 3.0, 1.0] * 5}))
        target, _ = read_target(table, name)
        assert target.classes == ("1", "2", "3")
        assert read_target(table, name, kind="continuous")[0].kind == "continuous"


def test_the_name_of_a_column_of_ages_gives_unit_and_codes(tmp_path):
    def ages(name, *cells):
        table = pd.DataFrame({"participant_id": ["a", "b"], name: cells})
        return read_cohort(table, channels=()).table["age"].tolist()

    assert ages("age (unit=months)", "24", "36") == [2, 3]
    assert ages("Age [in=years]", "24", "36") == [24, 36]
    assert np.isnan(ages("age (99=missing)", "99", "36")[0])
    with pytest.raises(DataError, match="'furlongs' are not known"):
        ages("age (unit=furlongs)", "1", "2")
    path = write_people(tmp_path / "p.tsv", ["a", "b"])
    path.write_text(path.read_text().replace("age", "age (unit=months)"))
    path.with_suffix(".json").write_text('{"age (unit=months)": {"Units": "years"}}')
    with pytest.raises(DataError, match="described as in months"):
        read_cohort(path, channels=())


class TestMeasuresWithCodes:
    @pytest.mark.parametrize("code", [99, 999, 9999])
    def test_are_refused_by_name(self, tmp_path, code):
        table = draw_measures(PEOPLE)
        table.iloc[3, 1:4] = code
        table.to_csv(tmp_path / "m.tsv", sep="\t", index=False)
        with pytest.raises(DataError, match=f"found {code}, and the others are at most") as caught:
            read_tables(tmp_path / "m.tsv")
        for column in table.columns[1:4]:
            assert f"{PEOPLE[3]}, column '{column}'" in str(caught.value)
        with pytest.raises(DataError, match="seems to mean a missing value"):
            measures_of(table.drop(columns="participant_id"), name="X")

    def test_are_refused_among_regional_baselines(self):
        table = tidy_table(draw_measures(PEOPLE).assign(session="", site="a"))
        name = "lh_insula_thickness"
        check_regional(table, [name])
        table.loc[3, name] = 999
        with pytest.raises(DataError, match=f"{PEOPLE[3]}.*column '{name}': found 999"):
            check_regional(table, [name])

    def test_true_values_are_none(self, tmp_path):
        table = draw_measures(PEOPLE)
        table["Left-Hippocampus"] = np.linspace(9000, 12000, 20)
        table.loc[3, "Left-Hippocampus"] = 9999
        table["3rd-Ventricle"] = np.linspace(300, 600, 20)
        table.loc[3, "3rd-Ventricle"] = 999
        table.to_csv(tmp_path / "m.tsv", sep="\t", index=False)
        assert read_tables(tmp_path / "m.tsv").values["3rd-Ventricle"].max() == 999
