"""Visits entered as participants: `index` takes over ``subject_id``, so that folds keep a person together."""

import pandas as pd
import pytest

from neurocontrast import index
from neurocontrast.data import read_cohort
from neurocontrast.data.indexing import IndexSettings, index_scans
from neurocontrast.data.measures import read_measures
from neurocontrast.evaluation.rows import tidy_table
from neurocontrast.exceptions import DataError
from tests.reports.people import write_measures

VISITS = ["sub-1a", "sub-1b", "sub-2a", "sub-2b"]
SUBJECTS = ["P01", "P01", "P02", "P02"]


def write_people(path, subjects=SUBJECTS, **columns):
    people = pd.DataFrame({"participant_id": VISITS, "age": [20, 21, 60, 61], **columns})
    if subjects is not None:
        people.insert(1, "subject_id", subjects)
    people.to_csv(path, sep="\t", index=False)
    return path


def write_images(root, write_nifti, brain):
    for name in VISITS:
        path = write_nifti(brain, f"{name}_T1w.nii.gz")
        target = root / name / "anat" / path.name
        target.parent.mkdir(parents=True)
        path.rename(target)
    return root


def subjects_of(table):
    return dict(zip(table["participant_id"], table["subject_id"], strict=True))


class TestSubjectsAreTakenOver:
    def test_of_a_phenotype_beside_measures(self, tmp_path):
        write_measures(tmp_path / "visits" / "measures.tsv", VISITS)
        people = write_people(tmp_path / "people.tsv")
        out = index(tmp_path / "visits", out=tmp_path / "i" / "p.tsv", phenotypes=[people])
        cohort = read_measures(out.path)
        assert cohort.table["subject_id"].tolist() == SUBJECTS
        assert any("4 participants are 2 subjects" in note for note in out.notes)

    def test_of_participants_tsv_beside_images(self, tmp_path, write_nifti, brain):
        root = write_images(tmp_path / "bids", write_nifti, brain)
        write_people(root / "participants.tsv", [f"sub-{name}" for name in SUBJECTS])
        assert index_scans(root).table["subject_id"].tolist() == SUBJECTS

    def test_of_the_table_of_measures_itself(self, tmp_path):
        path = write_measures(tmp_path / "visits" / "measures.tsv", VISITS)
        table = pd.read_csv(path, sep="\t")
        table.assign(subject_id=[1, 1, 2, 2]).to_csv(path, sep="\t", index=False)
        found = index_scans(path.parent, IndexSettings(keep=["subject_id"]))
        assert subjects_of(found.table) == dict(zip(VISITS, "1122", strict=True))
        assert not any("subject_id:" in note for note in found.measures.notes)

    def measures_with_subjects(self, tmp_path, subjects):
        path = write_measures(tmp_path / "visits" / "measures.tsv", VISITS)
        table = pd.read_csv(path, sep="\t").assign(subject_id=subjects)
        table.to_csv(path, sep="\t", index=False, na_rep="n/a")
        return path

    @pytest.mark.parametrize("prefix", ["sub-", "", "SUB-"])
    def test_of_measures_beside_people_without_the_column(self, tmp_path, prefix):
        measures = self.measures_with_subjects(tmp_path, SUBJECTS)
        people = write_people(tmp_path / "people.tsv", None)
        people.write_text(people.read_text().replace("sub-", prefix))
        cohort = read_measures(people, measures)
        assert cohort.table["subject_id"].tolist() == SUBJECTS

    def test_measures_without_some_subjects_are_refused_beside_such_people(self, tmp_path):
        measures = self.measures_with_subjects(tmp_path, ["P01", None, None, "P02"])
        with pytest.raises(DataError, match="nothing in it for this scan") as caught:
            read_measures(write_people(tmp_path / "people.tsv", None), measures)
        assert "sub-1b" in str(caught.value)
        assert "sub-2a" in str(caught.value)
        with_column = write_people(tmp_path / "people.tsv")
        assert read_measures(with_column, measures).table["subject_id"].tolist() == SUBJECTS

    def test_other_subjects_in_the_measures_are_refused(self, tmp_path):
        measures = self.measures_with_subjects(tmp_path, ["P01", "P01", "P02", "P03"])
        people = write_people(tmp_path / "people.tsv")
        with pytest.raises(DataError, match="found 'P02', and 'P03' in the measures"):
            read_measures(people, measures)

    def test_a_table_of_a_session_may_lack_the_subject_that_participants_tsv_has(
        self, tmp_path, write_nifti, brain
    ):
        root = write_images(tmp_path / "bids", write_nifti, brain)
        write_people(root / "participants.tsv")
        scans = pd.DataFrame({"filename": ["anat/sub-1a_T1w.nii.gz"], "age": [20]})
        scans.to_csv(root / "sub-1a" / "sub-1a_scans.tsv", sep="\t", index=False)
        assert index_scans(root).table["subject_id"].tolist() == SUBJECTS

    def test_without_the_column_the_participant_is_the_subject(self, tmp_path):
        write_measures(tmp_path / "visits" / "measures.tsv", VISITS)
        people = write_people(tmp_path / "people.tsv", None)
        found = index_scans(tmp_path / "visits", IndexSettings(phenotypes=[people]))
        assert found.table["subject_id"].tolist() == ["1a", "1b", "2a", "2b"]


