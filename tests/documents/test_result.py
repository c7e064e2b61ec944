"""evaluation.json is read as it was written; each warning is in ``warnings.yaml`` with the values its texts name."""

import ast
import json
from pathlib import Path
from string import Formatter

import pytest
import yaml
from pydantic import ValidationError

import neurocontrast
from neurocontrast.documents.findings import Confounds, NewSite
from neurocontrast.documents.result import Result
from neurocontrast.evaluation import Notice, read_evaluation
from neurocontrast.exceptions import DataError
from tests.evaluation.quick import evaluate

LEAST = {
    "format": 1,
    "target": "age",
    "kind": "continuous",
    "splits": "stratified",
    "n": {},
    "metrics": {},
}


def write(folder, **keys):
    (folder / "evaluation.json").write_text(json.dumps(LEAST | keys))
    return folder


def test_what_is_written_is_read_again(make_cohort, tmp_path):
    asked = {
        "train_sizes": (20,),
        "n_draws": 1,
        "n_permutations": 2,
        "n_bootstraps": 20,
        "C": (1e-2,),
    }
    everything = {"confounds": True, "new_site": True, "outlyingness": True, "min_site_n": 40}
    found = evaluate(make_cohort(60), **asked, **everything).evaluation
    (tmp_path / "evaluation.json").write_text(json.dumps(found.content(), allow_nan=False))
    again = read_evaluation(tmp_path)
    assert again.content() == found.content()
    assert again.metrics["auc"].pooled == found.metrics["auc"].pooled
    assert all(warning.explanation for warning in found.warnings)


def test_an_old_file_has_defaults(tmp_path):
    found = read_evaluation(
        write(tmp_path, baseline=None, warnings=["a bare sentence", {"code": "x", "message": "y"}])
    )
    assert found.baseline == {}
    assert found.part(Confounds) is None
    assert found.warnings == [Notice("", "a bare sentence"), Notice("x", "y")]


def test_all_problems_are_named_at_once(tmp_path):
    metrics = {"mae": {"pooled": "low", "interval": [1.0]}}
    write(tmp_path, metrics=metrics, n={"scans": True}, probe="ridge")
    with pytest.raises(DataError) as error:
        read_evaluation(tmp_path / "evaluation.json")
    for place in ("metrics.mae.pooled", "metrics.mae.interval.1", "n.scans", "probe"):
        assert f"'{place}'" in str(error.value)
    assert str(tmp_path / "evaluation.json") in str(error.value)
    found = read_evaluation(
        write(tmp_path, new_site={"skipped": [{}]}, metrics={}, n={}, probe=None)
    )
    with pytest.raises(DataError, match=r"'new_site\.skipped\.0\.site' is missing"):
        found.part(NewSite)


def test_a_key_that_the_file_does_not_know_is_not_written():
    with pytest.raises(ValidationError, match="Counts has no field 'brains'"):
        NewSite.model_validate({"n": {"brains": 3}}, context="writing")


@pytest.mark.parametrize("key", ["metrics", "models"])
def test_a_finding_may_not_write_over_the_result(key):
    with pytest.raises(ValueError, match=f"has the key '{key}'"):
        Result.model_validate(LEAST).with_parts({key: None})


MAE = {"mae": {"pooled": 5.0, "interval": [4.0, 6.0]}}
LESS = {"mae": {"difference": -1.0, "p_value": 0.5}}


