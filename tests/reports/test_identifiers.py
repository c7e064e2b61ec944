"""Identifiers as spreadsheets leave them: rounded, as floats, with unseen characters; rows of totals."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast import index
from neurocontrast.data import read_cohort
from neurocontrast.data.identifiers import problem_of_identifier
from neurocontrast.data.measures.tables import read_tables
from neurocontrast.evaluation.rows import tidy_table
from neurocontrast.exceptions import DataError, NeurocontrastWarning
from neurocontrast.files import digest_of
from neurocontrast.provenance import KnownPeople, subject_label
from tests.reports.people import draw_measures, write_measures, write_people

PEOPLE = [f"sub-{number:02d}" for number in range(12)]
NOBODY = {
    "1.23E+05": "rounded",
    "1,2e+11": "rounded",
    "Mean": "totals or averages",
    "Total:": "totals or averages",
    "Mittelwert": "totals or averages",
}


@pytest.mark.parametrize(("name", "why"), NOBODY.items())
class TestNamesOfNobodyAreRefused:
    def test_in_a_table_of_people(self, tmp_path, name, why):
        with pytest.raises(DataError, match=why) as caught:
            read_cohort(write_people(tmp_path / "p.tsv", [*PEOPLE, name]), channels=())
        assert "line 14" in str(caught.value)

    def test_as_a_subject(self, tmp_path, name, why):
        path = write_people(tmp_path / "p.tsv", PEOPLE, subject_id=[*PEOPLE[1:], name])
        with pytest.raises(DataError, match=why):
            read_cohort(path, channels=())

    def test_in_measures(self, tmp_path, name, why):
        with pytest.raises(DataError, match=why) as caught:
            read_tables(write_measures(tmp_path / "m.tsv", [*PEOPLE, name]))
        assert "line 14" in str(caught.value)

    def test_in_a_table_that_index_joins(self, tmp_path, name, why):
        write_measures(tmp_path / "m" / "measures.tsv", PEOPLE)
        people = write_people(tmp_path / "people.tsv", [*PEOPLE, name])
        with pytest.raises(DataError, match=why):
            index(tmp_path / "m", out=tmp_path / "p.tsv", phenotypes=[people], progress=False)

    def test_in_an_evaluation(self, name, why):
        with pytest.raises(DataError, match=why):
            tidy_table(pd.DataFrame({"participant_id": [*PEOPLE, name]}))


def test_a_name_of_a_person_is_no_total():
    for name in ("sub-01", "Max", "E+05", "12E05", "sumi", "1e5", "meanwhile"):
        assert problem_of_identifier(name) == ""


def test_the_average_brain_in_a_table_is_left_out_with_a_note(tmp_path):
    table = read_tables(write_measures(tmp_path / "m.tsv", [*PEOPLE, "fsaverage"]))
    assert len(table.values) == 12
    assert any("'fsaverage'" in note for note in table.notes)


def test_whole_numbers_are_one_name_with_a_point_and_without():
    assert subject_label("sub-12.0") == subject_label("12") == "12"
    assert subject_label("012.0") == "012"
    assert subject_label("12.5") == "12.5"
    table = pd.DataFrame({"participant_id": ["a", "b", "c"], "subject_id": ["12", "12.0", "12.5"]})
    assert tidy_table(table)["subject_id"].nunique() == 2
    assert read_cohort(table, channels=()).table["subject_id"].nunique() == 2


def test_people_learned_from_are_known_in_either_form():
    learned = KnownPeople.of_rows(["12.0"], [""])
    assert learned.find(["12"], [""]).named == {"12"}
    as_written_before = KnownPeople(frozenset({digest_of("neurocontrast-subject", "12.0")}))
    assert as_written_before.find(["12"], [""]).named == {"12"}
    assert not as_written_before.find(["13"], [""]).named


def test_measures_of_floats_are_joined_with_people_of_whole_numbers(tmp_path):
    names = list(map(str, range(1, 13)))
    write_measures(tmp_path / "m" / "measures.tsv", [f"{name}.0" for name in names])
    people = write_people(tmp_path / "people.tsv", names)
    found = index(tmp_path / "m", out=tmp_path / "p.tsv", phenotypes=[people], progress=False)
    assert (found.table["age"] != "").all()


@pytest.mark.parametrize("unseen", ["\u200b", "\ufeff", "\u00ad", "\u200e\u00a0"])
def test_characters_that_nobody_sees_make_no_other_site_column_or_person(tmp_path, unseen):
    people = pd.DataFrame(
        {
            "participant_id": [f"{unseen}sub-1", f"sub-2{unseen}"],
            f"{unseen}age": [20, 30],
            f"sex{unseen}": ["F", f"M{unseen}"],
            "site": [f"London{unseen}", "London"],
        }
    )
    for ending, separator in ((".tsv", "\t"), (".csv", ",")):
        path = tmp_path / f"p{ending}"
        people.to_csv(path, sep=separator, index=False)
        for table in (path, people):
            read = read_cohort(table, channels=()).table
            assert read["participant_id"].tolist() == ["sub-1", "sub-2"]
            assert read["site"].nunique() == 1
            assert read["sex"].tolist() == ["F", "M"]
            assert read["age"].tolist() == [20, 30]
    assert tidy_table(people)["site"].nunique() == 1


def test_measures_are_joined_beside_such_characters(tmp_path):
    measures = draw_measures([f"{name}\u200b" for name in PEOPLE])
    (tmp_path / "m").mkdir()
    measures.to_csv(tmp_path / "m" / "measures.tsv", sep="\t", index=False)
    people = write_people(tmp_path / "people.tsv", PEOPLE)
    found = index(tmp_path / "m", out=tmp_path / "p.tsv", phenotypes=[people], progress=False)
    assert np.array_equal(found.table["participant_id"], PEOPLE)


class TestASubjectOfTwoSexesIsToldOf:
    NAMES = ("a", "a", "b", "b")

    def people(self, *sexes):
        columns = {"session": [1, 2, 1, 2], "sex": sexes}
        return pd.DataFrame({"participant_id": self.NAMES, **columns})

    def test_in_a_table_of_people(self):
        read = read_cohort(self.people("female", "M", "F", "f"), channels=())
        assert any(
            "1 subjects are F in one row and M in another (a)" in text for text in read.warnings
        )
        read = read_cohort(self.people("F", "n/a", "M", "male"), channels=())
        assert not any("in another" in text for text in read.warnings)

    def test_in_an_evaluation(self):
        with pytest.warns(
            NeurocontrastWarning, match="1 subjects are F in one row and M in another"
        ):
            tidy_table(self.people("F", "M", "F", "F"))

    def test_by_index(self, tmp_path):
        measures = draw_measures(self.NAMES).assign(session=[1, 2, 1, 2])
        (tmp_path / "m").mkdir()
        measures.to_csv(tmp_path / "m" / "measures.tsv", sep="\t", index=False)
        path = tmp_path / "p.tsv"
        people = self.people("F", "M", "F", "F").rename(columns={"session": "session_id"})
        people.to_csv(path, sep="\t", index=False)
        found = index(tmp_path / "m", out=tmp_path / "i.tsv", phenotypes=[path], progress=False)
        assert any(
            "1 subjects are F in one row and M in another (a)" in note for note in found.notes
        )


def test_a_workbook_of_several_tables_is_refused(tmp_path):
    pytest.importorskip("openpyxl")
    table = draw_measures(PEOPLE)
    legend = pd.DataFrame({"variable": ["x"], "meaning": ["y"]})
    for name, further in (("two", table.iloc[6:]), ("hemispheres", table.iloc[:, [0, 3]])):
        with pd.ExcelWriter(tmp_path / f"{name}.xlsx") as writer:
            table.iloc[:6, :3].to_excel(writer, sheet_name="A", index=False)
            further.to_excel(writer, sheet_name="B", index=False)
        with pytest.raises(DataError, match="the sheets 'B' have columns of the first, 'A'"):
            read_tables(tmp_path / f"{name}.xlsx")
    with pd.ExcelWriter(tmp_path / "one.xlsx") as writer:
        table.to_excel(writer, sheet_name="A", index=False)
        legend.to_excel(writer, sheet_name="legend", index=False)
        table.iloc[:0].to_excel(writer, sheet_name="empty", index=False)
    assert len(read_tables(tmp_path / "one.xlsx").values) == 12
