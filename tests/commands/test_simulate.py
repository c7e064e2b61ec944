import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from small_run import read_json

from neurocontrast.commands.simulate import simulate
from neurocontrast.data.simulation import SimulationSettings
from neurocontrast.exceptions import ConfigError

SMALL = SimulationSettings(n_subjects=6, n_sites=2, spacing_mm=8.0, seed=3)


def contents(folder) -> dict[str, bytes]:
    paths = [
        path for path in folder.rglob("*") if path.is_file() and path.name != "simulation.json"
    ]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    out = tmp_path_factory.mktemp("simulated") / "cohort"
    assert simulate(out, SMALL) == out / "participants.tsv"
    return out


def test_the_table_names_every_image(cohort):
    table = pd.read_csv(cohort / "participants.tsv", sep="\t", dtype=str)
    assert list(table) == [
        "participant_id",
        "subject_id",
        "path",
        "age",
        "sex",
        "site",
        "diagnosis",
        "simulated",
    ]
    assert len(table) == 6
    assert table["participant_id"].is_unique
    assert set(table["simulated"]) == {"yes"}
    assert set(table["sex"]) <= {"F", "M"}
    assert set(table["diagnosis"]) <= {"control", "patient"}
    assert all((cohort / path).is_file() for path in table["path"])
    assert len(list((cohort / "images").iterdir())) == 6


def test_images_say_where_they_are_and_that_they_are_simulated(cohort):
    image = nib.load(next((cohort / "images").iterdir()))
    assert image.shape == (23, 28, 23)
    np.testing.assert_allclose(
        image.affine, [[8, 0, 0, -90], [0, 8, 0, -126], [0, 0, 8, -72], [0, 0, 0, 1]]
    )
    assert nib.aff2axcodes(image.affine) == ("R", "A", "S")
    assert bytes(image.header["descrip"]).rstrip(b"\0") == b"neurocontrast simulated"
    assert image.get_fdata().max() > 100
    record = read_json(cohort / "simulation.json")
    assert record["simulated"] is True
    assert SimulationSettings.model_validate(record["settings"]) == SMALL


def test_the_same_settings_write_the_same_bytes(cohort, tmp_path):
    simulate(tmp_path / "again", SMALL)
    assert contents(tmp_path / "again") == contents(cohort)
    with pytest.raises(ConfigError, match=r"not empty.*overwrite=True"):
        simulate(tmp_path / "again", SMALL)
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(ConfigError, match=r"not a simulated cohort"):
        simulate(tmp_path, SMALL, overwrite=True)


@pytest.mark.slow
def test_workers_change_nothing(cohort, tmp_path):
    simulate(tmp_path / "parallel", SMALL, n_workers=2)
    assert contents(tmp_path / "parallel") == contents(cohort)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_subject": 3}, "n_subject: unknown key.*Did you mean 'n_subjects'"),
        ({"patients": 2}, r"patients: must be less than or equal to 1, found 2"),
        ({"seed": -1, "n_sites": 0}, r"(?s)2 problems.*n_sites: .*seed: "),
        ({"n_workers": 0}, "n_workers must be at least 1. Got 0"),
    ],
)
def test_wrong_settings_are_named(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        simulate(tmp_path / "cohort", **changes)
    assert list(tmp_path.iterdir()) == []
