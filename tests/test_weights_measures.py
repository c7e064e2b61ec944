"""The weights `measures`: their answer, their card, whom they learned from, and nobody in them."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy

import neurocontrast
from neurocontrast import weights
from neurocontrast.data.measures.contents import contents_of_measures
from neurocontrast.datasets import load_measures
from neurocontrast.encoders.members import digest_of_members, members_of, read_record
from neurocontrast.exceptions import LeakageError
from neurocontrast.provenance import subject_digest

LICENCE = "CC BY-NC-SA 4.0"
SOURCES = {"fcon1000", "abide1", "openneuro6", "aomic-piop2"}
NEW = "ds000222"


@pytest.fixture(scope="module")
def hospital():
    """The site that the weights never saw."""
    return load_measures(NEW)


@pytest.fixture(scope="module")
def embedded(measures_weights, hospital, tmp_path_factory):
    return neurocontrast.embed(
        weights.load("measures"),
        participants=hospital.participants,
        out=tmp_path_factory.mktemp("embedded") / "hospital.parquet",
    )


@pytest.fixture(scope="module")
def people(shared_folder):
    """Everybody of the shared data, whom the weights may or may not have seen."""
    return pd.read_csv(shared_folder / "data" / "regions" / "participants.tsv", sep="\t")


def digests(folder: Path, key: str) -> set[str]:
    """Return the digests of people that are stated anywhere in the weights."""
    stated = set[str]()
    names = {"pretraining_subjects": "trained_on", "pretraining_contents": "trained_contents"}
    for path in folder.rglob("*.json"):
        content = json.loads(path.read_text())
        stated |= set(content.get(key, ())) | set(content.get(names[key], ()))
    return stated


def test_they_go_by_name_and_give_the_stated_answer(measures_weights):
    assert weights.load("measures").path.resolve() == measures_weights
    assert sorted(weights.load("measures").probes) == ["age", "sex"]
    verification = neurocontrast.verify_weights("measures")
    assert verification.passed
    assert len(verification.checks) == 3


def test_measures_of_a_user_are_compared_with_those_learned_from(measures_weights, hospital):
    verification = neurocontrast.verify_weights("measures", scan=hospital.measures[0])
    assert any("79 rows of 179 measures" in fact for fact in verification.facts)


def test_age_and_sex_at_the_hospital_are_predicted_as_the_card_says(
    measures_weights, hospital, embedded, tmp_path
):
    predicted = {}
    for target, probe in weights.load("measures").probes.items():
        out = neurocontrast.predict(probe, embedded, out=tmp_path / f"{target}.tsv")
        table = out.table.set_index("participant_id")
        assert not table["trained_on"].any()
        predicted[target] = table["y_score"].loc[hospital.table["participant_id"]].to_numpy()
    ages = hospital.table["age"].to_numpy()
    error = np.abs(predicted["age"] - ages).mean()
    guess = np.abs(np.median(ages) - ages).mean()
    assert error < guess
    section = (measures_weights / "README.md").read_text().split("### ds000222")[1]
    (stated,) = re.findall(r"^\| age, mean absolute error, years \| ([0-9.]+) ", section, re.M)
    assert error == pytest.approx(float(stated), abs=0.06)
    (stated,) = re.findall(r"^\| sex, AUC \| ([0-9.]+) ", section, re.M)
    is_male = (hospital.table["sex"] == "M").to_numpy()
    pairs = predicted["sex"][is_male][:, None] > predicted["sex"][~is_male]
    assert pairs.mean() == pytest.approx(float(stated), abs=0.006)


def test_who_was_learned_from_is_refused(measures_weights, tmp_path):
    students = load_measures("piop2")
    table = neurocontrast.embed(
        weights.load("measures"),
        participants=students.participants,
        out=tmp_path / "students.parquet",
        config={"data": {"kind": "measures", "measures": list(map(str, students.measures))}},
    )
    with pytest.raises(LeakageError):
        neurocontrast.evaluate(table, out=tmp_path / "evaluation", target="age")


def test_the_card_names_people_sources_licence_and_the_very_weights(measures_weights):
    card = weights.load("measures").card
    digest = digest_of_members(read_record(measures_weights))
    for words in (digest, LICENCE, "Not a medical device", "Not for", *SOURCES, NEW):
        assert words in card
    assert "{" not in card
    for member in members_of(measures_weights):
        contract = json.loads((member / "encoder.json").read_text())
        assert contract["licence"] == LICENCE
        assert contract["encoder"]["name"] == "mlp"
    licence = (measures_weights.parent / "LICENSE").read_text(encoding="utf-8")
    assert licence.startswith("Creative Commons Attribution-NonCommercial-ShareAlike 4.0")
    assert sum(path.stat().st_size for path in measures_weights.rglob("*")) < 7e6


def test_no_file_names_a_person_or_a_place(measures_weights, hospital):
    identifiers = set(hospital.table["participant_id"])
    for path in measures_weights.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [name for name in identifiers if name.encode() in content], path
            assert b"/work" not in content
            assert b"/tmp" not in content


def test_no_identifier_of_anybody_is_in_a_file(measures_weights, people):
    identifiers = set(people["participant_id"]) | set(people["subject_id"])
    pattern = re.compile("|".join(map(re.escape, sorted(identifiers))).encode())
    for path in measures_weights.rglob("*"):
        if path.is_file():
            assert not pattern.findall(path.read_bytes()), path


def test_no_array_has_a_row_a_person(measures_weights):
    n_people = len(
        json.loads((measures_weights / "provenance.json").read_text())["pretraining_subjects"]
    )
    shapes = set()
    for path in measures_weights.rglob("*.npz"):
        with np.load(path) as arrays:
            shapes |= {arrays[name].shape for name in arrays}
    for path in measures_weights.rglob("*.safetensors"):
        tensors = safetensors.numpy.load_file(path)
        shapes |= {tensor.shape for tensor in tensors.values()}
    assert len(shapes) > 5
    for member in members_of(measures_weights):
        n_people_of_member = json.loads((member / "encoder.json").read_text())["n_training_scans"]
        assert not [shape for shape in shapes if {n_people, n_people_of_member} & set(shape)]


def test_nobody_of_the_hospital_was_learned_from(measures_weights, hospital):
    learned = digests(measures_weights, "pretraining_subjects")
    assert len(learned) > 1700
    assert learned.isdisjoint(map(subject_digest, hospital.table["participant_id"]))
    measures = pd.read_csv(hospital.measures[0], sep="\t").set_index("participant_id")
    contents = set(" ".join(contents_of_measures(measures)).split())
    assert len(contents) > len(measures)
    assert digests(measures_weights, "pretraining_contents").isdisjoint(contents)


def test_only_healthy_people_of_sources_that_allow_weights_were_learned_from(
    measures_weights, people
):
    allowed = people["source"].isin(SOURCES) & (people["diagnosis"] == "control")
    allowed &= people["site"] != NEW
    learned = digests(measures_weights, "pretraining_subjects")
    assert learned == set(map(subject_digest, people.loc[allowed, "subject_id"]))
    assert learned.isdisjoint(map(subject_digest, people.loc[~allowed, "subject_id"]))
    sites = set(people.loc[allowed, "site"])
    probe = json.loads((measures_weights / "age" / "probe.json").read_text())
    assert set(probe["distribution"]["sites"]) - {"(other sites)"} <= sites
