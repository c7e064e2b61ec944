"""A new layout is a function and a line of `LAYOUTS`, from wherever it comes."""

from neurocontrast import index
from neurocontrast.data import read_cohort
from neurocontrast.data.layouts import LAYOUTS
from neurocontrast.data.layouts.tree import FoundScan


def subject_folders(tree):
    """A layout from outside the package: a folder a subject, with one scan in each."""
    for path, folder, _ in tree.matching(r"subject([0-9]+)", r"head\.nii\.gz"):
        yield FoundScan(folder[1], path, facts={"age": "30"})


def test_a_layout_from_outside_the_package_makes_a_cohort(tmp_path, monkeypatch):
    for name in ("subject02", "subject01"):
        (tmp_path / "heads" / name).mkdir(parents=True)
        (tmp_path / "heads" / name / "head.nii.gz").write_text("image")
    monkeypatch.setitem(LAYOUTS, "subject-folders", subject_folders)
    found = index(tmp_path / "heads", tmp_path / "participants.tsv")
    assert found.layout == "subject-folders"
    table = read_cohort(found.path).table
    assert table["participant_id"].tolist() == ["sub-01", "sub-02"]
    assert table["path"].tolist()[0] == str(tmp_path / "heads" / "subject01" / "head.nii.gz")
    assert table["age"].tolist() == [30.0, 30.0]