class TestContradictionsAreRefused:
    def refused(self, tmp_path, subjects, **more):
        write_measures(tmp_path / "visits" / "measures.tsv", VISITS)
        phenotypes = [write_people(tmp_path / "people.tsv", subjects)]
        phenotypes += [write_people(tmp_path / f"{name}.tsv", each) for name, each in more.items()]
        with pytest.raises(DataError) as caught:
            index_scans(tmp_path / "visits", IndexSettings(phenotypes=phenotypes))
        return str(caught.value)

    def test_two_tables_that_disagree(self, tmp_path):
        text = self.refused(tmp_path, SUBJECTS, other=["P01", "P99", "P02", "P02"])
        assert "sub-1b" in text
        assert "P99" in text
        assert "other.tsv" in text

    def test_a_participant_without_a_subject_beside_others(self, tmp_path):
        text = self.refused(tmp_path, ["P01", "", "P02", "n/a"])
        assert "sub-1b" in text
        assert "sub-2b" in text
        assert "subject_id" in text

    def test_two_subjects_of_one_participant_in_two_sessions(self, tmp_path):
        path = write_measures(tmp_path / "visits" / "measures.tsv", ["sub-1", "sub-1"])
        table = pd.read_csv(path, sep="\t")
        table.assign(session=[1, 2], subject_id=["A", "B"]).to_csv(path, sep="\t", index=False)
        with pytest.raises(DataError, match="a participant is one subject"):
            index_scans(path.parent)


class TestOneSpellingOfASubject:
    TABLE = pd.DataFrame(
        {
            "participant_id": ["v1", "v2", "v3", "v4"],
            "subject_id": ["sub-01", "01", "Jose\u0301", "Jos\u00e9"],
        }
    )

    def test_a_cohort_has_one_subject_in_two_spellings(self):
        table = read_cohort(self.TABLE, channels=()).table
        assert table["subject_id"].nunique() == 2
        assert table["subject_id"].iloc[0] == "sub-01"

    def test_an_embeddings_table_too(self):
        assert tidy_table(self.TABLE)["subject_id"].nunique() == 2

    def test_zeros_stay_as_written(self):
        table = self.TABLE.assign(subject_id=["1", "01", "001", "sub-1"])
        assert tidy_table(table)["subject_id"].tolist() == ["1", "01", "001", "1"]
        assert read_cohort(table, channels=()).table["subject_id"].nunique() == 3

    def test_two_spellings_are_no_contradiction(self):
        table = pd.DataFrame(
            {"participant_id": ["v1", "v1"], "session": [1, 2], "subject_id": ["sub-01", "01"]}
        )
        assert read_cohort(table, channels=()).table["subject_id"].tolist() == ["sub-01", "sub-01"]

    def test_people_of_a_folder_are_joined_with_a_table_in_another_form_of_unicode(self, tmp_path):
        write_measures(tmp_path / "m" / "measures.tsv", ["sub-Jose\u0301", "sub-2"])
        people = pd.DataFrame({"participant_id": ["Jos\u00e9", "2"], "age": [30, 40]})
        people.to_csv(tmp_path / "people.tsv", sep="\t", index=False)
        found = index_scans(
            tmp_path / "m", IndexSettings(phenotypes=[tmp_path / "people.tsv"])
        ).table
        assert dict(zip(found["subject_id"], found["age"], strict=True)) == {
            "2": "40",
            "Jos\u00e9": "30",
        }
