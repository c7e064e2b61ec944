"""Records that commands write beside their results are read again, those of earlier versions too."""

import json

import pytest

from neurocontrast.documents.environment import Environment
from neurocontrast.documents.explanation import ExplanationRecord
from neurocontrast.documents.index import IndexRecord
from neurocontrast.documents.prepared import PreparedScan, ScanMeasures, ScanRecipe
from neurocontrast.documents.quality import ScanQualityRecord
from neurocontrast.documents.simulation import SimulationRecord
from neurocontrast.exceptions import DataError
from neurocontrast.natural.record import ImagesRecord
from neurocontrast.provenance import describe_environment

SCAN = {
    "recipe": 3,
    "options": {"spacing_mm": 1.5, "bias": True},
    "code": {"neurocontrast": "1.0", "deepbet": "none"},
    "input": {"path": "a.nii.gz", "place": "p", "sha256": ["a1"]},
    "facts": {"brain_ml": 1400, "metric": None, "later": [1]},
    "files": {"a_brain.nii.gz": "b2"},
}


def test_the_environment_of_this_machine_is_kept_as_it_is():
    content = describe_environment()
    environment = Environment.model_validate(content)
    assert environment.content() == content
    assert environment.neurocontrast == content["neurocontrast"]
    assert environment.packages["torch"] == content["packages"]["torch"]


def test_a_scan_is_made_by_the_recipe_of_its_options_and_code():
    record = PreparedScan.of(SCAN, "a.json")
    assert json.dumps(record.content()) == json.dumps(SCAN)
    assert record.facts.brain_ml == 1400
    assert record.facts.metric is None
    recipe = {key: SCAN[key] for key in ("recipe", "options", "code")}
    assert record.is_made_by(ScanRecipe.model_validate(recipe))
    for change in ({"recipe": 2}, {"options": {"spacing_mm": 1.0}}, {"code": {}}):
        assert not record.is_made_by(ScanRecipe.model_validate(recipe | change))
    assert ScanMeasures().content() == {}


@pytest.mark.parametrize(
    "model", [ExplanationRecord, ImagesRecord, IndexRecord, SimulationRecord, PreparedScan]
)
def test_keys_that_earlier_versions_did_not_write_may_be_absent(model):
    needed = {"format": 1, "input": SCAN["input"]}
    record = model.of({**needed, "of_a_later_version": 1}, "record.json")
    assert record.content() == {**needed, "of_a_later_version": 1}


@pytest.mark.parametrize(
    ("model", "content", "problem"),
    [
        (PreparedScan, SCAN | {"input": {"path": "a"}}, "lacks input.place, input.sha256"),
        (
            ExplanationRecord,
            {"format": 1, "blocks": [{"name": "network", "share": "half"}]},
            "'blocks.0.share' must be a number, found 'half'",
        ),
        (
            ExplanationRecord,
            {"format": 1, "top_regions": ["amygdala"]},
            "'top_regions.0' must be a section of keys, found 'amygdala'",
        ),
        (IndexRecord, {"measures": 3}, "'measures' must be a section of keys, found 3"),
        (ScanQualityRecord, {"n": 3}, "lacks n_flagged, n_deviations, n_site"),
        (SimulationRecord, {"planted": [1]}, r"'planted' must be a section of keys, found \[1\]"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(model, content, problem):
    with pytest.raises(DataError, match=f"record.json: .*{problem}"):
        model.of(content, "record.json")
