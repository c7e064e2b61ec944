from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from neurocontrast.evaluation import EvaluationSettings, Notice, plan_study, read_evaluation, run_study
from neurocontrast.evaluation.schema import compose_evaluation
from neurocontrast.exceptions import DataError

LEAST = {"format": 1, "target": "age", "kind": "continuous", "splits": "stratified", "n": {}, "metrics": {}}
FAST = {"n_bootstraps": 20, "n_inner_folds": 2, "C": (1e-2,), "min_site_n": 40}


def write(folder, **keys):
    (folder / "evaluation.json").write_text(json.dumps(LEAST | keys))
    return folder


def test_what_is_written_is_read_again(make_cohort, tmp_path):
    cohort = make_cohort(60)
    settings = EvaluationSettings(**FAST, train_sizes=(20,), n_draws=1, n_permutations=2)
    found = run_study(plan_study(cohort.table, cohort.features, settings=settings)).evaluation
    (tmp_path / "evaluation.json").write_text(json.dumps(found.content(), allow_nan=False))
    again = read_evaluation(tmp_path)
    assert again == found
    assert again.content() == found.content()
    assert again.metrics["auc"].pooled == found.metrics["auc"].pooled
    assert all(warning.explanation for warning in found.warnings)


def test_an_old_file_has_defaults(tmp_path):
    found = read_evaluation(write(tmp_path, baseline=None, warnings=["a bare sentence", {"code": "x", "message": "y"}]))
    assert found.baseline == {}
    assert found.confounds.openbhb is None
    assert found.warnings == [Notice("", "a bare sentence"), Notice("x", "y")]


def test_all_problems_are_named_at_once(tmp_path):
    metrics = {"mae": {"pooled": "low", "interval": [1.0]}}
    write(tmp_path, metrics=metrics, n={"scans": True}, probe="ridge", new_site={"skipped": [{}]})
    with pytest.raises(DataError) as error:
        read_evaluation(tmp_path / "evaluation.json")
    for place in ("metrics.mae.pooled", "metrics.mae.interval.1", "n.scans", "probe", "new_site.skipped.0.site"):
        assert f"'{place}'" in str(error.value)
    assert str(tmp_path / "evaluation.json") in str(error.value)


def test_a_key_that_the_file_does_not_know_is_not_written():
    with pytest.raises(ValidationError, match="Counts has no field 'brains'"):
        compose_evaluation(LEAST | {"n": {"brains": 3}})
