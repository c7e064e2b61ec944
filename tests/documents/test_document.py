"""A document is a typed view of a JSON object, which is written again as it was read."""

import copy
import json
import pickle

import pytest

from neurocontrast.documents.document import shared_content
from neurocontrast.documents.encoder import (
    EncoderContract,
    EncoderDescription,
    PreprocessingRecord,
    RunDescription,
)
from neurocontrast.documents.provenance import Provenance, PublicProvenance
from neurocontrast.exceptions import CheckpointError, DataError

CONTRACT = {
    "later": {"version": 2.0},
    "weights": {"sha256": "a1", "file": "encoder.safetensors"},
    "encoder": {"name": "mlp", "widths": [4]},
    "n_features": 3,
    "preprocessing": {"kind": "measures", "columns": ["a", "b"], "sds": [1, 2.0]},
    "augment": None,
}


class TestContent:
    def test_what_was_read_is_written_again_byte_by_byte(self):
        contract = EncoderContract.of(CONTRACT, "encoder.json")
        assert json.dumps(contract.content()) == json.dumps(CONTRACT)
        assert contract.preprocessing.columns == ["a", "b"]
        assert contract.encoder.name == "mlp"

    def test_null_and_absent_are_one(self):
        stated = RunDescription(**{"preprocessing": None, "simulated": None, "members": None})
        assert stated.preprocessing.kind == RunDescription().preprocessing.kind == "volumes"
        assert (stated.simulated, stated.members) == (False, [])
        assert stated.has("simulated")
        assert not RunDescription().has("simulated")

    def test_changed_keys_stay_where_they_were_and_new_ones_follow(self):
        contract = EncoderContract.of(CONTRACT, "encoder.json")
        changed = contract.with_keys(n_features=5, licence="CC0").without("later")
        assert (changed.n_features, changed.licence) == (5, "CC0")
        assert list(changed.content()) == [*list(CONTRACT)[1:], "licence"]
        assert contract.n_features == 3

    def test_a_change_of_a_copy_changes_nothing(self):
        contract = EncoderContract.of(CONTRACT, "encoder.json")
        contract.content()["preprocessing"]["columns"].append("c")
        assert contract.content() == CONTRACT
        assert pickle.loads(pickle.dumps(contract)) == copy.deepcopy(contract) == contract

    def test_sections_are_documents_or_objects(self):
        section = PreprocessingRecord(kind="measures", columns=["a"])
        described = EncoderDescription(preprocessing=section)
        assert described.content() == {"preprocessing": {"kind": "measures", "columns": ["a"]}}
        assert described == EncoderDescription.model_validate(described.content())


class TestRefusals:
    def test_all_that_is_wrong_is_named_at_once(self):
        wrong = {"weights": {"file": "../w"}, "preprocessing": [1], "n_features": "9"}
        expected = (
            "run/encoder.json: lacks encoder, weights.sha256; 'preprocessing' must be a section of "
            "keys, found [1]; 'n_features' must be a whole number, found '9'; 'weights.file' must "
            "be a file in the same folder, found '../w'. Copy the run again."
        )
        with pytest.raises(CheckpointError) as refused:
            EncoderContract.of(
                wrong, "run/encoder.json", error=CheckpointError, remedy="Copy the run again."
            )
        assert str(refused.value) == expected

    def test_a_long_value_is_cut(self):
        with pytest.raises(DataError) as refused:
            EncoderDescription.of({"seed": "7" * 1000}, "encoder.json")
        assert len(str(refused.value)) < 200


def test_shared_keys_have_one_value_that_is_not_null():
    contents = [{"a": 1, "b": None, "c": 2, "d": 3}, {"a": 1, "b": None, "c": 3}]
    assert shared_content(contents) == {"a": 1}


class TestProvenance:
    def test_people_of_earlier_files_are_read(self):
        earlier = {"environment": {"neurocontrast": "0.1"}, "pretraining_subjects": ["a"]}
        earlier["cohort"] = {"source": "p.tsv", "digest": "d", "n_scans": 3}
        provenance = Provenance.of(earlier, "provenance.json")
        people = provenance.known_people()
        assert (people.subjects, people.contents, people.is_complete) == ({"a"}, set(), False)
        assert provenance.says_people
        assert provenance.cohort.people.age_range is None
        assert provenance.content() == earlier

    def test_weights_need_not_say_anything(self):
        assert PublicProvenance().known_people().subjects is None
        unsure = PublicProvenance(init={"name": "w", "subjects_known": False})
        joined = PublicProvenance(pretraining_unknown=["b"])
        assert not unsure.says_people
        assert not joined.says_people

    def test_damaged_people_are_refused(self):
        damaged = {"pretraining_subjects": "ab", "pretraining_contents": [1]}
        with pytest.raises(DataError) as refused:
            Provenance.of(damaged, "provenance.json")
        assert "lacks cohort, environment" in str(refused.value)
        assert "'pretraining_subjects' must be a list, found 'ab'" in str(refused.value)
        assert "'pretraining_contents.0' must be text, found 1" in str(refused.value)
