"""Weights of a run of members: exported as one thing, verified, and started from member by member."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
from small_run import FASTEST, OF_MEASURES, PEOPLE, Listening, read_json, weights
from small_run import TABLES as ALL_TABLES

import neurocontrast as nc
from neurocontrast.cli import run as command
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.encoders import load_encoder
from neurocontrast.encoders.members import SeveralEncoders
from neurocontrast.exceptions import CheckpointError, ConfigError
from neurocontrast.files import digest_of_file
from neurocontrast.provenance import subject_digest
from neurocontrast.weights import Weights

N = 2
TABLES = [table for table in ALL_TABLES if "type-aparc" in table]
"""Measures that differ in every part of the people, which all members read."""
MEASURES = {"data": {"measures": TABLES}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("handed")


@pytest.fixture(scope="module")
def people(folder):
    table = pd.read_csv(PEOPLE, sep="\t", dtype=str)
    table["site"] = np.array(("a", "b", "c"))[np.arange(len(table)) % 3]
    table[table["sex"].notna()][:100].to_csv(folder / "people.tsv", sep="\t", index=False)
    return folder / "people.tsv"


def config_of(people, **training):
    return OF_MEASURES | {
        "data": {"participants": str(people), "measures": TABLES},
        "encoder": {"name": "mlp", "widths": [16, 8]},
        "training": {"epochs": 1, "batch_size": 64, **training},
    }


@pytest.fixture(scope="module")
def run(folder, people):
    config = config_of(people, members=N, members_leave="sites")
    return nc.pretrain(config, out=folder / "run").location


@pytest.fixture(scope="module")
def exported(run, folder):
    return nc.export_weights(run, out=folder / "exported")


def test_exported_members_are_one_folder_with_their_record(run, exported):
    assert read_json(exported / "members.json") == read_json(run / "members.json")
    for number in range(N):
        member = exported / f"members/{number}"
        assert weights(member) == weights(run / f"members/{number}")
        contract = read_json(member / "encoder.json")
        assert contract["exported"]["sha256"] == digest_of_file(member / "monai.safetensors")
        state = safetensors.torch.load_file(member / "monai.safetensors")
        encoder = load_encoder(run / f"members/{number}")[0]
        assert len(state) == len(encoder.features.state_dict())
    names = {path.name for path in exported.rglob("*")}
    assert not names & {"provenance.json", "metrics.csv", "checkpoints", "config.yaml"}


def test_exported_members_are_embedded_with_and_predict_as_the_run(run, exported, people, tmp_path):
    tables = []
    for number, source in enumerate((run, exported)):
        out = tmp_path / f"{number}.parquet"
        tables.append(nc.embed(source, participants=people, out=out, config=MEASURES))
    reads = list(map(read_embeddings, tables))
    np.testing.assert_array_equal(reads[0].features, reads[1].features)
    embedded = ScanEmbedder(exported, overlap="ignore").fit_transform(reads[0].table)
    np.testing.assert_allclose(embedded, reads[0].features, atol=1e-6)
    options = {**FASTEST, "allow_overlap": True}
    evaluated = nc.evaluate(tables[0], target="sex", out=tmp_path / "sex", **options)
    predicted = nc.predict(
        evaluated.folder, people, run=exported, config=MEASURES, out=tmp_path / "p.tsv"
    )
    assert len(predicted.table) == len(reads[0].table)


def test_weights_that_are_a_run_of_members_are_one_encoder_where_they_read_alike(
    run, settings, tmp_path
):
    with pytest.raises(ConfigError, match="2 members of 'mean' prepare their samples in different"):
        _ = Weights("mean", run).encoder
    scans = nc.pretrain(settings("training.members=2", "training.epochs=0"), out=tmp_path / "scans")
    encoder = Weights("mean", scans.location).encoder
    assert isinstance(encoder, SeveralEncoders)
    one = load_encoder(scans.location / "members/0")[0]
    assert encoder.n_features == 2 * one.n_features
    assert Weights("one", scans.location / "members/0").encoder.n_features == one.n_features


def test_members_are_verified_each_by_its_known_answer(run, exported, people, tmp_path, capsys):
    for weights_of in (run, exported):
        found = nc.verify_weights(weights_of)
        assert found.passed
        assert [text.split(":")[0] for _, text in found.checks] == ["member 0", "member 1"]
    table = pd.read_csv(TABLES[0], sep="\t", nrows=5)
    table.to_csv(tmp_path / "measures.tsv", sep="\t", index=False)
    changed = shutil.copytree(run, tmp_path / "changed")
    answer = read_json(changed / "members/1/answer.json")
    answer["features"] = [value + 1 for value in answer["features"]]
    (changed / "members/1/answer.json").write_text(json.dumps(answer))
    assert [passed for passed, _ in nc.verify_weights(changed).checks] == [True, False]
    assert command(["weights", "verify", str(changed)]) == 1
    assert "FAIL  member 1: 8 features" in capsys.readouterr().out
    shutil.copy(run / "members/0/encoder.safetensors", changed / "members/1")
    with pytest.raises(CheckpointError, match="SHA-256 is"):
        nc.verify_weights(changed)


def test_the_answer_of_all_members_together_is_that_of_their_features_side_by_side(run, tmp_path):
    copied = shutil.copytree(run, tmp_path / "copied")
    answer = read_json(copied / "members/0/answer.json")
    answer["features"] += read_json(copied / "members/1/answer.json")["features"]
    (copied / "answer.json").write_text(json.dumps(answer))
    found = nc.verify_weights(copied)
    assert found.passed
    assert [text.split(" of the known")[0] for _, text in found.checks] == ["16 features"]
    answer["features"].reverse()
    (copied / "answer.json").write_text(json.dumps(answer))
    assert not nc.verify_weights(copied).passed


def test_a_run_of_members_is_no_single_file(run, exported, tmp_path, capsys):
    with pytest.raises(ConfigError, match=r"has 2 members, whose weights are a folder.*members/0"):
        nc.export_weights(run, out=tmp_path / "weights.pt")
    with pytest.raises(ConfigError, match=r"ends in \.pt or \.safetensors"):
        nc.export_weights(run / "members/0", out=tmp_path / "folder")
    with pytest.raises(ConfigError, match="is not empty"):
        nc.export_weights(run, out=exported)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not a folder of members"):
        nc.export_weights(run, out=tmp_path / "mine", overwrite=True)
    out = tmp_path / "out"
    assert command(["weights", "export", str(run), "--out", str(out)]) == 0
    assert command(["weights", "export", str(run), "--out", str(out), "--overwrite"]) == 0
    unfinished = shutil.copytree(run, tmp_path / "unfinished")
    record = read_json(unfinished / "members.json") | {"weights": None}
    (unfinished / "members.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match="not all of its 2 members are trained"):
        nc.export_weights(unfinished, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert not (tmp_path / "weights.pt").exists()


@pytest.mark.slow
def test_member_k_of_a_new_run_starts_from_member_k(run, people, tmp_path):
    config = config_of(people, members=N, init=str(run), epochs=0)
    started = nc.pretrain(config, out=tmp_path / "started").location
    for number in range(N):
        member = run / f"members/{number}"
        before = load_encoder(member)[0].state_dict()
        after = load_encoder(started / f"members/{number}")[0].state_dict()
        for name, tensor in before.items():
            if "running" not in name and "num_batches" not in name and tensor.ndim == 1:
                np.testing.assert_array_equal(tensor, after[name])
        start = read_json(started / f"members/{number}/provenance.json")["init"]
        assert start["sha256"] == read_json(member / "encoder.json")["weights"]["sha256"]
        assert start["name"] == f"run/members/{number}"
    outer = read_json(started / "provenance.json")
    assert (outer["init"]["name"], outer["init"]["subjects_known"]) == ("run", True)
    read = read_embeddings(
        nc.embed(run, participants=people, out=tmp_path / "e.parquet", config=MEASURES)
    )
    assert outer["init"]["sha256"] == read.info.run.weights.sha256
    embedded = nc.embed(
        started, participants=people, out=tmp_path / "started.parquet", config=MEASURES
    )
    assert read_embeddings(embedded).info.run.init.name == "run"
    nc.pretrain(None, out=started, resume=True)
    alone = config_of(people, init=str(run / "members/1"), epochs=0)
    alone["seed"] = read_json(started / "members.json")["seeds"][1]
    one = nc.pretrain(alone, out=tmp_path / "alone").location
    assert weights(one) == weights(started / "members/1")


def test_people_of_every_member_are_those_of_a_run_that_starts_from_them(run, folder, tmp_path):
    people = pd.read_csv(folder / "people.tsv", sep="\t", dtype=str)
    few = people[people["site"] == "a"]
    few.to_csv(tmp_path / "few.tsv", sep="\t", index=False)
    config = config_of(tmp_path / "few.tsv", members=N, init=str(run / "members.json"), epochs=0)
    started = nc.pretrain(config, out=tmp_path / "started").location
    known = set(read_json(started / "provenance.json")["pretraining_subjects"])
    assert known >= set(read_json(run / "provenance.json")["pretraining_subjects"])
    assert known >= set(map(subject_digest, few["participant_id"]))


def test_exported_members_are_started_from_with_a_warning_that_nobody_is_named(
    exported, people, tmp_path
):
    listening = Listening()
    config = config_of(people, members=N, init=str(exported), epochs=0)
    started = nc.pretrain(config, out=tmp_path / "started", progress=listening).location
    assert any("does not say who was in its pretraining" in text for text in listening.warned)
    assert read_json(started / "provenance.json")["init"]["subjects_known"] is False


def test_other_numbers_of_members_are_refused_with_both_and_the_remedy(run, people, tmp_path):
    for n, expected in ((1, "this run has 1"), (3, "this run has 3")):
        config = config_of(people, members=n, init=str(run))
        message = rf"has 2 members, and {expected} .*training\.members=2.*init=.*members/0"
        with pytest.raises(CheckpointError, match=message):
            nc.pretrain(config, out=tmp_path / "new")
        with pytest.raises(CheckpointError, match=message):
            nc.doctor(config)
    assert not (tmp_path / "new").exists()
    assert "2 members" in nc.doctor(config_of(people, members=2, init=str(run))).to_text()


def test_members_that_leave_sites_which_their_first_weights_have_seen_are_warned_of(
    run, people, tmp_path
):
    listening = Listening()
    one = run / "members/0"
    config = config_of(people, members=2, members_leave="sites", init=str(one), epochs=0)
    nc.pretrain(config, out=tmp_path / "one", progress=listening)
    (warning,) = [text for text in listening.warned if "members_leave" in text]
    seen = set(read_json(one / "provenance.json")["pretraining_subjects"])
    table = pd.read_csv(people, sep="\t", dtype=str)
    shares = read_json(tmp_path / "one/members.json")["left_out"]
    for number, sites in enumerate(shares):
        absent = set(map(subject_digest, table.loc[table["site"].isin(sites), "participant_id"]))
        assert (f"member {number} from" in warning) == bool(absent & seen)
    listening = Listening()
    config = config_of(people, members=2, members_leave="sites", init=str(run), epochs=0)
    nc.pretrain(config, out=tmp_path / "each", progress=listening)
    assert not [text for text in listening.warned if "members_leave" in text]
