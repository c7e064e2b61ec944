"""Records that commands write beside their results are read again, those of earlier versions too."""

import json

import pytest

from neurocontrast.documents.environment import Environment
from neurocontrast.documents.expected import ExpectedErrors
from neurocontrast.documents.explanation import ExplanationRecord
from neurocontrast.documents.index import IndexRecord
from neurocontrast.documents.predicted import ProbePredictionsRecord
from neurocontrast.documents.prepared import PreparedScan, ScanMeasures, ScanRecipe
from neurocontrast.documents.quality import ScanQualityRecord
from neurocontrast.documents.simulation import SimulationRecord
from neurocontrast.exceptions import DataError
from neurocontrast.natural.record import ImagesRecord
from neurocontrast.provenance import describe_environment
from neurocontrast.runs.run import RunOfOthers

SCAN = {
    "recipe": 3,
    "options": {"spacing_mm": 1.5, "bias": True},
    "code": {"neurocontrast": "1.0", "deepbet": "none"},
    "input": {"path": "a.nii.gz", "place": "p", "sha256": ["a1"]},
    "facts": {"brain_ml": 1400, "metric": None, "later": [1]},
    "files": {"a_brain.nii.gz": "b2"},
}

PREDICTED = {
    "format": 1,
    "target": "age",
    "kind": "continuous",
    "classes": [],
    "probe": {"name": "ridge", "strength": 1.0, "threshold": "half"},
    "n_trained_on": {"scans": 90, "subjects": None},
    "n": {"scans": 3, "of_trained_subjects": None},
    "encoder": None,
    "environment": {"neurocontrast": "1.0"},
    "scans": {
        "source": "inbox",
        "n_failed": 1,
        "failed": [{"participant_id": "a", "session": None, "error": "a: empty"}],
    },
    "simulated": False,
    "outlyingness": None,
    "calibration": {"file": "labels.tsv", "by_site": {"x": {"n_subjects": 2, "shift": None}}},
}
SHOTS = {"n_people": 5, "error": 6.0, "low": 4, "high": 8.5, "unlabelled": 6.4, "n_sites": 3}
EXPECTED = {
    "format": 1,
    "target": "age",
    "metric": "mean absolute error in years",
    "measured_by": "a test",
    "by_n_people": [SHOTS],
}


def test_predictions_are_described_as_they_were_written():
    record = ProbePredictionsRecord.of(PREDICTED, "p.json")
    assert json.dumps(record.content()) == json.dumps(PREDICTED)
    assert record.n_failed == 1
    assert record.scans.failed[0].session is None
    assert record.calibration.by_site["x"].n_subjects == 2
    of_embeddings = record.without("scans").with_keys(embeddings={"file": "e", "digest": "d"})
    assert of_embeddings.n_failed == 0


def test_other_processes_are_told_of_a_run_that_continues_or_is_finished():
    samples = {"preprocessing": {"kind": "measures", "columns": ["a"]}}
    for content in (
        {"is_new": False, "samples": samples, "skipped": ["b"]},
        {"is_new": False, "samples": None, "skipped": []},
    ):
        told = RunOfOthers.model_validate(json.loads(json.dumps(content)))
        assert told.content() == content
        assert told.skipped == content["skipped"]
        assert (told.samples is None) == (content["samples"] is None)


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
        (
            ExpectedErrors,
            EXPECTED | {"by_n_people": []},
            "'by_n_people' must hold one error or more",
        ),
        (
            ExpectedErrors,
            EXPECTED | {"by_n_people": [SHOTS | {"error": float("inf"), "n_sites": 0}]},
            "'by_n_people.0.error' must be a finite number, found inf; 'by_n_people.0.n_sites' must",
        ),
        (IndexRecord, {"measures": 3}, "'measures' must be a section of keys, found 3"),
        (ScanQualityRecord, {"n": 3}, "lacks n_flagged, n_deviations, n_site"),
        (SimulationRecord, {"planted": [1]}, r"'planted' must be a section of keys, found \[1\]"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(model, content, problem):
    with pytest.raises(DataError, match=f"record.json: .*{problem}"):
        model.of(content, "record.json")
