import json
import shutil

import numpy as np
import pandas as pd
import pytest

import neurocontrast
from neurocontrast import weights
from neurocontrast.cli import run as command
from neurocontrast.datasets import load_sample
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import digest_of_file

MAPS = ["gm", "wm", "csf"]
NAME = "brain-maps-lda"


@pytest.fixture(scope="module")
def people():
    """People of the sample cohort at a scanner that nothing was learned from."""
    table = load_sample().table
    return table[table["site"] == "novosibirsk"].head(12).reset_index(drop=True)


def test_this_installation_gives_the_stated_answer_and_scans_are_compared_in_words(
    people, capsys, tmp_path
):
    assert command(["weights", "list"]) == 0
    assert f"{NAME}  predicts age and sex" in capsys.readouterr().out
    maps = people[MAPS].iloc[3].tolist()
    assert (
        command(["weights", "verify", NAME, *(part for each in maps for part in ("--scan", each))])
        == 0
    )
    said = capsys.readouterr().out
    assert said.count("PASS") == 3
    assert "DOUBT" not in said
    assert "grey matter in your scan: 0." in said
    swapped = neurocontrast.verify_weights(NAME, scan=[maps[1], maps[2], people["path"][3]])
    assert swapped.passed
    assert any(doubt.startswith("fluid in your scan: ") for doubt in swapped.doubts)


@pytest.mark.parametrize(
    ("key", "wrong"), [("features", [8.4]), ("predictions", {"age": 50.0}), ("features", [])]
)
def test_another_answer_than_the_stated_one_fails(tmp_path, capsys, key, wrong):
    copy = shutil.copytree(weights.load(NAME).path, tmp_path / "copy")
    answer = json.loads((copy / "answer.json").read_text())
    answer[key] = wrong + answer[key][len(wrong) or 1 :] if key == "features" else wrong
    (copy / "answer.json").write_text(json.dumps(answer))
    assert command(["weights", "verify", str(copy)]) == 1
    assert "FAIL" in capsys.readouterr().out


def test_they_are_embedded_with_and_predicted_from_as_a_run_is(people, tmp_path):
    brain_maps = weights.load(NAME)
    table = tmp_path / "participants.tsv"
    people.to_csv(table, sep="\t", index=False)
    config = {"data": {"cache_dir": str(tmp_path / "cache")}}
    embedded = neurocontrast.embed(
        brain_maps, participants=table, out=tmp_path / "e.parquet", config=config
    )
    assert read_embeddings(embedded).info.run.licence == "CC BY-SA 3.0"
    out = neurocontrast.predict(brain_maps.probes["age"], embedded, out=tmp_path / "age.tsv")
    found = pd.read_csv(out, sep="\t")["y_score"]
    assert np.abs(found - people["age"]).mean() < 15  # a guess of 60 years for everybody errs by 28
    sex = neurocontrast.predict(brain_maps.probes["sex"], embedded, out=tmp_path / "sex.tsv")
    assert set(pd.read_csv(sex, sep="\t")["y_pred"]) <= {"F", "M"}


def test_who_was_learned_from_is_refused(tmp_path):
    table = load_sample().table
    learned = table[table["site"] == "london"].head(20)
    learned.to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    config = {"data": {"cache_dir": str(tmp_path / "cache")}}
    embedded = neurocontrast.embed(
        weights.load(NAME),
        participants=tmp_path / "p.tsv",
        out=tmp_path / "e.parquet",
        config=config,
    )
    with pytest.raises(neurocontrast.exceptions.LeakageError):
        neurocontrast.evaluate(embedded, out=tmp_path / "eval", target="age")


def test_the_card_names_data_licence_and_the_very_weights():
    brain_maps = weights.load(NAME)
    contract = json.loads((brain_maps.path / "encoder.json").read_text())
    for text in (
        contract["weights"]["sha256"],
        "CC BY-SA 3.0",
        "IXI",
        "Not a medical device",
        "Limits".lower(),
    ):
        assert text in brain_maps.card
    assert "{" not in brain_maps.card
    assert contract["weights"]["sha256"] == digest_of_file(brain_maps.path / "encoder.safetensors")
    assert contract["provenance"] == digest_of_file(brain_maps.path / "provenance.json")
    assert "/" not in json.dumps(
        json.loads((brain_maps.path / "provenance.json").read_text())["cohort"]
    )
    assert sum(path.stat().st_size for path in brain_maps.path.rglob("*")) < 10e6


def test_a_name_that_is_none_is_refused(capsys):
    with pytest.raises(
        ConfigError, match=r"none are named 'brain-map-lda'\. Did you mean 'brain-maps-lda'\?"
    ):
        weights.load("brain-map-lda")
    assert command(["weights", "path", "../evaluation"]) == 2
    shown = capsys.readouterr().err
    assert "none are named '../evaluation'. There are: " in shown
    assert "'brain-maps-lda'" in shown
    assert command(["weights", "path", NAME]) == 0
    assert capsys.readouterr().out.strip() == str(weights.load(NAME).path)
