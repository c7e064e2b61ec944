"""Files whose content git-annex or git-lfs keeps elsewhere: every door names them and the command that brings them."""

import numpy as np
import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast import index
from neurocontrast.commands.prepare import prepare as prepare_scans
from neurocontrast.data import read_cohort
from neurocontrast.data.measures import read_tables
from neurocontrast.embedding import ScanEmbedder
from neurocontrast.exceptions import DataError
from neurocontrast.transforms import Preprocessing, load_volume
from tests.reports.folders import write_aparc, write_aseg, write_people

KINDS = ("link", "pointer", "text-link", "lfs", "broken")
REMEDY = {
    "link": "datalad get",
    "pointer": "datalad get",
    "text-link": "datalad get",
    "lfs": "git lfs pull",
    "broken": "is a link to 'gone.nii', which is not there",
}
_OBJECT = "../.git/annex/objects/Xx/0J/MD5E-s3--d41d8/MD5E-s3--d41d8.nii.gz"


def put_elsewhere(path, kind):
    """Write a file as git leaves it while its content is elsewhere."""
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(_OBJECT)
    elif kind == "broken":
        path.symlink_to("gone.nii")
    elif kind == "pointer":
        path.write_text("/annex/objects/MD5E-s3--d41d8.nii.gz\n")
    elif kind == "text-link":
        path.write_text(_OBJECT)
    else:
        path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n")


@pytest.fixture
def heads(tmp_path):
    """Write a table of two images."""
    random = np.random.default_rng(0)
    for number in (1, 2):
        np.save(tmp_path / f"sub-{number}.npy", random.normal(size=(8, 8, 8)))
    table = tmp_path / "participants.tsv"
    rows = [f"sub-{number}\tsub-{number}.npy\t40" for number in (1, 2)]
    table.write_text("\n".join(["participant_id\tpath\tage", *rows]) + "\n")
    return table


def pretrain(table):
    overrides = {"data": {"participants": str(table)}, "training": {"epochs": 1}}
    nc.pretrain(overrides, out=table.parent / "run")


def prepare(table):
    prepare_scans(table, table.parent / "brains")


def qc(table):
    nc.qc(table, table.parent / "qc")


DOORS = {"read_cohort": read_cohort, "pretrain": pretrain, "prepare": prepare, "qc": qc}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("door", DOORS)
def test_every_door_for_images_names_all_that_are_elsewhere(heads, door, kind):
    for number in (1, 2):
        put_elsewhere(heads.parent / f"sub-{number}.npy", kind)
    with pytest.raises(DataError) as error:
        DOORS[door](heads)
    text = str(error.value)
    assert text.count(REMEDY[kind]) == 2
    assert "sub-1.npy" in text
    assert "images_root" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_check_names_images_that_are_elsewhere(heads, kind):
    put_elsewhere(heads.parent / "sub-2.npy", kind)
    inspection = nc.check(heads)
    assert any(REMEDY[kind] in str(problem) for problem in inspection.problems.found)


@pytest.mark.parametrize("kind", KINDS)
def test_one_scan_is_refused_with_the_remedy(heads, kind):
    path = heads.parent / "sub-2.npy"
    put_elsewhere(path, kind)
    with pytest.raises(DataError, match=REMEDY[kind]):
        load_volume(path, Preprocessing(spacing_mm=2.0, shape=(8, 8, 8)))


@pytest.fixture
def subjects(tmp_path):
    random = np.random.default_rng(0)
    for person in ("sub-01", "sub-02", "sub-03"):
        write_aseg(tmp_path / "fs" / person / "stats" / "aseg.stats", random)
        write_aparc(tmp_path / "fs" / person / "stats" / "lh.aparc.stats", random)
    write_people(tmp_path / "people.tsv", ["sub-01", "sub-02", "sub-03"], random)
    return tmp_path / "fs"


@pytest.mark.parametrize("kind", KINDS)
def test_all_statistics_that_are_elsewhere_are_named_at_once(subjects, tmp_path, kind):
    for person in ("sub-01", "sub-03"):
        put_elsewhere(subjects / person / "stats" / "aseg.stats", kind)
    with pytest.raises(DataError) as error:
        index(subjects, tmp_path / "out.tsv", phenotypes=[tmp_path / "people.tsv"])
    text = str(error.value)
    assert text.count(REMEDY[kind]) == 2
    for person in ("sub-01", "sub-03"):
        assert f"{person}/stats/aseg.stats" in text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["regions.tsv", "ROI_neuromorphometrics_Vgm.csv", "a.xlsx"])
