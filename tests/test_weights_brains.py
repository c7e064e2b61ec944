"""The weights `brain-maps`: their answers, their card, and the mean of the members' predictions."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast import weights
from neurocontrast.cli import run as command
from neurocontrast.datasets import load_sample
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders.members import read_record
from neurocontrast.evaluation import load_probe
from neurocontrast.exceptions import LeakageError
from neurocontrast.files import digest_of_file

MAPS = ["gm", "wm", "csf"]
NAME = "brain-maps"
MOST_BYTES = 50e6
NEW = "novosibirsk"
"""Site that nothing was learned from."""


@pytest.fixture(scope="module")
def brain_maps(brains_weights):
    return weights.load(NAME)


@pytest.fixture(scope="module")
def people():
    """Twelve people of the new site, and as many of a site learned from."""
    table = load_sample().table
    some = [table[table["site"] == site].head(12) for site in (NEW, "london")]
    return pd.concat(some, ignore_index=True)


@pytest.fixture(scope="module")
def embedded(brain_maps, people, tmp_path_factory):
    """Embeddings of the new site, and of the site learned from, by all members."""
    folder = tmp_path_factory.mktemp("shipped")
    config = {"data": {"cache_dir": str(folder / "cache")}}
    tables = {}
    for site, rows in people.groupby("site"):
        rows.to_csv(folder / f"{site}.tsv", sep="\t", index=False)
        tables[site] = nc.embed(
            brain_maps,
            participants=folder / f"{site}.tsv",
            out=folder / f"{site}.parquet",
            config=config,
        )
    return tables


def test_all_members_give_the_stated_answer_and_a_scan_is_compared_once(brain_maps, people, capsys):
    arguments = []
    for path in people[MAPS].iloc[3]:
        arguments += ["--scan", path]
    assert command(["weights", "verify", NAME, *arguments]) == 0
    shown = capsys.readouterr().out
    assert shown.count("PASS") == 3
    assert "DOUBT" not in shown
    assert shown.count("grey matter in your scan: 0.") == 1


@pytest.mark.parametrize("number", [0, -1])
def test_another_answer_of_one_member_fails(brain_maps, number, tmp_path, capsys):
    copy = shutil.copytree(brain_maps.path, tmp_path / "copy")
    answer = json.loads((copy / "answer.json").read_text())
    answer["features"][number] += 10
    (copy / "answer.json").write_text(json.dumps(answer))
    assert command(["weights", "verify", str(copy)]) == 1
    assert capsys.readouterr().out.count("FAIL") == 1


def test_each_member_is_a_run_with_an_answer_of_its_own(brain_maps):
    for number in range(len(read_record(brain_maps.path).seeds)):
        assert nc.verify_weights(brain_maps.path / f"members/{number}").passed


@pytest.mark.slow
def test_predictions_are_the_mean_of_the_members_probes(brain_maps, people, embedded, tmp_path):
    table = embedded[NEW]
    read = read_embeddings(table)
    assert read.info.run.licence == "CC BY-SA 3.0"
    for target in ("age", "sex"):
        probe = load_probe(brain_maps.probes[target])
        assert [member.n_features for member in probe.members] == [
            member.n_features for member in read.info.run.members
        ]
        out = nc.predict(brain_maps.probes[target], table, out=tmp_path / f"{target}.tsv")
        predicted = pd.read_csv(out, sep="\t")
        scores = probe.predict(read.features)
        np.testing.assert_allclose(predicted["y_score"], scores, atol=1e-4)
        if target == "age":
            # A guess of 60 years for everybody errs by 28.
            assert np.abs(scores - read.table["age"].astype(float)).mean() < 15
        else:
            assert set(predicted["y_pred"]) <= {"F", "M"}


@pytest.mark.slow
def test_who_was_learned_from_by_any_member_is_refused(embedded, tmp_path):
    with pytest.raises(LeakageError):
        nc.evaluate(embedded["london"], out=tmp_path / "eval", target="age")


def test_the_card_names_data_licence_and_the_weights_of_every_member(brain_maps):
    for text in ("CC BY-SA 3.0", "IXI", "Not a medical device", "limits"):
        assert text in brain_maps.card
    assert "{" not in brain_maps.card
    for number, digest in enumerate(read_record(brain_maps.path).weights):
        member = brain_maps.path / f"members/{number}"
        assert digest_of_file(member / "encoder.safetensors") == digest
        assert digest[:12] in brain_maps.card
        contract = json.loads((member / "encoder.json").read_text())
        assert contract["provenance"] == digest_of_file(member / "provenance.json")
    for path in brain_maps.path.rglob("*.json"):
        text = path.read_text()
        for folder in ("/root", "/tmp", "/home", "/work"):
            assert folder not in text
    assert sum(path.stat().st_size for path in brain_maps.path.rglob("*")) < MOST_BYTES
