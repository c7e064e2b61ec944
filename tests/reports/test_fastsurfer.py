"""FastSurfer since 2.4 writes a segmentation's volumes twice, and once more as a link: one file is read."""

import numpy as np
import pytest

from neurocontrast import index
from neurocontrast.data.measures import read_tables
from neurocontrast.exceptions import DataError
from tests.reports.folders import DKT, write_aparc, write_aseg, write_people

PEOPLE = [f"sub-{number:02d}" for number in range(1, 5)]


@pytest.fixture
def subjects(tmp_path):
    random = np.random.default_rng(0)
    root = tmp_path / "subjects"
    for person in PEOPLE:
        stats = root / person / "stats"
        write_aseg(stats / "aseg.stats", random, by_fastsurfer=True)
        write_aseg(stats / "aseg.VINN.stats", random, by_fastsurfer=True, factor=0.97)
        write_aseg(stats / "aseg+DKT.VINN.stats", random, by_fastsurfer=True, factor=0.98)
        (stats / "aseg+DKT.stats").symlink_to("aseg+DKT.VINN.stats")
        for side in ("lh", "rh"):
            path = stats / f"{side}.aparc.DKTatlas.mapped.stats"
            write_aparc(path, random, regions=DKT, by_fastsurfer=True)
    write_people(tmp_path / "people.tsv", PEOPLE, random)
    return root


def written_volume(path, structure="Left-Hippocampus"):
    """Return the volume of a structure as a file of FreeSurfer has it."""
    line = next(line for line in path.read_text().splitlines() if f" {structure} " in line)
    return float(line.split()[3])


def volumes_of(root, name):
    return [written_volume(root / person / "stats" / name) for person in PEOPLE]


def test_the_file_corrected_by_surfaces_is_read_with_a_note(subjects, tmp_path):
    found = index(subjects, tmp_path / "p.tsv", phenotypes=[tmp_path / "people.tsv"])
    measures = read_tables(found.measures_path)
    assert measures.values["Left-Hippocampus"].tolist() == volumes_of(subjects, "aseg.stats")
    assert "lh_cuneus_thickness" in measures.values
    note = " ".join(found.measures.notes)
    assert "'aseg' is taken; not 'aseg.VINN', 'aseg+DKT', 'aseg+DKT.VINN'" in note
    assert "atlas=aseg.VINN" in note


@pytest.mark.parametrize("name", ["aseg.VINN", "aseg+DKT", "aseg+DKT.VINN"])
def test_another_file_is_chosen_by_its_name(subjects, tmp_path, name):
    people = [tmp_path / "people.tsv"]
    choose = [f"atlas=aparc.DKTatlas.mapped,{name}"]
    found = index(subjects, tmp_path / "p.tsv", phenotypes=people, choose=choose)
    measures = read_tables(found.measures_path)
    assert measures.values["Left-Hippocampus"].tolist() == volumes_of(subjects, f"{name}.stats")
    assert "lh_cuneus_thickness" in measures.values


def test_names_that_are_not_there_and_two_of_a_kind_are_refused(subjects):
    with pytest.raises(DataError, match=r"no atlas 'aseg\.VIN'\. Did you mean 'aseg\.VINN'"):
        read_tables(subjects, atlas="aseg.VIN")
    with pytest.raises(DataError, match=r"'aseg', 'aseg\.VINN'; one of them"):
        read_tables(subjects, atlas="aseg,aseg.VINN")


def test_a_person_without_the_file_that_is_taken_is_named_and_not_mixed(subjects):
    last = subjects / PEOPLE[-1] / "stats"
    for path in [last / "aseg.stats", *last.glob("?h.*")]:
        path.unlink()
    table = read_tables(subjects)
    assert [person for person, _ in table.values.index] == PEOPLE[:-1]
    assert "1 of 4 subjects have none of" in " ".join(table.notes)
    assert PEOPLE[-1] in " ".join(table.notes)


def test_segmentation_without_surfaces_is_read(subjects):
    for path in [*subjects.glob("*/stats/aseg.stats"), *subjects.glob("*/stats/?h.*")]:
        path.unlink()
    table = read_tables(subjects)
    assert table.values["Left-Hippocampus"].tolist() == volumes_of(subjects, "aseg.VINN.stats")
    assert table.atlas == "aseg"


def test_a_linked_folder_of_subjects_counts_once(subjects, tmp_path):
    (tmp_path / "latest").symlink_to(subjects)
    found = index(tmp_path, tmp_path / "out.tsv", phenotypes=[tmp_path / "people.tsv"])
    assert len(found.table) == len(PEOPLE)
    assert "links to files that are read anyway" in " ".join(found.measures.notes)


def test_a_linked_image_is_one_scan(tmp_path):
    for person in ("sub-01", "sub-02"):
        (tmp_path / "fs" / person / "mri").mkdir(parents=True)
        (tmp_path / "fs" / person / "mri" / "brainmask.mgz").write_text("image")
    (tmp_path / "fs" / "sub-01-again").symlink_to(tmp_path / "fs" / "sub-01")
    found = index(tmp_path / "fs", tmp_path / "out.tsv")
    assert found.table["participant_id"].tolist() == ["sub-01", "sub-02"]
    path = "sub-01-again/mri/brainmask.mgz"
    assert (path, "a link to the image of another scan that is found") in found.left_out
    assert "1 links to images of other scans are left out" in found.notes[0]
