"""Damaged files of regional measures: all are named at once, and ``--skip`` leaves these people out."""

import json

import numpy as np
import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast import index
from neurocontrast.data.measures import read_measures, read_tables
from neurocontrast.data.measures.choosing import Choice
from neurocontrast.data.measures.tables import read_chosen
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import DataError, NeurocontrastWarning
from tests.reports.folders import write_aparc, write_aseg, write_people

PEOPLE = [f"sub-{number:02}" for number in range(1, 9)]


def make_empty(path):
    path.write_bytes(b"")


def cut_in_a_row(path):
    text = path.read_text().rstrip("\n")
    path.write_text(text[: text.rindex("  ")])


def cut_below_the_header(path):
    text = path.read_text()
    end = text.index("\n", text.index("# ColHeaders"))
    path.write_text(text[: end + 1])


def spoil_a_number(path):
    lines = path.read_text().rstrip("\n").split("\n")
    cells = lines[-1].split()
    for column in range(1, len(cells)):
        if cells[column].replace(".", "").isdigit():
            cells[column] = "***"
    path.write_text("\n".join([*lines[:-1], " ".join(cells)]) + "\n")


def keep_elsewhere(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n")


DAMAGE = {
    "empty": make_empty,
    "row": cut_in_a_row,
    "header": cut_below_the_header,
    "pointer": keep_elsewhere,
}


@pytest.fixture
def subjects(tmp_path):
    """Write statistics of eight people, and a table of them."""
    random = np.random.default_rng(0)
    for person in PEOPLE:
        write_aseg(tmp_path / "fs" / person / "stats" / "aseg.stats", random)
        write_aparc(tmp_path / "fs" / person / "stats" / "lh.aparc.stats", random)
    write_people(tmp_path / "people.tsv", PEOPLE, random)
    return tmp_path / "fs"


def indexed(root, **options):
    return index(root, root.parent / "out.tsv", phenotypes=[root.parent / "people.tsv"], **options)


@pytest.mark.parametrize("kind", DAMAGE)
def test_all_damaged_files_are_named_at_once_and_nothing_is_written(subjects, kind):
    damaged = [
        *("sub-02/stats/aseg.stats", "sub-05/stats/lh.aparc.stats"),
        *("sub-07/stats/aseg.stats", "sub-07/stats/lh.aparc.stats"),
    ]
    for name in damaged:
        DAMAGE[kind](subjects / name)
    with pytest.raises(DataError) as error:
        indexed(subjects)
    text = str(error.value)
    for name in damaged:
        assert text.count(name) == 1
    assert "--skip" in text
    assert not list(subjects.parent.glob("out*"))
    with pytest.raises(DataError) as error:
        read_tables(subjects)
    for name in damaged:
        assert str(error.value).count(name) == 1


@pytest.mark.parametrize("kind", [*DAMAGE, "number"])
def test_skip_leaves_out_people_with_damaged_files_and_lists_them(subjects, kind):
    for name in ("sub-02/stats/aseg.stats", "sub-05/stats/lh.aparc.stats"):
        {**DAMAGE, "number": spoil_a_number}[kind](subjects / name)
    before = read_tables(subjects / "sub-01").values
    found = indexed(subjects, skip=True)
    left = ["sub-01", "sub-03", "sub-04", "sub-06", "sub-07", "sub-08"]
    for path in (found.path, found.measures_path):
        assert pd.read_csv(path, sep="\t")["participant_id"].tolist() == left
    reasons = dict(found.left_out)
    assert sorted(reasons) == ["sub-02", "sub-05"]
    record = json.loads(found.record_path.read_text())
    assert [entry["what"] for entry in record["left_out"]] == ["sub-02", "sub-05"]
    if kind != "number":
        assert reasons["sub-02"].startswith("sub-02/stats/aseg.stats: ")
        assert reasons["sub-05"].startswith("sub-05/stats/lh.aparc.stats: ")
    assert any("--skip left out 2 of 8 scans; of 8 people, 2 are" in note for note in found.notes)
    written = read_tables(found.measures_path).values.loc[["sub-01"]]
    pd.testing.assert_frame_equal(written[list(before)], before)


def test_a_scan_that_is_skipped_has_no_values_of_other_files(subjects):
    make_empty(subjects / "sub-02" / "stats" / "aseg.stats")
    table = read_chosen(subjects, Choice(), skip=True)
    assert table.values.index.get_level_values(0).tolist() == ["sub-01", *PEOPLE[2:]]
    assert list(table.unread) == [("sub-02", "")]


def test_damage_and_problems_of_the_table_of_people_are_one_message(subjects):
    make_empty(subjects / "sub-02" / "stats" / "aseg.stats")
    people = subjects.parent / "people.tsv"
    rows = people.read_text().splitlines()
    people.write_text("\n".join(row for row in rows if not row.startswith("sub-04")) + "\n")
    with pytest.raises(DataError) as error:
        indexed(subjects)
    assert "sub-02/stats/aseg.stats" in str(error.value)
    assert "sub-04: there are measures, and no table has a row" in str(error.value)


def test_all_people_damaged_is_an_error_with_skip_too(subjects):
    for person in PEOPLE:
        make_empty(subjects / person / "stats" / "aseg.stats")
    with pytest.raises(DataError) as error:
        indexed(subjects, skip=True)
    assert str(error.value).count("aseg.stats") == len(PEOPLE)


def test_a_damaged_file_of_one_folder_is_of_the_person_of_that_folder(tmp_path):
    random = np.random.default_rng(0)
    for site in ("a", "b"):
        for person in ("sub-01", "sub-02"):
            write_aseg(tmp_path / "fs" / site / person / "stats" / "aseg.stats", random)
    make_empty(tmp_path / "fs" / "a" / "sub-01" / "stats" / "aseg.stats")
    found = index(tmp_path / "fs", tmp_path / "out.tsv", choose=["dataset=all"], skip=True)
    assert sorted(found.table["participant_id"]) == ["sub-a_02", "sub-b_01", "sub-b_02"]
    assert dict(found.left_out)["sub-a_01"].startswith("a/sub-01/stats/aseg.stats")


def xml_of(values="[1;2;3;4;5]"):
    names = "".join(f"<item>l{name}</item>" for name in ("Hip", "Amy", "Cau", "Put", "Pal"))
    data = f"<data><Vgm>{values}</Vgm></data>"
    return f"<S><neuromorphometrics><names>{names}</names>{data}</neuromorphometrics></S>"


@pytest.mark.parametrize(
    "content", ["", "<S>", "<S></S>", xml_of("[1;2;3;4]"), xml_of("[1;2;x;4;5]")]
)
def test_damaged_xml_of_cat12_is_named_or_left_out(tmp_path, content):
    folder = tmp_path / "cat" / "label"
    folder.mkdir(parents=True)
    for person in PEOPLE:
        (folder / f"catROI_{person}_T1w.xml").write_text(xml_of())
    damaged = [f"catROI_{person}_T1w.xml" for person in ("sub-02", "sub-03")]
    for name in damaged:
        (folder / name).write_text(content)
    write_people(tmp_path / "people.tsv", PEOPLE, np.random.default_rng(0))
    with pytest.raises(DataError) as error:
        indexed(tmp_path / "cat")
    for person in ("sub-02", "sub-03"):
        assert person in str(error.value)
    found = indexed(tmp_path / "cat", skip=True)
    assert found.table["participant_id"].tolist() == ["sub-01", *PEOPLE[3:]]
    assert sorted(dict(found.left_out)) == ["sub-02", "sub-03"]


def write_csv(folder, person, content=None):
    cells = "".join(f",{value}" for value in (3.1, 1.2, 3.4, 4.1, 1.5))
    rows = f"names,lHip,lAmy,lCau,lPut,lPal\n{person}{cells}\n"
    name = f"{person}_ROI_neuromorphometrics_Vgm.csv"
    (folder / name).write_text(rows if content is None else content)


def test_damaged_csv_of_one_person_is_named_or_left_out(tmp_path):
    (tmp_path / "cat").mkdir()
    for person in PEOPLE:
        write_csv(tmp_path / "cat", person)
    for person in ("sub-02", "sub-03"):
        write_csv(tmp_path / "cat", person, "")
    write_people(tmp_path / "people.tsv", PEOPLE, np.random.default_rng(0))
    with pytest.raises(DataError) as error:
        indexed(tmp_path / "cat")
    for person in ("sub-02", "sub-03"):
        assert f"{person}_ROI_neuromorphometrics_Vgm.csv" in str(error.value)
    found = indexed(tmp_path / "cat", skip=True)
    assert found.table["participant_id"].tolist() == ["sub-01", *PEOPLE[3:]]


def test_a_damaged_table_of_many_people_is_refused_with_skip_too(subjects):
    (subjects / "ROI_neuromorphometrics_Vgm.csv").write_text("")
    with pytest.raises(DataError, match=r"ROI_neuromorphometrics_Vgm\.csv: "):
        indexed(subjects, skip=True, choose=["atlas=neuromorphometrics"])


def test_beside_images_skip_leaves_out_measures_alone(subjects):
    make_empty(subjects / "sub-02" / "stats" / "aseg.stats")
    for person in PEOPLE:
        (subjects / person / "mri").mkdir()
        (subjects / person / "mri" / "brainmask.mgz").write_text("image")
    found = indexed(subjects, skip=True)
    assert len(found.table) == len(PEOPLE)
    assert "sub-02/stats/aseg.stats" in dict(found.left_out)["measures of sub-02"]
    assert len(pd.read_csv(found.measures_path, sep="\t")) == len(PEOPLE) - 1


def test_a_run_skips_people_whose_files_are_damaged(subjects, tmp_path):
    for name in ("sub-02/stats/aseg.stats", "sub-05/stats/lh.aparc.stats"):
        make_empty(subjects / name)
    people = tmp_path / "people.tsv"
    with pytest.raises(DataError) as error:
        read_measures(people, subjects)
    assert str(error.value).count(".stats: ") == 2
    data = {"kind": "measures", "participants": str(people), "measures": str(subjects)}
    run = {
        "data": {**data, "skip_unreadable": True, "val_fraction": 0.0},
        "objective": {"loss": "ntxent"},
        "encoder": {"name": "mlp"},
        "training": {"epochs": 1, "batch_size": 4},
    }
    with pytest.warns(NeurocontrastWarning, match=r"(?s)sub-02: .*aseg\.stats: no line"):
        nc.pretrain(run, out=tmp_path / "run")
    skipped = pd.read_csv(tmp_path / "run" / "skipped.tsv", sep="\t").set_index("scan")["reason"]
    assert sorted(skipped.index) == ["sub-02", "sub-05"]
    assert "sub-02/stats/aseg.stats: " in skipped["sub-02"]
    config = {"data": {"kind": "measures", "measures": str(subjects)}}
    options = {"participants": people, "out": tmp_path / "emb.parquet"}
    with pytest.raises(DataError) as error:
        nc.embed(tmp_path / "run", **options, config=config)
    assert str(error.value).count(".stats: ") == 2
    config["data"]["skip_unreadable"] = True
    table = read_embeddings(nc.embed(tmp_path / "run", **options, config=config)).table
    assert table["participant_id"].tolist() == ["sub-01", *PEOPLE[2:4], *PEOPLE[5:]]
