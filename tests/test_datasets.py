"""The sample cohort: its files are whole, licensed and as small as promised."""

import shutil
from pathlib import Path

import nibabel as nib
import pytest

import neurocontrast
from neurocontrast.datasets import load_measures, load_sample
from neurocontrast.exceptions import ConfigError, DataError

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "sample"
LICENCES = {"IXI-HH": "CC BY-SA 3.0", "ds002748": "CC0", "ds000011": "PDDL 1.0"}


@pytest.fixture(scope="module")
def sample():
    return load_sample()


def test_the_sample_has_healthy_people_of_three_scanners_and_patients_of_one(sample):
    groups = sample.table.groupby(["site", "diagnosis"]).size().to_dict()
    assert groups == {
        ("london", "control"): 70,
        ("novosibirsk", "control"): 21,
        ("novosibirsk", "depression"): 30,
        ("ucla", "control"): 10,
    }
    assert sample.table[["age", "sex"]].notna().all(axis=None)
    assert set(sample.table.loc[sample.table["split"] == "train", "site"]) == {"london"}
    assert sample.participants == FOLDER / "participants.tsv"
    assert "131 T1-weighted brains" in sample.description
    assert neurocontrast.datasets.load_sample is load_sample


def test_every_file_is_listed_with_a_licence_that_is_explained(sample):
    there = {path.relative_to(FOLDER).as_posix() for path in (FOLDER / "images").iterdir()}
    assert set(sample.files["file"]) == there | {"participants.tsv"}
    assert sum(path.stat().st_size for path in FOLDER.rglob("*")) < 15e6
    images = sample.files[sample.files["file"] != "participants.tsv"]
    assert dict(zip(images["source"], images["licence"], strict=True)) == LICENCES
    assert (images["attribution"] != "").all()
    explained = (FOLDER / "LICENSES.md").read_text(encoding="utf-8")
    assert all(
        f"`source` {source} — {licence}" in explained for source, licence in LICENCES.items()
    )
    for column in ("path", "gm", "wm", "csf"):
        found = sample.table[column].map(lambda path: Path(path).relative_to(FOLDER).as_posix())
        named = images.set_index("file").loc[found]
        assert (named["licence"].to_numpy() == sample.table["licence"].to_numpy()).all()


def test_images_are_brains_and_probabilities_on_one_grid_with_headers_that_say_nothing(sample):
    grids = set()
    for person in sample.table.to_dict("records"):
        images = [nib.load(person[column]) for column in ("path", "gm", "wm", "csf")]
        grids |= {
            (image.shape, image.affine.tobytes(), image.get_data_dtype().name) for image in images
        }
        brain, grey, white, fluid = (image.get_fdata() for image in images)
        assert 0.15 < (brain > 0).mean() < 0.35
        assert grey.min() == 0
        assert white.min() == 0
        total = grey + white + fluid
        assert 0.98 < total.max() < 1.03
        assert (total[brain == 0] > 0.3).mean() < 0.01  # dark fluid at the edge
    assert len(grids) == 1
    assert nib.aff2axcodes(images[0].affine) == ("R", "A", "S")
    assert int(images[0].header["sform_code"]) == 4
    assert Path(person["path"]).read_bytes()[3:8] == bytes(
        5
    )  # neither name nor time of compression


def test_every_damaged_and_absent_file_is_named_at_once(tmp_path):
    folder = tmp_path / "sample"
    shutil.copytree(FOLDER, folder)
    first, second, *_ = sorted((folder / "images").iterdir())
    first.write_bytes(first.read_bytes()[:-1])
    second.unlink()
    (folder / "README.md").unlink()
    with pytest.raises(DataError) as error:
        load_sample(folder)
    text = str(error.value)
    assert "3 problems" in text
    assert f"images/{first.name}: its content is not what was published" in text
    assert f"images/{second.name}: there is no such file" in text
    assert "README.md: there is no such file" in text


def test_a_folder_without_the_sample_is_refused_and_a_variable_names_another(tmp_path, monkeypatch):
    monkeypatch.setenv("NEUROCONTRAST_SAMPLE", str(tmp_path))
    with pytest.raises(DataError, match=r"is no sample cohort .* NEUROCONTRAST_SAMPLE"):
        load_sample()
    assert len(load_sample(FOLDER).table) == 131


@pytest.mark.parametrize(("name", "n_people", "n_tables"), [("ds000222", 79, 1), ("piop2", 226, 3)])
def test_measures_of_real_people_are_loaded_with_licences_that_are_explained(
    name, n_people, n_tables
):
    sample = load_measures(name)
    assert len(sample.table) == n_people
    assert sample.table[["age", "sex"]].notna().all(axis=1).sum() >= n_people - 2
    assert len(sample.measures) == n_tables
    assert len(sample.files) == n_tables + 1
    explained = (FOLDER / "LICENSES.md").read_text(encoding="utf-8")
    for source, licence in zip(sample.files["source"], sample.files["licence"], strict=True):
        assert f"`source` {source} — {licence}" in explained
    assert "Licence" in sample.description


def test_ds000222_is_of_the_ages_that_are_stated():
    ages = load_measures().table["age"]
    assert (ages.min(), ages.max()) == (21, 73)


def test_a_sample_of_measures_that_was_changed_is_refused(tmp_path):
    folder = tmp_path / "sample"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("images"))
    table = folder / "measures_ds000222" / "measures.tsv"
    table.write_text(table.read_text().replace("2.5", "2.6", 1))
    with pytest.raises(DataError, match=r"measures_ds000222/measures\.tsv: its content is not"):
        load_measures(path=folder)
    with pytest.raises(ConfigError, match="'ds000222', 'piop2', got 'nki'"):
        load_measures("nki", path=folder)
    with pytest.raises(DataError, match=r"load_measures: the folder .* is no sample cohort"):
        load_measures(path=tmp_path)
