"""Visits that are entered as participants, and told by their names alone: S01_v1 and S01_v2."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast import evaluate, index
from neurocontrast.data import read_cohort
from neurocontrast.data.identifiers import visits_of_people
from neurocontrast.evaluation.plan.leakage import check_duplicates
from neurocontrast.evaluation.rows import tidy_table
from neurocontrast.exceptions import DataError, LeakageError
from tests.reports.people import write_measures, write_people

FORMS = [
    "sub-{}_ses-{}",
    "SUB-{}_SES-{}",
    "S{}_v{}",
    "S{}v{}",
    "S{}-T{}",
    "OAS1_{}_MR{}",
    "{} visit {}",
    "002_S_{}_m0{}",
    "P{}_2019031{}",
    "S{}_2019-03-1{}",
    "S{}_20190312_10150{}",
    "S{}_v{}_20190312",
    "S{}_20190312_v{}",
    "site1_{}_2019031{}",
    "S{}_{}2m",
    "P{}_{}mo",
    "S{}_wk{}",
    "S{}_year{}",
    "S{}_mri{}",
]


def names_in(form, n_people=10):
    return [form.format(f"{row // 2:04d}", row % 2 + 1) for row in range(2 * n_people)]


def of_pairs(values):
    return [value for value in values for _ in range(2)]


def features(n_rows):
    columns = np.random.default_rng(0).normal(size=(n_rows, 4))
    return pd.DataFrame(columns, columns=[f"feature_{number:04d}" for number in range(4)])


@pytest.mark.parametrize("form", FORMS)
class TestVisitsAreNoPeople:
    def test_in_a_table_of_people(self, tmp_path, form):
        path = write_people(tmp_path / "p.tsv", names_in(form), sex=of_pairs("FM" * 5))
        with pytest.raises(DataError, match="looks like a visit") as caught:
            read_cohort(path, channels=())
        assert str(caught.value).count("looks like a visit of the person of") == 10
        assert "subject_id" in str(caught.value)

    def test_in_an_evaluation(self, tmp_path, form):
        table = pd.DataFrame({"participant_id": names_in(form), "diagnosis": of_pairs("ab" * 5)})
        table = pd.concat([table, features(20)], axis=1)
        with pytest.raises(LeakageError, match="20 participants look like visits of 10 people"):
            evaluate(table, target="diagnosis", n_folds=2, out=tmp_path / "e", progress=False)

    def test_a_column_of_subjects_says_who_is_who(self, tmp_path, form):
        persons = of_pairs(range(10))
        names = names_in(form)
        path = write_people(tmp_path / "p.tsv", names, sex=of_pairs("FM" * 5), subject_id=persons)
        table = read_cohort(path, channels=()).table
        assert table["subject_id"].nunique() == 10
        assert not check_duplicates(tidy_table(table), features(20).to_numpy())


def test_index_refuses_them_unless_a_table_names_the_people(tmp_path):
    names = names_in("S{}_v{}")
    write_measures(tmp_path / "m" / "measures.tsv", names)
    with pytest.raises(DataError, match="looks like a visit of the person of 'S0000_v1'"):
        index(tmp_path / "m", out=tmp_path / "p.tsv", progress=False)
    people = write_people(tmp_path / "people.tsv", names, subject_id=of_pairs(range(10)))
    found = index(tmp_path / "m", out=tmp_path / "p.tsv", phenotypes=[people], progress=False)
    assert found.table["subject_id"].nunique() == 10


def test_subjects_are_no_visits_of_each_other(tmp_path):
    names = names_in("S{}_v{}")
    path = write_people(tmp_path / "p.tsv", names, sex=of_pairs("FM" * 5), subject_id=names)
    with pytest.raises(DataError, match="column 'subject_id': looks like a visit"):
        read_cohort(path, channels=())


def test_a_visit_of_the_study_is_found_in_the_external_table(tmp_path):
    def table(visit):
        names = [f"S{row:03d}_v{visit}" for row in range(20)]
        people = pd.DataFrame({"participant_id": names, "diagnosis": list("ab" * 10)})
        return pd.concat([people, features(20) + visit], axis=1)

    settings = {"target": "diagnosis", "n_folds": 2, "progress": False}
    with pytest.raises(LeakageError, match="40 participants look like visits of 20 people"):
        evaluate(table(1), test=table(2), out=tmp_path / "e", **settings)


def test_names_of_different_people_are_not_taken_for_visits():
    assert not visits_of_people([f"sub-{number:03d}" for number in range(200)])
    assert not visits_of_people(["A-1", "A-2", "B-1", "B-2", "A_M1", "A_M2", "A_W1", "A_W2"])
    assert not visits_of_people([f"paris_T{number}" for number in range(1, 40)])
    assert not visits_of_people(["S01_v1", "S02_v1", "S03_v2"])
    twins = [f"F{number // 2}_T{number % 2}" for number in range(20)]
    assert visits_of_people(twins, ["F"] * 20)
    assert not visits_of_people(twins, list("FM" * 10))


def test_one_person_by_a_number_and_dates_or_times():
    assert visits_of_people(["P01_20190312", "P01_20200401", "P02_20190312"])
    assert visits_of_people(["P01_bl", "P01_20200401"])
    assert visits_of_people(["S01_v1_20190312", "S01_v2_20200401"])
    assert visits_of_people(["S01_20190312_MR1", "S01_20200401_MR1"])
    assert visits_of_people(["S01_0m", "S01_12M", "S01_2yrs"]) == [
        ["S01_0m", "S01_12M", "S01_2yrs"]
    ]


@pytest.mark.parametrize(
    "names",
    [
        "CC110033 CC110034",
        "OAS30001 OAS30002",
        "A00028185 A00028186",
        "NDARINV00BD7VDC NDARINV00CY2MDM",
        "1_0050002 1_0050003",
        "IXI002-Guys-0828 IXI012-HH-1211",
        "1234567_20252_2_0 1234568_20252_2_0",
        "sub-20190312 sub-20190313",
        "sub-2019-03-12 sub-2019-04-12",
        "site1_001 site1_002 site2_001",
        "2019_0001 2019_0002 2019_0312 2019_0415",
        "site1_2019_0312 site1_2019_0415",
        "S1_20190001 S1_20190002",
        "S1_20191301 S1_20191302",
        "S1_20190312_0001 S1_20190312_0002 S1_20200401_0001",
        "20190312_01 20190312_02 20200401_01",
        "HC_19850312 HC_19850415",
        "HC_2019-03-12 HC_2019-04-01",
        "site12_19850312 site12_19850415",
        "P01_20190312 P02_20190312",
        "HC_34y HC_35y",
        "site-1_34y site-1_36y",
        "S01_34y S02_36y",
        "1001y 1002y",
        "S1M S2M",
        "S_1M S_2M S_3W",
        "S1_001M S1_002M",
        "S1_01M S1_02M S1_03F",
        "S1_12_M S1_13_M",
        "S_Y1 S_Y2 S_O1",
        "HC_MRI1 HC_MRI2",
    ],
)
def test_numbers_dates_ages_and_letters_of_sex_in_names_make_no_visits(names):
    assert not visits_of_people(names.split())


@pytest.mark.timeout(60)
def test_a_name_of_a_hundred_thousand_characters_is_no_visit():
    assert visits_of_people(["1_" * 50_000, "1_" * 50_000 + "v2"]) == []


def test_dates_and_times_are_no_visits_of_two_sexes_or_in_many_names():
    dates = [f"S1_201903{day:02d}" for day in range(1, 14)]
    assert visits_of_people(dates[:12])
    assert not visits_of_people(dates)
    pairs = [f"S{number // 2}_{number % 2 + 1}y" for number in range(20)]
    assert visits_of_people(pairs, ["F"] * 20)
    assert not visits_of_people(pairs, list("FM" * 10))


def test_on_request_they_are_evaluated_with_a_warning():
    names = names_in("S{}_v{}")
    table = tidy_table(pd.DataFrame({"participant_id": names}))
    notices = check_duplicates(table, features(20).to_numpy(), allow_overlap=True)
    assert [notice.code for notice in notices] == ["visits_overlap"]
