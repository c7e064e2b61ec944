"""`index` of one file: a table of measures is read, any other file is refused with the command that is meant."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast import index
from neurocontrast.data.measures import read_tables
from neurocontrast.exceptions import DataError, NeurocontrastError
from tests.reports.folders import write_aseg, write_people

PEOPLE = [f"sub-{number:02d}" for number in range(1, 5)]
SIDES = ("Left", "Right")
STRUCTURES = {"Hippocampus": 4000, "Putamen": 5000, "Amygdala": 1600}


def measures_of(people, structures=STRUCTURES):
    random = np.random.default_rng(0)
    table = pd.DataFrame({"participant_id": people})
    for structure, volume in structures.items():
        for side in SIDES:
            table[f"{side}-{structure}"] = volume * random.normal(1, 0.1, len(people))
    return table


@pytest.fixture
def people(tmp_path):
    write_people(tmp_path / "people.tsv", PEOPLE, np.random.default_rng(0))
    (tmp_path / "out").mkdir()
    return tmp_path / "people.tsv"


@pytest.mark.parametrize("name", ["regions.tsv", "regions.csv", "regions.xlsx", "regions.parquet"])
def test_a_table_of_measures_is_indexed(tmp_path, people, name):
    table = measures_of(PEOPLE)
    path = tmp_path / name
    if path.suffix == ".xlsx":
        table.to_excel(path, index=False)
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, sep="\t" if path.suffix == ".tsv" else ",", index=False)
    # A table beside it is not read.
    measures_of(PEOPLE[:1]).to_csv(tmp_path / "beside.tsv", sep="\t", index=False)
    found = index(path, tmp_path / "out" / "participants.tsv", phenotypes=[people])
    assert found.layout == "measures"
    assert found.table["participant_id"].tolist() == PEOPLE
    written = read_tables(found.measures_path).values
    expected = table["Left-Hippocampus"].tolist()
    assert written["Left-Hippocampus"].tolist() == pytest.approx(expected)


def test_one_file_of_statistics_is_one_person(tmp_path, people):
    path = tmp_path / "fs" / "sub-03" / "stats" / "aseg.stats"
    write_aseg(path, np.random.default_rng(0))
    found = index(path, tmp_path / "out" / "participants.tsv", phenotypes=[people])
    assert found.table["participant_id"].tolist() == ["sub-03"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.tsv", "participant_id\tage\nsub-01\t30\n", r"index FOLDER --phenotype \S+p\.tsv"),
        ("p.csv", "participant_id,path\nsub-01,a.nii\n", r"neurocontrast check \S+p\.csv"),
        ("sub-01_T1w.nii.gz", "image", r"It is one image; .*neurocontrast index \S+$"),
        ("scans.zip", "PK", r"Give the folder of the scans"),
        ("p2.tsv", "/annex/objects/MD5E-s3--a.tsv\n", r"pointer of git-annex.*datalad get"),
    ],
)
def test_another_file_is_refused_with_the_next_step(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        index(tmp_path / name, tmp_path / "participants.tsv")
    assert not (tmp_path / "participants.tsv").exists()


def test_it_is_said_which_table_lacks_whom(tmp_path, people):
    folder = tmp_path / "tables"
    folder.mkdir()
    measures_of(PEOPLE).to_csv(folder / "all.tsv", sep="\t", index=False)
    others = measures_of(PEOPLE[:-1], {"Caudate": 3600, "Pallidum": 1800, "VentralDC": 4000})
    others.to_csv(folder / "others.tsv", sep="\t", index=False)
    found = index(folder, tmp_path / "out" / "participants.tsv", phenotypes=[people])
    note = "others.tsv: has nothing of 1 of 4 scans, which other tables have: sub-04"
    assert note in " ".join(found.measures.notes)
    parts = [measures_of(PEOPLE[:2]), measures_of(PEOPLE[2:])]
    for number, part in enumerate(parts):
        part.to_csv(tmp_path / f"part{number}.tsv", sep="\t", index=False)
    assert read_tables([tmp_path / "part0.tsv", tmp_path / "part1.tsv"]).notes == ()


def test_several_tables_of_the_same_people_are_indexed_together(tmp_path, people):
    others = {"Putamen": 5000.0, "Caudate": 3500.0, "Amygdala": 1500.0, "Pallidum": 1800.0}
    whole = measures_of(PEOPLE, {**STRUCTURES, **others})
    names = [tmp_path / "left.tsv", tmp_path / "below" / "right.csv"]
    names[1].parent.mkdir()
    left = [column for column in whole if column.startswith("Left")]
    whole[["participant_id", *left]].to_csv(names[0], sep="\t", index=False)
    whole.drop(columns=left).to_csv(names[1], index=False)
    found = index(names, tmp_path / "out" / "participants.tsv", phenotypes=[people])
    written = read_tables(found.measures_path).values
    assert written.shape == (4, len(whole.columns) - 1)
    assert found.table["participant_id"].tolist() == PEOPLE


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (["people.tsv"], r"people\.tsv: is a file, and no table of regional measures"),
        (["out"], r"root: 2 are given, and \S+out is a folder"),
        (["a.tsv"], r"root: \S+a\.tsv is given twice"),
        (["none.tsv"], r"none\.tsv: there is no such"),
    ],
)
def test_several_of_other_kinds_are_refused(tmp_path, people, others, message):
    measures_of(PEOPLE).to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    places = [tmp_path / "a.tsv", *map(tmp_path.joinpath, others)]
    with pytest.raises(NeurocontrastError, match=message):
        index(places, tmp_path / "out" / "participants.tsv")
    assert not list((tmp_path / "out").iterdir())
