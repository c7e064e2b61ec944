"""Weights go by name wherever a run is taken; a name that is nearly one gets the suggestion."""

import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast import weights
from neurocontrast.cli import run as command
from neurocontrast.datasets import load_sample
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.exceptions import ConfigError
from tests.cli.conftest import refused

NAME = "brain-maps-lda"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def people(here):
    """Three people of the sample at a scanner that nothing was learned from."""
    table = load_sample().table
    some = table[table["site"] == "novosibirsk"].head(3).reset_index(drop=True)
    some.to_csv("participants.tsv", sep="\t", index=False)
    return some


DOORS = {
    "embed": ["embed", "{}", "--participants", "participants.tsv", "--out", "e.parquet"],
    "finetune": [
        *("finetune", "{}", "--participants", "participants.tsv", "--target", "age"),
        *("--out", "tuned"),
    ],
    "bundle": ["bundle", "{}", "--out", "bundle"],
    "export": ["weights", "export", "{}", "--out", "encoder.safetensors"],
    "verify": ["weights", "verify", "{}"],
    "predict": ["predict", "{}", "participants.tsv", "--out", "p.tsv"],
    "predict --run": ["predict", "eval", "participants.tsv", "--run", "{}", "--out", "p.tsv"],
    "pretrain": [
        *("pretrain", "--participants", "participants.tsv", "--init", "{}", "--out", "run"),
    ],
    "join": ["join", "{}", "other", "--out", "joined"],
}


@pytest.mark.parametrize("door", [name for name in DOORS if name != "predict --run"])
@pytest.mark.parametrize("name", ["brain-map-lda", NAME])
def test_a_name_is_understood_at_every_door(people, capsys, door, name):
    given = [word.format(name) for word in DOORS[door]]
    if name != NAME:
        refused(given, capsys, f"'{name}' is no file or folder", f"Did you mean '{NAME}'?")
        return
    # A run that has the name would be hidden, or would hide the weights.
    folder = people_folder(name)
    refused(given, capsys, f"'{name}' is a folder of yours", f"{folder.absolute()}")


def people_folder(name):
    """Make a folder that looks as a run does."""
    from pathlib import Path

    folder = Path(name)
    folder.mkdir()
    (folder / "encoder.json").write_text("{}")
    return folder


def test_a_folder_of_data_with_the_name_of_weights_hides_nothing(here):
    (here / NAME).mkdir()
    (here / NAME / "participants.tsv").write_text("participant_id\nsub-1\n")
    assert weights.folder_of(NAME) == weights.load(NAME).path


def test_scans_are_predicted_embedded_and_bundled_by_name(people, capsys):
    assert command(["predict", NAME, "participants.tsv", "--out", "p.tsv"]) == 0
    said = capsys.readouterr().out
    assert "age and sex predicted for 3 people" in said
    table = pd.read_csv("p.tsv", sep="\t")
    assert table["predicted_age"].between(10, 90).all()
    assert {"probability_sex_M", "outside", "why_outside", "error"} <= set(table)
    embedded = nc.embed(NAME, participants="participants.tsv", out="e.parquet")
    alone = nc.predict(f"{NAME}/age", embedded, out="age.tsv").table
    assert table["predicted_age"].tolist() == pytest.approx(alone["y_score"].tolist(), rel=1e-3)
    maps = [tuple(row) for row in people[["gm", "wm", "csf"]].to_numpy()]
    features = ScanEmbedder(NAME, overlap="ignore").fit_transform(maps)
    assert features == pytest.approx(read_embeddings(embedded).features, rel=1e-3, abs=1e-3)
    assert command(["weights", "export", NAME, "--out", "encoder.safetensors"]) in (0, 2)
    with pytest.raises(ConfigError, match="brain-maps-lda' are weights, which have an encoder"):
        nc.predict(NAME, "participants.tsv", run=NAME, out="q.tsv")
