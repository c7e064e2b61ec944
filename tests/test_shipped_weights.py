import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import neurocontrast
from neurocontrast import weights
from neurocontrast.cli import run as command
from neurocontrast.datasets import load_sample
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import digest_of_file

MAPS = ["gm", "wm", "csf"]
NAME = "brain-maps-lda"
RECORDED = [8.304768, 6.046765, -2.564516, 7.998508]
"""First features of sub-ds002748x01 of the sample cohort, when the weights were made."""


@pytest.fixture(scope="module")
def people():
    """People of the sample cohort at a scanner that nothing was learned from."""
    table = load_sample().table
    return table[table["site"] == "novosibirsk"].head(12).reset_index(drop=True)


def test_a_sample_scan_has_the_features_that_were_recorded(people):
    features = ScanEmbedder(weights.load(NAME)).fit().transform(people[MAPS].head(1))
    assert features.shape == (1, 60)
    np.testing.assert_allclose(features[0, :4], RECORDED, rtol=1e-3, atol=1e-3)


def test_they_are_embedded_with_and_predicted_from_as_a_run_is(people, tmp_path):
    brain_maps, table = weights.load(NAME), tmp_path / "participants.tsv"
    people.to_csv(table, sep="\t", index=False)
    config = {"data": {"cache_dir": str(tmp_path / "cache")}}
    embedded = neurocontrast.embed(brain_maps, participants=table, out=tmp_path / "e.parquet", config=config)
    assert read_embeddings(embedded).info["run"]["licence"] == "CC BY-SA 3.0"
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
        weights.load(NAME), participants=tmp_path / "p.tsv", out=tmp_path / "e.parquet", config=config
    )
    with pytest.raises(neurocontrast.exceptions.LeakageError):
        neurocontrast.evaluate(embedded, out=tmp_path / "eval", target="age")


def test_the_card_names_data_licence_and_the_very_weights():
    brain_maps = weights.load(NAME)
    contract = json.loads((brain_maps.path / "encoder.json").read_text())
    for text in (contract["weights"]["sha256"], "CC BY-SA 3.0", "IXI", "Not a medical device", "Limits".lower()):
        assert text in brain_maps.card
    assert "{" not in brain_maps.card
    assert contract["weights"]["sha256"] == digest_of_file(brain_maps.path / "encoder.safetensors")
    assert contract["provenance"] == digest_of_file(brain_maps.path / "provenance.json")
    assert "/" not in json.dumps(json.loads((brain_maps.path / "provenance.json").read_text())["cohort"])
    assert sum(path.stat().st_size for path in brain_maps.path.rglob("*")) < 10e6


def test_a_name_that_is_none_is_refused(capsys):
    with pytest.raises(ConfigError, match=r"none are named 'brain-map-lda'\. Did you mean 'brain-maps-lda'\?"):
        weights.load("brain-map-lda")
    assert command(["weights", "path", "../evaluation"]) == 2
    assert "There are: 'brain-maps-lda'" in capsys.readouterr().err
    assert command(["weights", "path", NAME]) == 0
    assert capsys.readouterr().out.strip() == str(weights.load(NAME).path)


def test_finding_them_needs_no_torch():
    program = "import sys, neurocontrast; neurocontrast.weights.load('brain-maps-lda'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
