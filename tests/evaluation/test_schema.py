"""evaluation.json is read as it was written; each warning is in ``warnings.yaml`` with the values its texts name."""

import ast
import json
from pathlib import Path
from string import Formatter

import pytest
import yaml
from pydantic import ValidationError

import neurocontrast
from neurocontrast.evaluation import Notice, read_evaluation
from neurocontrast.evaluation.measure.confounds import Confounds
from neurocontrast.evaluation.measure.new_site import NewSite
from neurocontrast.evaluation.record import compose_evaluation
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
        compose_evaluation(LEAST | {"n": {"brains": 3}})


PACKAGE = Path(neurocontrast.__file__).parent
TEXTS = yaml.safe_load((PACKAGE / "evaluation" / "warnings.yaml").read_text())


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
