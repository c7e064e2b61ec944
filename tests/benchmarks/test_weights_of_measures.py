"""``benchmarks/weights/measures.py``: who may be learned from, and what is published."""

import json
from itertools import chain

import numpy as np
import pandas as pd
import pytest
import safetensors.torch

import neurocontrast
from benchmarks.weights import measures
from neurocontrast.encoders.members import members_of
from tests.commands.small_run import PEOPLE, TABLES


def people_of(**columns):
    """Return healthy people of one source, with some columns changed."""
    table = {"participant_id": ["sub-a", "sub-b"], "source": "fcon1000", "site": ["one", "two"]}
    return pd.DataFrame({**table, "diagnosis": "control", **columns})


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": ["fcon1000", "nki"]},
        {"site": ["one", "ds000222"]},
        {"diagnosis": ["control", "autism"]},
    ],
)
def test_people_who_may_not_be_learned_from_are_refused(wrong):
    measures.check_learned_from(people_of())
    with pytest.raises(SystemExit, match="may not be learned from"):
        measures.check_learned_from(people_of(**wrong))


def test_everybody_who_is_read_may_be_learned_from_but_the_new_site(shared_folder):
    everybody = measures.read_sources(shared_folder / "data" / "regions")
    learned = everybody.rows(everybody.table["site"] != measures.NEW)
    measures.check_learned_from(learned.table)
    assert len(everybody.table) - len(learned.table) == 79
    assert len(everybody.measures) == len(everybody.table)
    assert "nki" not in set(everybody.table["source"])


def test_whole_sites_are_left_out_each_once():
    generator = np.random.default_rng(0)
    sites = pd.Series(generator.choice([f"s{number:02d}" for number in range(20)], size=500))
    groups = measures.deal_sites(sites)
    assert sorted(chain.from_iterable(groups)) == sorted(set(sites))
    sizes = [int(sites.isin(group).sum()) for group in groups]
    assert max(sizes) - min(sizes) < 60
    assert measures.deal_sites(sites.sample(frac=1, random_state=1)) == groups


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of members, of which nothing but two epochs was asked."""
    folder = tmp_path_factory.mktemp("run")
    people = pd.read_csv(PEOPLE, sep="\t", dtype=str, keep_default_na=False)[:60]
    people["site"] = np.resize(["a", "b", "c"], len(people))
    people.to_csv(folder / "people.tsv", sep="\t", index=False)
    config = {
        "data": {"participants": str(folder / "people.tsv"), "measures": TABLES},
        "encoder": {"name": "mlp", "widths": [8], "projection": []},
        "objective": {"loss": "ntxent", "temperature": 1.0},
        "augment": {"noise": {"sd": 0.1}},
        "training": {"epochs": 1, "batch_size": 32, "members": 2, "members_leave": "sites"},
    }
    return neurocontrast.pretrain(config, out=folder / "run").location


def test_what_is_published_of_members_is_a_run_that_names_no_place(run, tmp_path):
    folder = tmp_path / "weights"
    folder.mkdir()
    measures.publish(run, folder)
    for member, published in zip(members_of(run), members_of(folder), strict=True):
        whole = safetensors.torch.load_file(member / "encoder.safetensors")
        half = safetensors.torch.load_file(published / "encoder.safetensors")
        for name, tensor in whole.items():
            assert np.allclose(half[name].float(), tensor.float(), rtol=1e-3, atol=1e-4), name
        assert json.loads((published / "encoder.json").read_text())["licence"] == measures.LICENCE
    provenance = json.loads((folder / "provenance.json").read_text())
    assert len(provenance["pretraining_subjects"]) == 60
    assert provenance["pretraining_contents_complete"]
    assert {path.name for path in folder.rglob("*") if path.is_file()} == {
        *("encoder.json", "encoder.safetensors", "members.json", "provenance.json")
    }
    for path in folder.rglob("*.json"):
        assert str(run.parent) not in path.read_text()


def test_weights_that_name_a_person_are_refused(tmp_path):
    people = people_of(subject_id=["sub-a", "A00012345"])
    (tmp_path / "age").mkdir()
    (tmp_path / "age" / "probe.json").write_text('{"sites": ["one"]}')
    measures.check_no_identifiers(tmp_path, people)
    (tmp_path / "age" / "probe.json").write_text('{"sites": ["A00012345"]}')
    with pytest.raises(SystemExit, match="A00012345"):
        measures.check_no_identifiers(tmp_path, people)
