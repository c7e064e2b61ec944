"""Layouts of scans on a disk are found by their name; a new one is a class, from wherever it comes."""

import pytest

from neurocontrast.data import read_cohort
from neurocontrast.data.layouts import LAYOUTS, Listing
from neurocontrast.exceptions import DataError


class SubjectFolders:
    """A layout from outside the package: a folder a subject, with one scan in each."""

    def read(self, source):
        scans = sorted(source.glob("sub-*/T1w.nii.gz"))
        columns = {
            "participant_id": [path.parent.name for path in scans],
            "path": [path.relative_to(source).as_posix() for path in scans],
            "age": ["30"] * len(scans),
        }
        return Listing(source, columns, list(range(1, len(scans) + 1)), source)


@pytest.fixture
def subject_folders(tmp_path, monkeypatch):
    for name in ("sub-02", "sub-01"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "T1w.nii.gz").touch()
    monkeypatch.setitem(LAYOUTS, "subject-folders", f"{__name__}:SubjectFolders")
    return tmp_path


def test_a_layout_from_outside_the_package_makes_a_cohort(subject_folders):
    cohort = read_cohort(subject_folders, layout="subject-folders")
    assert cohort.table["participant_id"].tolist() == ["sub-01", "sub-02"]
    assert cohort.table["path"].tolist()[0] == str(subject_folders / "sub-01" / "T1w.nii.gz")
    assert cohort.table["age"].tolist() == [30.0, 30.0]


def test_what_a_layout_lists_is_validated_as_a_table_is(subject_folders, monkeypatch):
    read = SubjectFolders.read
    monkeypatch.setattr(SubjectFolders, "read", lambda self, source: bad(read(self, source)))

    def bad(listing):
        listing.columns["age"][1] = "old"
        return listing

    with pytest.raises(DataError, match="line 2, sub-02, column 'age': found 'old'; an age is a number"):
        read_cohort(subject_folders, layout="subject-folders")


def test_an_unknown_layout_is_refused_with_those_there_are(tmp_path):
    with pytest.raises(DataError, match=r"layout: there is no 'tabel'\. Did you mean 'table'\? There are: 'table'"):
        read_cohort(tmp_path, layout="tabel")