def test_a_table_of_measures_that_is_elsewhere_is_named(tmp_path, name, kind):
    put_elsewhere(tmp_path / name, kind)
    with pytest.raises(DataError, match=REMEDY[kind]):
        read_tables(tmp_path / name)
    with pytest.raises(DataError, match=REMEDY[kind]):
        index(tmp_path / name, tmp_path / "out.tsv")
    if not name.endswith(".xlsx"):
        with pytest.raises(DataError, match=REMEDY[kind]):
            read_tables(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_elsewhere_beside_others_is_a_note(subjects, kind):
    put_elsewhere(subjects / "extra.tsv", kind)
    notes = " ".join(read_tables(subjects).notes)
    assert "1 tables are not looked at, such as extra.tsv" in notes
    assert REMEDY[kind] in notes


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_people_that_is_elsewhere_is_named(subjects, tmp_path, kind):
    put_elsewhere(tmp_path / "people.tsv", kind)
    with pytest.raises(DataError, match=REMEDY[kind]):
        index(subjects, tmp_path / "out.tsv", phenotypes=[tmp_path / "people.tsv"])
    with pytest.raises(DataError, match=REMEDY[kind]):
        read_cohort(tmp_path / "people.tsv", channels=())


def test_images_of_bids_that_are_elsewhere_can_be_skipped_and_are_counted(tmp_path):
    root = tmp_path / "bids"
    for number, kind in enumerate([*KINDS, ""], start=1):
        path = root / f"sub-{number}" / "anat" / f"sub-{number}_T1w.nii.gz"
        path.parent.mkdir(parents=True)
        path.write_text("image")
        if kind:
            put_elsewhere(path, kind)
    rows = [f"sub-{number}\t{'x' if number in (1, 6) else 40}" for number in range(1, 7)]
    (root / "participants.tsv").write_text("\n".join(["participant_id\tage", *rows]) + "\n")
    with pytest.raises(DataError) as error:
        index(root, tmp_path / "out.tsv")
    for remedy in REMEDY.values():
        assert remedy in str(error.value)
    found = index(root, tmp_path / "out.tsv", skip=True)
    table = pd.read_csv(found.path, sep="\t", dtype=str)
    assert table["participant_id"].tolist() == ["sub-6"]
    assert [name for name, _ in found.left_out] == [f"sub-{number}" for number in range(1, 6)]
    notes = " ".join(found.notes)
    assert "left out 5 of 6 scans; of 6 people, 5 are left out altogether" in notes
    assert "2 cells or rows of tables cannot be read and are missing" in notes


@pytest.fixture(scope="module")
def run_of_scans(tmp_path_factory):
    """Train on four small images, and fit a probe of age to 24."""
    folder = tmp_path_factory.mktemp("scans")
    random = np.random.default_rng(0)
    rows = []
    for number in range(24):
        np.save(folder / f"sub-{number}.npy", random.normal(size=(16, 16, 16)) ** 2)
        rows.append([f"sub-{number}", f"sub-{number}.npy", 20.0 + number])
    table = pd.DataFrame(rows, columns=["participant_id", "path", "age"])
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
    data = {"participants": str(folder / "participants.tsv"), "val_fraction": 0.0, "n_workers": 1}
    data |= {"spacing_mm": 2.0, "shape": [16, 16, 16], "cache_dir": str(folder / "cache")}
    training = {"epochs": 1, "batch_size": 8, "accelerator": "cpu"}
    encoder = {"name": "lenet", "projection": [4]}
    objective = {"loss": "ntxent"}
    config = {"data": data, "training": training, "encoder": encoder, "objective": objective}
    run = nc.pretrain(config, out=folder / "run")
    table = nc.embed(run, participants=folder / "participants.tsv", out=folder / "e.parquet")
    options = {
        "allow_overlap": True,
        "voxels": "off",
        "n_folds": 2,
        "n_inner_folds": 2,
        "n_bootstraps": 0,
    }
    return run, nc.evaluate(table, out=folder / "evaluation", target="age", **options)


def embed_at(run, evaluation, table):
    del evaluation
    return nc.embed(run, participants=table, out=table.parent / "e.parquet")


def predict_at(run, evaluation, table):
    return nc.predict(evaluation, table, run=run, out=table.parent / "p.tsv")


def finetune_at(run, evaluation, table):
    del evaluation
    return nc.finetune(run, participants=table, out=table.parent / "f", target="age")


def transform_at(run, evaluation, table):
    del evaluation
    scans = pd.read_csv(table, sep="\t")["path"]
    return ScanEmbedder(run).fit_transform([str(table.parent / scan) for scan in scans])


OF_RUNS = {"embed": embed_at, "predict": predict_at, "finetune": finetune_at}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("door", [*OF_RUNS, "ScanEmbedder"])
def test_every_door_of_a_run_names_all_that_are_elsewhere(run_of_scans, heads, door, kind):
    for number in (1, 2):
        put_elsewhere(heads.parent / f"sub-{number}.npy", kind)
    before = sorted(heads.parent.iterdir())
    with pytest.raises(DataError) as error:
        {**OF_RUNS, "ScanEmbedder": transform_at}[door](*run_of_scans, heads)
    # predict has a row a scan, and stops with an example where no scan is left
    n_named = 1 if door == "predict" else 2
    assert str(error.value).count(REMEDY[kind]) == n_named
    assert sorted(heads.parent.iterdir()) == before