def test_figures_of_each_model_are_read_from_their_keys_and_written_back(tmp_path):
    content = LEAST | {
        "rivals": {"noise": {"name": "noise", "what": "random numbers"}},
        "estimators": {"embedding": {}, "baseline": {}, "dummy": {"name": "ridge"}},
        "voxels": MAE,
        "voxels_increment": LESS,
        "noise": MAE,
        "noise_increment": LESS,
        "noise_gain_increment": LESS,
        "dummy": MAE,
        "headcount": 3,
    }
    result = read_evaluation(write(tmp_path, **content))
    assert list(result.models) == ["voxels", "noise", "dummy"]
    noise = result.models["noise"]
    assert noise.metrics["mae"].interval == (4.0, 6.0)
    assert noise.increment["mae"].p_value == 0.5
    assert noise.gain["mae"].difference == -1.0
    assert result.models["voxels"].gain == result.models["dummy"].increment == {}
    assert result.headcount == 3
    assert result.content() == content


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({"voxels": {"mae": {"pooled": "low"}}}, "'voxels.mae.pooled': must be a valid number"),
        (
            {"voxels_increment": {"mae": {"difference": "low"}}},
            "'voxels_increment.mae.difference': must be a valid number",
        ),
        (
            {"regional_gain_increment": {"mae": {"p_value": "low"}}},
            "'regional_gain_increment.mae.p_value': must be a valid number",
        ),
        ({"regional": "low"}, "'regional': must be a valid dictionary"),
        ({"run": {"epochs": "low"}}, "'run.epochs': must be a valid integer"),
        ({"objective": {"title": ["low"]}}, "'objective.title': must be a valid string"),
        ({"environment": {"packages": "low"}}, "'environment.packages': must be a valid dict"),
        (
            {"embeddings": {"environment": {"created": ["low"]}}},
            "'embeddings.environment.created': must be a valid string",
        ),
        ({"simulation": {"settings": "low"}}, "'simulation.settings': must be a valid dict"),
        ({"finetuning": {"folds": [{"fold": "low"}]}}, "'finetuning.folds.0.fold': must be a v"),
        ({"finetuning": "low"}, "'finetuning': must be a valid dictionary"),
    ],
)
def test_a_fault_of_each_section_is_named(content, fault, tmp_path):
    with pytest.raises(DataError) as error:
        read_evaluation(write(tmp_path, **content))
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'evaluation.json'}: {fault}")
    assert "found " in message
    assert "low" in message


def test_sections_of_other_commands_are_written_as_they_were_read(tmp_path):
    content = LEAST | {
        "run": {"name": None, "epochs": 3, "encoder": {"name": "mlp", "width": 4}, "more": [1]},
        "objective": {"loss": "yaware", "temperature": 0.1},
        "environment": {"neurocontrast": "0.1", "host": "x"},
        "simulation": None,
        "finetuning": {"begins_with": "random weights", "folds": [{"fold": 0, "best_loss": 0.1}]},
    }
    result = read_evaluation(write(tmp_path, **content))
    assert result.content() == content
    assert result.run.epochs == 3
    earlier = content | {"run": {"encoder": "densenet121"}}
    early = read_evaluation(write(tmp_path, **earlier))
    assert early.run.encoder.name == "densenet121"
    assert early.content() == earlier
    assert result.finetuning.from_scratch


PACKAGE = Path(neurocontrast.__file__).parent
TEXTS = yaml.safe_load((PACKAGE / "documents" / "warnings.yaml").read_text())


def calls():
    """Give the place and the call of each `Notice.of`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                ("Notice.of", "record.Notice.of")
            ):
                yield f"{path.name}:{node.lineno}", node


def named_in(texts):
    return {name for text in texts.values() for _, name, _, _ in Formatter().parse(text) if name}


def test_each_warning_gets_the_values_that_its_texts_name():
    wrong = []
    used = set()
    for place, call in calls():
        keys = {
            each.value for each in ast.walk(call.args[0]) if isinstance(each, ast.Constant)
        } & TEXTS.keys()
        given = {each.arg for each in call.keywords}
        used |= keys
        wrong += [f"{place}: no such warning: {ast.unparse(call.args[0])}"] if not keys else []
        wrong += [
            f"{place}: {key}: {given} for {needed}"
            for key in keys
            if (needed := named_in(TEXTS[key])) != given
            and not (None in given and given - {None} <= needed)
        ]
    assert wrong == []
    assert TEXTS.keys() - used == set()
    assert len(used) > 30
